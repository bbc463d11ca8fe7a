"""Workers as processes on a queue of an emulator: killed, frozen and stopped, and nothing is lost."""

import os
import pathlib
import random
import signal
import subprocess
import sys
import textwrap
import time
import uuid

import boto3
import pytest

ENDPOINT = pathlib.Path("endpoint").read_text()

WORKER = textwrap.dedent(
    """
    import asyncio, os, random, sys, time, backstop
    url, kind, log = sys.argv[1:]
    out = open(log, "a", buffering=1)

    def work(message):
        out.write(message.body + "\\n")
        if int(message.body) % 7 == 0 and message.receive_count == 1:
            raise backstop.Transient("Busy")
        if int(message.body) % 50 == 49:
            raise backstop.Permanent("NoSuchArticle")

    def ship(message):
        time.sleep(0.01)
        work(message)

    async def ship_async(message):
        await asyncio.sleep(0.01)
        work(message)

    handler = ship_async if kind == "async" else ship
    options = dict(settings={"base": "10ms", "cap": "20ms"}, visibility_timeout="5s", max_in_flight=20, endpoint_url=os.environ["ENDPOINT"])
    print(backstop.worker(url, handler, **options).run())
    """
)


@pytest.fixture
def queue():
    sqs = boto3.client("sqs", endpoint_url=ENDPOINT)
    name = f"python-{uuid.uuid4()}"
    dead = sqs.create_queue(QueueName=f"{name}-dead")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    redrive = '{"deadLetterTargetArn": "%s", "maxReceiveCount": "1000"}' % arn
    url = sqs.create_queue(QueueName=name, Attributes={"RedrivePolicy": redrive, "VisibilityTimeout": "5"})["QueueUrl"]
    return sqs, url, dead


def waiting(sqs, url):
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible", "ApproximateNumberOfMessagesDelayed"]
    attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
    return sum(int(attributes[name]) for name in names)


def bodies(sqs, url):
    """The bodies of all messages, without copies: a worker that is killed may have sent a dead letter that it has not counted."""
    found = set()
    while messages := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, VisibilityTimeout=600).get("Messages"):
        found.update(it["Body"] for it in messages)
    return found


def send(sqs, url, count):
    for first in range(0, count, 10):
        entries = [{"Id": str(it), "MessageBody": str(it)} for it in range(first, first + 10)]
        assert not sqs.send_message_batch(QueueUrl=url, Entries=entries).get("Failed")


def start(url, kind, log):
    environment = {**os.environ, "ENDPOINT": ENDPOINT}
    return subprocess.Popen([sys.executable, "-c", WORKER, url, kind, str(log)], env=environment, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_nothing_is_lost_to_workers_that_are_killed_frozen_and_stopped(queue, kind, tmp_path):
    sqs, url, dead = queue
    count = 600
    send(sqs, url, count)
    log = tmp_path / "log"
    log.touch()
    draw = random.Random(7)
    workers = [start(url, kind, log) for _ in range(2)]
    until = time.monotonic() + 90
    disturbed = 0
    while waiting(sqs, url) and time.monotonic() < until:
        time.sleep(0.7)
        if disturbed < 6:
            disturbed += 1
            chosen = draw.randrange(2)
            match disturbed % 3:
                case 0:
                    workers[chosen].kill()
                case 1:
                    workers[chosen].send_signal(signal.SIGSTOP)
                    time.sleep(0.5)
                    workers[chosen].send_signal(signal.SIGCONT)
                    continue
                case 2:
                    workers[chosen].terminate()
            workers[chosen].wait()
            workers[chosen] = start(url, kind, log)
    assert waiting(sqs, url) == 0
    for it in workers:
        it.terminate()
    for it in workers:
        # One that has just begun has no handler of the signal yet.
        assert it.wait() in (0, -signal.SIGTERM)
    done = {int(line) for line in log.read_text().split()}
    assert done == set(range(count)), "each message came to a worker"
    assert bodies(sqs, dead) == {str(it) for it in range(count) if it % 50 == 49}


def test_attributes_and_times_come_from_the_queue(queue):
    sqs, url, _ = queue
    import backstop

    sqs.send_message(
        QueueUrl=url,
        MessageBody="é",
        MessageAttributes={"tenant": {"DataType": "String", "StringValue": "t-1"}, "key": {"DataType": "Binary", "BinaryValue": b"\0\xff"}},
    )
    seen = []

    @backstop.worker(url, endpoint_url=ENDPOINT, cache="off")
    def ship(message):
        seen.append((message.body, message.attributes, message.sent.timestamp()))
        ship.stop()

    assert ship.run().succeeded == 1
    ((body, attributes, sent),) = seen
    assert (body, attributes) == ("é", {"tenant": "t-1", "key": b"\0\xff"})
    assert abs(sent - time.time()) < 60


def test_a_queue_that_is_not_there_is_named(queue):
    import backstop

    with pytest.raises(ValueError, match="nobody-has-made-it"):
        backstop.worker(f"{ENDPOINT}/000000000000/nobody-has-made-it", print, endpoint_url=ENDPOINT, cache="off").run()
