"""A policy for messages that charge a card: it classifies the payment API's error codes, delays with full jitter, and gives up after a number of attempts.

The contract, with every field explained: bindings/wit/policy.wit, and as Python in bindings/python.
"""

import wit_world.exports as contract
from componentize_py_types import Err
from wit_world.imports import default_classifier
from wit_world.imports.types import (
    Error,
    ErrorClass,
    ErrorClass_Other,
    ErrorClass_Permanent,
    ErrorClass_Throttled,
    ErrorClass_Transient,
    Failure,
    Verdict,
    Verdict_DeadLetter,
    Verdict_Retry,
)

# The ceiling of the first delay, the ceiling of all delays, and a day, in milliseconds.
BASE = 500
CAP = 3_600_000
DAY = 86_400_000

# Set by the operator. The host creates a fresh instance for every decision, so no state survives it.
attempts = 8


class Settings(contract.Settings):
    def configure(self, settings: list[tuple[str, str]]) -> None:
        """Called first. Err rejects the settings; the operator sees it."""
        global attempts
        for name, value in settings:
            if name != "attempts":
                raise Err(f"unknown setting `{name}`: expected `attempts`")
            attempts = int(value) if value.isascii() and value.isdigit() else 0
            if not 0 < attempts < 2**32:
                raise Err(f"setting `attempts` is `{value}`: expected a whole number from 1")


class Classifier(contract.Classifier):
    def classify(self, error: Error) -> ErrorClass:
        """The API's own codes; the host's classification for everything else."""
        match error.code:
            case "card_declined" | "expired_card" | "invalid_number":
                return ErrorClass_Permanent()
            case "rate_limit":
                return ErrorClass_Throttled()
            case "lock_timeout":
                return ErrorClass_Transient()
            case "fraud_review":
                return ErrorClass_Other("review")
        return default_classifier.classify(error)


class DeadLettering(contract.DeadLettering):
    def judge(self, failure: Failure, error_class: ErrorClass) -> Verdict:
        if isinstance(error_class, ErrorClass_Permanent):
            return Verdict_DeadLetter(f"permanent: {failure.error.code}")
        if failure.attempt >= attempts:
            return Verdict_DeadLetter(f"not charged after {failure.attempt} attempts")
        return Verdict_Retry()


class Backoff(contract.Backoff):
    def delay(self, failure: Failure, error_class: ErrorClass) -> int:
        """A review needs a person: an hour. Everything else is delayed with full jitter, and at least as long as the API asks, up to a day."""
        ceiling = min(CAP, BASE * 2 ** min(failure.attempt - 1, 31))
        delay = CAP if isinstance(error_class, ErrorClass_Other) else int(failure.random * (ceiling + 1))
        return max(delay, min(DAY, failure.error.retry_after or 0))
