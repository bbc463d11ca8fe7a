"""Workers in virtual time, for their tests: hours of delays pass in milliseconds.

    from datetime import timedelta
    from backstop.testing import VirtualQueue

    def test_orders():
        seen = VirtualQueue().run(ship, messages=["book", "piano"])
        assert seen.counts.dead_lettered == 1
        assert seen.elapsed >= timedelta(minutes=5)

The host itself runs, with the policy of the worker, on queues in memory. Time stands still while a function works, and jumps to what is due next once none does. With pytest, the fixture `backstop_queue` is a `VirtualQueue`.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import json
import threading
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

from backstop import _native
from backstop.messages import Message
from backstop.policies import Decision, decision
from backstop.times import Time, seconds
from backstop.workers import Counts, Handler, Worker, run_trial, run_trial_async, worker

# The messages of the attempt that runs.
_attempt: "contextvars.ContextVar[Sequence[Message]]" = contextvars.ContextVar("backstop_attempt")


@dataclass(frozen=True)
class Sent:
    """A message to send in a test. A plain body is sent at once, without attributes."""

    body: Any
    """A text, or what is sent as JSON."""
    attributes: Mapping[str, Union[str, bytes]] = field(default_factory=dict)
    group_id: Optional[str] = None
    deduplication_id: Optional[str] = None
    after: Time = 0
    """When it is sent, from the beginning."""


@dataclass(frozen=True)
class Attempt:
    """One attempt at a message."""

    queue: str
    """The name of the queue."""
    message_id: str
    body: str
    number: int
    """From 1. One that is not counted has the number that the next one has, too."""
    at: timedelta
    """When it began, from the beginning of the test."""
    took: timedelta
    """How much virtual time it took."""
    outcome: str
    """`succeeded`, `retry`, `dead-letter`, `discard`, or `not-counted` if the worker was unavailable."""
    code: Optional[str] = None
    """The code of the failure, as the policy sees it."""
    error: Optional[str] = None
    """The text of the failure."""
    decision: Optional[Decision] = None
    """What was decided about the failure."""


@dataclass(frozen=True)
class DeadLetter:
    """A message in a dead-letter queue."""

    queue: str
    """The name of the dead-letter queue."""
    message_id: str
    """The id that the message had in its own queue."""
    body: str
    reason: str
    """Why there was no other attempt."""
    error_class: str
    """The class of its last failure."""
    attempts: int
    """How many attempts it had."""
    attributes: Mapping[str, Union[str, bytes]]
    """All of its attributes, those of the host included."""


@dataclass(frozen=True)
class Seen:
    """What has happened."""

    counts: Counts
    """Of all queues."""
    counts_by_queue: Mapping[str, Counts]
    elapsed: timedelta
    """How much virtual time has passed until the queues were empty."""
    attempts: Sequence[Attempt]
    """In the order in which they began."""
    dead_letters: Sequence[DeadLetter]
    left: int
    """How many messages were left when the time was over."""

    def of(self, body: Any) -> List[Attempt]:
        """The attempts at the messages with this body."""
        sent = _text(body)
        return [it for it in self.attempts if it.body == sent]


Messages = Iterable[Any]


class VirtualQueue:
    """Queues in memory with a time that jumps."""

    def __init__(self) -> None:
        self._trial: Optional[_native.Trial] = None

    def run(
        self,
        *workers: Handler,
        messages: Union[None, Messages, Mapping[str, Messages]] = None,
        seed: int = 0,
        within: Time = timedelta(days=14),
        timeout: float = 60.0,
        **options: Any,
    ) -> Seen:
        """Runs workers until their queues are empty, and says what has happened.

        `messages` are bodies, or `Sent`; with several workers, a dict of them by the names of the queues. A plain function is a worker of the queue `orders`, with `options` as those of `backstop.worker`; given with a worker, they replace its own.

        Policies get the same random numbers in each run with the same `seed`. After the virtual time `within`, the run ends, whatever is left; after `timeout` real seconds it raises `TimeoutError`.
        """
        made, trial = self._begin(workers, messages, seed, within, options)
        counts, tried = run_trial(made, trial, timeout)
        return _seen(counts, tried)

    async def run_async(
        self,
        *workers: Handler,
        messages: Union[None, Messages, Mapping[str, Messages]] = None,
        seed: int = 0,
        within: Time = timedelta(days=14),
        timeout: float = 60.0,
        **options: Any,
    ) -> Seen:
        """As `run`, in the event loop that runs."""
        made, trial = self._begin(workers, messages, seed, within, options)
        counts, tried = await run_trial_async(made, trial, timeout)
        return _seen(counts, tried)

    @property
    def elapsed(self) -> timedelta:
        """The virtual time that has passed since the run began."""
        return timedelta(seconds=0.0 if self._trial is None else self._trial.elapsed)

    def sleep(self, time: Time) -> None:
        """Lets virtual time pass, in a function that works on a message: its attempt may time out meanwhile."""
        self._sleep(_working(), _span("sleep", time))

    async def sleep_async(self, time: Time) -> None:
        """As `sleep`, in a coroutine function."""
        working, wait = _working(), _span("sleep_async", time)
        loop = asyncio.get_running_loop()
        slept: "asyncio.Future[None]" = loop.create_future()

        def end(error: Optional[BaseException]) -> None:
            if slept.done():
                return
            if error is None:
                slept.set_result(None)
            else:
                slept.set_exception(error)

        def wait_for_it() -> None:
            error: Optional[BaseException] = None
            try:
                self._sleep(working, wait)
            except BaseException as raised:
                error = raised
            try:
                loop.call_soon_threadsafe(end, error)
            except RuntimeError:
                pass  # the loop has ended

        # A pool has few threads, and each that waited for another to wake would wait for ever.
        threading.Thread(target=wait_for_it, name="backstop-sleep", daemon=True).start()
        await slept

    def _sleep(self, working: Sequence[Message], wait: float) -> None:
        assert self._trial is not None
        if not self._trial.sleep([it._message for it in working], wait):
            raise RuntimeError("the queue in virtual time has ended")

    def _begin(
        self,
        workers: Sequence[Any],
        messages: Union[None, Messages, Mapping[str, Messages]],
        seed: int,
        within: Time,
        options: Mapping[str, Any],
    ) -> Tuple[List[Worker], _native.Trial]:
        if not workers:
            raise TypeError("run: expected a worker, or a function")
        made = [_observed(it, options) for it in workers]
        sent = _sent(messages, made)
        longest = _span("within", within)
        if longest == 0:
            raise ValueError("within: expected a time above 0, since nothing happens in none")
        if not isinstance(seed, int) or not 0 <= seed < 2**64:
            raise ValueError(f"seed: expected a whole number from 0 to 2**64 - 1, and not {seed!r}")
        self._trial = _native.Trial(seed, longest, sent)
        return made, self._trial


# The longest virtual time, in seconds: ten years.
_LONGEST = 10 * 365 * 86_400


def _span(name: str, time: Time) -> float:
    span = seconds(name, time)
    if not 0 <= span <= _LONGEST:
        raise ValueError(f"{name}: expected a time from 0 to ten years, and not {time!r}")
    return span


def _working() -> Sequence[Message]:
    working = _attempt.get(())
    if not working:
        raise RuntimeError("sleep: only a function that works on a message lets virtual time pass")
    return working


def _observed(given: Any, options: Mapping[str, Any]) -> Worker:
    """The worker again, with a handler that knows which attempt it makes."""
    original = given if isinstance(given, Worker) else worker("local:orders", given, **options)
    handler = original.handler

    def enter(message: Any) -> None:
        _attempt.set(message if isinstance(message, list) else [message])

    if original.is_async:

        @functools.wraps(handler)
        async def attempt_async(message: Any) -> Any:
            enter(message)
            return await handler(message)

        observed: Callable[..., Any] = attempt_async
    else:

        @functools.wraps(handler)
        def attempt(message: Any) -> Any:
            enter(message)
            return handler(message)

        observed = attempt
    return Worker(original.queue_url, observed, {**original.options, **options})


def _sent(messages: Union[None, Messages, Mapping[str, Messages]], workers: Sequence[Worker]) -> List[_native.Sent]:
    names = [it.name for it in workers]
    if messages is None:
        by_queue: Mapping[str, Messages] = {it.name: it.options.get("messages") or () for it in workers}
    elif isinstance(messages, Mapping):
        by_queue = messages
        for name in messages:
            if name not in names:
                raise ValueError(f"messages: there is no queue {name!r}: expected one of {names}")
    elif isinstance(messages, (str, bytes)):
        raise TypeError("messages: expected a list of bodies, and not one text")
    elif len(workers) > 1:
        raise TypeError(f"messages: expected a dict by queue, such as {{{names[0]!r}: [..]}}, since there are several workers")
    else:
        by_queue = {names[0]: messages}
    return [_one(name, it) for name, all_of_it in by_queue.items() for it in all_of_it]


def _one(queue: str, message: Any) -> _native.Sent:
    it = message if isinstance(message, Sent) else Sent(message)
    for name, value in it.attributes.items():
        if not isinstance(name, str) or not isinstance(value, (str, bytes)):
            raise TypeError(f"attributes: expected texts or bytes by name, and not {name!r}: {value!r}")
    return queue, _span("after", it.after), _text(it.body), list(it.attributes.items()), it.group_id, it.deduplication_id


def _text(body: Any) -> str:
    return body if isinstance(body, str) else json.dumps(body)


def _seen(counts: Dict[str, Counts], tried: _native.Tried) -> Seen:
    return Seen(
        counts=Counts(*(sum(getattr(it, name) for it in counts.values()) for name in ("succeeded", "retried", "dead_lettered"))),
        counts_by_queue=counts,
        elapsed=timedelta(seconds=tried.elapsed),
        attempts=[_made(it) for it in tried.attempts()],
        dead_letters=[_letter(queue, Message(it)) for queue, it in tried.letters()],
        left=tried.left,
    )


def _made(it: _native.Attempt) -> Attempt:
    return Attempt(
        queue=it.queue,
        message_id=it.message_id,
        body=it.body,
        number=it.number,
        at=timedelta(seconds=it.at),
        took=timedelta(seconds=it.took),
        outcome=it.outcome,
        code=it.code,
        error=it.error,
        decision=None if it.decision is None else decision(it.decision),
    )


def _letter(queue: str, message: Message) -> DeadLetter:
    attributes = message.attributes

    def said(name: str) -> str:
        return str(attributes.get(name, ""))

    return DeadLetter(
        queue=queue,
        message_id=said("BackstopMessageId"),
        body=message.body,
        reason=said("BackstopReason"),
        error_class=said("BackstopClass"),
        attempts=int(said("BackstopAttempt") or 0),
        attributes=attributes,
    )
