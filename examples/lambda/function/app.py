"""An asynchronous function that fails until the attempt which its event asks for: {"succeed_at": 3}.

A retry comes in an envelope. What a real function does with it is in ../../python-function and ../../node-function.
"""

import json


def opened(event):
    """The event as it was first sent, and which attempt at it this is."""
    match event:
        case {"_retry_metadata": {"attempt": attempt, "initial_timestamp": _}, "_original_payload": payload}:
            return payload, attempt
    return event, 1


def handler(event, _):
    order, attempt = opened(event)
    print(json.dumps({"attempt": attempt, "order": order}))
    if attempt < order.get("succeed_at", 1):
        raise ConnectionError(f"attempt {attempt} fails, as the event asks for")
    return {"attempt": attempt}
