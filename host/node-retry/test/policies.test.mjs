// Policies: the built-in ones, broken ones, and those in a worker.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';

import { Breaker, retrier } from 'backstop-retry';
import { awsSdk20 } from 'backstop-retry/policies/aws-sdk-2.0';
import { awsSdk21 } from 'backstop-retry/policies/aws-sdk-2.1';
import { decorrelatedJitter } from 'backstop-retry/policies/decorrelated-jitter';
import { equalJitter } from 'backstop-retry/policies/equal-jitter';
import { fullJitter } from 'backstop-retry/policies/full-jitter';
import { linear } from 'backstop-retry/policies/linear';
import { TestClock } from 'backstop-retry/test';

import { failing } from './helpers.mjs';
import odd from './policies/odd.mjs';

const busy = () => Promise.reject(failing('HTTP 503', { status: 503 }));

async function call(options, work = busy) {
  const clock = new TestClock();
  const events = [];
  const retry = await retrier({ clock, observe: (event) => events.push(event), ...options });
  const error = await clock.run(() => retry(work)).then(() => undefined, (thrown) => thrown);
  return { error, events, clock, retry };
}

test('each built-in policy decides, live and in fresh instances', async () => {
  for (const policy of [awsSdk20, awsSdk21, decorrelatedJitter, equalJitter, fullJitter, linear]) {
    const delays = [];
    for (const instances of ['live', 'fresh']) {
      const { error, events } = await call({ policy, settings: { 'max-attempts': '4' }, seed: 7, instances });
      assert.deepEqual([error.name, error.attempts, error.message], ['GaveUp', 4, 'gave up after 4 attempts: max-attempts of 4 reached: HTTP 503'], policy.name);
      delays.push(events.slice(0, 3).map(({ delay }) => delay));
    }
    assert.deepEqual(delays[0], delays[1]);
    assert.match(policy.digest, /^sha256:[0-9a-f]{64}$/);
  }
});

test('a broken policy is replaced by the fallback, for at most five attempts', async () => {
  for (const [does, cause] of [
    ['traps', 'the policy failed in delay: unreachable'],
    ['waits-too-long', 'the policy answered a delay of 15d, more than the 14d that SQS keeps a message'],
    ['has-no-reason', 'the policy answered a verdict without a reason'],
  ]) {
    const { error, events } = await call({ policy: odd, settings: { does } });
    assert.deepEqual([error.name, error.attempts, error.decision.by, error.decision.cause], ['GaveUp', 5, 'fallback', cause]);
    assert.match(error.message, /the policy is broken, and 5 attempts failed: HTTP 503/);
    // Exponential with full jitter, from a second.
    events.slice(0, 4).forEach(({ delay }, index) => assert.ok(delay <= 1000 * 2 ** index));
  }
});

test('a class of its own, a discard, an outage and the log arrive', async () => {
  const { error, events } = await call({ policy: odd, settings: { does: 'discards' } });
  assert.deepEqual([error.name, error.decision.class, error.decision.verdict, error.decision.reason], ['GaveUp', 'other:cart', 'discard', 'old']);
  assert.deepEqual(events.at(-1).log, [{ level: 'info', message: 'x' }]);
  const breaker = new Breaker('b');
  const down = await call({ policy: odd, settings: { does: 'is-down' }, breaker, maxDelay: 0 });
  assert.deepEqual([down.error.name, down.error.decision.downFor, breaker.status.state], ['BreakerOpen', 60_000, 'open']);
});

test('a policy in a worker is ended when it takes too long, and decides again afterwards', async () => {
  const looping = await call({ policy: odd, settings: { does: 'loops' }, timeLimit: 200, clock: undefined, maxAttempts: 1 });
  assert.deepEqual([looping.error.decision.by, looping.error.decision.cause], ['bound', "the retrier's max-attempts of 1 reached"]);
  const retry = await retrier({ policy: odd, settings: { does: 'loops' }, timeLimit: '200ms', maxDelay: 0 });
  const errors = await Promise.all([retry(busy), retry(busy)].map((it) => it.catch((error) => error)));
  for (const error of errors) assert.deepEqual([error.attempts, error.decision.cause], [5, 'the policy was stopped after 200ms']);

  const fine = await retrier({ policy: fullJitter, settings: { base: '1ms', 'max-attempts': '3' }, timeLimit: '5s' });
  const error = await fine(busy).catch((thrown) => thrown);
  assert.equal(error.message, 'gave up after 3 attempts: max-attempts of 3 reached: HTTP 503');
  await assert.rejects(retrier({ policy: fullJitter, settings: { bass: '1' }, timeLimit: '5s' }), /unknown setting `bass`/);
  await assert.rejects(retrier({ policy: { ...odd, url: 'file:///no/such/file.mjs' }, timeLimit: '5s' }), /is not loaded|failed in its worker/);
});

test('a worker that cannot load its policy does not keep the program alive', () => {
  const code = "import('backstop-retry').then(({ retrier }) => retrier({ policy: { name: 'odd', digest: '', url: 'file:///no/such/file.mjs', load() {} }, timeLimit: 9 })).catch((error) => console.log(error.message))";
  const run = () => execFileSync(process.execPath, ['-e', code], { cwd: import.meta.dirname, encoding: 'utf8', timeout: 8000 });
  assert.match(run(), /is not loaded|failed in its worker/);
});

test('the deadline of a call ends a slow evaluation', async () => {
  const retry = await retrier({ policy: odd, settings: { does: 'loops' }, timeLimit: '2s' });
  const started = performance.now();
  const error = await retry(busy, { deadline: 100 }).catch((thrown) => thrown);
  assert.deepEqual([error.name, error.attempts], ['DeadlineExceeded', 1]);
  assert.ok(performance.now() - started < 1500);
});
