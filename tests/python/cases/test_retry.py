import asyncio
import threading
import time
from datetime import timedelta

import pytest
import trio

import backstop
from backstop.retries import TestClock


def failing(times, error):
    """A function that fails so often."""
    calls = []

    def function(value=None):
        calls.append(value)
        if len(calls) <= times:
            raise error
        return value

    function.calls = calls
    return function


def test_a_call_is_retried_until_it_succeeds():
    clock = TestClock()
    retrier = backstop.Retrier("linear", base="1s", clock=clock)
    function = failing(2, ConnectionResetError(104, "reset"))
    assert retrier.call(function, "a-1") == "a-1"
    assert (len(function.calls), clock.elapsed) == (3, timedelta(seconds=3))


def test_a_decorated_function_keeps_its_name_and_is_retried():
    clock = TestClock()

    @backstop.retry(policy="linear", base="1s", clock=clock, max_attempts=2)
    def charge(order):
        """Charges an order."""
        raise backstop.Throttled("Busy")

    assert (charge.__name__, charge.__doc__) == ("charge", "Charges an order.")
    with pytest.raises(backstop.RetryError, match="gave up after 2 attempts") as caught:
        charge(7)
    assert (caught.value.end, caught.value.attempts, caught.value.code) == ("gave-up", 2, "Busy")
    assert isinstance(caught.value.__cause__, backstop.Throttled)
    assert caught.value.decision.error_class == "throttled"

    @backstop.retry
    def plain():
        return 5

    assert plain() == 5


def test_what_is_permanent_ends_at_once():
    function = failing(9, backstop.Permanent("NoSuchArticle"))
    with pytest.raises(backstop.RetryError) as caught:
        backstop.Retrier().call(function)
    assert (caught.value.end, len(function.calls)) == ("permanent", 1)
    refused = failing(9, KeyError("weight"))
    with pytest.raises(backstop.RetryError) as caught:
        backstop.Retrier(retry_if=lambda error: not isinstance(error, KeyError)).call(refused)
    assert (caught.value.end, len(refused.calls)) == ("permanent", 1)


def test_no_wait_begins_that_cannot_end_before_the_deadline():
    clock = TestClock()
    retrier = backstop.Retrier("linear", base="1s", clock=clock, deadline=lambda: "2s")
    with pytest.raises(backstop.RetryError) as caught:
        retrier.call(failing(9, ConnectionResetError(104, "")))
    assert (caught.value.end, clock.elapsed) == ("deadline-exceeded", timedelta(seconds=1))


def test_a_budget_bounds_the_retries_of_many_calls():
    budget = backstop.Budget("articles", capacity=28, refill_per_second=0, floor_per_second=0)
    retrier = backstop.Retrier("linear", base="1s", clock=TestClock(), budget=budget, max_attempts=99)
    with pytest.raises(backstop.RetryError) as caught:
        retrier.call(failing(99, ConnectionResetError(104, "")))
    assert (caught.value.end, caught.value.attempts, budget.left) == ("budget-exhausted", 3, 0)


def test_a_breaker_ends_calls_while_what_they_call_is_down():
    breaker = backstop.Breaker("articles", minimum=3)
    clock = TestClock()
    retrier = backstop.Retrier("linear", base="1s", clock=clock, breaker=breaker, max_attempts=50)
    for _ in range(60):
        with pytest.raises(backstop.RetryError) as caught:
            retrier.call(failing(99, backstop.Transient("Down")))
        if caught.value.end == "breaker-open":
            break
        clock.advance("1s")
    assert (caught.value.end, breaker.state) == ("breaker-open", "open")


def test_events_say_what_happened():
    seen = []
    retrier = backstop.Retrier("linear", base="1s", clock=TestClock(), on_event=seen.append)
    retrier.call(failing(1, ConnectionResetError(104, "")))
    assert [(it.kind, it.attempts, it.code, it.delay) for it in seen] == [
        ("retrying", 1, "ECONNRESET", timedelta(seconds=1)),
        ("succeeded", 2, None, None),
    ]


