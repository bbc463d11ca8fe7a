// Mistakes that are typed: each answer names what to change, where it is typed.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Policy, Worker, logTo, retryAfter, run, worker } from 'backstop-sqs';

const handle = () => {};
const made = (options) => () => worker({ queueUrl: 'local:q', handle, ...options });

for (const [what, make, expected] of [
  ['no options', () => worker(), /expected options such as \{ queueUrl, handle/],
  ['no URL', () => worker({ handle }), /queueUrl: expected the queue's URL/],
  ['a handler that is none', () => worker({ queueUrl: 'local:q', handle: 'ship' }), /handle: expected a function, such as async/],
  ['a misspelled option', made({ maxInflight: 5 }), /maxInflight: there is no such option: expected `maxInFlight`/],
  ['a duration without a unit', made({ attemptTimeout: 5 }), /attemptTimeout/],
  ['a duration that is none', made({ attemptTimeout: 'soon' }), /attemptTimeout/],
  ['settings as a text', made({ settings: 'base=2s' }), /settings: expected an object such as/],
  ['a setting that is an object', made({ settings: { base: {} } }), /settings\.base: expected a text, a number or a boolean, not an object/],
  ['a batch of nothing', made({ batch: 0 }), /batch: expected a whole number from 1/],
  ['messages as a text', made({ messages: 'abc' }), /messages: expected an array/],
  ['a message without JSON', made({ messages: [undefined] }), /has no JSON/],
  ['a level that is none', () => logTo(() => {}, 'loud'), /expected 'error', 'warn'/],
  ['a log that is no function', () => logTo('stderr'), /expected a function/],
  ['a time that is none', () => retryAfter('soon'), /retryAfter: /],
]) {
  test(what, () => assert.throws(make, (error) => expected.test(error.message) || assert.fail(error.message)));
}

for (const [what, make, expected] of [
  ['a number out of bounds', () => made({ maxInFlight: 0 })().run(), /^maxInFlight of queue `q`: /],
  ['messages for a queue of SQS', () => worker({ queueUrl: 'https://sqs.eu-west-1.amazonaws.com/123456789012/q', handle, messages: [] }).run(), /messages/],
  ['an unknown policy', () => made({ policy: 'fulljitter' })().run(), /full-jitter/],
  ['an unknown setting', () => made({ settings: { bass: '2s' }, cache: 'off' })().run(), /unknown setting `bass`/],
  ['a policy that is not there', () => made({ policy: './orders.wasm', cache: 'off' })().run(), /orders\.wasm/],
  ['a worker that is none', () => run([handle]), /expected an array of workers/],
  ['no worker', () => run([]), /expected an array of workers/],
  ['the same queue twice', () => run([made({ cache: 'off' })(), made({})()]), /two queues are called/],
  ['a policy that is no text', () => Policy.load(5), /policy: expected a name/],
  ['a policy that is misspelled', () => Policy.load('fulljitter'), /no built-in policy/],
  ['a setting that is misspelled', () => Policy.load('full-jitter', { settings: { bass: '2s' } }), /unknown setting `bass`/],
  ['an option of Policy.load', () => Policy.load('full-jitter', { base: '2s' }), /there is no option `base`: expected `settings`/],
]) {
  test(what, () => assert.rejects(make, (error) => expected.test(error.message) || assert.fail(error.message)));
}

test('a mistake leaves the worker as it was', async () => {
  assert(made({})() instanceof Worker);
});
