// Measures what the package costs: node host/node-retry/bench.mjs, after `npm run build`.
import { execFileSync } from 'node:child_process';

import { retrier } from 'backstop-retry';
import { fullJitter } from 'backstop-retry/policies/full-jitter';

const median = (values) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)];
const micros = (milliseconds) => `${(1000 * milliseconds).toFixed(1)} µs`;

/** The time of one, in milliseconds: the median of rounds. */
async function each(count, work) {
  const rounds = [];
  for (let round = 0; round < 15; round += 1) {
    const started = performance.now();
    await work(count);
    rounds.push((performance.now() - started) / count);
  }
  return median(rounds);
}

const loaded = await fullJitter.load();
const settings = {};
const failure = { messageId: 'm', source: 's', attempt: 3, age: 5, failedAt: 1.7e12, error: { code: 'HTTP 503', message: '', status: 503, details: [] }, attributes: [], random: 0.37 };
const decide = (live) => (count) => {
  for (let index = 0; index < count; index += 1) loaded.evaluate(failure, { settings, live });
};
console.log(`a decision of full-jitter, live instance   ${micros(await each(2000, decide(true)))}`);
console.log(`a decision of full-jitter, fresh instance  ${micros(await each(50, decide(false)))}`);

const retry = await retrier({ maxDelay: 0 });
const call = (work) => async (count) => {
  for (let index = 0; index < count; index += 1) await retry(work).catch(() => {});
};
const busy = Object.assign(new Error('busy'), { code: 'HTTP 503', status: 503 });
console.log(`a call that succeeds at once               ${micros(await each(5000, call(async () => 1)))}`);
console.log(`a call of three failed attempts            ${micros(await each(500, call(async () => { throw busy; })))}`);

/** What a new process needs for the import and for a retrier, in milliseconds, as it measures them itself. */
const start = () => {
  const code = "const began = performance.now(); const { retrier } = await import('backstop-retry'); const imported = performance.now(); await retrier(); console.log(imported - began, performance.now() - imported);";
  return execFileSync(process.execPath, ['--input-type=module', '-e', code], { cwd: import.meta.dirname, encoding: 'utf8' }).split(' ').map(Number);
};
const starts = Array.from({ length: 41 }, start);
console.log(`a cold start, the import                   ${median(starts.map(([it]) => it)).toFixed(1)} ms`);
console.log(`a cold start, the first retrier            ${median(starts.map(([, it]) => it)).toFixed(1)} ms`);
