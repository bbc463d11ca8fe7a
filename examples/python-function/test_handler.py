import contextlib
import http.server
import io
import json
import os
import threading
import unittest
from types import SimpleNamespace
from unittest import mock

import handler
from handler import RetryContext, retry_context

LAMBDA = SimpleNamespace(aws_request_id="this-invocation")
FIRST = RetryContext(1, None, "this-invocation")
METADATA = {
    "attempt": 2,
    "initial_timestamp": 1767225600,
    "id": "first-invocation",
    "previous_delay_ms": 1830,
    "last_error": {"code": "ECONNRESET", "message": "the peer hung up"},
    "policy": "sha256:0123",
}
RETRY = RetryContext(2, 1767225600, "first-invocation")


def envelope(payload, **changes):
    return {"_retry_metadata": {**METADATA, **changes}, "_original_payload": payload}


def without(name):
    metadata = {key: value for key, value in METADATA.items() if key != name}
    return {"_retry_metadata": metadata, "_original_payload": {}}


# What the envelope carries, and the context that comes with it.
RETRIES = {
    "an object": (envelope({"id": "o-1"}), {"id": "o-1"}, RETRY),
    "an array": (envelope([1, 2]), [1, 2], RETRY),
    "a string": (envelope("order"), "order", RETRY),
    "null": (envelope(None), None, RETRY),
    "a payload with those keys by itself": (envelope(envelope("inner")), envelope("inner"), RETRY),
    "a payload with one of those keys": (
        envelope({"_original_payload": 1}),
        {"_original_payload": 1},
        RETRY,
    ),
    "an unknown field": (envelope({}, colour="blue"), {}, RETRY),
    "an attempt of 1": (envelope({}, attempt=1), {}, RetryContext(1, 1767225600, "first-invocation")),
    "a fraction of a second": (
        envelope({}, initial_timestamp=1767225600.5),
        {},
        RetryContext(2, 1767225600.5, "first-invocation"),
    ),
    "no id": (without("id"), {}, RetryContext(2, 1767225600, "this-invocation")),
    "an id that is a number": (envelope({}, id=7), {}, RetryContext(2, 1767225600, "this-invocation")),
}

# Each is the event itself.
EVENTS = {
    "an object": {"id": "o-1"},
    "an empty object": {},
    "an array": [METADATA, {}],
    "a string": "_retry_metadata",
    "a number": 7,
    "a boolean": True,
    "null": None,
    "those keys without their meaning": {"_retry_metadata": "mine", "_original_payload": "mine"},
    "the metadata alone": {"_retry_metadata": METADATA},
    "the payload alone": {"_original_payload": {}},
    "the metadata beside another key": {"_retry_metadata": METADATA, "payload": {}},
    "the payload beside another key": {"metadata": METADATA, "_original_payload": {}},
    "an extra key": {**envelope({}), "more": 1},
    "metadata that is null": {"_retry_metadata": None, "_original_payload": {}},
    "metadata that is an array": {"_retry_metadata": [METADATA], "_original_payload": {}},
    "no attempt": without("attempt"),
    "an attempt that is a boolean": envelope({}, attempt=True),
    "an attempt that is a string": envelope({}, attempt="2"),
    "an attempt that is null": envelope({}, attempt=None),
    "an attempt of 0": envelope({}, attempt=0),
    "an attempt below 0": envelope({}, attempt=-1),
    "an attempt that is not whole": envelope({}, attempt=1.5),
    "no timestamp": without("initial_timestamp"),
    "a timestamp that is a string": envelope({}, initial_timestamp="2026-01-01T00:00:00Z"),
    "a timestamp that is a boolean": envelope({}, initial_timestamp=True),
    "a timestamp that is null": envelope({}, initial_timestamp=None),
}


class Unwrapping(unittest.TestCase):
    def test_an_envelope_gives_the_payload_and_the_attempt(self):
        for name, (event, payload, context) in RETRIES.items():
            with self.subTest(name):
                self.assertEqual(retry_context(event, LAMBDA), (payload, context))

    def test_anything_else_is_the_event_itself_at_its_first_attempt(self):
        for name, event in EVENTS.items():
            with self.subTest(name):
                self.assertEqual(retry_context(event, LAMBDA), (event, FIRST))


class Payments(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.seen.append((self.headers["Idempotency-Key"], json.loads(body)))
        self.send_response(self.server.statuses.pop(0))
        self.end_headers()
        self.wfile.write(b'{"payment": "p-1"}')

    def log_message(self, *_):
        pass


class Charging(unittest.TestCase):
    @contextlib.contextmanager
    def payments(self, *statuses):
        with http.server.HTTPServer(("127.0.0.1", 0), Payments) as server:
            server.statuses, server.seen = list(statuses), []
            threading.Thread(target=server.serve_forever, args=(0.01,)).start()
            url = f"http://127.0.0.1:{server.server_port}/"
            try:
                with mock.patch.dict(os.environ, PAYMENTS_URL=url, no_proxy="127.0.0.1"):
                    with contextlib.redirect_stdout(io.StringIO()):
                        yield server
            finally:
                server.shutdown()

    def test_a_retry_sends_the_same_order_with_the_same_key(self):
        order = {"id": "o-1", "cents": 1250}
        with self.payments(503, 200) as server:
            with self.assertRaisesRegex(handler.ServiceUnavailable, "503"):
                handler.handler(order, SimpleNamespace(aws_request_id="first-invocation"))
            self.assertEqual(handler.handler(envelope(order), LAMBDA), {"payment": "p-1"})
        self.assertEqual(server.seen, [("first-invocation", order)] * 2)

    def test_a_declined_card_is_not_a_failure(self):
        with self.payments(402):
            self.assertEqual(handler.handler({"id": "o-1"}, LAMBDA), {"declined": True})


if __name__ == "__main__":
    unittest.main()