def test_an_observer_that_fails_changes_nothing(caplog):
    def broken(event):
        raise RuntimeError("no observer")

    retrier = backstop.Retrier("linear", base="1s", clock=TestClock(), on_event=broken)
    assert retrier.call(failing(1, ConnectionResetError(104, "")), 5) == 5
    assert caplog.text.count("RuntimeError: no observer") == 2


def test_the_same_seed_gives_the_same_delays():
    def elapsed(seed):
        clock = TestClock()
        backstop.Retrier("full-jitter", base="1s", clock=clock, seed=seed).call(failing(5, ConnectionResetError(104, "")))
        return clock.elapsed

    assert elapsed(7) == elapsed(7) != elapsed(8)


def test_a_coroutine_is_retried_and_cut_short():
    clock = TestClock()
    retrier = backstop.Retrier("linear", base="1s", clock=clock)
    function = failing(2, ConnectionResetError(104, ""))

    async def get(value):
        return function(value)

    assert asyncio.run(retrier.call_async(get, 5)) == 5
    assert clock.elapsed == timedelta(seconds=3)

    cancelled = []

    async def hangs():
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(1)

    short = backstop.Retrier(attempt_timeout="20ms", max_attempts=2, max_delay=0)
    with pytest.raises(backstop.RetryError) as caught:
        asyncio.run(short.call_async(hangs))
    assert (caught.value.end, caught.value.code, len(cancelled)) == ("gave-up", "Timeout", 2)
    with pytest.raises(backstop.RetryError) as caught:
        asyncio.run(backstop.Retrier().call_async(hangs, deadline="20ms"))
    assert (caught.value.end, len(cancelled)) == ("deadline-exceeded", 3)


def test_trio_works_too():
    retrier = backstop.Retrier(max_delay=0, attempt_timeout="20ms")
    function = failing(1, ConnectionResetError(104, ""))

    async def get():
        await trio.sleep(0)
        return function(5)

    assert trio.run(retrier.call_async, get) == 5

    async def hangs():
        await trio.sleep_forever()

    with pytest.raises(backstop.RetryError) as caught:
        trio.run(retrier.call_async, hangs)
    assert caught.value.code == "Timeout"


def test_a_call_that_is_cancelled_ends():
    async def main():
        retrier = backstop.Retrier("linear", base="1h")

        async def get():
            raise ConnectionResetError(104, "")

        task = asyncio.create_task(retrier.call_async(get))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


def test_threads_share_a_retrier():
    retrier = backstop.Retrier("full-jitter", base="1ms", cap="2ms", max_attempts=9)
    results = []

    def work(number):
        results.append(retrier.call(failing(3, ConnectionResetError(104, "")), number))

    threads = [threading.Thread(target=work, args=(it,)) for it in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == list(range(50))


def test_mistakes_say_what_is_expected():
    for make, expected in [
        (lambda: backstop.Retrier("fulljitter"), "no built-in policy"),
        (lambda: backstop.Retrier("full-jitter", bass="1s"), "unknown setting `bass`"),
        (lambda: backstop.Retrier(bass="1s"), "unknown option `bass`"),
        (lambda: backstop.Retrier(max_delay="soon"), "max_delay: expected a duration such as"),
        (lambda: backstop.Retrier(max_delay=-1), "max_delay: expected a time from 0"),
        (lambda: backstop.Retrier(profile="kinesis"), "unknown profile `kinesis`"),
        (lambda: backstop.Retrier(budget=5), "expected a backstop.Budget"),
        (lambda: backstop.Budget("x", "aws-3"), "expected `aws-2.1` or `aws-2.0`"),
        (lambda: backstop.retry(policy="linear")(5), "5 is no function"),
        (lambda: backstop.Retrier().call(5), "5 is no function"),
    ]:
        with pytest.raises((TypeError, ValueError), match=expected):
            make()

    async def get():
        return 5

    with pytest.raises(TypeError, match="call_async"):
        backstop.Retrier().call(get)
    with pytest.raises(TypeError, match="call_async"):
        backstop.Retrier().call(lambda: get())
    with pytest.raises(TypeError, match="no coroutine function"):
        asyncio.run(backstop.Retrier().call_async(lambda: 5))


def test_interrupts_are_not_retried():
    def interrupted():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        backstop.Retrier().call(interrupted)
