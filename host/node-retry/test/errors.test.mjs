// What a policy sees of the errors that programs meet.
import assert from 'node:assert/strict';
import { connect, createServer } from 'node:net';
import { once } from 'node:events';
import { test } from 'node:test';

import { HttpError, retrier, success } from 'backstop-retry';

import { failing, server } from './helpers.mjs';

/** The failure of a call whose only attempt ends with this. */
async function seen(work) {
  const retry = await retrier({ maxAttempts: 1 });
  const { failure, decision } = await retry(work).then(() => assert.fail('it succeeded'), (error) => error);
  return { ...failure, class: decision.class };
}

const shows = async (thrown, expected) => {
  const failure = await seen(() => Promise.reject(thrown));
  for (const [name, value] of Object.entries(expected)) assert.deepEqual(failure[name], value, `${name} of ${JSON.stringify(failure)}`);
};

test('errors of the AWS SDK v3', async () => {
  const aws = (name, $metadata, more) => Object.assign(new Error('text'), { name, $metadata, $fault: 'client', ...more });
  await shows(aws('ThrottlingException', { httpStatusCode: 400, requestId: 'r-1' }, { $retryable: { throttling: true } }), { code: 'ThrottlingException', status: 400, class: 'throttled', details: [['requestId', 'r-1']] });
  await shows(aws('ValidationException', { httpStatusCode: 400, requestId: 'r' }), { code: 'ValidationException', class: 'permanent' });
  await shows(aws('OddException', { httpStatusCode: 400, requestId: 'r' }, { $retryable: {} }), { code: 'OddException', status: 503, class: 'transient' });
  await shows(aws('OddThrottle', { httpStatusCode: 400, requestId: 'r' }, { $retryable: { throttling: true } }), { status: 429, class: 'throttled' });
  await shows(aws('OddException', { httpStatusCode: 400, requestId: 'r' }), { code: 'OddException', status: 400, class: 'permanent' });
  await shows(aws('ServiceUnavailable', { httpStatusCode: 503 }, { $response: { headers: { 'x-amz-retry-after': '1500' } } }), { retryAfter: 1500, class: 'transient' });
  await shows(aws('TimeoutError', {}, { code: 'ECONNRESET' }), { code: 'ECONNRESET', class: 'transient' });
});

test('responses and errors of fetch', async (t) => {
  const { url } = await server(t, [429, { 'Retry-After': '2', 'X-Tenant': 't-1' }]);
  const failure = await seen(async () => success(await fetch(url)));
  assert.deepEqual([failure.code, failure.status, failure.retryAfter, failure.class], ['HTTP 429', 429, 2000, 'throttled']);
  assert.ok(failure.details.some(([name, value]) => name === 'x-tenant' && value === 't-1'));
  const thrown = await seen(async () => { throw await fetch(url); });
  assert.deepEqual([thrown.code, thrown.retryAfter], ['HTTP 429', 2000]);
  assert.ok(new HttpError(new Response('', { status: 503 })).message === 'HTTP 503');

  const closed = createServer().listen(0, '127.0.0.1');
  await once(closed, 'listening');
  const { port } = closed.address();
  closed.close();
  await once(closed, 'close');
  assert.deepEqual(await seen(() => fetch(`http://127.0.0.1:${port}/`)).then((it) => [it.code, it.class]), ['ECONNREFUSED', 'transient']);
  assert.equal((await seen(() => once(connect(port, '127.0.0.1'), 'connect'))).code, 'ECONNREFUSED');
  assert.equal((await seen(() => fetch('http://no-such-host.invalid/'))).class, 'transient');
  assert.deepEqual(await seen(() => fetch(url, { signal: AbortSignal.timeout(0) })).then((it) => it.code), 'TimeoutError');
});

test('errors of axios', async () => {
  const axios = (code, response) => Object.assign(new Error('text'), { name: 'AxiosError', isAxiosError: true, code, response, status: response?.status });
  await shows(axios('ERR_BAD_RESPONSE', { status: 503, headers: { 'retry-after': '7' } }), { code: 'HTTP 503', status: 503, retryAfter: 7000, class: 'transient' });
  await shows(axios('ERR_BAD_REQUEST', { status: 404, headers: {} }), { code: 'HTTP 404', class: 'permanent' });
  await shows(axios('ECONNABORTED'), { code: 'ECONNABORTED', class: 'transient' });
  await shows(axios('ERR_NETWORK'), { code: 'ERR_NETWORK', class: 'transient' });
});

test('other errors', async () => {
  await shows(failing('CardDeclined'), { code: 'CardDeclined', class: 'transient' });
  await shows(Object.assign(new Error('no'), { name: 'OutOfStock' }), { code: 'OutOfStock' });
  await shows(Object.assign(new Error('no'), { statusCode: 404 }), { code: 'HTTP 404', class: 'permanent' });
  await shows(new Error('odd'), { code: 'Error', message: 'odd', class: 'transient' });
  await shows(new TypeError('odd'), { code: 'TypeError', class: 'transient' });
  await shows(new Error('outer', { cause: failing('ECONNRESET') }), { code: 'ECONNRESET' });
  await shows(failing(undefined, { retryAfter: 50 }), { retryAfter: 50 });
  await shows('a text', { code: 'Error', message: 'a text' });
  await shows(undefined, { code: 'Error' });
  await shows({ code: 23, message: 'x' }, { code: 'Error', message: 'x' });
  const broken = (text) => { try { JSON.parse(text); } catch (error) { return error; } };
  await shows(broken('{"a": odd}'), { code: 'Decode', class: 'permanent' });
  await shows(broken('{"a": '), { code: 'UnexpectedEof', class: 'transient' });
  const circle = new Error('circle');
  circle.cause = circle;
  await shows(circle, { code: 'Error' });
  await shows(failing('x'.repeat(9000), { message: '\ud83d' }), { code: 'x'.repeat(4096), message: '\ufffd' });
});

test('a date in Retry-After counts from now', async (t) => {
  const { url } = await server(t, [503, { 'Retry-After': new Date(Date.now() + 30_000).toUTCString() }]);
  const { retryAfter } = await seen(async () => success(await fetch(url)));
  assert.ok(retryAfter > 25_000 && retryAfter <= 31_000, String(retryAfter));
});
