// Charges an order: an asynchronous Lambda function that Backstop invokes again when it fails.
// PAYMENTS_URL is a payment service that makes one payment for each Idempotency-Key.

function isEnvelope(event) {
  const metadata = event?._retry_metadata;
  return (
    Number.isInteger(metadata?.attempt) &&
    metadata.attempt >= 1 &&
    typeof metadata.initial_timestamp === "number" &&
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
  const { attempt, initial_timestamp: firstSeen, id } = event._retry_metadata;
  return [event._original_payload, { attempt, firstSeen, id: typeof id === "string" ? id : lambdaContext.awsRequestId }];
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
