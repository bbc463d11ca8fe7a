// Charges an order: an asynchronous Lambda function that Backstop invokes again when it fails.
// PAYMENTS_URL is a payment service that makes one payment for each Idempotency-Key.

const LATEST = 253_402_300_799_999; // the end of the year 9999, in milliseconds

/** What an envelope is, host/docs/deploy/lambda.md says: all who open one go by the same rule. */
function isEnvelope(event) {
  const { attempt, initial_timestamp: firstSeen } = event?._retry_metadata ?? {};
  return (
    Number.isInteger(attempt) &&
    attempt >= 1 &&
    attempt < 2 ** 31 &&
    typeof firstSeen === "number" &&
    firstSeen >= 0 &&
    firstSeen <= LATEST &&
    Object.hasOwn(event, "_original_payload") &&
    Object.keys(event).length === 2
  );
}

/**
 * The payload as it was first sent, and which attempt at it this is.
 *
 * `attempt` starts at 1. `firstSeen` is when the first attempt failed, in seconds since 1970; null on the first attempt.
 * `id` is the same for every attempt at an event.
 */
export function retryContext(event, lambdaContext) {
  if (!isEnvelope(event)) return [event, { attempt: 1, firstSeen: null, id: lambdaContext.awsRequestId }];
  const { attempt, initial_timestamp: first, id } = event._retry_metadata;
  const firstSeen = first > 1e11 ? first / 1000 : first; // a larger number is one of milliseconds
  const isOurs = typeof id === "string" && /^[!-~]{1,128}$/.test(id);
  // Without an id it counts retries: 1 is the second attempt.
  const retry = isOurs ? { attempt, firstSeen, id } : { attempt: attempt + 1, firstSeen, id: lambdaContext.awsRequestId };
  return [event._original_payload, retry];
}

/** The name of an error reaches the policy as its code. */
class ServiceUnavailable extends Error {
  name = "ServiceUnavailable";
}

/** The answer of the payment service; a declined card is an answer, and not worth a retry. */
async function charge(order, key) {
  const answer = await fetch(process.env.PAYMENTS_URL, {
    method: "POST",
    headers: { "Content-Type": "application/json", "Idempotency-Key": key },
    body: JSON.stringify(order),
    signal: AbortSignal.timeout(10_000),
  });
  if (answer.status === 402) return { declined: true };
  if (!answer.ok) throw new ServiceUnavailable(`the payment service answered ${answer.status}`);
  return answer.json();
}

export async function handler(event, lambdaContext) {
  const [order, retry] = retryContext(event, lambdaContext);
  console.log(JSON.stringify({ order: order.id, attempt: retry.attempt, first_seen: retry.firstSeen }));
  return charge(order, retry.id);
}
