// What a program gets wrong: each answer names what to change.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Breaker, Budget, Bulkhead, retrier } from 'backstop-retry';
import { fullJitter } from 'backstop-retry/policies/full-jitter';
import { handler } from 'backstop-retry/lambda';

const says = (work, expected) => assert.rejects(async () => work(), (error) => error instanceof TypeError && expected.test(error.message) || assert.fail(`${error.name}: ${error.message}`));

test('options that are none', async () => {
  await says(() => retrier('full-jitter'), /^retrier: expected options such as .*, not `full-jitter`$/);
  await says(() => retrier({ max_attempts: 3 }), /there is no option `max_attempts`; expected one of .*maxAttempts/);
  await says(() => retrier({ maxAttempts: 0 }), /^maxAttempts: expected a whole number from 1, not 0$/);
  await says(() => retrier({ attemptTimeout: '5 parsecs' }).then((retry) => retry(async () => {})), /^attemptTimeout: expected a duration such as .*, not `5 parsecs`$/);
  await says(() => retrier({ maxDelay: -1 }), /^maxDelay: expected a duration/);
  await says(() => retrier({ policy: 'full-jitter' }), /^policy: expected one of `backstop-retry\/policies`/);
  await says(() => retrier({ policy: undefined, settings: { base: '1s' } }), /^settings: they are for a policy/);
  await says(() => retrier({ policy: fullJitter, settings: { bass: '1s' } }), /^policy full-jitter: the policy refuses its settings: unknown setting `bass`: expected one of base/);
  await says(() => retrier({ policy: fullJitter, settings: { base: 50 } }), /^settings.base: expected a text such as '50ms'/);
  await says(() => retrier({ budget: 'aws' }), /^budget: expected `aws-2.0` or `aws-2.1`, not `aws`$/);
  await says(() => retrier({ budget: 500 }), /^budget: expected a `Budget`/);
  await says(() => retrier({ breaker: 'payments' }), /^breaker: expected a `Breaker`, not `payments`$/);
  await says(() => retrier({ bulkhead: 20 }), /^bulkhead: expected a `Bulkhead`, not 20$/);
  await says(() => retrier({ observe: 'log' }), /^observe: expected a function/);
  await says(() => new Budget('b', 'aws-2.1', { size: 3 }), /^budget: there is no option `size`/);
  await says(() => new Breaker('b', { threshold: 3 }), /^breaker: there is no option `threshold`/);
  await says(() => new Budget('b', 'aws-2.1', { capacity: '500' }), /^budget.capacity: expected a number from 0, not `500`$/);
  await says(() => new Breaker('b', { share: -1 }), /^breaker.share: expected a number from 0, not -1$/);
  await says(() => new Breaker('b', { pauses: '4s' }), /^breaker.pauses: expected .* such as \['4s', '60s'\], not `4s`$/);
  await says(() => new Bulkhead('b', 0), /^bulkhead b: expected how many attempts/);
  await says(() => new Bulkhead('b', 1, { wait: false }), /^bulkhead: there is no option `wait`; expected one of waits$/);
  await says(() => retrier({ policy: fullJitter, instances: 'alive' }), /^instances: expected 'fresh' or 'live', not `alive`$/);
  await says(() => handler({}), /^handler: expected a function/);
});

test('calls that are none', async () => {
  const retry = await retrier();
  await says(() => retry(fetch('data:,')), /^retry: expected a function that makes an attempt, such as .*, not an object$/);
  await says(() => retry(async () => {}, { deadlin: '1s' }), /^retry: there is no option `deadlin`/);
  await says(() => retry(async () => {}, { deadline: 'soon' }), /^deadline: expected a duration/);
  await says(() => retry(async () => {}, { deadline: new Date('soon') }), /^deadline: expected a duration/);
});
