"""Retry policies for SQS workers and for calls: sandboxed WebAssembly components decide every retry.

    import backstop

    @backstop.worker("https://sqs.eu-west-1.amazonaws.com/123456789012/orders", policy="full-jitter", settings={"base": "2s"})
    def ship(message):
        ...

    ship.run()

`backstop.worker` serves a queue with a function, `backstop.retry` retries a call, `backstop.Policy` makes one decision, and `backstop.events` opens what the Lambda retry handler sends. `backstop.retries.TestClock` is a clock for tests.
"""

from backstop.failures import Failure, Permanent, RetryAfter, Throttled, Transient, Unavailable, describes
from backstop.guards import Breaker, Budget
from backstop.messages import Message
from backstop.policies import Decision, Policy
from backstop.retries import Event, RetryError, Retrier, retry
from backstop.workers import Counts, Worker, run, run_async, worker

__all__ = [
    "Breaker",
    "Budget",
    "Counts",
    "Decision",
    "Event",
    "Failure",
    "Message",
    "Permanent",
    "Policy",
    "Retrier",
    "RetryAfter",
    "RetryError",
    "Throttled",
    "Transient",
    "Unavailable",
    "Worker",
    "describes",
    "retry",
    "run",
    "run_async",
    "worker",
]
