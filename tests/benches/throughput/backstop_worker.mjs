// A worker of the package `backstop-sqs`. The policy hides failed messages for longer than a run.
// Usage: node backstop_worker.mjs PACKAGE URL ENDPOINT MESSAGES FAILING POLLS IN_FLIGHT DEAD_LETTERS … LOAD
import { createRequire } from 'node:module';

const [packaged, queueUrl, endpointUrl, messages, failing, polls, inFlight, deadLetterQueue] = process.argv.slice(2);
const begun = performance.now();
const { logTo, worker } = createRequire(import.meta.url)(packaged);
console.log(`import ${(performance.now() - begun) / 1000}`);

const { fails, WORK } = await import('./work.mjs');
const { once } = await import('node:events');
const { createServer } = await import('node:net');
const { setTimeout: sleep } = await import('node:timers/promises');
const work = WORK[process.argv.at(-1)];
let number = 0;
let started;

// From the first message on, as for the command.
const handle = async (message) => {
  number += 1;
  if (number === 1) {
    started = performance.now();
    console.log('start');
  }
  if (number === Number(messages)) setTimeout(watch, 0);
  await work();
  if (fails(message.body, failing)) throw Object.assign(new Error('connection reset by peer'), { code: 'ECONNRESET' });
};

const free = createServer().listen(0, '127.0.0.1');
await once(free, 'listening');
const metrics = `127.0.0.1:${free.address().port}`;
free.close();

const settled = async () => {
  const text = await (await fetch(`http://${metrics}/metrics`)).text();
  const counts = Object.fromEntries([...text.matchAll(/^backstop_messages_total{.*outcome="([a-z-]+)".*} (\d+)/gm)].map((it) => [it[1], Number(it[2])]));
  if (counts['dead-lettered']) throw new Error(JSON.stringify(counts));
  return (counts.succeeded ?? 0) + (counts.retried ?? 0);
};

// Until the last message is handled, nothing disturbs the worker. A stop would wait for polls that are under way.
const watch = async () => {
  while ((await settled()) < Number(messages)) await sleep(2);
  console.log(`end ${(performance.now() - started) / 1000}`);
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
  metrics,
  handle,
});
await orders.run();
