import assert from "node:assert/strict";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { test } from "node:test";

import { handler, retryContext } from "./handler.mjs";

const LAMBDA = { awsRequestId: "this-invocation" };
const FIRST = { attempt: 1, firstSeen: null, id: "this-invocation" };
const METADATA = {
  attempt: 2,
  initial_timestamp: 1767225600,
  id: "first-invocation",
  previous_delay_ms: 1830,
  last_error: { code: "ECONNRESET", message: "the peer hung up" },
  policy: "sha256:0123",
};

const envelope = (payload) => ({ _retry_metadata: METADATA, _original_payload: payload });

// What the retry handler and the functions in other languages are tested by, too.
const ENVELOPES = new URL("../../tests/corpus/envelopes.json", import.meta.url);

test("each event of the table is taken for what it is", async (t) => {
  for (const { name, event: text, envelope: expected } of JSON.parse(await readFile(ENVELOPES, "utf8"))) {
    await t.test(name, () => {
      const event = JSON.parse(text);
      const [payload, retry] = retryContext(event, LAMBDA);
      if (expected === null) {
        assert.equal(payload, event);
        return assert.deepEqual(retry, FIRST);
      }
      const { attempt, first_seen: firstSeen, id } = expected;
      assert.deepEqual(payload, JSON.parse(expected.payload));
      assert.deepEqual({ ...retry, firstSeen: Math.floor(retry.firstSeen) + 0 }, { attempt, firstSeen, id: id ?? LAMBDA.awsRequestId });
    });
  }
});

/** A payment service that answers with these statuses, and what it was asked. */
async function payments(t, ...statuses) {
  const seen = [];
  const server = createServer(async (request, response) => {
    const body = JSON.parse((await request.toArray()).join(""));
    seen.push([request.headers["idempotency-key"], body]);
    response.writeHead(statuses.shift()).end('{"payment": "p-1"}');
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  process.env.PAYMENTS_URL = `http://127.0.0.1:${server.address().port}/`;
  t.mock.method(console, "log", () => {});
  t.after(() => server.close().closeAllConnections());
  return seen;
}

test("a retry sends the same order with the same key", async (t) => {
  const order = { id: "o-1", cents: 1250 };
  const seen = await payments(t, 503, 200);
  await assert.rejects(handler(order, { awsRequestId: "first-invocation" }), { name: "ServiceUnavailable", message: /503/ });
  assert.deepEqual(await handler(envelope(order), LAMBDA), { payment: "p-1" });
  assert.deepEqual(seen, [["first-invocation", order], ["first-invocation", order]]);
});

test("a declined card is not a failure", async (t) => {
  await payments(t, 402);
  assert.deepEqual(await handler({ id: "o-1" }, LAMBDA), { declined: true });
});
