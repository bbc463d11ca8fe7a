"""What a worker answers to others: metrics, the admin interface and its page, as the command does."""

import contextlib
import itertools
import json
import os
import re
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request

import pytest

import backstop


def port():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


def fetch(address, path, body=None, token=None):
    """The status, the kind of content and the text of an answer."""
    request = urllib.request.Request(f"http://{address}{path}")
    if token is not None:
        request.add_header("Authorization", f"Bearer {token}")
    if body is not None:
        request.data = json.dumps(body).encode()
        request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["Content-Type"], error.read().decode()


def eventually(what, holds):
    until = time.monotonic() + 180
    while True:
        with contextlib.suppress(OSError, KeyError, IndexError):
            if holds():
                return
        assert time.monotonic() < until, f"waited in vain: {what}"
        time.sleep(0.05)


def sample(metrics, name, **labels):
    """The value of a metric with these labels and perhaps others; none if there is none."""
    for line in fetch(metrics, "/metrics")[2].splitlines():
        if line.startswith(name + "{") and all(f'{label}="{value}"' in line for label, value in labels.items()):
            return float(line.rsplit(" ", 1)[1])
    return None


class Served:
    """A worker that runs in a thread: of 20 messages one waits for an hour, unless it is woken. The metrics of a process go on from host to host, so each has a queue of another name."""

    numbers = itertools.count(1)

    def __init__(self, cache, **options):
        self.name = f"orders-{next(self.numbers)}"
        self.metrics, self.admin = f"127.0.0.1:{port()}", f"127.0.0.1:{port()}"

        @backstop.worker("local:orders", name=self.name, messages=range(20), cache=cache, metrics=self.metrics, admin=self.admin, **options)
        def ship(message):
            if message.json() == 7 and message.receive_count == 1:
                raise backstop.RetryAfter("1h", "CarrierBusy")

        self.worker = ship
        self.counts = None
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self):
        self.counts = self.worker.run()

    def end(self):
        self.worker.stop()
        self.thread.join(30)
        assert not self.thread.is_alive()


@pytest.fixture
def served(tmp_path):
    made = Served(tmp_path / "cache", settings={"cap": "2h"})
    yield made
    made.end()


def waits(metrics, queue):
    eventually("the others are handled", lambda: sample(metrics, "backstop_messages_total", queue=queue, outcome="succeeded") == 19)
    eventually("one message waits", lambda: sample(metrics, "backstop_waiting", queue=queue) == 1)


def test_metrics_count_what_the_function_does(served):
    waits(served.metrics, served.name)
    assert sample(served.metrics, "backstop_messages_total", queue=served.name, outcome="succeeded") == 19
    assert sample(served.metrics, "backstop_messages_total", queue=served.name, outcome="retried") == 1
    assert sample(served.metrics, "backstop_handler_seconds_count", queue=served.name, outcome="failure") == 1
    assert fetch(served.metrics, "/metrics")[1].startswith("text/plain")


def test_the_admin_interface_answers_and_acts(served):
    waits(served.metrics, served.name)
    assert fetch(served.admin, "/livez")[0] == 200
    assert fetch(served.admin, "/readyz")[0] == 200
    status = json.loads(fetch(served.admin, "/v1/status")[2])
    assert status["process"] == os.getpid()
    assert [it["queue"] for it in status["queues"]] == [served.name]
    code, _, said = fetch(served.admin, f"/v1/waiting?queue={served.name}")
    assert code == 200 and "CarrierBusy" in said
    code, _, said = fetch(served.admin, "/v1/pause", {"queue": served.name, "why": "a test"})
    assert code == 200, said
    eventually("it is paused", lambda: sample(served.metrics, "backstop_paused", queue=served.name) == 1)
    assert fetch(served.admin, "/v1/resume", {"queue": served.name})[0] == 200
    assert fetch(served.admin, "/v1/pause", {"queue": [served.name]})[0] == 400
    # What is woken is handled at once, and the worker ends: its queue is empty.
    code, _, said = fetch(served.admin, "/v1/wake", {"queue": served.name, "all": True})
    assert code == 200, said
    served.thread.join(30)
    assert served.counts == backstop.Counts(succeeded=20, retried=1, dead_lettered=0)


def test_a_drain_stops_the_worker(served):
    waits(served.metrics, served.name)
    assert fetch(served.admin, "/v1/drain", {})[0] == 200
    served.thread.join(30)
    assert served.counts == backstop.Counts(succeeded=19, retried=1, dead_lettered=0)


def test_a_token_is_asked_for(tmp_path):
    token = tmp_path / "token"
    token.write_text("a-token-of-enough-characters\n")
    served = Served("off", admin_token_file=token)
    try:
        eventually("it is ready", lambda: fetch(served.admin, "/readyz")[0] == 200)
        assert fetch(served.admin, "/v1/status")[0] == 401
        assert fetch(served.admin, "/v1/status", token="another-one-of-enough-characters")[0] == 401
        assert fetch(served.admin, "/v1/status", token="a-token-of-enough-characters")[0] == 200
    finally:
        served.end()


@contextlib.contextmanager
def command(tmp_path):
    """The command with the same messages, and a worker that fails in the same way."""
    metrics, admin = f"127.0.0.1:{port()}", f"127.0.0.1:{port()}"
    lines = tmp_path / "lines"
    lines.write_text("".join(f"{it}\n" for it in range(20)))
    work = "sh -c 'read body; test \"$body\" != 7'"
    arguments = ["run", "--queue-url", "local:orders", "--messages", lines, "--exec", work, "--set", "base=1h", "--set", "cap=2h", "--metrics", metrics, "--admin", admin]
    environment = {**os.environ, "BACKSTOP_CACHE": str(tmp_path / "of-the-command")}
    running = subprocess.Popen([os.environ["BACKSTOP_COMMAND"], *arguments], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield metrics, admin
    finally:
        running.terminate()
        running.wait()


def names(metrics):
    return set(re.findall(r"^# TYPE (\S+ \S+)$", fetch(metrics, "/metrics")[2], re.MULTILINE))


def shape(value):
    """The keys of what JSON says, at any depth."""
    if isinstance(value, dict):
        return {key: shape(it) for key, it in value.items()}
    return [shape(it) for it in value[:1]] if isinstance(value, list) else None


def test_metrics_status_and_page_are_those_of_the_command(served, tmp_path):
    waits(served.metrics, served.name)
    with command(tmp_path) as (metrics, admin):
        waits(metrics, "orders")
        assert names(served.metrics) == names(metrics)
        for path in ("/v1/waiting", "/v1/audit"):
            ours, theirs = (json.loads(fetch(it, path)[2]) for it in (served.admin, admin))
            assert shape(ours) == shape(theirs), path
        ours, theirs = fetch(served.admin, "/"), fetch(admin, "/")
        assert ours[:2] == theirs[:2] == (200, ours[1])
        assert ours[1].startswith("text/html")
        head = re.compile(r"<h1.*?</h1>|<nav.*?</nav>", re.DOTALL)
        assert head.findall(ours[2]) == head.findall(theirs[2]) != []
        assert served.name in ours[2]
