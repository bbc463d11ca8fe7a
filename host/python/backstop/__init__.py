"""Retry policies for SQS workers and for calls: sandboxed WebAssembly components decide every retry.

    import backstop

    @backstop.worker("https://sqs.eu-west-1.amazonaws.com/123456789012/orders", policy="full-jitter", settings={"base": "2s"})
    def ship(message):
        ...

    ship.run()

`backstop.worker` serves a queue with a function, `backstop.retry` retries a call, `backstop.Policy` makes one decision, and `backstop.events` opens what the Lambda retry handler sends. `backstop.retries.TestClock` is a clock for tests.
"""

import importlib
from typing import TYPE_CHECKING, Any, Dict, List

if TYPE_CHECKING:
    from backstop.failures import Failure, Permanent, RetryAfter, Throttled, Transient, Unavailable, describes
    from backstop.guards import Breaker, Budget
    from backstop.messages import Message
    from backstop.policies import Decision, Policy
    from backstop.retries import Event, RetryError, Retrier, retry
    from backstop.workers import Counts, Worker, run, run_async, worker
else:
    # Each is imported when it is asked for: the cold start of a Lambda function that opens envelopes waits for no event loop.
    _MODULES = {
        "failures": ["Failure", "Permanent", "RetryAfter", "Throttled", "Transient", "Unavailable", "describes"],
        "guards": ["Breaker", "Budget"],
        "messages": ["Message"],
        "policies": ["Decision", "Policy"],
        "retries": ["Event", "RetryError", "Retrier", "retry"],
        "workers": ["Counts", "Worker", "run", "run_async", "worker"],
        "events": [],
        "testing": [],
    }
    _HOMES: Dict[str, str] = {name: module for module, names in _MODULES.items() for name in names}

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return importlib.import_module(f"backstop.{name}")
        if name not in _HOMES:
            raise AttributeError(f"module 'backstop' has no attribute {name!r}")
        value = getattr(importlib.import_module(f"backstop.{_HOMES[name]}"), name)
        globals()[name] = value
        return value

    def __dir__() -> List[str]:
        return sorted({*globals(), *_HOMES, *_MODULES})

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
