"""A host of the campaign that is a program in Python, with the workers of its queues inside: they do what messages ask for, and write a line for each attempt before it ends.

Usage: program.py CONFIGURATION OFFSET: the nanoseconds from the monotonic clock to the time of day, since the process may believe in another one.
"""

import asyncio
import itertools
import json
import logging
import os
import sys
import time

import backstop

OFFSET = int(sys.argv[2])
ATTEMPTS = itertools.count(time.monotonic_ns() + OFFSET)


def now():
    return (time.monotonic_ns() + OFFSET) // 1_000_000


class Attempt:
    """An attempt of a message, and its lines."""

    def __init__(self, lines, host, message):
        self.body = message.json()
        self.lines = lines
        self.count = message.receive_count
        self.line = {"n": self.body["n"], "id": message.id, "host": host, "count": self.count, "attempt": next(ATTEMPTS)}
        self.hangs = self.body["do"] == "hang" and self.count <= 1
        self.seconds = self.body["ms"] / 1000 if self.body["do"] != "hang" or self.hangs else 0
        self.write()

    def write(self, **more):
        # In one piece: the file is open for appending.
        os.write(self.lines, (json.dumps({"at": now(), **self.line, **more}) + "\n").encode())

    def end(self):
        """Ends it as the message asks for. Nobody waits for one that hangs."""
        if self.hangs:
            return
        status, error = answer(self.body, self.count)
        self.write(status=status)
        if error is not None:
            raise error


def answer(body, count):
    """The status that a worker behind HTTP would answer, and what is raised."""
    fails = count <= body["k"]
    match body["do"]:
        case "wrong":
            return 422, backstop.Permanent("Invalid", "no such article")
        case "broken":
            return 500, KeyError("article")
        case "later":
            return 503, backstop.RetryAfter("2h", "Closed", "come back in two hours")
        case "flaky" if fails:
            return 503, ConnectionResetError(104, "connection reset by peer")
        case "throttled" if fails:
            return 429, backstop.RetryAfter("1s", "Busy", "ten a minute")
        case "big" if fails:
            return 503, backstop.Transient("Big", "\x1b[31m\u202e\x00big" * 10_000)
    return 200, None


def forgotten(configuration, message):
    """A fault that is planted: the message is done, and nothing of it was."""
    return configuration["forgets"] and message.json()["n"] % 100 == 7


def worker(configuration, of, options):
    host = configuration["host"]
    lines = os.open(of["lines"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def function(message):
        if forgotten(configuration, message):
            return
        attempt = Attempt(lines, host, message)
        time.sleep(attempt.seconds)
        attempt.end()

    async def coroutine(message):
        if forgotten(configuration, message):
            return
        attempt = Attempt(lines, host, message)
        await asyncio.sleep(attempt.seconds)
        attempt.end()

    named = {key.replace("-", "_"): value for key, value in {**of["keys"], **options}.items()}
    return backstop.worker(named.pop("url"), coroutine if of["is-coroutine"] else function, name=of["name"], **named)


def main():
    with open(sys.argv[1]) as file:
        configuration = json.load(file)
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    # What the queues share is said once.
    shared = itertools.chain([configuration["keys"]], itertools.repeat({}))
    workers = [worker(configuration, of, options) for of, options in zip(configuration["queues"], shared)]
    print(backstop.run(*workers), flush=True)


main()
