// Charges an order once: a Lambda function that retries its own calls while its time allows, and that Backstop invokes again for hours if it fails. Powertools for AWS Lambda keeps what was done in the table `idempotency`, so that no attempt charges twice.
//
// npm install backstop-retry @aws-lambda-powertools/idempotency @aws-sdk/client-dynamodb @aws-sdk/lib-dynamodb
import { IdempotencyConfig, makeIdempotent } from "@aws-lambda-powertools/idempotency";
import { DynamoDBPersistenceLayer } from "@aws-lambda-powertools/idempotency/dynamodb";
import { permanent, retrier, success } from "backstop-retry";
import { handler } from "backstop-retry/lambda";

// Once, at the cold start: invocations share the budget.
const retry = await retrier({ name: "payments", budget: "aws-2.1", attemptTimeout: "3s", maxAttempts: 3 });
// The key is the id of the order, the same for every attempt at it.
const config = new IdempotencyConfig({ eventKeyJmesPath: "id" });
const persistenceStore = new DynamoDBPersistenceLayer({ tableName: process.env.IDEMPOTENCY_TABLE ?? "idempotency" });

/** The answer of a service; one that says no throws, and its status decides about another attempt. */
const post = (url, body, key, deadline) =>
  retry(async ({ signal }) => {
    const response = await fetch(url, {
      method: "POST",
      headers: { "Content-Type": "application/json", "Idempotency-Key": key },
      body: JSON.stringify(body),
      signal,
    });
    if (response.status === 402) throw permanent("CardDeclined", "the bank refuses the card");
    return success(response).json();
  }, { deadline });

const charge = makeIdempotent((order, deadline) => post(process.env.PAYMENTS_URL, order, order.id, deadline), {
  persistenceStore,
  config,
  dataIndexArgument: 0,
});

export const main = handler(async (order, { deadline, context }) => {
  config.registerLambdaContext(context);
  const payment = await charge(order, deadline);
  // If this fails, the event comes again: then the payment is the one that was made.
  await post(process.env.RECEIPTS_URL, payment, order.id, deadline);
  return payment;
});
