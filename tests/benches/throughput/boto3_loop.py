"""Loops of receive and delete in threads, with boto3. Messages that fail are hidden with one more request.

Usage: python boto3_loop.py URL ENDPOINT MESSAGES FAILING THREADS … LOAD
"""

import time

begun = time.perf_counter()
import boto3

print(f"import {time.perf_counter() - begun}", flush=True)

import sys
import threading

from botocore.config import Config
from work import WORK, fails

url, endpoint, messages, failing, threads = sys.argv[1:6]
messages, failing, threads = int(messages), int(failing), int(threads)
work = WORK[sys.argv[-1]]
HIDDEN = 60  # Longer than a run.

sqs = boto3.client("sqs", endpoint_url=endpoint, config=Config(max_pool_connections=threads))
lock = threading.Lock()
left = messages


def entries(batch, **more):
    return [
        {"Id": str(index), "ReceiptHandle": message["ReceiptHandle"], **more}
        for index, message in enumerate(batch)
    ]


def loop():
    global left
    while True:
        received = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=20)
        batch = received.get("Messages", [])
        for _ in batch:
            work()
        failed = [message for message in batch if fails(message["Body"], failing)]
        succeeded = [message for message in batch if not fails(message["Body"], failing)]
        if succeeded:
            sqs.delete_message_batch(QueueUrl=url, Entries=entries(succeeded))
        if failed:
            hidden = entries(failed, VisibilityTimeout=HIDDEN)
            sqs.change_message_visibility_batch(QueueUrl=url, Entries=hidden)
        with lock:
            left -= len(batch)
            if left == 0 and batch:
                print(f"end {time.perf_counter() - started}", flush=True)


print("start", flush=True)
started = time.perf_counter()
for _ in range(threads):
    threading.Thread(target=loop, daemon=True).start()
sys.stdin.read()
