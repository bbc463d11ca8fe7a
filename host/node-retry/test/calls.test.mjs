// Calls in virtual time: attempts, delays, deadlines, ends. The rules themselves are tested in Rust.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Breaker, Budget, Bulkhead, RetryError, permanent, retrier } from 'backstop-retry';
import { linear } from 'backstop-retry/policies/linear';
import { TestClock } from 'backstop-retry/test';

import { failing } from './helpers.mjs';

/** Retries after 1 s, 2 s, 3 s and so on. */
async function seconds(options = {}) {
  const clock = new TestClock();
  const retry = await retrier({ policy: linear, settings: { base: '1s' }, clock, ...options });
  return { clock, run: (work, of) => clock.run(() => retry(work, of)) };
}

/** The end of a call that must not succeed. */
const ended = (result) => result.then(() => assert.fail('it succeeded'), (error) => error);

const busy = () => Promise.reject(failing('HTTP 503', { status: 503 }));

test('a function is retried until it succeeds', async () => {
  const { clock, run } = await seconds();
  const seen = [];
  const value = await run(async ({ number, isRetry }) => {
    seen.push([number, isRetry, clock.elapsed]);
    if (number < 3) await busy();
    return 'done';
  });
  assert.equal(value, 'done');
  assert.deepEqual(seen, [[1, false, 0], [2, true, 1000], [3, true, 3000]]);
});

test('each end has its name, its text, its attempts and its decision', async () => {
  const { clock, run } = await seconds({ maxAttempts: 2 });
  const gaveUp = await ended(run(busy));
  assert.ok(gaveUp instanceof RetryError);
  assert.deepEqual([gaveUp.name, gaveUp.end, gaveUp.attempts, gaveUp.code, gaveUp.status], ['GaveUp', 'gave-up', 2, 'HTTP 503', 503]);
  assert.equal(gaveUp.message, "gave up after 2 attempts: the retrier's max-attempts of 2 reached: HTTP 503");
  assert.equal(gaveUp.cause.code, 'HTTP 503');
  assert.deepEqual([gaveUp.decision.class, gaveUp.decision.by], ['transient', 'bound']);
  assert.equal(clock.elapsed, 1000);

  const declined = await ended(run(() => { throw permanent('CardDeclined', 'the bank says no'); }));
  assert.deepEqual([declined.name, declined.attempts, declined.code, declined.failure.status], ['Permanent', 1, 'CardDeclined', 422]);
  assert.equal(declined.message, 'permanent error after 1 attempt: CardDeclined');
});

test('no wait begins that cannot end before the deadline', async () => {
  const { clock, run } = await seconds();
  const error = await ended(run(busy, { deadline: '4s' }));
  assert.equal(error.message, 'the deadline ended the call after 3 attempts, with 1s left and a delay of 3s: HTTP 503');
  assert.deepEqual([error.name, error.timeLeft, clock.elapsed], ['DeadlineExceeded', 1000, 3000]);
  const past = await ended(run(busy, { deadline: new Date(clock.time() - 1) }));
  assert.equal(past.message, 'the deadline had passed before the first attempt');
  assert.deepEqual([past.cause, past.code, past.status], [undefined, 'Timeout', undefined]);
});

test('a timeout and a deadline cut an attempt short and abort its signal', async () => {
  const { clock, run } = await seconds({ attemptTimeout: 500, maxAttempts: 2 });
  const aborted = [];
  const hangs = ({ number, signal }) => new Promise(() => signal.addEventListener('abort', () => aborted.push([number, signal.reason.name, clock.elapsed])));
  const error = await ended(run(hangs));
  assert.deepEqual([error.failure.code, error.failure.message], ['Timeout', 'the attempt took longer than 500ms']);
  assert.deepEqual(aborted, [[1, 'TimeoutError', 500], [2, 'TimeoutError', 2000]]);
  const late = await ended(run(hangs, { deadline: 200 }));
  assert.deepEqual([late.name, late.failure.code, clock.elapsed], ['DeadlineExceeded', 'Timeout', 2200]);
});

test('the signal of the caller cancels a call in every state, and gives back what was not sent', async () => {
  const budget = new Budget('b');
  const clock = new TestClock();
  const retry = await retrier({ policy: linear, settings: { base: '1s' }, clock, budget });
  const controller = new AbortController();
  const waiting = retry(busy, { signal: controller.signal });
  waiting.catch(() => {});
  await clock.advance(0);
  assert.equal(budget.left, 486);
  controller.abort(new Error('enough'));
  await assert.rejects(waiting, /enough/);
  assert.equal(budget.left, 500);

  const inside = new AbortController();
  let signal;
  const running = retry((attempt) => { ({ signal } = attempt); return new Promise(() => {}); }, { signal: inside.signal, deadline: '1h' });
  inside.abort(new Error('stop'));
  await assert.rejects(running, /stop/);
  assert.equal(signal.reason.message, 'stop');
  await assert.rejects(retry(busy, { signal: AbortSignal.abort(new Error('before')) }), /before/);
});

