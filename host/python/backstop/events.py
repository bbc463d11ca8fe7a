"""Events of a Lambda function behind the Lambda retry handler: what comes again, comes in an envelope.

    @backstop.events.unwrapped
    def handler(event, context):
        ...
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, Callable, Optional, Tuple

from backstop import _native


@dataclass(frozen=True)
class Retry:
    """What the envelope of a retried event says."""

    attempt: int
    """The number of this attempt: 2 for the first retry."""
    first_failed: datetime
    """When the first attempt failed."""
    id: Optional[str] = None
    """The event's id, the same in all of its attempts: a key for work that is done once."""
    previous_delay: Optional[timedelta] = None
    """The delay before this attempt."""
    last_error: Optional[str] = None
    """The code of the error of the attempt before."""


def unwrap(event: Any) -> Tuple[Any, Optional[Retry]]:
    """The original event, and what its envelope says. An event that comes for the first time has no envelope, and neither has one that only looks like it."""
    if not isinstance(event, dict) or len(event) != 2:
        return event, None
    opened = _native.open_envelope(json.dumps(event))
    if opened is None:
        return event, None
    attempt, first_failed, id, delay, error = opened
    return event["_original_payload"], Retry(
        attempt=attempt,
        first_failed=datetime.fromtimestamp(first_failed, timezone.utc),
        id=id,
        previous_delay=None if delay is None else timedelta(milliseconds=delay),
        last_error=error,
    )


def unwrapped(handler: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """Decorates a Lambda handler, so that it receives the original event. `context.retry` is the `Retry` of a retried event, else None."""
    if not callable(handler):
        raise TypeError(f"unwrapped: {handler!r} is no function")

    @functools.wraps(handler)
    def unwrapping(event: Any, context: Any) -> Any:
        original, retry = unwrap(event)
        try:
            context.retry = retry
        except AttributeError:
            pass  # a context of a test may have no place for it
        return handler(original, context)

    return unwrapping


def key(event: Any, context: Any) -> str:
    """A key for work that is done once for each event: the event's id, the same in all of its attempts."""
    retry = unwrap(event)[1]
    return retry.id if retry is not None and retry.id is not None else str(context.aws_request_id)


def deadline(context: Any, margin: float = 0.5) -> Callable[[], float]:
    """The time that a Lambda function has left, less a margin in seconds for its answer: the `deadline` of a retrier."""
    return lambda: max(0.0, context.get_remaining_time_in_millis() / 1000 - margin)
