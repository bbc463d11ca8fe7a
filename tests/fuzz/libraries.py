"""The keys of the real Powertools for AWS Lambda (Python): a request on each line of standard input, an answer on each line of standard output."""

import json
import sys
import warnings

import boto3
from aws_lambda_powertools.utilities.idempotency import DynamoDBPersistenceLayer, IdempotencyConfig

warnings.simplefilter("ignore")
client = boto3.client(
    "dynamodb", region_name="eu-west-1", endpoint_url="http://127.0.0.1:1", aws_access_key_id="a", aws_secret_access_key="b"
)


def answer(request):
    try:
        config = IdempotencyConfig(event_key_jmespath=request["path"], raise_on_no_idempotency_key=True)
        store = DynamoDBPersistenceLayer(table_name="none", boto3_client=client)
        store.configure(config, key_prefix="orders")
    except Exception as error:
        return {"path": str(error)}
    try:
        return {"key": store._get_hashed_idempotency_key(json.loads(request["event"]))}
    except Exception as error:
        return {"error": str(error)}


for line in sys.stdin:
    print(json.dumps(answer(json.loads(line))), flush=True)
