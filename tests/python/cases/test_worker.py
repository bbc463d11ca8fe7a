"""Workers on a queue in memory."""

import asyncio
import logging
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

import backstop

# Of whole seconds: no retry comes before the host has done with the attempt.
SHORT = {"base": "1ms", "cap": "1ms", "floor": "1ms"}


def serve(handler, bodies, **options):
    options = {"settings": SHORT, "max_attempts": 2, "cache": "off", **options}
    return backstop.worker("local:orders", handler, messages=bodies, **options).run()


def counts(counted):
    return counted.succeeded, counted.retried, counted.dead_lettered


def test_a_function_handles_each_message():
    seen = []

    def ship(message):
        seen.append((message.body, message.receive_count, message.attributes, message.group_id))

    assert counts(serve(ship, [f"order {it}" for it in range(300)])) == (300, 0, 0)
    assert sorted(seen) == sorted((f"order {it}", 1, {}, None) for it in range(300))


def test_what_is_raised_decides():
    def ship(message):
        match message.body:
            case "permanent":
                raise backstop.Permanent("NoSuchArticle")
            case "twice" if message.receive_count == 1:
                raise backstop.Transient("Busy")
            case "always":
                raise ValueError("no")
            case "json":
                message.json()

    assert counts(serve(ship, ["permanent", "twice", "always", "json", "fine"])) == (2, 2, 3)


def test_a_coroutine_function_handles_many_at_once():
    under_way = most = 0

    async def ship(message):
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.01)
        under_way -= 1
        if message.json() % 10 == 0:
            raise backstop.Permanent("Tenth")

    assert counts(serve(ship, range(100), max_in_flight=40)) == (90, 0, 10)
    assert 10 < most <= 40


def test_functions_that_wait_run_at_once():
    lock = threading.Lock()
    under_way = most = 0

    def ship(message):
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
        time.sleep(0.02)
        with lock:
            under_way -= 1

    assert counts(serve(ship, range(60), max_in_flight=20)) == (60, 0, 0)
    assert 5 < most <= 20


def test_what_no_thread_has_taken_is_no_attempt():
    """The worker is one of the crates' own parts, since the package always has a thread that takes."""
    from types import SimpleNamespace

    from backstop import _native

    jobs = _native.Jobs(False)
    options = [("max_attempts", ["1"]), ("cache", ["off"]), ("visibility_timeout", ["30s"])]
    host = _native.Host([SimpleNamespace(url="local:orders", options=options, jobs=jobs, messages=["a"])])
    host.start()
    time.sleep(6)  # a second longer than a message may wait for a thread
    (job,) = jobs.take(1, False)
    assert job.message.receive_count > 1
    job.done()
    with pytest.raises(RuntimeError, match="the host runs"):
        host.result()
    while True:
        try:
            ((_, succeeded, retried, dead),) = host.result()
            break
        except RuntimeError:
            time.sleep(0.05)
    assert (succeeded, retried, dead) == (1, 0, 0)


def test_a_machine_without_threads_does_not_end_the_worker(monkeypatch):
    class None_(threading.Thread):
        made = 0

        def start(self):
            type(self).made += 1
            if self.made > 1:
                raise RuntimeError("can't start new thread")
            super().start()

    monkeypatch.setattr("backstop.attempts.threading.Thread", None_)
    assert counts(serve(lambda message: time.sleep(0.001), range(20))) == (20, 0, 0)
    assert None_.made > 1


def test_a_queue_that_is_filled_with_nothing_ends():
    assert counts(serve(lambda message: None, [])) == (0, 0, 0)


def test_a_worker_that_is_served_is_not_served_twice():
    begun = threading.Event()
    go_on = threading.Event()

    @backstop.worker("local:orders", messages=["a"], cache="off")
    def ship(message):
        begun.set()
        go_on.wait()

    served = threading.Thread(target=ship.run)
    served.start()
    begun.wait()
    with pytest.raises(RuntimeError, match="is served already"):
        ship.run()
    go_on.set()
    served.join()
    assert counts(ship.run()) == (1, 0, 0)
    with pytest.raises(ValueError, match="two queues are called"):
        backstop.run(ship, ship)


def test_threads_keep_what_is_theirs():
    local = threading.local()
    made = []

    def ship(message):
        if not hasattr(local, "client"):
            local.client = object()
            made.append(local.client)

    assert counts(serve(ship, range(500), max_in_flight=50)) == (500, 0, 0)
    assert len(made) <= 50


def test_an_attempt_that_takes_too_long_is_cancelled():
    cancelled = []

    async def ship(message):
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(message.body)

    assert counts(serve(ship, ["slow"], attempt_timeout="1s", max_attempts=1)) == (0, 0, 1)
    assert cancelled == ["slow"]


def test_a_batch_fails_by_message():
    sizes = []

    def ship(messages):
        sizes.append(len(messages))
        return {it.id: ValueError("no") for it in messages if it.body == "7"}

    assert counts(serve(ship, range(50), batch=10, max_attempts=1)) == (49, 0, 1)
    assert max(sizes) <= 10

    async def ship_async(messages):
        return {"batchItemFailures": [{"itemIdentifier": it.id} for it in messages if it.body == "7"]}

    assert counts(serve(ship_async, range(50), batch=10, max_attempts=1)) == (49, 0, 1)


