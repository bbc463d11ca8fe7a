"""An asynchronous function that fails until the attempt which its event asks for: {"succeed_at": 3}.

A retry comes in an envelope. What a real function does with it is in ../../python-function and ../../node-function.
"""

import json
import re


def opened(event):
    """The event as it was first sent, and which attempt at it this is: by the rule of host/docs/deploy/lambda.md."""
    match event:
        case {
            "_retry_metadata": {"attempt": int() | float() as attempt, "initial_timestamp": int() | float() as first} as metadata,
            "_original_payload": payload,
        } if (
            len(event) == 2
            and bool not in (type(attempt), type(first))
            and (1 <= attempt < 2**31 and attempt % 1 == 0)
            and 0 <= first <= 253402300799999
        ):
            match metadata.get("id"):
                case str(id) if re.fullmatch(r"[!-~]{1,128}", id):
                    return payload, int(attempt)
            # Without an id it counts retries: 1 is the second attempt.
            return payload, int(attempt) + 1
    return event, 1


def handler(event, _):
    order, attempt = opened(event)
    print(json.dumps({"attempt": attempt, "order": order}))
    if attempt < order.get("succeed_at", 1):
        raise ConnectionError(f"attempt {attempt} fails, as the event asks for")
    return {"attempt": attempt}
