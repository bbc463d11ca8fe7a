"""A worker of the campaign with Python's own modules, as `examples/python-worker` is: it does what messages ask for, and writes a line for each attempt before it answers. Usage: worker.py PORT FILE"""

import itertools
import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LINES = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
ATTEMPTS = itertools.count(time.time_ns() // 1_000_000 * 1_000_000)


def write(**line):
    # In one piece: the file is open for appending.
    os.write(LINES, (json.dumps({"at": time.time_ns() // 1_000_000, **line}) + "\n").encode())


def said(kind, text):
    return json.dumps({"errorType": kind, "errorMessage": text})


def answer(body, count):
    fails = count <= body["k"]
    match body["do"]:
        case "wrong":
            return 422, {}, said("Invalid", "no such article")
        case "broken":
            return 500, {}, said("KeyError", "article")
        case "later":
            return 503, {"Retry-After": "7200"}, said("Closed", "come back in two hours")
        case "flaky" if fails:
            return 503, {}, ""
        case "throttled" if fails:
            return 429, {"Retry-After": "1"}, said("Busy", "ten a minute")
        case "big" if fails:
            return 503, {}, said("Big", "\x1b[31m\u202e\x00big" * 10_000)
    return 200, {}, ""


class Worker(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        count = int(self.headers["X-Aws-Sqsd-Receive-Count"])
        attempt = {
            "n": body["n"],
            "id": self.headers["X-Aws-Sqsd-Msgid"],
            "host": self.path[1:],
            "count": count,
            "attempt": next(ATTEMPTS),
        }
        write(**attempt)
        if body["do"] != "hang" or count <= 1:
            time.sleep(body["ms"] / 1000)
        status, headers, text = answer(body, count)
        write(**attempt, status=status)
        self.send_response(status)
        for name, value in {"Content-Length": str(len(text.encode())), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_request(self, *_):
        """Nothing."""


class Server(ThreadingHTTPServer):
    request_queue_size = 128

    def handle_error(self, *_):
        """A connection that was cut is none of its business."""


Server(("127.0.0.1", int(sys.argv[1])), Worker).serve_forever()
