// A worker of the package `backstop-sqs`. The policy hides failed messages for longer than a run.
// Usage: node backstop_worker.mjs PACKAGE URL ENDPOINT MESSAGES FAILING POLLS IN_FLIGHT DEAD_LETTERS … LOAD
import { createRequire } from 'node:module';

const [packaged, queueUrl, endpointUrl, messages, failing, polls, inFlight, deadLetterQueue] = process.argv.slice(2);
const begun = performance.now();
const { logTo, worker } = createRequire(import.meta.url)(packaged);
console.log(`import ${(performance.now() - begun) / 1000}`);

const { fails, WORK } = await import('./work.mjs');
const work = WORK[process.argv.at(-1)];
let number = 0;
let started;

// From the first message on, as for the command; the last one stops the worker, which settles what it has first.
const handle = async (message) => {
  number += 1;
  if (number === 1) {
    started = performance.now();
    console.log('start');
  }
  if (number === Number(messages)) orders.stop();
  await work();
  if (fails(message.body, failing)) throw Object.assign(new Error('connection reset by peer'), { code: 'ECONNRESET' });
};

logTo(({ text }) => console.error(text), 'error');
const orders = worker({
  queueUrl,
  endpointUrl,
  deadLetterQueue,
  policy: 'linear',
  settings: { base: '1m' },
  maxPolls: Number(polls),
  maxInFlight: Number(inFlight),
  handle,
});
const { succeeded, retried, deadLettered } = await orders.run();
console.log(`end ${(performance.now() - started) / 1000}`);
if (succeeded + retried !== Number(messages) || deadLettered !== 0) throw new Error(`${succeeded}, ${retried}, ${deadLettered}`);
process.stdin.on('end', () => process.exit()).resume();
