"""A worker for trying: a body with "wrong" is invalid, one with "busy" is throttled twice, and everything else is done."""

import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Worker(BaseHTTPRequestHandler):
    """Answers each message with a status."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        receives = int(self.headers["X-Aws-Sqsd-Receive-Count"])
        if "wrong" in body:
            status = 400
        elif "busy" in body and receives <= 2:
            status = 429
        else:
            status = 200
        print(f"{body}: receive {receives}, status {status}")
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing: the line above is enough."""


if __name__ == "__main__":
    ThreadingHTTPServer(("", int(os.environ.get("PORT", "8080"))), Worker).serve_forever()
