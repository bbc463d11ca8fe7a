// One decision of a policy.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';

import { Policy } from 'backstop-sqs';

test('the same failure gets the decision of the command', async () => {
  const policy = await Policy.load('full-jitter', { settings: { base: '2s', maxAttempts: 9 } });
  assert.match(policy.title, /full-jitter/);
  for (let attempt = 1; attempt < 10; attempt++) {
    const decided = policy.decide({ code: 'HTTP 503', attempt });
    const words = ['policy', 'run', 'full-jitter', '--set', 'base=2s', '--set', 'max-attempts=9', '--code', 'HTTP 503', '--attempt', String(attempt), '--json'];
    const answer = JSON.parse(execFileSync(process.env.BACKSTOP_COMMAND, words, { encoding: 'utf8' }));
    assert.equal(decided.class, answer.class);
    assert.equal(decided.fuel, answer.fuel);
    if (decided.verdict === 'retry') assert.equal(decided.delay, answer.action.delay);
    else assert.equal(decided.reason, answer.action.reason);
  }
});

test('settings have the types of JavaScript', async () => {
  const policy = await Policy.load('linear', { settings: { base: '3s', permanent: ['CardDeclined', 'NoSuch*'] } });
  assert.equal(policy.decide({ code: 'HTTP 503', attempt: 2 }).delay, 6000);
  assert.equal(policy.decide({ code: 'NoSuchArticle' }).verdict, 'dead-letter');
  assert.equal(policy.decide({ code: 'Busy', retryAfter: '40s' }).delay, 40_000);
});

test('a mistake says what is expected', async () => {
  const policy = await Policy.load('full-jitter');
  for (const [options, expected] of [
    [{}, /expected `error`, or `code`/],
    [undefined, /expected options such as/],
    [{ code: 'x', attempt: 0 }, /attempt/],
    [{ code: 'x', random: 1 }, /random/],
    [{ code: 'x', age: -1 }, /age/],
    [{ code: 'x', age: 'old' }, /age/],
    [{ code: 'x', attempts: 3 }, /there is no option `attempts`/],
    [{ error: new Error('x'), status: 503 }, /says its message, status and retryAfter itself/],
  ]) {
    assert.throws(() => policy.decide(options), expected);
  }
});
