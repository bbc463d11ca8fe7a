import contextlib
import http.server
import io
import json
import os
import pathlib
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


def envelope(payload):
    return {"_retry_metadata": METADATA, "_original_payload": payload}


# What the retry handler and the functions in other languages are tested by, too.
ENVELOPES = pathlib.Path(__file__).parent / "../../tests/corpus/envelopes.json"


class Unwrapping(unittest.TestCase):
    def test_each_event_of_the_table_is_taken_for_what_it_is(self):
        for case in json.loads(ENVELOPES.read_text(encoding="utf-8")):
            with self.subTest(case["name"]):
                event = json.loads(case["event"])
                payload, retry = retry_context(event, LAMBDA)
                match case["envelope"]:
                    case None:
                        self.assertIs(payload, event)
                        self.assertEqual(retry, FIRST)
                    case expected:
                        id = expected["id"] or LAMBDA.aws_request_id
                        self.assertEqual(payload, json.loads(expected["payload"]))
                        self.assertEqual((retry.attempt, int(retry.first_seen), retry.id), (expected["attempt"], expected["first_seen"], id))
                        self.assertIsInstance(retry.attempt, int)


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
