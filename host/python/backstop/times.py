"""Times as people write them: a `timedelta`, a number of seconds, or a text such as "1m30s"."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Union

Time = Union[timedelta, float, int, str]

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")


def seconds(name: str, time: Time) -> float:
    """A time in seconds."""
    if isinstance(time, timedelta):
        return time.total_seconds()
    if isinstance(time, str):
        if time and not _PART.sub("", time.replace(" ", "")):
            return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(time))
    elif isinstance(time, (int, float)) and not isinstance(time, bool):
        return float(time)
    raise ValueError(f'{name}: {time!r} is no time: expected a timedelta, a number of seconds, or a text such as "1m30s"')


def text(time: timedelta) -> str:
    """A time as the host reads it."""
    return f"{round(time.total_seconds() * 1000)}ms"
