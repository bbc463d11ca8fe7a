"""Charges an order once: a Lambda function that retries its own calls while its time allows, and that Backstop invokes again for hours if it fails. Powertools for AWS Lambda keeps what was done in the table `idempotency`, so that no attempt charges twice.

pip install backstop-sqs aws-lambda-powertools boto3
"""

import json
import os
import urllib.error
import urllib.request

import backstop
from aws_lambda_powertools.utilities.idempotency import DynamoDBPersistenceLayer, IdempotencyConfig, idempotent_function
from backstop import events

# Once, at the cold start: invocations share the budget.
retry = backstop.Retrier("full-jitter", base="50ms", max_attempts=3, budget=backstop.Budget("payments"))
# The key is the id of the order, the same for every attempt at it.
config = IdempotencyConfig(event_key_jmespath="id")
records = DynamoDBPersistenceLayer(table_name=os.environ.get("IDEMPOTENCY_TABLE", "idempotency"))


def post(url, body, key):
    """The answer of a service; one that says no raises, and its status decides about another attempt."""
    headers = {"Content-Type": "application/json", "Idempotency-Key": key}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=3) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        if error.code == 402:
            raise backstop.Permanent("CardDeclined", "the bank refuses the card") from error
        raise


@idempotent_function(data_keyword_argument="order", config=config, persistence_store=records)
def charge(order, deadline):
    return retry.call(post, os.environ["PAYMENTS_URL"], order, order["id"], deadline=deadline)


@events.unwrapped
def handler(order, context):
    config.register_lambda_context(context)
    deadline = events.deadline(context)
    payment = charge(order=order, deadline=deadline)
    # If this fails, the event comes again: then the payment is the one that was made.
    retry.call(post, os.environ["RECEIPTS_URL"], payment, order["id"], deadline=deadline)
    return payment
