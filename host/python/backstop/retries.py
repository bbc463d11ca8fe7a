"""Calls that are retried as a policy decides, in functions and in coroutines."""

from __future__ import annotations

import functools
import inspect
import logging
import time
from dataclasses import dataclass
from datetime import timedelta
from os import PathLike, fspath
from types import SimpleNamespace
from typing import Any, Awaitable, Callable, Mapping, Optional, TypeVar, Union, overload

from backstop import _native, command
from backstop.failures import Described, describe
from backstop.guards import Breaker, Budget
from backstop.policies import Decision, Setting, decision, pairs
from backstop.times import Time, seconds
from backstop.waits import Cut, Loop, Misuse, name_of

_logger = logging.getLogger("backstop")

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
Deadline = Union[Time, Callable[[], Time]]


@dataclass(frozen=True)
class Event:
    """What has happened in a call."""

    kind: str
    """`retrying`, `succeeded` or `ended`."""
    attempts: int
    """The attempts so far."""
    code: Optional[str]
    """The code of the last failure."""
    decision: Optional[Decision]
    """The decision about it."""
    delay: Optional[timedelta]
    """Until the next attempt, if there is one."""
    end: Optional[str]
    """How the call has ended without success: see `RetryError.end`."""


class RetryError(Exception):
    """A call that has ended without success. Its `__cause__` is the last exception of the function."""

    def __init__(self, step: _native.Step) -> None:
        super().__init__(step.text)
        self.end: str = step.end or ""
        """`permanent`, `gave-up`, `deadline-exceeded`, `budget-exhausted`, `breaker-open` or `bulkhead-full`."""
        self.attempts: int = step.attempt
        """The attempts that were made."""
        self.code: Optional[str] = step.code
        """The code of the last failure."""
        self.decision: Optional[Decision] = None if step.decision is None else decision(step.decision)
        """The decision about the last failure."""
        self.next_probe: Optional[timedelta] = None if step.seconds is None else timedelta(seconds=step.seconds)
        """When the breaker that has refused the call lets an attempt through."""


class Retrier:
    """Retries calls. One for each dependency is enough for a program; threads and event loops may share it.

        articles = backstop.Retrier("full-jitter", base="50ms", max_attempts=8, budget=budget)
        article = articles.call(get, "a-1", deadline="2s")
        article = await articles.call_async(get_async, "a-1", deadline="2s")

    `policy` is the name of a built-in policy or a WebAssembly one: a file, a folder, `s3://…` or `oci://…`. Without a policy it has full jitter from 50 ms to 20 s and three attempts. `profile` gives the policy and the budget that suit what is called: `http`, `aws`, `dynamodb`, `s3`, `sqs` or `lambda`. Other keywords are settings of the policy.
    """

    def __init__(
        self,
        policy: Union[str, "PathLike[str]", None] = None,
        *,
        name: str = "default",
        profile: Optional[str] = None,
        settings: Optional[Mapping[str, Setting]] = None,
        max_attempts: Optional[int] = None,
        max_delay: Optional[Time] = None,
        max_retry_after: Optional[Time] = None,
        attempt_timeout: Optional[Time] = None,
        min_attempt_time: Optional[Time] = None,
        deadline: Optional[Deadline] = None,
        budget: Optional[Budget] = None,
        breaker: Optional[Breaker] = None,
        on_event: Optional[Callable[[Event], None]] = None,
        retry_if: Optional[Callable[[BaseException], bool]] = None,
        clock: Optional["TestClock"] = None,
        seed: Optional[int] = None,
        **more: Setting,
    ) -> None:
        def of(name: str, time: Optional[Time]) -> Optional[float]:
            return None if time is None else seconds(name, time)

        if more and policy is None:
            raise TypeError(f"retry: unknown option `{next(iter(more))}`: a setting needs a `policy`, such as policy=\"full-jitter\"")
        if breaker is not None and not isinstance(breaker, Breaker):
            raise TypeError(f"breaker: expected a backstop.Breaker, and not {breaker!r}")
        if budget is not None and not isinstance(budget, Budget):
            raise TypeError(f"budget: expected a backstop.Budget, and not {budget!r}")
        command.compiles()
        self.name = name
        self._deadline = deadline
        self._retry_if = retry_if
        self._clock = clock
        self._attempt_timeout = of("attempt_timeout", attempt_timeout)
        self._retrier = _native.Retrier(SimpleNamespace(
            name=name,
            policy=None if policy is None else fspath(policy),
            profile=profile,
            settings=pairs(settings, more),
            max_attempts=max_attempts,
            max_delay=of("max_delay", max_delay),
            max_retry_after=of("max_retry_after", max_retry_after),
            attempt_timeout=self._attempt_timeout,
            min_attempt_time=of("min_attempt_time", min_attempt_time),
            seed=seed,
            budget=None if budget is None else budget._budget,
            breaker=None if breaker is None else breaker._breaker,
            clock=None if clock is None else clock._clock,
            observer=None if on_event is None else _observer(on_event),
        ))

    def call(self, function: Callable[..., T], /, *args: Any, deadline: Optional[Deadline] = None, id: Optional[str] = None, **keywords: Any) -> T:
        """Calls a function until it succeeds or the call ends: then it raises a `RetryError`.

        A function that blocks can't be cut short: a deadline ends the waits, and no attempt begins after it.
        """
        _no_coroutine("call", function)
        call = self._begin(deadline, id)
        step, error = call.begin(), None
        while True:
            if step.kind == "attempt":
                try:
                    value = function(*args, **keywords)
                except Exception as raised:
                    error = raised
                    step = call.failed(self._describe(raised))
                    continue
                if inspect.isawaitable(value):
                    _close(value)
                    raise TypeError(f"{name_of(function)} has returned an awaitable: use `await retrier.call_async(..)`, or decorate an `async def`")
                step = call.succeeded()
                if step.kind == "succeeded":
                    return value
            elif step.kind == "wait":
                self._wait(step)
                step = call.waited()
            else:
                raise RetryError(step) from error

    async def call_async(
        self, function: Callable[..., Awaitable[T]], /, *args: Any, deadline: Optional[Deadline] = None, id: Optional[str] = None, **keywords: Any
    ) -> T:
        """As `call`, of a coroutine, under asyncio or trio. An attempt is cut short at its timeout and at the deadline."""
        loop = Loop()
        call = self._begin(deadline, id)
        step, error = call.begin(), None
        while True:
            if step.kind == "attempt":
                try:
                    value = await loop.within(None if self._clock else step.seconds, function, args, keywords)
                except Cut:
                    step = call.waited()
                    continue
                except Misuse:
                    raise
                except Exception as raised:
                    error = raised
                    step = call.failed(self._describe(raised))
                    continue
                step = call.succeeded()
                if step.kind == "succeeded":
                    return value
            elif step.kind == "wait":
                if self._clock is None:
                    await loop.sleep(step.seconds)
                else:
                    self._wait(step)
                step = call.waited()
            else:
                raise RetryError(step) from error

    @overload
    def __call__(self, function: F, /) -> F: ...
    @overload
    def __call__(self, /) -> Callable[[F], F]: ...
    def __call__(self, function: Optional[F] = None, /) -> Any:
        """Decorates a function or a coroutine function: each call of it is retried."""
        if function is None:
            return self
        if not callable(function):
            raise TypeError(f"retry: {function!r} is no function")
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def retried_async(*args: Any, **keywords: Any) -> Any:
                return await self.call_async(functools.partial(function, *args, **keywords))

            return retried_async

        @functools.wraps(function)
        def retried(*args: Any, **keywords: Any) -> Any:
            return self.call(functools.partial(function, *args, **keywords))

        return retried

    def _begin(self, deadline: Optional[Deadline], id: Optional[str]) -> _native.Call:
        given = self._deadline if deadline is None else deadline
        given = given() if callable(given) else given
        return self._retrier.call(None if given is None else seconds("deadline", given), id, [])

    def _describe(self, error: Exception) -> Described:
        if self._retry_if is not None and not self._retry_if(error):
            said = describe(error)
            said.kind = "permanent"
            return said
        return describe(error)

    def _wait(self, step: _native.Step) -> None:
        if self._clock is None:
            time.sleep(step.seconds or 0)
        else:
            self._clock.advance(step.seconds or 0)


