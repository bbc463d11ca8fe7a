"""Workers: a function or a coroutine function for each message of a queue."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import inspect
import json
import os
import re
import select
import signal
import socket
import threading
from dataclasses import dataclass
from datetime import timedelta
from os import PathLike, fspath
from types import FrameType, SimpleNamespace
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union, overload

from backstop import _native, command, log
from backstop.attempts import Loop, Pool
from backstop.messages import Message
from backstop.policies import Setting, setting
from backstop.times import text

Handler = Callable[..., Any]

# Two threads may start workers.
_starting = threading.Lock()


@dataclass(frozen=True)
class Counts:
    """What became of a queue's messages."""

    succeeded: int
    retried: int
    dead_lettered: int


class Worker:
    """A worker of one queue. `worker` makes one of a function."""

    def __init__(self, queue_url: str, handler: Handler, options: Mapping[str, Any]) -> None:
        if not isinstance(queue_url, str):
            raise TypeError(f"worker: the first argument is the queue's URL, and not {queue_url!r}: write @backstop.worker(\"https://…\") above the function")
        if not callable(handler) or isinstance(handler, type):
            raise TypeError(f"worker: {handler!r} is no function")
        functools.update_wrapper(self, handler)
        self.queue_url = queue_url
        self.handler = handler
        self.is_async = inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(getattr(handler, "__call__", None))
        self._takes_one(handler)
        self.options = dict(options)
        self.name = str(options.get("name") or re.split("[/:]", queue_url)[-1])
        given = dict(options)
        self.batch = _number("batch", given.pop("batch", None))
        self._messages = _bodies(given.pop("messages", None))
        self._options = [(name, _texts(name, value)) for name, value in given.items() if value is not None]
        self._running: Optional[_Running] = None
        # What is wrong is said where the worker is made, and not where it runs.
        _native.Host([self._parts(_native.Jobs(False))])

    def _takes_one(self, handler: Handler) -> None:
        with contextlib.suppress(ValueError):
            try:
                inspect.signature(handler).bind(None)
            except TypeError as why:
                raise TypeError(f"worker: {getattr(handler, '__qualname__', handler)} is called with the message alone: {why}") from None

    def _parts(self, jobs: _native.Jobs) -> SimpleNamespace:
        return SimpleNamespace(url=self.queue_url, options=self._options, jobs=jobs, messages=self._messages)

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Calls the function itself, for its tests."""
        return self.handler(*args, **keywords)

    def run(self) -> Counts:
        """Serves the queue until SIGTERM or Ctrl-C, then lets what is under way finish. A queue in memory that was filled with `messages` ends when it is empty."""
        return next(iter(run(self).values()))

    async def run_async(self) -> Counts:
        """As `run`, in the event loop that runs. Signals are left to the program: cancel the task, or call `stop`."""
        return next(iter((await run_async(self)).values()))

    def stop(self) -> None:
        """Stops it, as SIGTERM does. Any thread may call it."""
        if self._running is not None:
            self._running.stop()


@overload
def worker(queue_url: str, handler: None = None, **options: Any) -> Callable[[Handler], Worker]: ...
@overload
def worker(queue_url: str, handler: Handler, **options: Any) -> Worker: ...
def worker(queue_url: str, handler: Optional[Handler] = None, **options: Any) -> Any:
    """Makes a worker of a function, or of a coroutine function, that is called with each message of a queue.

        @backstop.worker("https://sqs.eu-west-1.amazonaws.com/123456789012/orders", policy="orders.wasm", settings={"base": "2s"})
        def ship(message):
            ...

        ship.run()

    If the function returns, the message is deleted. If it raises, the policy decides: another attempt after a delay, or a dead letter. The exceptions `Permanent`, `Transient`, `Throttled`, `RetryAfter` and `Unavailable` say what is wrong; any other counts by its class, or by the code of the service that it comes from.

    `policy` is the name of a built-in policy, a file, a folder of versions, `s3://…` or `oci://…`, `settings` are its settings. The other options are the keys of a queue in `backstop.toml`, with `_` for `-`: `max_in_flight` (100), `max_attempts`, `max_age`, `attempt_timeout` (15 minutes), `dead_letter_queue`, `metrics="127.0.0.1:9464"`, `admin="127.0.0.1:9465"` and more. Times are texts such as "30s", or a timedelta.

    A function runs in threads: one more starts while all others wait for something, so at most as many as may be in flight. With `batch`, the function is called with a list of up to so many messages, and returns nothing, or an exception for each id that has failed: `{message.id: error}`. `local:NAME` is a queue in memory, and `messages` fills it.
    """
    if handler is not None:
        return Worker(queue_url, handler, options)
    if not isinstance(queue_url, str):
        raise TypeError("worker: expected the queue's URL: write @backstop.worker(\"https://…\") above the function")

    def decorate(function: Handler) -> Worker:
        return Worker(queue_url, function, options)

    return decorate


def run(*workers: Worker) -> Dict[str, Counts]:
    """Serves the queues of these workers in one host, until SIGTERM or Ctrl-C. Returns the counts by the queue's name."""
    _check(workers)
    if any(it.is_async for it in workers):
        return asyncio.run(_run_with_signals(workers))
    running = _Running(workers, loop=None)
    with _signals(running.stop) as arrived, running:
        running.wait(arrived)
    return running.result()


