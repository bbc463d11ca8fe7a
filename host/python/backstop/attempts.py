"""Who makes the attempts: a pool of threads for functions, an event loop for coroutine functions."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
import time
from typing import Any, Callable, Dict, List, Mapping, Optional

from backstop import _native
from backstop.failures import Failure, describe
from backstop.messages import Message

_logger = logging.getLogger("backstop")

_MOST_THREADS = 1000


class Pool:
    """Threads that call a function. One more starts while all others have work, so there are as many as there is work for, and never more than may be in flight."""

    def __init__(self, jobs: _native.Jobs, handler: Callable[..., Any], batch: Optional[int]) -> None:
        self._jobs = jobs
        self._handler = handler
        self._batch = batch
        self._lock = threading.Lock()
        self._started = 0
        self._threads: List[threading.Thread] = []

    def start(self) -> None:
        """Starts the first thread."""
        self._start_one()
        if not self._threads:
            raise RuntimeError("no thread for attempts can be started")

    def end(self) -> None:
        """No more attempts. A thread that is stuck in one does not hold up the end of the program."""
        self._jobs.close()
        until = time.monotonic() + 1
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _start_one(self) -> None:
        with self._lock:
            if self._started >= _MOST_THREADS:
                return
            self._started += 1
            thread = threading.Thread(target=self._work, name=f"backstop-{self._started}", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            # The machine has no more. Those that run go on.
            _logger.warning("no further thread for attempts can be started: %s", error)
            return
        self._threads.append(thread)

    def _work(self) -> None:
        jobs, handler, batch = self._jobs, self._handler, self._batch
        has_worked = False
        while True:
            taken = jobs.take(batch or 1, has_worked)
            if not taken:
                return
            has_worked = True
            if self._started < _MOST_THREADS and jobs.wants_thread():
                self._start_one()
            if batch is None:
                _attempt(taken[0], handler)
            else:
                _attempts(taken, handler)


def _attempt(job: _native.Job, handler: Callable[..., Any]) -> None:
    try:
        returned = handler(Message(job.message))
        if inspect.isawaitable(returned):
            close = getattr(returned, "close", None)
            if close is not None:
                close()
            raise TypeError("the function has returned an awaitable that nobody awaits: make it an `async def`")
    except BaseException as error:
        _fail(job, error)
    else:
        job.done()


def _fail(job: _native.Job, error: BaseException) -> None:
    """Reports an exception. What can't be described is a failure too: no message is lost to it."""
    try:
        job.failed(describe(error, with_traceback=True))
    except BaseException as of_describing:
        said = Failure(type(error).__name__, f"it can't be described: {type(of_describing).__name__}: {of_describing}")
        job.failed(describe(said))


def _attempts(taken: List[_native.Job], handler: Callable[..., Any]) -> None:
    try:
        returned = handler([Message(job.message) for job in taken])
        failed = _failed(returned, taken)
    except BaseException as error:
        for job in taken:
            _fail(job, error)
    else:
        _answer(taken, failed)


def _answer(taken: List[_native.Job], failed: Mapping[str, BaseException]) -> None:
    for job in taken:
        error = failed.get(job.message.id)
        if error is None:
            job.done()
        else:
            _fail(job, error)


def _failed(returned: Any, taken: List[_native.Job]) -> Dict[str, BaseException]:
    """The messages of a batch that have failed, by id. What the function may return: nothing, exceptions by id, or what Lambda's partial batch responses have."""
    if returned is None:
        return {}
    if isinstance(returned, Mapping) and "batchItemFailures" in returned:
        returned = {it["itemIdentifier"]: Failure("BatchItemFailure") for it in returned["batchItemFailures"]}
    if not isinstance(returned, Mapping) or not all(isinstance(it, BaseException) for it in returned.values()):
        raise TypeError(f"the function of a batch has returned {returned!r}: expected None, or exceptions by message id")
    unknown = set(returned) - {job.message.id for job in taken}
    if unknown:
        raise TypeError(f"the function of a batch has named {sorted(unknown)!r}, which are no ids of its messages")
    return dict(returned)


class Loop:
    """An event loop of asyncio that calls a coroutine function, each attempt as a task."""

    def __init__(self, jobs: _native.Jobs, handler: Callable[..., Any], batch: Optional[int], loop: asyncio.AbstractEventLoop) -> None:
        self._jobs = jobs
        self._handler = handler
        self._batch = batch
        self._loop = loop
        self._tasks: Dict[int, "asyncio.Task[None]"] = {}
        self._is_read = False

    def start(self) -> None:
        """Reads jobs from now on."""
        self._loop.add_reader(self._jobs.fileno(), self._read)
        self._is_read = True

    def end(self) -> None:
        """Reads no more. Attempts that nobody waits for are cancelled."""
        if self._is_read:
            self._is_read = False
            self._loop.remove_reader(self._jobs.fileno())
        self._jobs.close()
        for task in list(self._tasks.values()):
            task.cancel()

    def _read(self) -> None:
        for number in self._jobs.take_over():
            task = self._tasks.get(number)
            if task is not None:
                task.cancel()
        while True:
            taken = self._jobs.take_now(self._batch or 64)
            if not taken:
                return
            if self._batch is not None:
                # A batch has no attempt of its own that could take too long alone.
                self._begin(-taken[0].number, self._make_all(taken))
                continue
            for job in taken:
                self._begin(job.number, self._make(job))

    def _begin(self, number: int, attempt: Any) -> None:
        task = self._loop.create_task(attempt)
        self._tasks[number] = task
        task.add_done_callback(lambda _: self._tasks.pop(number, None))

    async def _make(self, job: _native.Job) -> None:
        try:
            await self._handler(Message(job.message))
        except BaseException as error:
            _fail(job, error)
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise
        else:
            job.done()

    async def _make_all(self, taken: List[_native.Job]) -> None:
        try:
            failed = _failed(await self._handler([Message(job.message) for job in taken]), taken)
        except BaseException as error:
            for job in taken:
                _fail(job, error)
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise
        else:
            _answer(taken, failed)
