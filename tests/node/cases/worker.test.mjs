// Workers on a queue in memory.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import { Worker as Thread } from 'node:worker_threads';

import { Message, permanent, retryAfter, run, unavailable, worker } from 'backstop-sqs';

import { log, serve, sleep } from './queues.mjs';

const numbers = (count) => Array.from({ length: count }, (_, number) => number);

test('a function handles each message', async () => {
  const seen = [];
  const counts = await serve((message) => {
    assert(message instanceof Message);
    seen.push(message.body);
    assert.equal(message.receiveCount, 1);
    assert.deepEqual({ ...message.attributes }, {});
    assert.equal(message.groupId, undefined);
    assert(Math.abs(message.sent.getTime() - Date.now()) < 60_000);
  }, numbers(300));
  assert.deepEqual(counts, [300, 0, 0]);
  assert.deepEqual(seen.sort(), numbers(300).map(String).sort());
});

test('what is thrown decides', async () => {
  const counts = await serve(async (message) => {
    if (message.body === 'permanent') throw permanent('NoSuchArticle');
    if (message.body === 'twice' && message.receiveCount === 1) throw Object.assign(new Error('busy'), { status: 503 });
    if (message.body === 'always') throw new TypeError('no');
    if (message.body === 'json') message.json();
  }, ['permanent', 'twice', 'always', 'json', 'fine']);
  assert.deepEqual(counts, [2, 2, 3]);
});

test('many are handled at once, and never more than may be in flight', async () => {
  let underWay = 0;
  let most = 0;
  const counts = await serve(
    async (message) => {
      most = Math.max(most, (underWay += 1));
      await sleep(10);
      underWay -= 1;
      if (message.json() % 10 === 0) throw permanent('Tenth');
    },
    numbers(100),
    { maxInFlight: 40 },
  );
  assert.deepEqual(counts, [90, 0, 10]);
  assert(most > 10 && most <= 40, String(most));
});

test('a time that is asked for is kept', async () => {
  const times = [];
  const counts = await serve(async () => {
    times.push(Date.now());
    if (times.length === 1) throw retryAfter('1s', 'CarrierBusy');
  }, ['a']);
  assert.deepEqual(counts, [1, 1, 0]);
  assert(times[1] - times[0] >= 990, String(times[1] - times[0]));
});

test('an attempt of a worker that is not ready is not counted', async () => {
  let calls = 0;
  const counts = await serve(async () => {
    calls += 1;
    if (calls < 3) throw unavailable('Warming');
  }, ['a'], { maxAttempts: 1 });
  assert.deepEqual(counts, [1, 0, 0]);
  assert.equal(calls, 3);
});

test('the signal of an attempt aborts when it has taken too long', async () => {
  const reasons = [];
  const counts = await serve(
    (_, { signal }) => new Promise((_, reject) => signal.addEventListener('abort', () => {
      reasons.push(signal.reason.name);
      reject(signal.reason);
    })),
    ['slow'],
    { attemptTimeout: '1s', maxAttempts: 1 },
  );
  assert.deepEqual(counts, [0, 0, 1]);
  assert.deepEqual(reasons, ['TimeoutError']);
});

test('a promise that never ends holds nothing up', async () => {
  const counts = await serve(() => new Promise(() => {}), ['a', 'b'], { attemptTimeout: '1s', maxAttempts: 1 });
  assert.deepEqual(counts, [0, 0, 2]);
});

test('a batch fails by message', async () => {
  const sizes = [];
  const isSeven = (it) => it.body === '7';
  const of = (returned) => (messages) => {
    sizes.push(messages.length);
    return returned(messages.filter(isSeven));
  };
  const options = { batch: 10, maxAttempts: 1 };
  for (const returned of [
    (failed) => new Map(failed.map(({ id }) => [id, new Error('no')])),
    (failed) => Object.fromEntries(failed.map(({ id }) => [id, new Error('no')])),
    async (failed) => ({ batchItemFailures: failed.map(({ id }) => ({ itemIdentifier: id })) }),
  ]) {
    assert.deepEqual(await serve(of(returned), numbers(50), options), [49, 0, 1]);
  }
  assert(Math.max(...sizes) <= 10);
  for (const returned of ['text', { unknown: new Error('no') }, { batchItemFailures: [{}] }, 5]) {
    assert.deepEqual(await serve(() => returned, ['a'], options), [0, 0, 1], JSON.stringify(returned));
  }
  assert.deepEqual(await serve(() => { throw new Error('no'); }, ['a', 'b'], options), [0, 0, 2]);
  assert.deepEqual(await serve(() => undefined, ['a', 'b'], options), [2, 0, 0]);
});

