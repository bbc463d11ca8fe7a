"""What retriers share: budgets and circuit breakers."""

from __future__ import annotations

from typing import Any, Optional

from backstop import _native
from backstop.times import Time, seconds


class Budget:
    """A retry budget: a bucket of tokens that any number of retriers share, so that retries don't multiply the load on what is down.

    Without other numbers it has those of AWS's SDKs: a retry costs 14 tokens of 500 (5 if it was throttled), and a success returns what it has cost.
    """

    def __init__(self, name: str = "default", numbers: str = "aws-2.1", **more: Any) -> None:
        self._budget = _native.Budget(name, numbers, **more)

    @property
    def left(self) -> float:
        """The tokens that are left."""
        return self._budget.left


class Breaker:
    """A circuit breaker that any number of retriers share: while what they call is down, a call ends at once."""

    def __init__(
        self,
        name: str = "default",
        *,
        minimum: Optional[int] = None,
        shortest_outage: Optional[Time] = None,
        longest_retry_after: Optional[Time] = None,
        most: Optional[int] = None,
        growth: Optional[int] = None,
        share: Optional[float] = None,
        cut: Optional[float] = None,
    ) -> None:
        self._breaker = _native.Breaker(
            name,
            minimum=minimum,
            shortest_outage=None if shortest_outage is None else seconds("shortest_outage", shortest_outage),
            longest_retry_after=None if longest_retry_after is None else seconds("longest_retry_after", longest_retry_after),
            most=most,
            growth=growth,
            share=share,
            cut=cut,
        )

    @property
    def state(self) -> str:
        """`closed`, `open` or `growing`."""
        return self._breaker.state
