// Charges an order once: a Lambda function that retries its own calls while its time allows, and that Backstop invokes again for hours if they fail. Powertools for AWS Lambda keeps what was done in the table `idempotency`, so that no attempt charges twice.
//
// npm install backstop-retry @aws-lambda-powertools/idempotency @aws-sdk/client-dynamodb @aws-sdk/lib-dynamodb
import { IdempotencyConfig, makeIdempotent } from "@aws-lambda-powertools/idempotency";
import { DynamoDBPersistenceLayer } from "@aws-lambda-powertools/idempotency/dynamodb";
import { permanent, retrier, success } from "backstop-retry";
import { handler } from "backstop-retry/lambda";

// Once, at the cold start: invocations share the budget.
const retry = await retrier({ name: "payments", budget: "aws-2.1", attemptTimeout: "3s" });

/** The work: the key is the id of the order, the same for every attempt at it. */
const charge = makeIdempotent(
  async (order, deadline) =>
    retry(async ({ signal }) => {
      const response = await fetch(process.env.PAYMENTS_URL, {
        method: "POST",
        headers: { "Content-Type": "application/json", "Idempotency-Key": order.id },
        body: JSON.stringify(order),
        signal,
      });
      if (response.status === 402) throw permanent("CardDeclined", "the bank refuses the card");
      return success(response).json();
    }, { deadline }),
  {
    persistenceStore: new DynamoDBPersistenceLayer({ tableName: "idempotency" }),
    config: new IdempotencyConfig({ eventKeyJmesPath: "id" }),
    dataIndexArgument: 0,
  },
);

export const main = handler((order, { deadline }) => charge(order, deadline));
