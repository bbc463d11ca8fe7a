"""One decision of a policy, for its tests and for programs that apply it themselves."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from os import PathLike, fspath
from types import SimpleNamespace
from typing import List, Mapping, Optional, Tuple, Union

from backstop import _native, command
from backstop.failures import Failure, describe
from backstop.times import Time, seconds, text

Setting = Union[str, int, float, bool, timedelta, List[str]]


@dataclass(frozen=True)
class Decision:
    """What was decided about a failure."""

    error_class: str
    """`transient`, `throttled`, `permanent`, or a class of the policy's own."""
    verdict: str
    """`retry`, `dead-letter` or `discard`."""
    delay: Optional[timedelta]
    """The delay of a retry, before what a queue or a deadline allows."""
    reason: Optional[str]
    """Why there is no other attempt."""
    decided_by: str
    """`policy`, `bound`, or `fallback` if the policy is broken."""
    broken: Optional[str] = None
    """What is wrong with the policy, if the fallback has decided."""
    down_for: Optional[timedelta] = None
    """How long what was called is down, as the policy says."""
    log: Tuple[Tuple[str, str], ...] = ()
    """The policy's log lines: level and text."""
    fuel: int = 0
    """The instructions that the policy has executed, roughly."""

    @property
    def is_retry(self) -> bool:
        """Whether there is another attempt."""
        return self.verdict == "retry"


class Policy:
    """A policy: the name of a built-in one, a file, a folder of versions, `s3://…` or `oci://…`, with its settings.

        policy = backstop.Policy("full-jitter", base="2s")
        assert policy.decide(code="HTTP 503", attempt=3).is_retry

    A setting has the name that the policy documents, with `_` for `-`. Loading checks the policy as a host does, and raises `ValueError` if it is not valid. The version that is there then decides; it follows no new one.
    """

    def __init__(self, policy: Union[str, "PathLike[str]"], settings: Optional[Mapping[str, Setting]] = None, **more: Setting) -> None:
        command.compiles()
        self._policy = _native.Policy(fspath(policy), pairs(settings, more))

    @property
    def title(self) -> str:
        """Its name and the beginning of its digest."""
        return self._policy.title

    def decide(
        self,
        error: Optional[BaseException] = None,
        *,
        code: Optional[str] = None,
        message: str = "",
        status: Optional[int] = None,
        retry_after: Optional[Time] = None,
        details: Optional[Mapping[str, str]] = None,
        attempt: int = 1,
        age: Time = 0,
        previous_delay: Optional[Time] = None,
        message_id: str = "m-1",
        source: str = "local:q",
        random: Optional[float] = None,
        attributes: Optional[Mapping[str, str]] = None,
        body: Optional[str] = None,
    ) -> Decision:
        """Decides about a failed attempt: of an exception, or of a code.

        `random` is the random number of the decision, from 0 to below 1. Without one it derives from `message_id` and `attempt`, so that the same failure gets the same decision.
        """
        if (error is None) == (code is None):
            raise TypeError("decide: expected an exception or `code`, such as decide(code=\"HTTP 503\")")
        if error is None:
            said = describe(Failure(code, message, status=status, retry_after=retry_after, details=details))
        elif message or status is not None or retry_after is not None or details:
            raise TypeError("decide: an exception says its message, status, retry_after and details itself")
        else:
            said = describe(error)
        return decision(self._policy.decide(said, SimpleNamespace(
            attempt=attempt,
            age_ms=_milliseconds("age", age),
            previous_delay_ms=None if previous_delay is None else _milliseconds("previous_delay", previous_delay),
            message_id=message_id,
            source=source,
            random=random,
            attributes=list((attributes or {}).items()),
            body=body,
        )))

    def __repr__(self) -> str:
        return f"<Policy {self.title}>"


def _milliseconds(name: str, time: Time) -> int:
    milliseconds = round(seconds(name, time) * 1000)
    if milliseconds < 0:
        raise ValueError(f"{name}: expected a time from 0")
    return milliseconds


def pairs(*tables: Optional[Mapping[str, Setting]]) -> List[Tuple[str, str]]:
    """Settings as texts, by the names that the policy documents."""
    return [(name.replace("_", "-"), setting(name, value)) for table in tables for name, value in (table or {}).items()]


def setting(name: str, value: Setting) -> str:
    """A setting as text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, timedelta):
        return text(value)
    if isinstance(value, (list, tuple)):
        return ",".join(str(it) for it in value)
    if isinstance(value, (str, int, float)):
        return str(value)
    raise TypeError(f"setting `{name}`: {value!r} is no text, number, timedelta, bool or list of texts")


def decision(made: _native.Decision) -> Decision:
    """A decision of the crates."""
    return Decision(
        error_class=made.class_,
        verdict=made.verdict,
        delay=None if made.delay_ms is None else timedelta(milliseconds=made.delay_ms),
        reason=made.reason,
        decided_by=made.decided_by,
        broken=made.broken,
        down_for=None if made.down_for_ms is None else timedelta(milliseconds=made.down_for_ms),
        log=tuple(made.log),
        fuel=made.fuel,
    )

