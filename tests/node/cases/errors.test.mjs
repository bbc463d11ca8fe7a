// What an error says: the code that a policy classifies, its status, the time to wait, its stack.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { test } from 'node:test';

import { Policy, permanent, retryAfter, success, unavailable } from 'backstop-sqs';

import { log, serve } from './queues.mjs';

const linear = await Policy.load('linear', { settings: { base: '2s' } });
const decide = (error, more = {}) => linear.decide({ error, ...more });

test('errors of the network, of the AWS SDK and of responses have their codes', async () => {
  for (const [error, kind] of [
    [Object.assign(new Error('refused'), { code: 'ECONNREFUSED' }), 'transient'],
    [new TypeError('fetch failed', { cause: Object.assign(new Error('reset'), { code: 'UND_ERR_SOCKET' }) }), 'transient'],
    [Object.assign(new Error('slow down'), { name: 'ThrottlingException', $metadata: { httpStatusCode: 400, requestId: 'r-1' } }), 'throttled'],
    [Object.assign(new Error('no'), { name: 'ValidationException', $metadata: { httpStatusCode: 400, requestId: 'r-2' } }), 'permanent'],
    [Object.assign(new Error('Request failed'), { name: 'AxiosError', response: { status: 429, headers: { 'retry-after': '30' } } }), 'throttled'],
    [Object.assign(new Error('Request failed'), { name: 'AxiosError', response: { status: 404, headers: {} } }), 'permanent'],
    [permanent('CardDeclined'), 'permanent'],
    [new Error('no more is known'), 'transient'],
    ['a text', 'transient'],
    [undefined, 'transient'],
    [null, 'transient'],
  ]) {
    if (error === undefined) continue;
    assert.equal(decide(error).class, kind, String(error));
  }
});

test('a response of fetch says when to come again', async () => {
  const server = createServer((_, response) => response.writeHead(503, { 'retry-after': '40' }).end());
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  try {
    success(await fetch(`http://127.0.0.1:${server.address().port}/`));
    assert.fail('it is an error');
  } catch (error) {
    const decision = decide(error);
    assert.equal(decision.class, 'transient');
    assert.equal(decision.delay, 40_000);
  } finally {
    server.close();
    server.closeAllConnections();
  }
  assert.equal(decide(retryAfter('30s', 'Busy')).delay, 30_000);
  assert.equal(decide(retryAfter(31_000)).delay, 31_000);
});

test('the code of retryAfter and permanent is the code that the policy sees', async () => {
  const policy = await Policy.load('linear', { settings: { permanent: ['CarrierBusy'] } });
  assert.equal(policy.decide({ error: retryAfter('30s', 'CarrierBusy') }).verdict, 'dead-letter');
  assert.equal(policy.decide({ error: retryAfter('30s', 'Other') }).class, 'throttled');
  const declined = policy.decide({ error: permanent('CardDeclined') });
  assert.deepEqual([declined.class, declined.reason], ['permanent', 'permanent: CardDeclined']);
});

test('an error of others by the name of one of ours is theirs', () => {
  for (const name of ['PermanentError', 'RetryAfterError', 'UnavailableError']) {
    assert.equal(decide(Object.assign(new Error('no'), { name })).class, 'transient', name);
  }
});

test('whatever is thrown is a failure', async () => {
  const hostile = new Proxy(new Error('x'), {
    get() {
      throw new Error('no');
    },
  });
  const cyclic = new Error('a');
  cyclic.cause = cyclic;
  const thrown = [hostile, cyclic, undefined, null, 5, Symbol('x'), { code: {} }, '\ud800', Object.create(null), { toString: () => { throw new Error('no'); } }, new Error('x'.repeat(1 << 20))];
  const counts = await serve(async (message) => {
    throw thrown[message.json()];
  }, thrown.map((_, number) => number), { maxAttempts: 1 });
  assert.deepEqual(counts, [0, 0, thrown.length]);
  const sync = await serve((message) => { throw thrown[message.json()]; }, thrown.map((_, number) => number), { maxAttempts: 1 });
  assert.deepEqual(sync, [0, 0, thrown.length]);
  assert(log.length > 0);
});

test('an error that a worker is not ready has its code', () => {
  const error = unavailable('Warming', 'the cache is empty');
  assert.deepEqual([error.name, error.code, error.message], ['UnavailableError', 'Warming', 'the cache is empty']);
});