async def run_async(*workers: Worker) -> Dict[str, Counts]:
    """As `run`, in the event loop that runs. If the task is cancelled, the host stops, and what is under way is finished first."""
    _check(workers)
    loop = asyncio.get_running_loop()
    running = _Running(workers, loop=loop)
    with running:
        try:
            await running.wait_async()
        except asyncio.CancelledError:
            running.stop()
            await running.wait_async()
            raise
    return running.result()


async def _run_with_signals(workers: Sequence[Worker]) -> Dict[str, Counts]:
    loop = asyncio.get_running_loop()
    running = _Running(workers, loop=loop)
    with _signals(running.stop) as arrived, running:
        if arrived is not None:
            loop.add_reader(arrived, arrived.recv, 64)
        try:
            await running.wait_async()
        finally:
            if arrived is not None:
                loop.remove_reader(arrived)
    return running.result()


def _check(workers: Sequence[Worker]) -> None:
    for it in workers:
        if not isinstance(it, Worker):
            raise TypeError(f"run: {it!r} is no worker: write @backstop.worker(..) above it")
    if not workers:
        raise TypeError("run: expected at least one worker")


def run_trial(workers: Sequence[Worker], trial: _native.Trial, timeout: float) -> Tuple[Dict[str, Counts], _native.Tried]:
    """Runs workers in virtual time, for `backstop.testing`."""
    if any(it.is_async for it in workers):
        return asyncio.run(run_trial_async(workers, trial, timeout))
    running = _Running(workers, loop=None, trial=trial)
    with running:
        if not running.has_ended(within=timeout):
            raise _takes_too_long(timeout)
    return running.result(), running.tried()


async def run_trial_async(workers: Sequence[Worker], trial: _native.Trial, timeout: float) -> Tuple[Dict[str, Counts], _native.Tried]:
    """As `run_trial`, in the event loop that runs."""
    running = _Running(workers, loop=asyncio.get_running_loop(), trial=trial)
    with running:
        try:
            await asyncio.wait_for(running.wait_async(), timeout)
        except asyncio.TimeoutError:
            raise _takes_too_long(timeout) from None
    return running.result(), running.tried()


def _takes_too_long(timeout: float) -> TimeoutError:
    return TimeoutError(f"the workers have not ended after {timeout:g} s: does a function hang, or sleep by time.sleep?")


