"""Times as people write them: a `timedelta`, a number of seconds, or a text such as "1m30s"."""

from __future__ import annotations

from datetime import timedelta
from typing import Union

from backstop import _native

Time = Union[timedelta, float, int, str]


def seconds(name: str, time: Time) -> float:
    """A time in seconds."""
    if isinstance(time, timedelta):
        return time.total_seconds()
    if isinstance(time, str):
        return _native.seconds(name, time)
    if isinstance(time, (int, float)) and not isinstance(time, bool):
        return float(time)
    raise TypeError(f'{name}: {time!r} is no time: expected a timedelta, a number of seconds, or a text such as "1m30s"')


def text(time: timedelta) -> str:
    """A time as the host reads it."""
    return f"{round(time.total_seconds() * 1000)}ms"
