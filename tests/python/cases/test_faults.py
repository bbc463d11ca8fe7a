"""Workers as processes that something happens to while their handlers work: nothing is lost, and what is done once is done once."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import textwrap
import time
import uuid

import boto3
import pytest

ENDPOINT = pathlib.Path("endpoint").read_text()
BUILTIN = pathlib.Path(os.environ["BACKSTOP_TOP"], "host/engine/builtin")
VISIBILITY = 3

WORKER = textwrap.dedent(
    """
    import asyncio, json, os, sys, time, backstop
    url, kind, log, seconds, more = sys.argv[1:]
    out = os.open(log, os.O_WRONLY | os.O_APPEND)
    seconds = float(seconds)

    def note(what, message):
        os.write(out, f"{what} {message.body} {message.receive_count} {os.getpid()}\\n".encode())

    def end(message):
        if int(message.body) % 5 == 4 and message.receive_count <= 2:
            note("failed", message)
            raise backstop.Transient("Busy")
        note("done", message)

    def function(message):
        note("begun", message)
        time.sleep(seconds)
        end(message)

    async def coroutine(message):
        note("begun", message)
        await asyncio.sleep(seconds)
        end(message)

    options = dict(settings={"base": "10ms", "cap": "20ms"}, max_in_flight=20, endpoint_url=os.environ["ENDPOINT"])
    options.update(json.loads(more))
    print(backstop.worker(url, coroutine if kind == "async def" else function, **options).run())
    """
)


class Queue:
    """A queue of the emulator, and its workers."""

    def __init__(self, kind, folder):
        self.sqs = boto3.client("sqs", endpoint_url=ENDPOINT)
        name = f"faults-{uuid.uuid4()}"
        self.dead = self.sqs.create_queue(QueueName=f"{name}-dead")["QueueUrl"]
        arn = self.sqs.get_queue_attributes(QueueUrl=self.dead, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        redrive = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": "1000"})
        attributes = {"RedrivePolicy": redrive, "VisibilityTimeout": str(VISIBILITY)}
        self.url = self.sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
        self.kind = kind
        self.log = folder / "log"
        self.log.touch()
        self.workers = []

    def send(self, count):
        for first in range(0, count, 10):
            entries = [{"Id": str(it), "MessageBody": str(it)} for it in range(first, min(count, first + 10))]
            assert not self.sqs.send_message_batch(QueueUrl=self.url, Entries=entries).get("Failed")

    def start(self, seconds=0.3, **options):
        environment = {**os.environ, "ENDPOINT": ENDPOINT}
        options = {"visibility_timeout": f"{VISIBILITY}s", **options}
        arguments = [self.url, self.kind, str(self.log), str(seconds), json.dumps(options)]
        worker = subprocess.Popen([sys.executable, "-c", WORKER, *arguments], env=environment, stdout=subprocess.PIPE, text=True)
        self.workers.append(worker)
        return worker

    def events(self, what, process=None):
        """The bodies of these events, as often as they were noted."""
        lines = [line.split() for line in self.log.read_text().splitlines()]
        return [int(body) for event, body, _, of in lines if event == what and process in (None, int(of))]

    def under_way(self, process):
        begun, ended = self.events("begun", process), self.events("done", process) + self.events("failed", process)
        return sorted(it for it in set(begun) if begun.count(it) > ended.count(it))

    def left(self, url):
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible", "ApproximateNumberOfMessagesDelayed"]
        attributes = self.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
        return sum(int(attributes[name]) for name in names)

    def drained(self):
        eventually("the queue is empty", lambda: self.left(self.url) == 0)
        assert self.left(self.dead) == 0


def eventually(what, holds):
    until = time.monotonic() + 180
    while not holds():
        assert time.monotonic() < until, f"waited in vain: {what}"
        time.sleep(0.05)


@pytest.fixture(params=["def", "async def"])
def queue(request, tmp_path):
    made = Queue(request.param, tmp_path)
    yield made
    for worker in made.workers:
        worker.kill()
        worker.wait()
        worker.stdout.close()


def test_what_a_killed_worker_had_in_hand_comes_again(queue):
    queue.send(60)
    killed = queue.start(seconds=1)
    eventually("handlers work", lambda: len(queue.under_way(killed.pid)) >= 5)
    killed.kill()
    killed.wait()
    in_hand = queue.under_way(killed.pid)
    assert in_hand
    begun = time.monotonic()
    other = queue.start(seconds=0.01)
    queue.drained()
    assert time.monotonic() - begun < 30
    assert set(queue.events("done")) == set(range(60))
    # They were nobody's until their visibility timeout was over.
    assert set(in_hand) <= set(queue.events("done", other.pid))


def test_a_worker_that_is_frozen_loses_its_messages_to_another(queue):
    queue.send(20)
    frozen = queue.start(seconds=0.5)
    eventually("handlers work", lambda: len(queue.under_way(frozen.pid)) >= 5)
    frozen.send_signal(signal.SIGSTOP)
    in_hand = queue.under_way(frozen.pid)
    other = queue.start(seconds=0.01)
    # Longer than the visibility timeout: what the frozen one has in hand comes again.
    eventually("the other one has done it", lambda: set(in_hand) <= set(queue.events("done", other.pid)))
    frozen.send_signal(signal.SIGCONT)
    queue.drained()
    assert set(queue.events("done")) == set(range(20))
    # It works again, and does not answer for what was taken from it.
    other.terminate()
    other.wait()
    queue.send(20)
    queue.drained()
    assert set(queue.events("done", frozen.pid)) == set(range(20))


def test_a_worker_that_is_restarted_finishes_what_it_has_in_hand(queue):
    queue.send(60)
    stopped = 0
    # Longer than any attempt here, so that a second one would be the worker's fault.
    worker = queue.start(visibility_timeout="30s")
    for _ in range(3):
        eventually("handlers work", lambda: len(queue.under_way(worker.pid)) >= 3)
        worker.terminate()
        assert worker.wait() == 0
        assert queue.under_way(worker.pid) == []
        said = worker.stdout.read()
        succeeded = int(said.split("succeeded=")[1].split(",")[0])
        assert succeeded == len(queue.events("done", worker.pid))
        stopped += succeeded
        worker = queue.start(visibility_timeout="30s")
    queue.drained()
    assert stopped > 0
    assert sorted(queue.events("done")) == list(range(60)), "each message is done once"


def test_a_policy_is_swapped_while_handlers_work(queue, tmp_path):
    policy, records = tmp_path / "orders.wasm", tmp_path / "decisions.jsonl"
    shutil.copy(BUILTIN / "full-jitter.wasm", policy)
    queue.send(40)
    worker = queue.start(seconds=0.1, policy=str(policy), decisions=str(records), decisions_records="all")

    def versions():
        lines = [json.loads(line) for line in records.read_text().splitlines()] if records.exists() else []
        return {it["policy"][0]["digest"] if isinstance(it["policy"], list) else str(it["policy"]) for it in lines if it.get("verdict")}

    eventually("the first version decides", lambda: len(versions()) == 1)
    (tmp_path / "next").write_bytes((BUILTIN / "linear.wasm").read_bytes())
    (tmp_path / "next").rename(policy)

    def decided_by_two():
        queue.send(10)
        return len(versions()) == 2

    eventually("the second version decides", decided_by_two)
    # A broken file changes nothing.
    (tmp_path / "next").write_bytes(b"no component")
    (tmp_path / "next").rename(policy)
    queue.send(40)
    queue.drained()
    assert len(versions()) == 2
    assert set(queue.events("done")) == set(range(40))
    worker.terminate()
    assert worker.wait() == 0
