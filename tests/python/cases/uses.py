"""How programs use the package: type checkers read this."""

import asyncio
from datetime import timedelta
from typing import Any

import backstop
from backstop import events
from backstop.testing import Seen, Sent, VirtualQueue


@backstop.worker("local:orders", policy="full-jitter", settings={"base": "2s"}, max_in_flight=10)
def ship(message: backstop.Message) -> None:
    order: Any = message.json()
    if not order:
        raise backstop.Permanent("Empty")


@backstop.worker("local:invoices")
async def bill(message: backstop.Message) -> None:
    await asyncio.sleep(0)


budget = backstop.Budget("articles")


@backstop.retry(policy="full-jitter", base="50ms", deadline="2s", budget=budget)
def article(key: str) -> int:
    return len(key)


@backstop.retry
async def price(key: str) -> int:
    return len(key)


@events.unwrapped
def handler(event: Any, context: Any) -> str:
    return events.key(event, context)


@backstop.describes(ZeroDivisionError)
def division(error: ZeroDivisionError) -> backstop.Failure:
    return backstop.Permanent("Zero", str(error))


def main() -> None:
    count: int = article("a-1")
    decision = backstop.Policy("linear", base=timedelta(seconds=1)).decide(code="HTTP 503")
    delay: timedelta | None = decision.delay
    counts: dict[str, backstop.Counts] = backstop.run(ship, bill)
    print(count, delay, counts)


def test_ship(backstop_queue: VirtualQueue) -> None:
    def sleeps(message: backstop.Message) -> None:
        backstop_queue.sleep("40s")

    seen: Seen = backstop_queue.run(ship, messages=["book", Sent({"id": 1}, {"tenant": "t-1"}, after="2h")], seed=7, within="1d")
    plain: Seen = backstop_queue.run(sleeps, messages=["a"], max_attempts=3)
    both: Seen = backstop_queue.run(ship, bill, messages={"orders": ["a"], "invoices": []})
    decision: backstop.Decision | None = seen.of("book")[0].decision
    reasons: list[str] = [it.reason for it in plain.dead_letters]
    late: bool = both.elapsed > timedelta(hours=2)
    print(decision, reasons, late, seen.counts_by_queue["orders"].retried, seen.left)


async def asynchronous() -> int:
    return await price("a-1") + await backstop.Retrier().call_async(price, "a-2")
