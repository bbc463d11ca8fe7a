"""Workers in virtual time: the fixture `backstop_queue`."""

import asyncio
import subprocess
import sys
import time
from datetime import datetime, timedelta, timezone

import pytest

import backstop
from backstop.testing import Sent, VirtualQueue

pytest_plugins = ["backstop.pytest_plugin"]

HOUR = timedelta(hours=1)


@backstop.worker("https://sqs.eu-west-1.amazonaws.com/123456789012/orders", policy="linear", settings={"base": "1h"}, max_attempts=4, metrics="127.0.0.1:1")
def ship(message):
    if message.body == "piano" and message.receive_count < 3:
        raise backstop.Transient("CarrierBusy", "no van")
    if message.body == "unicorn":
        raise backstop.Permanent("NoSuchArticle")
    if message.body == "whale":
        raise ValueError("too heavy")


def test_hours_of_delays_pass_at_once(backstop_queue):
    began = time.monotonic()
    seen = backstop_queue.run(ship, messages=["book", "piano", "unicorn", "whale"])
    assert time.monotonic() - began < 30
    assert seen.counts == backstop.Counts(succeeded=2, retried=5, dead_lettered=2)
    assert seen.left == 0
    # Whales wait for one, two and three hours.
    assert 6 * HOUR <= seen.elapsed < 6 * HOUR + timedelta(seconds=2)
    piano = seen.of("piano")
    assert [(it.number, it.outcome, it.code) for it in piano] == [(1, "retry", "CarrierBusy"), (2, "retry", "CarrierBusy"), (3, "succeeded", None)]
    assert [round(it.at / HOUR, 2) for it in piano] == [0, 1, 3]
    assert piano[0].decision.error_class == "transient" and piano[0].decision.delay == HOUR and piano[0].error == "no van"
    assert piano[2].decision is None and piano[2].took == timedelta(0)
    letters = {it.body: it for it in seen.dead_letters}
    assert letters["unicorn"].error_class == "permanent" and letters["unicorn"].attempts == 1
    assert "NoSuchArticle" in letters["unicorn"].reason
    assert letters["whale"].attempts == 4 and "max_attempts" in letters["whale"].reason.replace("-", "_")
    assert letters["whale"].message_id == seen.of("whale")[0].message_id
    assert letters["whale"].queue == "orders-dead-letters"


def test_the_worker_itself_is_as_it_was(backstop_queue):
    backstop_queue.run(ship, messages=["book"])
    assert ship.queue_url.startswith("https://") and ship.options["max_attempts"] == 4
    assert ship._running is None


def test_the_same_seed_has_the_same_delays():
    def always(message):
        raise backstop.Transient("Busy")

    def run(seed):
        options = {"settings": {"base": "1m"}, "max_attempts": 5, "max_in_flight": 3}
        seen = VirtualQueue().run(always, messages=list("abcdefg"), seed=seed, **options)
        return [(it.body, it.number, it.at, it.message_id, it.outcome) for it in seen.attempts]

    first = run(1)
    assert len(first) == 35 and run(1) == first
    assert run(2) != first


def test_coroutines_run_in_virtual_time(backstop_queue):
    async def bill(message):
        await asyncio.sleep(0.01)  # real time, in which virtual time stands still
        if message.receive_count == 1:
            raise backstop.RetryAfter("2h", "Closed")

    seen = backstop_queue.run(bill, messages=[{"id": 1}, {"id": 2}])
    assert seen.counts == backstop.Counts(2, 2, 0)
    assert {it.at >= 2 * HOUR for it in seen.attempts if it.number == 2} == {True}
    assert all(it.took == timedelta(0) for it in seen.attempts)
    assert [it.body for it in seen.of({"id": 1})] == ['{"id": 1}'] * 2


def test_in_an_event_loop_that_runs():
    async def main():
        async def bill(message):
            if message.receive_count == 1:
                raise backstop.Transient("Busy")

        return await VirtualQueue().run_async(bill, messages=["a"], policy="linear", settings={"base": "1h"})

    assert asyncio.run(main()).elapsed >= HOUR


