// A host of the campaign that is a program in Node.js, with the workers of its queues inside: they do what messages ask for, and write a line for each attempt before it ends.
// Usage: node program.mjs PACKAGE CONFIGURATION OFFSET: the nanoseconds from the monotonic clock to the time of day, since the process may believe in another one.
import { openSync, readFileSync, writeSync } from 'node:fs';
import { createRequire } from 'node:module';
import { setTimeout as sleep } from 'node:timers/promises';

const [packaged, file, offset] = process.argv.slice(2);
const { logTo, permanent, retryAfter, run, worker } = createRequire(import.meta.url)(packaged);
const now = () => Number((process.hrtime.bigint() + BigInt(offset)) / 1_000_000n);
// Whole numbers that doubles hold.
let attempts = now() * 1_000;

// What a worker behind HTTP would answer, and what is thrown.
const answer = (body, count) => {
  const fails = count <= body.k;
  switch (body.do) {
    case 'wrong':
      return [422, permanent('Invalid', 'no such article')];
    case 'broken':
      return [500, Object.assign(new Error('article'), { name: 'KeyError' })];
    case 'later':
      return [503, retryAfter('2h', 'Closed', 'come back in two hours')];
    case 'flaky':
      if (fails) return [503, Object.assign(new Error('connection reset by peer'), { code: 'ECONNRESET' })];
      break;
    case 'throttled':
      if (fails) return [429, retryAfter('1s', 'Busy', 'ten a minute')];
      break;
    case 'big':
      if (fails) return [503, Object.assign(new Error('\x1b[31m\u202e\x00big'.repeat(10_000)), { code: 'Big', status: 503 })];
      break;
  }
  return [200, undefined];
};

const handle = ({ host, forgets }, lines) => async (message, { signal }) => {
  const body = message.json();
  // A fault that is planted: the message is done, and nothing of it was.
  if (forgets && body.n % 100 === 7) return;
  const count = message.receiveCount;
  const line = { n: body.n, id: message.id, host, count, attempt: (attempts += 1) };
  // In one piece: the file is open for appending.
  const write = (more) => writeSync(lines, `${JSON.stringify({ at: now(), ...line, ...more })}\n`);
  write();
  const hangs = body.do === 'hang' && count <= 1;
  if (hangs || body.do !== 'hang') await sleep(body.ms, undefined, { signal });
  // Nobody waits for it any more.
  if (hangs) return;
  const [status, error] = answer(body, count);
  write({ status });
  if (error !== undefined) throw error;
};

const camel = (key) => key.replace(/-(.)/g, (_, letter) => letter.toUpperCase());
const named = (keys) => Object.fromEntries(Object.entries(keys).map(([key, value]) => [camel(key), value]));

logTo(({ level, text }) => process.stderr.write(`${level.toUpperCase()} ${text}\n`));
const configuration = JSON.parse(readFileSync(file, 'utf8'));
const workers = configuration.queues.map((of, index) => {
  const { url, ...keys } = named(of.keys);
  // What the queues share is said once.
  const shared = index === 0 ? named(configuration.keys) : {};
  return worker({ ...keys, ...shared, queueUrl: url, name: of.name, handle: handle(configuration, openSync(of.lines, 'a', 0o600)) });
});
console.log(JSON.stringify(await run(workers)));
