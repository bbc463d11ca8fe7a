import subprocess
import sys

import pytest

import backstop
from backstop import events

ENVELOPE = {
    "_retry_metadata": {"attempt": 3, "initial_timestamp": 1767225600, "id": "r-1", "previous_delay_ms": 60000, "last_error": {"code": "HTTP 503"}},
    "_original_payload": {"order": 7},
}


class Context:
    aws_request_id = "r-9"

    def get_remaining_time_in_millis(self):
        return 3_000


def test_an_envelope_is_taken_off():
    original, retry = events.unwrap(ENVELOPE)
    assert original == {"order": 7}
    assert (retry.attempt, retry.id, retry.last_error) == (3, "r-1", "HTTP 503")
    assert retry.first_failed.isoformat() == "2026-01-01T00:00:00+00:00"
    assert retry.previous_delay.total_seconds() == 60
    assert events.key(ENVELOPE, Context()) == "r-1"


@pytest.mark.parametrize(
    "event",
    [
        None,
        7,
        "text",
        [],
        {},
        {"order": 7},
        {**ENVELOPE, "more": 1},
        {"_retry_metadata": 5, "_original_payload": 1},
        {"_retry_metadata": {"attempt": 0, "initial_timestamp": 5}, "_original_payload": 1},
    ],
)
def test_what_is_no_envelope_is_the_senders_own(event):
    assert events.unwrap(event) == (event, None)
    assert events.key(event, Context()) == "r-9"


def test_a_handler_gets_the_original():
    @events.unwrapped
    def handler(event, context):
        return event, context.retry

    assert handler(ENVELOPE, Context())[0] == {"order": 7}
    assert handler(ENVELOPE, Context())[1].attempt == 3
    assert handler({"order": 8}, Context()) == ({"order": 8}, None)
    with pytest.raises(TypeError, match="no function"):
        events.unwrapped(5)


def test_the_deadline_leaves_time_for_the_answer():
    assert events.deadline(Context())() == 2.5
    assert events.deadline(Context(), margin=10)() == 0


def test_an_import_brings_no_more_than_is_used():
    """The cold start of a function waits for it."""
    code = "import sys; from backstop import events; print(sorted({'asyncio', 'logging', 'subprocess', 'backstop.workers', 'backstop.retries'} & sys.modules.keys()))"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert said.stdout == "[]\n", said.stdout + said.stderr


def test_each_name_is_there():
    for name in backstop.__all__:
        assert getattr(backstop, name).__module__.startswith("backstop.")
    assert {"events", "retries", "testing", *backstop.__all__} <= set(dir(backstop))
    assert backstop.testing.VirtualQueue and backstop.retries.TestClock
    with pytest.raises(AttributeError, match="no attribute 'workr'"):
        backstop.workr
