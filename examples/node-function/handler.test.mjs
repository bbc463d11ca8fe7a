import assert from "node:assert/strict";
import { once } from "node:events";
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
const RETRY = { attempt: 2, firstSeen: 1767225600, id: "first-invocation" };

const envelope = (payload, changes) => ({
  _retry_metadata: { ...METADATA, ...changes },
  _original_payload: payload,
});

const without = (name) => {
  const { [name]: _, ...metadata } = METADATA;
  return { _retry_metadata: metadata, _original_payload: {} };
};

// What the envelope carries, and the context that comes with it.
const RETRIES = {
  "an object": [envelope({ id: "o-1" }), { id: "o-1" }, RETRY],
  "an array": [envelope([1, 2]), [1, 2], RETRY],
  "a string": [envelope("order"), "order", RETRY],
  "null": [envelope(null), null, RETRY],
  "a payload with those keys by itself": [envelope(envelope("inner")), envelope("inner"), RETRY],
  "a payload with one of those keys": [envelope({ _original_payload: 1 }), { _original_payload: 1 }, RETRY],
  "an unknown field": [envelope({}, { colour: "blue" }), {}, RETRY],
  "an attempt of 1": [envelope({}, { attempt: 1 }), {}, { ...RETRY, attempt: 1 }],
  "a fraction of a second": [
    envelope({}, { initial_timestamp: 1767225600.5 }),
    {},
    { ...RETRY, firstSeen: 1767225600.5 },
  ],
  "no id": [without("id"), {}, { ...RETRY, id: "this-invocation" }],
  "an id that is a number": [envelope({}, { id: 7 }), {}, { ...RETRY, id: "this-invocation" }],
};

// Each is the event itself.
const EVENTS = {
  "an object": { id: "o-1" },
  "an empty object": {},
  "an array": [METADATA, {}],
  "a string": "_retry_metadata",
  "a number": 7,
  "a boolean": true,
  "null": null,
  "those keys without their meaning": { _retry_metadata: "mine", _original_payload: "mine" },
  "the metadata alone": { _retry_metadata: METADATA },
  "the payload alone": { _original_payload: {} },
  "the metadata beside another key": { _retry_metadata: METADATA, payload: {} },
  "the payload beside another key": { metadata: METADATA, _original_payload: {} },
  "an extra key": { ...envelope({}), more: 1 },
  "metadata that is null": { _retry_metadata: null, _original_payload: {} },
  "metadata that is an array": { _retry_metadata: [METADATA], _original_payload: {} },
  "no attempt": without("attempt"),
  "an attempt that is a boolean": envelope({}, { attempt: true }),
  "an attempt that is a string": envelope({}, { attempt: "2" }),
  "an attempt that is null": envelope({}, { attempt: null }),
  "an attempt of 0": envelope({}, { attempt: 0 }),
  "an attempt below 0": envelope({}, { attempt: -1 }),
  "an attempt that is not whole": envelope({}, { attempt: 1.5 }),
  "no timestamp": without("initial_timestamp"),
  "a timestamp that is a string": envelope({}, { initial_timestamp: "2026-01-01T00:00:00Z" }),
  "a timestamp that is a boolean": envelope({}, { initial_timestamp: true }),
  "a timestamp that is null": envelope({}, { initial_timestamp: null }),
};

test("an envelope gives the payload and the attempt", async (t) => {
  for (const [name, [event, payload, context]] of Object.entries(RETRIES)) {
    await t.test(name, () => assert.deepEqual(retryContext(event, LAMBDA), [payload, context]));
  }
});

test("anything else is the event itself at its first attempt", async (t) => {
  for (const [name, event] of Object.entries(EVENTS)) {
    await t.test(name, () => assert.deepEqual(retryContext(event, LAMBDA), [event, FIRST]));
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