test('a budget ends a call before its delay', async () => {
  const budget = new Budget('b', 'aws-2.0', { capacity: 20, floorPerSecond: 0 });
  const { clock, run } = await seconds({ budget });
  const error = await ended(run(busy));
  assert.deepEqual([error.name, error.attempts, budget.left, clock.elapsed], ['BudgetExhausted', 3, 0, 3000]);
  await run(async () => {});
  assert.equal(budget.left, 1);
});

test('a breaker refuses calls at once, and says when it probes', async () => {
  const breaker = new Breaker('payments', { minimum: 3, shortestOutage: 0 });
  const { run } = await seconds({ breaker, maxAttempts: 3 });
  await ended(run(busy));
  const error = await ended(run(busy));
  assert.deepEqual([error.name, error.attempts, error.refusedBy, error.code, error.status], ['BreakerOpen', 0, 'payments', 'BreakerOpen', 503]);
  assert.ok(error.nextProbe > 0 && error.nextProbe <= 4000 && error.retryAfter === error.nextProbe);
  assert.equal(breaker.status.state, 'open');
});

test('the retryAfter of a call that a breaker ends is the longer of both times', async () => {
  const breaker = new Breaker('payments', { minimum: 1, shortestOutage: 0 });
  const { run } = await seconds({ breaker });
  const error = await ended(run(() => Promise.reject(failing('HTTP 503', { status: 503, retryAfter: 1 }))));
  assert.deepEqual([error.name, error.code, error.failure.retryAfter], ['BreakerOpen', 'HTTP 503', 1]);
  assert.ok(error.nextProbe > 1 && error.retryAfter === error.nextProbe);
});

test('a bulkhead has so many attempts under way, first come, first served', async () => {
  const bulkhead = new Bulkhead('b', 1);
  const clock = new TestClock();
  const retry = await retrier({ bulkhead, clock, maxAttempts: 1 });
  const order = [];
  let leave;
  const first = retry(() => new Promise((resolve) => { leave = resolve; }));
  const others = ['second', 'third'].map((name) => retry(async () => order.push(name)));
  const hasty = await retrier({ bulkhead: new Bulkhead('h', 1, { waits: false }), clock });
  const cancelled = new AbortController();
  const holds = hasty(() => new Promise(() => {}), { signal: cancelled.signal });
  const full = await ended(hasty(busy));
  assert.deepEqual([full.name, full.attempts, full.refusedBy], ['BulkheadFull', 0, 'h']);
  cancelled.abort();
  await assert.rejects(holds);
  assert.deepEqual([order.length, bulkhead.free], [0, 0]);
  leave();
  await Promise.all([first, ...others]);
  assert.deepEqual([order, bulkhead.free], [['second', 'third'], 1]);
});

test('a condition refuses errors and values', async () => {
  const { run } = await seconds();
  const refused = await ended(run(busy, { retryIf: (error) => error.code === 'ETIMEDOUT' }));
  assert.deepEqual([refused.name, refused.attempts, refused.decision.cause], ['Permanent', 1, "the call's retry_if"]);
  const states = ['running', 'running', 'done'];
  assert.equal(await run(async () => states.shift(), { retryIfOk: (state) => state === 'running' }), 'done');
});

test('observers see every event', async () => {
  const events = [];
  const { run } = await seconds({ name: 'articles', budget: 'aws-2.1', maxAttempts: 3, observe: (event) => events.push(event) });
  await ended(run(busy, { id: 'order-7', attributes: { tenant: 't-1' } }));
  await run(async () => {});
  assert.deepEqual(events.map(({ type, retrier, attempts }) => [type, retrier, attempts]), [['retrying', 'articles', 1], ['retrying', 'articles', 2], ['ended', 'articles', 3], ['succeeded', 'articles', 1]]);
  const [{ failure, decision, delay, budgetLeft }] = events;
  assert.deepEqual([failure.messageId, failure.source, failure.attributes, decision.verdict, delay, budgetLeft], ['order-7', 'retrier:articles', [['tenant', 't-1']], 'retry', 1000, 486]);
});

test('with a seed, delays are the same in each run', async () => {
  const run = async (seed) => {
    const clock = new TestClock();
    const retry = await retrier({ clock, seed });
    await ended(clock.run(() => retry(busy)));
    return clock.elapsed;
  };
  assert.equal(await run(7), await run(7));
  assert.notEqual(await run(7), await run(8));
});

test('a call without a delay lets others have their turn', async () => {
  const retry = await retrier({ maxDelay: 0, maxAttempts: 5 });
  assert.equal((await ended(retry(() => { throw failing('HTTP 503', { status: 503 }); }))).attempts, 3);
});