@overload
def retry(policy: F, /) -> F: ...
@overload
def retry(policy: Union[str, "PathLike[str]", None] = None, **options: Any) -> Retrier: ...
def retry(policy: Any = None, **options: Any) -> Any:
    """Decorates a function or a coroutine function, so that its calls are retried. The options are those of `Retrier`.

        @backstop.retry(policy="full-jitter", base="50ms", max_attempts=5, deadline="2s")
        def charge(order): ...
    """
    if callable(policy) and not isinstance(policy, (str, PathLike)):
        if options:
            raise TypeError("retry: the function comes last: @backstop.retry(..) above it")
        return Retrier()(policy)
    return Retrier(policy, **options)


class TestClock:
    """A clock for tests, which moves on when a call waits: nothing sleeps."""

    __test__ = False  # pytest collects no tests from it

    def __init__(self) -> None:
        self._clock = _native.Clock()

    @property
    def elapsed(self) -> timedelta:
        """The time that has passed on it."""
        return timedelta(seconds=self._clock.elapsed)

    def advance(self, time: Time) -> None:
        """Moves it on."""
        self._clock.advance(seconds("advance", time))


def _observer(on_event: Callable[[Event], None]) -> Callable[..., None]:
    def observe(kind: str, attempts: int, code: Optional[str], made: Optional[_native.Decision], delay: Optional[float], end: Optional[str]) -> None:
        event = Event(
            kind=kind,
            attempts=attempts,
            code=code,
            decision=None if made is None else decision(made),
            delay=None if delay is None else timedelta(seconds=delay),
            end=end,
        )
        try:
            on_event(event)
        except Exception:
            _logger.exception("on_event of a retrier has failed")

    return observe


def _no_coroutine(method: str, function: Any) -> None:
    if not callable(function):
        raise TypeError(f"{method}: {function!r} is no function")
    if inspect.iscoroutinefunction(function):
        raise TypeError(f"{method}: {name_of(function)} is a coroutine function: use `await retrier.call_async(..)`")


def _close(value: Any) -> None:
    """A coroutine that nobody awaits would warn of itself."""
    close = getattr(value, "close", None)
    if close is not None:
        close()

