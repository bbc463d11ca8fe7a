// Workers as programs: signals, and the end of a program.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { program } from './queues.mjs';

const worker = (handle, run = 'await orders.run()', more = '') => `
  import { worker } from 'backstop-sqs';
  const orders = worker({ queueUrl: 'local:orders', messages: ['a'], cache: 'off', handle: ${handle}, ${more} });
  console.log(JSON.stringify(${run}));
`;

const slow = "async () => { console.log('begun'); await new Promise((resolve) => setTimeout(resolve, 300)); console.log('done'); }";

for (const signal of ['SIGTERM', 'SIGINT']) {
  test(`${signal} drains`, async () => {
    const { child, ended, line, rest } = program(worker(slow));
    assert.equal(await line(), 'begun');
    child.kill(signal);
    assert.deepEqual(await rest(), ['done', '{"succeeded":1,"retried":0,"deadLettered":0}']);
    const { code, err } = await ended;
    assert.equal(code, 0, err);
  });
}

test('a second signal ends the program', async () => {
  const { child, ended, line } = program(worker("() => { console.log('begun'); return new Promise(() => {}); }"));
  assert.equal(await line(), 'begun');
  child.kill('SIGINT');
  await new Promise((resolve) => setTimeout(resolve, 300));
  child.kill('SIGINT');
  assert.equal((await ended).signal, 'SIGINT');
});

test('a program ends when its queue in memory is empty, and its log is on stderr', async () => {
  const { ended, rest } = program(worker("() => { throw Object.assign(new Error('no'), { code: 'CardDeclined' }); }", 'await orders.run()', 'maxAttempts: 1'));
  assert.deepEqual(await rest(), ['{"succeeded":0,"retried":0,"deadLettered":1}']);
  const { code, err } = await ended;
  assert.equal(code, 0);
  assert.match(err, /\d{4}-\d\d-\d\dT\S+ +(INFO|WARN) .*CardDeclined/);
});

test('a worker that is only made keeps no program from its end', async () => {
  const { ended, rest } = program(worker('() => {}', "'made'"));
  assert.deepEqual(await rest(), ['"made"']);
  assert.equal((await ended).code, 0);
});

test('process.exit in a handler ends the program', async () => {
  const { ended } = program(worker('() => process.exit(7)'));
  assert.equal((await ended).code, 7);
});

test('an event loop that is blocked costs no attempt', async () => {
  const block = "(message) => { if (message.body === 'a' && message.receiveCount === 1) { const until = Date.now() + 7000; while (Date.now() < until); } }";
  const { ended, rest } = program(worker(block, 'await orders.run()', "messages: ['a', 'b', 'c'], maxInFlight: 3, maxAttempts: 1, visibilityTimeout: '30s'"));
  assert.deepEqual(await rest(), ['{"succeeded":3,"retried":0,"deadLettered":0}']);
  assert.equal((await ended).code, 0);
});

test('without the addon, the error says what to install', async () => {
  const { child, ended } = program("delete process.env.BACKSTOP_ADDON; const { worker } = await import('backstop-sqs'); worker({ queueUrl: 'local:q', handle() {} });");
  const { code, err } = await ended;
  assert.equal(code, 1);
  assert.match(err, /the addon for linux-\S+ is not there: it is not installed.*--omit=optional/);
  assert(child);
});

test('the log goes on when the thread that had it has ended', async () => {
  const thread = worker('() => {}').replace('console.log', 'String');
  const { ended, rest } = program(`
    import { Worker } from 'node:worker_threads';
    const text = ${JSON.stringify(thread)}.replace("'backstop-sqs'", JSON.stringify(import.meta.resolve('backstop-sqs')));
    const first = new Worker(new URL('data:text/javascript,' + encodeURIComponent(text)));
    await new Promise((resolve, reject) => first.on('exit', resolve).on('error', reject));
    ${worker("() => { throw Object.assign(new Error('no'), { code: 'CardDeclined' }); }", 'await orders.run()', 'maxAttempts: 1')}
  `);
  assert.deepEqual(await rest(), ['{"succeeded":0,"retried":0,"deadLettered":1}']);
  assert.match((await ended).err, /CardDeclined/);
});