@pytest.mark.parametrize("returned", ["text", {"m": "no exception"}, {"unknown": ValueError()}])
def test_a_batch_that_returns_something_else_has_failed(returned):
    assert counts(serve(lambda messages: returned, ["a"], batch=5, max_attempts=1)) == (0, 0, 1)


def test_what_cannot_be_described_is_a_failure_too():
    class Strange(Exception):
        @property
        def response(self):
            raise RuntimeError("no")

    def ship(message):
        raise Strange

    assert counts(serve(ship, ["a"], max_attempts=1)) == (0, 0, 1)

    def leaves(message):
        sys.exit(3)

    assert counts(serve(leaves, ["a"], max_attempts=1)) == (0, 0, 1)


def test_a_coroutine_that_nobody_awaits_is_a_failure(caplog):
    async def later():
        pass

    with caplog.at_level(logging.INFO, "backstop"):
        assert counts(serve(lambda message: later(), ["a"], max_attempts=1)) == (0, 0, 1)
    assert "error=TypeError" in caplog.text


def test_several_queues_are_served_by_one_host():
    done = []

    @backstop.worker("local:orders", messages=["a", "b"], cache="off")
    def ship(message):
        done.append(message.body)

    @backstop.worker("local:invoices", messages=["c"])
    async def bill(message):
        done.append(message.body)

    result = backstop.run(ship, bill)
    assert {name: counts(it) for name, it in result.items()} == {"orders": (2, 0, 0), "invoices": (1, 0, 0)}
    assert sorted(done) == ["a", "b", "c"]


def test_a_worker_is_the_function_for_its_tests():
    @backstop.worker("local:orders")
    def ship(message):
        """Ships an order."""
        return message * 2

    assert (ship(4), ship.__name__, ship.__doc__) == (8, "ship", "Ships an order.")


def test_stop_lets_what_is_under_way_finish():
    begun = threading.Event()
    finished = []

    @backstop.worker("local:orders", messages=["a"], cache="off")
    def ship(message):
        begun.set()
        time.sleep(0.2)
        finished.append(message.body)

    def stop():
        begun.wait()
        ship.stop()

    threading.Thread(target=stop).start()
    assert counts(ship.run()) == (1, 0, 0)
    assert finished == ["a"]


def test_a_task_that_is_cancelled_stops_the_host():
    finished = []

    async def main():
        begun = asyncio.Event()

        @backstop.worker("local:orders", messages=["a"], cache="off")
        async def ship(message):
            begun.set()
            await asyncio.sleep(0.1)
            finished.append(message.body)

        task = asyncio.create_task(ship.run_async())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert finished == ["a"]


def test_mistakes_say_what_is_expected():
    def ship(message):
        pass

    for make, expected in [
        (lambda: backstop.worker(ship), "expected the queue's URL"),
        (lambda: backstop.worker("local:q")("ship"), "'ship' is no function"),
        (lambda: backstop.worker("local:q")(lambda: 5), "called with the message alone"),
        (lambda: backstop.worker("local:q", max_inflight=5)(ship), "expected `max_in_flight`"),
        (lambda: backstop.worker("local:q", max_in_flight=0)(ship), "max_in_flight"),
        (lambda: backstop.worker("local:q", settings="base=2s")(ship), "expected a dict"),
        (lambda: backstop.worker("local:q", attempt_timeout="soon")(ship), "attempt_timeout"),
        (lambda: backstop.worker("local:q", batch=0)(ship), "batch"),
        (lambda: backstop.worker("local:q", messages="abc")(ship), "expected a list"),
        (lambda: backstop.worker("local:q", policy="fulljitter")(ship), "full-jitter"),
        (lambda: backstop.worker("local:q", settings={"bass": "2s"}, cache="off")(ship).run(), "unknown setting `bass`"),
        (lambda: backstop.worker("local:q", policy="./orders.wasm", cache="off")(ship).run(), "orders.wasm"),
        (lambda: backstop.run(ship), "is no worker"),
        (lambda: backstop.run(), "at least one worker"),
    ]:
        with pytest.raises((TypeError, ValueError), match=expected):
            made = make()
            if isinstance(made, backstop.Worker):
                made.run()


def program(text, *arguments, **environment):
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(text), *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("kind", ["def", "async def"])
def test_a_signal_drains(number, kind):
    running = program(
        f"""
        import asyncio, time, backstop

        @backstop.worker("local:orders", messages=["a"], cache="off")
        {kind} ship(message):
            print("begun", flush=True)
            {"await asyncio.sleep(0.3)" if kind != "def" else "time.sleep(0.3)"}
            print("done", flush=True)

        print(ship.run())
        """
    )
    assert running.stdout.readline() == "begun\n"
    running.send_signal(number)
    rest = running.stdout.read()
    assert running.wait() == 0
    assert rest == "done\nCounts(succeeded=1, retried=0, dead_lettered=0)\n"


def test_a_fork_is_refused_and_a_child_may_start_its_own():
    running = program(
        """
        import os, threading, backstop

        @backstop.worker("local:orders", messages=["a"], cache="off")
        def ship(message):
            child = os.fork()
            if child == 0:
                try:
                    ship.stop()
                except RuntimeError as error:
                    print(error, flush=True)
                retried = backstop.Retrier("linear", base="1ms").call(lambda: 5)
                print(retried, flush=True)
                os._exit(0)
            os.waitpid(child, 0)

        print(ship.run())
        """
    )
    said = running.stdout.read()
    assert running.wait() == 0
    assert "started by another process" in said and "\n5\n" in said and "succeeded=1" in said
