"""What the sides in Python do with a message: its body is its number, which says whether it fails."""

import time


def fails(body, failing):
    return int(body) % 10 * 10 < failing


def compute():
    """A millisecond of this thread's processor time."""
    until = time.thread_time_ns() + 1_000_000
    while time.thread_time_ns() < until:
        pass


# 2 ms of waiting, for a function.
WORK = {"none": lambda: None, "waits": lambda: time.sleep(0.002), "computes": compute}


def awaited(load):
    """The same for a coroutine function."""
    import asyncio

    async def none():
        pass

    async def waits():
        await asyncio.sleep(0.002)

    async def computes():
        compute()

    return {"none": none, "waits": waits, "computes": computes}[load]
