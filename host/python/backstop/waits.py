"""Attempts and waits of coroutines, in the event loop that runs: asyncio's, or trio's."""

from __future__ import annotations

import functools
import inspect
import sys
from typing import Any, Awaitable, Callable, Optional, TypeVar

T = TypeVar("T")


class Cut(Exception):
    """An attempt was cut short."""


class Misuse(TypeError):
    """A mistake of the program, which no other attempt would mend."""


class Loop:
    """Waits in the event loop that runs: asyncio's, or trio's."""

    def __init__(self) -> None:
        self._trio: Any = None
        trio = sys.modules.get("trio")
        if trio is not None:
            try:
                trio.lowlevel.current_task()
                self._trio = trio
            except RuntimeError:
                pass

    async def sleep(self, time: Optional[float]) -> None:
        if self._trio is not None:
            await self._trio.sleep(time or 0)
        else:
            import asyncio

            await asyncio.sleep(time or 0)

    async def within(self, time: Optional[float], function: Callable[..., Awaitable[T]], args: Any, keywords: Any) -> T:
        """Runs an attempt, for at most this time."""
        attempt = function(*args, **keywords)
        if not inspect.isawaitable(attempt):
            raise Misuse(f"{name_of(function)} is no coroutine function: use `retrier.call(..)`")
        if time is None:
            return await attempt
        if self._trio is not None:
            with self._trio.move_on_after(time) as scope:
                return await attempt
            assert scope.cancelled_caught
            raise Cut
        import asyncio

        task = asyncio.ensure_future(attempt)
        try:
            done, _ = await asyncio.wait([task], timeout=time)
        except BaseException:
            task.cancel()
            raise
        if not done:
            task.cancel()
            try:
                await task
            except (asyncio.CancelledError, Exception):
                pass
            raise Cut
        return task.result()


def name_of(function: Any) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    return getattr(function, "__qualname__", None) or repr(function)
