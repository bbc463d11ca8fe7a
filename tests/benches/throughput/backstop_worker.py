"""A worker of the module `backstop`: a function in threads, or a coroutine function. The policy hides failed messages for longer than a run.

Usage: python backstop_worker.py KIND URL ENDPOINT MESSAGES FAILING POLLS IN_FLIGHT DEAD_LETTERS … LOAD
"""

import time

begun = time.perf_counter()
import backstop

print(f"import {time.perf_counter() - begun}", flush=True)

import itertools
import sys

from work import WORK, awaited, fails

kind, url, endpoint, messages, failing, polls, in_flight, dead_letters = sys.argv[1:9]
messages, failing, load = int(messages), int(failing), sys.argv[-1]
numbers = itertools.count(1)  # Threads may share it.
started = 0.0


class Reset(Exception):
    """A failure as a library raises it."""


def count():
    """From the first message on, as for the command; the last one stops the worker, which settles what it has first."""
    global started
    number = next(numbers)
    if number == 1:
        started = time.perf_counter()
        print("start", flush=True)
    if number == messages:
        worker.stop()


def function(message):
    count()
    work()
    if fails(message.body, failing):
        raise Reset("connection reset by peer")


async def coroutine(message):
    count()
    await work()
    if fails(message.body, failing):
        raise Reset("connection reset by peer")


is_coroutine = kind == "coroutine"
work = awaited(load) if is_coroutine else WORK[load]
worker = backstop.worker(
    url,
    coroutine if is_coroutine else function,
    policy="linear",
    settings={"base": "1m"},
    dead_letter_queue=dead_letters,
    endpoint_url=endpoint,
    max_polls=int(polls),
    max_in_flight=int(in_flight),
)
counts = worker.run()
print(f"end {time.perf_counter() - started}", flush=True)
assert (counts.succeeded + counts.retried, counts.dead_lettered) == (messages, 0), counts
sys.stdin.read()
