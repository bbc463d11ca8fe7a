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

/** A process that does this and ends, in milliseconds. */
const start = (code) => {
  const started = performance.now();
  execFileSync(process.execPath, ['--input-type=module', '-e', code], { cwd: import.meta.dirname });
  return performance.now() - started;
};
const without = [];
const imported = [];
const used = [];
for (let round = 0; round < 41; round += 1) {
  without.push(start('await 0'));
  imported.push(start("import 'backstop-retry';"));
  used.push(start("import { retrier } from 'backstop-retry'; await retrier();"));
}
const more = (values) => `${(median(values) - median(without)).toFixed(1)} ms more`;
console.log(`a process that does nothing                ${median(without).toFixed(1)} ms`);
console.log(`with the import                            ${more(imported)}`);
console.log(`with the import and a retrier              ${more(used)}`);
