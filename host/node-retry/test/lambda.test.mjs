// The envelope of the retry handler, by the table that every language is tested with, and the deadline of a function.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import { retrier } from 'backstop-retry';
import { deadline, handler, unwrap } from 'backstop-retry/lambda';

import { failing } from './helpers.mjs';

const context = { awsRequestId: 'this-invocation', getRemainingTimeInMillis: () => 3000 };
const TABLE = JSON.parse(readFileSync(new URL('../../../tests/corpus/envelopes.json', import.meta.url), 'utf8'));

for (const { name, event: text, envelope } of TABLE) {
  test(`an event is taken for what it is: ${name}`, async () => {
    const event = JSON.parse(text);
    const [payload, retry] = await unwrap(event, context);
    if (envelope === null) {
      assert.equal(payload, event);
      return assert.deepEqual(retry, { attempt: 1, id: 'this-invocation' });
    }
    assert.deepEqual(payload, JSON.parse(envelope.payload));
    assert.deepEqual({ ...retry, firstSeen: retry.firstSeen.getTime() / 1000 }, { attempt: envelope.attempt, firstSeen: envelope.first_seen, id: envelope.id ?? 'this-invocation' });
  });
}

test('a handler has the deadline of its function, and fails with the code of the last failure', async () => {
  const retry = await retrier({ maxAttempts: 1 });
  const lambda = handler(async (payload, { attempt, deadline }) => {
    assert.ok(deadline.getTime() - Date.now() <= 2500);
    return retry(() => (payload.fails ? Promise.reject(failing('PaymentServiceAway')) : attempt), { deadline });
  });
  assert.equal(await lambda({ fails: false }, context), 1);
  await assert.rejects(lambda({ fails: true }, context), { name: 'PaymentServiceAway', message: /gave up after 1 attempt/ });
  assert.ok(deadline(context, 1000).getTime() <= Date.now() + 2000);
});
