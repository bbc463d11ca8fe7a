"""A worker of the module `backstop`: a function in threads, or a coroutine function. The policy hides failed messages for longer than a run.

Usage: python backstop_worker.py KIND URL ENDPOINT MESSAGES FAILING POLLS IN_FLIGHT DEAD_LETTERS … LOAD
"""

import time

begun = time.perf_counter()
import backstop

print(f"import {time.perf_counter() - begun}", flush=True)

import http.client
import itertools
import re
import socket
import sys
import threading

from work import WORK, awaited, fails

kind, url, endpoint, messages, failing, polls, in_flight, dead_letters = sys.argv[1:9]
messages, failing, load = int(messages), int(failing), sys.argv[-1]
numbers = itertools.count(1)  # Threads may share it.
started = 0.0
handled = threading.Event()

with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]


class Reset(Exception):
    """A failure as a library raises it."""


def count():
    """From the first message on, as for the command."""
    global started
    number = next(numbers)
    if number == 1:
        started = time.perf_counter()
        print("start", flush=True)
    if number == messages:
        handled.set()


def settled():
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    counts = dict(re.findall(r'^backstop_messages_total{.*outcome="([a-z-]+)".*} (\d+)', text, re.MULTILINE))
    assert not int(counts.get("dead-lettered", 0)), counts
    return int(counts.get("succeeded", 0)) + int(counts.get("retried", 0))


def watch():
    """Until the last message is handled, nothing disturbs the worker. A stop would wait for polls that are under way."""
    handled.wait()
    while settled() < messages:
        time.sleep(0.002)
    print(f"end {time.perf_counter() - started}", flush=True)


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
    metrics=f"127.0.0.1:{port}",
)
threading.Thread(target=watch, daemon=True).start()
worker.run()
