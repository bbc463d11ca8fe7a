"""Ten loops of receive in one event loop, with aiobotocore, whose client aioboto3 hands out: a hundred messages at once, deletes and changes of visibility in batches.

Usage: python aiobotocore_loop.py URL ENDPOINT MESSAGES FAILING LOOPS IN_FLIGHT … LOAD
"""

import time

begun = time.perf_counter()
from aiobotocore.config import AioConfig
from aiobotocore.session import get_session

print(f"import {time.perf_counter() - begun}", flush=True)

import asyncio
import os
import sys

from work import awaited, fails

url, endpoint, messages, failing, loops, in_flight = sys.argv[1:7]
messages, failing, loops, in_flight = int(messages), int(failing), int(loops), int(in_flight)
work = awaited(sys.argv[-1])
HIDDEN = 60  # Longer than a run.
LONGEST = 0.005  # How long an entry of a batch waits for others.


class Batches:
    """Collects entries, and sends ten of them or those that have waited long enough."""

    def __init__(self, send):
        self.send = send
        self.entries = []
        self.timer = None
        self.sends = set()

    def add(self, message):
        self.entries.append(message["ReceiptHandle"])
        if len(self.entries) == 10:
            self.flush()
        elif self.timer is None:
            self.timer = asyncio.get_running_loop().call_later(LONGEST, self.flush)

    def flush(self):
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        handles, self.entries = self.entries, []
        sending = asyncio.create_task(self._send(handles))
        self.sends.add(sending)
        sending.add_done_callback(self.sends.discard)

    async def _send(self, handles):
        await self.send([{"Id": str(index), "ReceiptHandle": handle} for index, handle in enumerate(handles)])
        settled(len(handles))


def settled(count):
    global messages
    messages -= count
    if messages == 0:
        print(f"end {time.perf_counter() - started}", flush=True)


async def main():
    global started
    config = AioConfig(max_pool_connections=64)
    async with get_session().create_client("sqs", endpoint_url=endpoint, config=config) as sqs:

        async def delete(entries):
            await sqs.delete_message_batch(QueueUrl=url, Entries=entries)

        async def hide(entries):
            entries = [{**entry, "VisibilityTimeout": HIDDEN} for entry in entries]
            await sqs.change_message_visibility_batch(QueueUrl=url, Entries=entries)

        deletes, hides = Batches(delete), Batches(hide)
        slots = asyncio.Semaphore(in_flight)
        tasks = set()

        async def handle(message):
            try:
                await work()
                (hides if fails(message["Body"], failing) else deletes).add(message)
            finally:
                slots.release()

        async def receive():
            while True:
                received = await sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=20)
                for message in received.get("Messages", []):
                    await slots.acquire()
                    task = asyncio.create_task(handle(message))
                    tasks.add(task)
                    task.add_done_callback(tasks.discard)

        print("start", flush=True)
        started = time.perf_counter()
        receiving = [asyncio.create_task(receive()) for _ in range(loops)]
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
        os._exit(0)


asyncio.run(main())