def test_an_attempt_that_sleeps_lets_time_pass(backstop_queue):
    seconds = {"quick": 40, "slow": 3600}

    def work(message):
        backstop_queue.sleep(seconds[message.body] if message.receive_count == 1 else 5)

    options = {"attempt_timeout": "1m", "policy": "linear", "settings": {"base": "10s"}}
    seen = backstop_queue.run(work, messages=["quick", "slow"], **options)
    # Longer than the visibility timeout of 30 s: the host's heartbeat keeps it.
    assert [(it.outcome, round(it.took.total_seconds())) for it in seen.of("quick")] == [("succeeded", 40)]
    assert [(it.outcome, it.code, round(it.took.total_seconds())) for it in seen.of("slow")] == [("retry", "Timeout", 60), ("succeeded", None, 5)]

    cancelled = []

    async def work_async(message):
        try:
            await backstop_queue.sleep_async("1h" if message.receive_count == 1 else 5)
        except asyncio.CancelledError:
            cancelled.append(message.body)
            raise

    seen = backstop_queue.run(work_async, messages=list(range(20)), **options)
    assert seen.counts == backstop.Counts(20, 20, 0)
    assert sorted(map(int, cancelled)) == list(range(20))
    assert backstop_queue.elapsed >= timedelta(seconds=75)


def test_messages_come_when_they_are_sent(backstop_queue):
    seen_by_handler = []

    def work(message):
        seen_by_handler.append((message.body, message.attributes, message.sent))

    messages = [Sent("late", {"tenant": "t-1", "blob": b"\0"}, after="3h"), "first", Sent("later", after=1.5 * HOUR)]
    seen = backstop_queue.run(work, messages=messages)
    assert [(it.body, round(it.at / HOUR, 2)) for it in seen.attempts] == [("first", 0), ("later", 1.5), ("late", 3)]
    begin = datetime(2026, 1, 1, tzinfo=timezone.utc)
    assert seen_by_handler[0] == ("first", {}, begin)
    assert seen_by_handler[2] == ("late", {"tenant": "t-1", "blob": b"\0"}, begin + 3 * HOUR)


def test_a_group_keeps_its_order(backstop_queue):
    @backstop.worker("local:orders.fifo", policy="linear", settings={"base": "1m"})
    def work(message):
        if message.body == "1" and message.receive_count == 1:
            raise backstop.Transient("Busy")

    messages = [Sent(body, group_id=group) for body, group in [("1", "g"), ("2", "g"), ("x", "h")]]
    seen = backstop_queue.run(work, messages=messages)
    assert [it.body for it in seen.attempts if it.body != "x"] == ["1", "1", "2"]
    assert seen.of("x")[0].at < timedelta(seconds=1) and seen.of("2")[0].at >= timedelta(minutes=1)


def test_several_queues_and_batches(backstop_queue):
    @backstop.worker("local:invoices", batch=10, policy="linear", settings={"base": "1h"}, dead_letter_queue="https://sqs.eu-west-1.amazonaws.com/1/unpaid", max_attempts=1)
    def bill(messages):
        return {it.id: ValueError("no") for it in messages if it.body == "7"}

    seen = backstop_queue.run(ship, bill, messages={"orders": ["piano"], "invoices": map(str, range(20))})
    assert seen.counts_by_queue == {"orders": backstop.Counts(1, 2, 0), "invoices": backstop.Counts(19, 0, 1)}
    assert seen.counts == backstop.Counts(20, 2, 1)
    assert [(it.queue, it.body) for it in seen.dead_letters] == [("unpaid", "7")]


def test_a_worker_that_is_unavailable_makes_no_attempt(backstop_queue):
    calls = []

    def work(message):
        calls.append(message.body)
        if len(calls) == 1:
            raise backstop.Unavailable("Starting")

    seen = backstop_queue.run(work, messages=["a"])
    assert [(it.number, it.outcome, it.code) for it in seen.attempts] == [(1, "not-counted", "Starting"), (1, "succeeded", None)]


