"""Calls the real Powertools for AWS Lambda (Python): a request on each line of standard input, an answer on each line of standard output."""

import json
import os
import sys
import time
import warnings

import boto3
from aws_lambda_powertools.utilities.idempotency import (
    DynamoDBPersistenceLayer,
    IdempotencyConfig,
    idempotent_function,
)

warnings.simplefilter("ignore")
client = boto3.client("dynamodb", region_name=os.environ["AWS_REGION"], endpoint_url=os.environ["ENDPOINT"])


class Context:
    def __init__(self, milliseconds):
        self.milliseconds = milliseconds

    def get_remaining_time_in_millis(self):
        return self.milliseconds


def key_of(store, event):
    try:
        return store._get_hashed_idempotency_key(json.loads(event))
    except Exception:
        return None


def keys(request):
    config = IdempotencyConfig(event_key_jmespath=request["path"], raise_on_no_idempotency_key=True)
    store = DynamoDBPersistenceLayer(table_name="none", boto3_client=client)
    store.configure(config, key_prefix=request["prefix"])
    return {"keys": [key_of(store, event) for event in request["events"]]}


def answer(request):
    if request["do"] == "keys":
        return keys(request)
    event = json.loads(request["event"])
    config = IdempotencyConfig(
        event_key_jmespath=request["path"],
        payload_validation_jmespath=request["validate"] or "",
        raise_on_no_idempotency_key=True,
    )
    store = DynamoDBPersistenceLayer(
        table_name=request["table"], sort_key_attr=request["sort_key"], boto3_client=client
    )
    if request["do"] == "key":
        store.configure(config, key_prefix=request["prefix"])
        return {"key": store._get_hashed_idempotency_key(event)}
    if request["remaining"] is not None:
        config.register_lambda_context(Context(request["remaining"]))
    ran = []

    def work(event):
        ran.append(True)
        time.sleep(request["takes"] / 1000)
        if request["do"] == "fail":
            raise ValueError("on purpose")
        return json.loads(request["result"])

    once = idempotent_function(
        work, data_keyword_argument="event", persistence_store=store, config=config, key_prefix=request["prefix"]
    )
    try:
        return {"result": json.dumps(once(event=event)), "ran": bool(ran)}
    except Exception as error:
        return {"error": type(error).__name__, "ran": bool(ran)}


for line in sys.stdin:
    print(json.dumps(answer(json.loads(line))), flush=True)