class _Running:
    """A host that runs, with what makes the attempts of its workers."""

    def __init__(self, workers: Sequence[Worker], loop: Optional[asyncio.AbstractEventLoop], trial: Optional[_native.Trial] = None) -> None:
        self._loop = loop
        self._process = os.getpid()
        self._has_started = False
        self._workers = workers
        self._attempts: List[Union[Pool, Loop]] = []
        parts = []
        for it in workers:
            jobs = _native.Jobs(it.is_async)
            if it.is_async:
                assert loop is not None
                self._attempts.append(Loop(jobs, it.handler, it.batch, loop))
            else:
                self._attempts.append(Pool(jobs, it.handler, it.batch))
            parts.append(it._parts(jobs))
        command.compiles()
        log.start()
        self._host = _native.Host(parts, trial)

    def __enter__(self) -> None:
        with _starting:
            for it in self._workers:
                if it._running is not None and not it._running.has_ended():
                    raise RuntimeError(f"worker: {it.queue_url} is served already")
            for it in self._workers:
                it._running = self
            # No thread may be in the crates while the interpreter ends.
            atexit.register(self.leave)
            try:
                for attempts in self._attempts:
                    attempts.start()
                self._host.start()
            except BaseException:
                self.leave()
                raise
            self._has_started = True

    def __exit__(self, *_: object) -> None:
        self.leave()

    def leave(self) -> None:
        """Stops what still runs, without a wait for it."""
        atexit.unregister(self.leave)
        if os.getpid() != self._process:
            return
        self._host.stop()
        for attempts in self._attempts:
            attempts.end()
        log.flush()

    def has_ended(self, *, within: float = 0.0) -> bool:
        """Whether it has ended, or does within so many seconds."""
        if not self._has_started:
            return True
        poll = select.poll()
        poll.register(self._host.fileno(), select.POLLIN)
        return bool(poll.poll(round(within * 1000)))

    def wait(self, arrived: Optional[socket.socket]) -> None:
        """Waits for the host. Signals are handled meanwhile: those that arrive make this socket readable."""
        poll = select.poll()
        poll.register(self._host.fileno(), select.POLLIN)
        if arrived is not None:
            poll.register(arrived, select.POLLIN)
        while not self.has_ended():
            for descriptor, _ in poll.poll():
                if arrived is not None and descriptor == arrived.fileno():
                    arrived.recv(64)

    async def wait_async(self) -> None:
        """As `wait`, in the event loop."""
        assert self._loop is not None
        ended = self._loop.create_future()

        def end() -> None:
            if not ended.done():
                ended.set_result(None)

        self._loop.add_reader(self._host, end)
        try:
            await ended
        finally:
            self._loop.remove_reader(self._host)

    def stop(self) -> None:
        if os.getpid() != self._process:
            raise RuntimeError("this worker was started by another process: start workers after a fork, and not before it")
        self._host.stop()

    def result(self) -> Dict[str, Counts]:
        counts = self._host.result()
        return {name: Counts(succeeded, retried, dead) for name, succeeded, retried, dead in counts}

    def tried(self) -> _native.Tried:
        return self._host.tried()


@contextlib.contextmanager
def _signals(stop: Callable[[], None]) -> Iterator[Optional[socket.socket]]:
    """Stops on SIGTERM and Ctrl-C, if this is the main thread: no other one has signals. A second Ctrl-C ends the program.

    What it yields is readable once a signal has arrived. Python handles a signal when the main thread comes back to it, and one that arrives just before a wait would not end the wait.
    """
    if threading.current_thread() is not threading.main_thread():
        yield None
        return
    arrived, wakes = socket.socketpair()
    arrived.setblocking(False)
    wakes.setblocking(False)
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def on_signal(number: int, frame: Optional[FrameType]) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        stop()

    woken = signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
    try:
        for number in before:
            signal.signal(number, on_signal)
        yield arrived
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
        signal.set_wakeup_fd(woken)
        arrived.close()
        wakes.close()


def _texts(name: str, value: Any) -> List[str]:
    """An option as texts, as the command line would have it."""
    if name in ("settings", "shadow_settings"):
        return [f"{key.replace('_', '-')}={setting(key, it)}" for key, it in _table(name, value).items()]
    if isinstance(value, Mapping):
        return [f"{key}={it}" for key, it in value.items()]
    if isinstance(value, (list, tuple)):
        return [str(it) for it in value]
    if isinstance(value, timedelta):
        return [text(value)]
    if isinstance(value, bool):
        return ["true" if value else "false"]
    if isinstance(value, PathLike):
        return [os.fsdecode(fspath(value))]
    if isinstance(value, (str, int, float)):
        return [str(value)]
    raise TypeError(f"{name}: {value!r} is no text, number, timedelta, bool, list or dict")


def _table(name: str, value: Any) -> Mapping[str, Setting]:
    if not isinstance(value, Mapping):
        raise TypeError(f"{name}: expected a dict, such as {{\"base\": \"2s\"}}, and not {value!r}")
    return value


def _number(name: str, value: Any) -> Optional[int]:
    if value is None or isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    raise ValueError(f"{name}: expected a whole number from 1, and not {value!r}")


def _bodies(messages: Any) -> Optional[List[str]]:
    if messages is None:
        return None
    if isinstance(messages, str):
        raise TypeError("messages: expected a list of texts, and not one text")
    return [it if isinstance(it, str) else json.dumps(it) for it in messages]