def test_what_is_left_when_the_time_is_over(backstop_queue):
    seen = backstop_queue.run(ship, messages=["whale"], within="2h")
    assert (seen.left, seen.elapsed, [it.number for it in seen.attempts]) == (1, 2 * HOUR, [1, 2])


def test_a_function_that_hangs_is_reported(backstop_queue):
    with pytest.raises(TimeoutError, match="have not ended after 0.5 s"):
        backstop_queue.run(lambda message: time.sleep(5), messages=["a"], timeout=0.5)

    async def hangs(message):
        await asyncio.Event().wait()

    with pytest.raises(TimeoutError, match="have not ended after 0.5 s"):
        backstop_queue.run(hangs, messages=["a"], timeout=0.5)
    assert backstop_queue.run(ship, messages=["book"]).counts.succeeded == 1


def test_mistakes_say_what_is_expected(backstop_queue):
    other = backstop.worker("local:other", lambda message: None)
    for arguments, options, expected in [
        ((), {}, "expected a worker, or a function"),
        (("ship",), {}, "'ship' is no function"),
        ((ship,), {"messages": "abc"}, "expected a list of bodies"),
        ((ship, other), {"messages": ["a"]}, "expected a dict by queue"),
        ((ship,), {"messages": {"order": ["a"]}}, "there is no queue 'order'"),
        ((ship,), {"messages": [""]}, "rejects one"),
        ((ship,), {"messages": ["a"], "policy": "fulljitter"}, "full-jitter"),
        ((ship,), {"messages": ["a"], "max_attempt": 3}, "expected `max_attempts`"),
        ((ship,), {"messages": ["a"], "settings": {"bass": "1h"}}, "unknown setting `bass`"),
    ]:
        with pytest.raises((TypeError, ValueError), match=expected):
            backstop_queue.run(*arguments, **options)
    with pytest.raises(RuntimeError, match="only a function that works on a message"):
        backstop_queue.sleep(5)


def test_a_host_beside_it_has_real_time(backstop_queue):
    """Its clock never jumps: a delay of a second takes one."""
    began = time.monotonic()

    @backstop.worker("local:real", messages=["a"], policy="linear", settings={"base": "1s"}, cache="off")
    def real(message):
        # A whole virtual day passes within this attempt.
        assert backstop_queue.run(lambda _: backstop_queue.sleep("1d"), messages=["b"], attempt_timeout="12h", max_attempts=1).elapsed >= 12 * HOUR
        if message.receive_count == 1:
            raise backstop.Transient("Busy")

    assert real.run() == backstop.Counts(1, 1, 0)
    assert time.monotonic() - began >= 1


def test_the_plugin_has_the_fixture(tmp_path):
    (tmp_path / "test_it.py").write_text("def test_it(backstop_queue):\n    assert backstop_queue.run(lambda m: None, messages=['a']).counts.succeeded == 1\n")
    arguments = [sys.executable, "-m", "pytest", "-p", "backstop.pytest_plugin", "-p", "no:cacheprovider", "-q", "test_it.py"]
    said = subprocess.run(arguments, cwd=tmp_path, capture_output=True, text=True)
    assert said.returncode == 0, said.stdout


@pytest.mark.parametrize("time", [-1, float("nan"), 1e300, "-1s"])
def test_a_time_that_is_none_is_refused(backstop_queue, time):
    for options in [{"within": time}, {"messages": [Sent("a", after=time)]}]:
        with pytest.raises(ValueError, match="within|after"):
            backstop_queue.run(lambda message: None, **{"messages": ["a"], **options})


@pytest.mark.parametrize(
    "options, expected",
    [
        ({"within": 0}, "within: expected a time above 0"),
        ({"seed": -1}, "seed: expected a whole number from 0"),
        ({"seed": 1.5}, "seed: expected a whole number"),
        ({"messages": [Sent("a", attributes={"x": 5})]}, "attributes: expected texts or bytes by name"),
    ],
)
def test_a_mistake_is_said_before_anything_runs(backstop_queue, options, expected):
    with pytest.raises((TypeError, ValueError), match=expected):
        backstop_queue.run(lambda message: pytest.fail("it runs"), **{"messages": ["a"], **options})
