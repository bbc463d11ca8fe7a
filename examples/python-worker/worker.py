"""A worker behind `backstop run --http`: each message is a POST, and the status of the answer says how it went."""

import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from orders import Busy, Invalid, ship


class Worker(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # connections stay open between messages

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            order = json.loads(body)
        except ValueError as error:
            return self.answer(400, error)  # it is no JSON: there is no other attempt
        try:
            ship(order)
        except Invalid as error:
            self.answer(422, error)  # nor is there of this one
        except Busy as error:
            self.answer(429, error, {"Retry-After": "1"})
        except Exception as error:
            self.answer(500, error)
        else:
            self.answer(200)  # it is done: the message is deleted

    def answer(self, status, error=None, headers=None):
        said = {} if error is None else {"errorType": type(error).__name__, "errorMessage": str(error)}
        body = json.dumps(said).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, *_):
        """Nothing: Backstop logs what fails."""


class Server(ThreadingHTTPServer):
    request_queue_size = 128  # connections that may wait: Python's own 5 are too few


if __name__ == "__main__":
    Server(("127.0.0.1", int(os.environ.get("PORT", "8080"))), Worker).serve_forever()
