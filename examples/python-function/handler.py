"""Charges an order: an asynchronous Lambda function that Backstop invokes again when it fails.

PAYMENTS_URL is a payment service that makes one payment for each Idempotency-Key.
"""

import json
import os
import re
import urllib.error
import urllib.request
from dataclasses import dataclass


@dataclass(frozen=True)
class RetryContext:
    attempt: int  # 1 is the first
    first_seen: float | None  # when the first attempt failed, in seconds since 1970; none on the first attempt
    id: str  # the same for every attempt at an event


LATEST = 253402300799999  # the end of the year 9999, in milliseconds


def retry_context(event, lambda_context):
    """The payload as it was first sent, and which attempt at it this is.

    What an envelope is, host/docs/deploy/lambda.md says: all who open one go by the same rule.
    """
    match event:
        case {
            "_retry_metadata": {
                "attempt": int() | float() as attempt,
                "initial_timestamp": int() | float() as first_seen,
            } as metadata,
            "_original_payload": payload,
        } if (
            len(event) == 2
            # A bool is an int in Python; in JSON it is no number.
            and bool not in (type(attempt), type(first_seen))
            and 1 <= attempt < 2**31
            and attempt % 1 == 0
            and 0 <= first_seen <= LATEST
        ):
            attempt = int(attempt)
            if first_seen > 1e11:  # in milliseconds
                first_seen /= 1000
            match metadata.get("id"):
                case str(id) if re.fullmatch(r"[!-~]{1,128}", id):
                    return payload, RetryContext(attempt, first_seen, id)
            # Without an id it counts retries: 1 is the second attempt.
            return payload, RetryContext(attempt + 1, first_seen, lambda_context.aws_request_id)
    return event, RetryContext(1, None, lambda_context.aws_request_id)


class ServiceUnavailable(Exception):
    """The name of an exception's class reaches the policy as the error's code."""


def charge(order, key):
    """The answer of the payment service; a declined card is an answer, and not worth a retry."""
    headers = {"Content-Type": "application/json", "Idempotency-Key": key}
    request = urllib.request.Request(os.environ["PAYMENTS_URL"], json.dumps(order).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        if error.code == 402:
            return {"declined": True}
        raise ServiceUnavailable(f"the payment service answered {error.code}") from error


def handler(event, lambda_context):
    order, retry = retry_context(event, lambda_context)
    print(json.dumps({"order": order["id"], "attempt": retry.attempt, "first_seen": retry.first_seen}))
    return charge(order, retry.id)
