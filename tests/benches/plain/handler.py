"""The plain pattern's retry handler: a failure waits at its first receive, and is invoked again at a later one.

Backstop's own is measured beside it. The event source mapping has ReportBatchItemFailures.
"""

import json
import os
import random
import time
from datetime import datetime

import boto3

RETRY_QUEUE_URL = os.environ["RETRY_QUEUE_URL"]
DEAD_LETTER_QUEUE_URL = os.environ["DEAD_LETTER_QUEUE_URL"]
MAX_RETRIES = int(os.environ["MAX_RETRIES"])
BASE_BACKOFF = float(os.environ["BASE_BACKOFF"])  # seconds

MAX_BACKOFF = 42_000  # SQS allows 12 hours after the receive
MAX_AGE = 24 * 60 * 60

sqs = boto3.client("sqs")
functions = boto3.client("lambda")


def handler(event, context):
    failures = []
    for message in event["Records"]:
        try:
            done = handle(message)
        except Exception as error:
            print(f"{message['messageId']}: {error!r}")
            done = False
        if not done:
            failures.append({"itemIdentifier": message["messageId"]})
    return {"batchItemFailures": failures}


def handle(message):
    """Whether the mapping may delete the message."""
    record = json.loads(message["body"])
    payload, metadata = unwrap(record)
    if metadata["attempt"] > MAX_RETRIES or time.time() - metadata["initial_timestamp"] > MAX_AGE:
        sqs.send_message(QueueUrl=DEAD_LETTER_QUEUE_URL, MessageBody=message["body"])
        return True
    if int(message["attributes"]["ApproximateReceiveCount"]) == 1:
        sqs.change_message_visibility(
            QueueUrl=RETRY_QUEUE_URL,
            ReceiptHandle=message["receiptHandle"],
            VisibilityTimeout=backoff(metadata["attempt"]),
        )
        return False
    invoke(record, payload, metadata)
    return True


def unwrap(record):
    """The original payload, and the metadata of the attempt that failed."""
    payload = record["requestPayload"]
    if isinstance(payload, dict) and payload.keys() == {"_retry_metadata", "_original_payload"}:
        return payload["_original_payload"], payload["_retry_metadata"]
    failed = datetime.fromisoformat(record["timestamp"].replace("Z", "+00:00"))
    first = {"attempt": 1, "initial_timestamp": int(failed.timestamp()), "id": record["requestContext"]["requestId"]}
    return payload, first


def backoff(attempt):
    """Full jitter, in whole seconds."""
    return round(random.uniform(0, min(MAX_BACKOFF, BASE_BACKOFF * 2 ** (attempt - 1))))


def invoke(record, payload, metadata):
    error = record.get("responsePayload") or {}
    last_error = {"code": error.get("errorType"), "message": error.get("errorMessage")}
    metadata = {**metadata, "attempt": metadata["attempt"] + 1, "last_error": last_error}
    functions.invoke(
        FunctionName=record["requestContext"]["functionArn"],
        InvocationType="Event",
        Payload=json.dumps({"_retry_metadata": metadata, "_original_payload": payload}),
    )