test('a queue that is filled with nothing ends', async () => {
  assert.deepEqual(await serve(() => {}, []), [0, 0, 0]);
});

test('several queues are served by one host', async () => {
  const done = [];
  const handle = (message) => void done.push(message.body);
  const orders = worker({ queueUrl: 'local:orders', messages: ['a', 'b'], cache: 'off', handle });
  const bills = worker({ queueUrl: 'local:bills', messages: [{ article: 'c' }], handle });
  const counts = await run([orders, bills]);
  assert.deepEqual(Object.keys(counts).sort(), ['bills', 'orders']);
  assert.equal(counts.orders.succeeded, 2);
  assert.deepEqual(done.sort(), ['a', 'b', '{"article":"c"}']);
});

test('a worker that is served is not served twice', async () => {
  let goOn;
  const waits = new Promise((resolve) => (goOn = resolve));
  const orders = worker({ queueUrl: 'local:orders', messages: ['a'], cache: 'off', handle: () => waits });
  const first = orders.run();
  await assert.rejects(orders.run(), /is served already/);
  goOn();
  assert.equal((await first).succeeded, 1);
  assert.equal((await orders.run()).succeeded, 1);
});

test('stop and a signal let what is under way finish', async () => {
  for (const stop of ['stop', 'signal', 'aborted']) {
    const finished = [];
    const controller = new AbortController();
    const orders = worker({
      queueUrl: 'local:orders',
      messages: ['a'],
      cache: 'off',
      handle: async (message) => {
        if (stop === 'stop') orders.stop();
        else controller.abort();
        await sleep(100);
        finished.push(message.body);
      },
    });
    if (stop === 'aborted') controller.abort();
    const { succeeded } = await orders.run({ signal: controller.signal });
    const expected = stop === 'aborted' ? 0 : 1;
    assert.deepEqual([succeeded, finished.length], [expected, expected], stop);
  }
});

test('the log has the lines of the command', async () => {
  await serve(() => { throw permanent('NoSuchArticle', 'no such article'); }, ['a']);
  const line = log.find(({ text }) => text.includes('NoSuchArticle'));
  assert.match(line?.level ?? '', /info|warn/);
});

test('require and import give the same classes', () => {
  const required = createRequire(import.meta.url)('backstop-sqs');
  assert.equal(required.Message, Message);
  assert.equal(required.worker, worker);
});

test('a worker thread serves a queue, and its end stops the host', async () => {
  const text = `
    import { parentPort } from 'node:worker_threads';
    import { worker } from 'backstop-sqs';
    const handle = async (message) => parentPort.postMessage(message.body);
    const counts = await worker({ queueUrl: 'local:orders', messages: ['a'], cache: 'off', handle }).run({ signals: false });
    parentPort.postMessage(counts.succeeded);
    worker({ queueUrl: 'local:other', messages: ['b'], cache: 'off', handle: () => new Promise(() => {}) }).run({ signals: false });
    setTimeout(() => process.exit(0), 200);
  `;
  const thread = new Thread(new URL(`data:text/javascript,${encodeURIComponent(text.replace("'backstop-sqs'", JSON.stringify(import.meta.resolve('backstop-sqs'))))}`));
  const said = [];
  thread.on('message', (it) => said.push(it));
  const code = await new Promise((resolve, reject) => thread.on('exit', resolve).on('error', reject));
  assert.equal(code, 0);
  assert.deepEqual(said, ['a', 1]);
});
