#!PYTHON -B
"""What AWS's runtime for Python does around `handler.handler`, with the Runtime API. MEASURES makes the answer its times instead: how long the import and the first event took, in milliseconds."""

import importlib
import json
import os
import sys
import time
import urllib.request
from types import SimpleNamespace

API = "http://" + os.environ["AWS_LAMBDA_RUNTIME_API"] + "/2018-06-01/runtime/invocation/"
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
began = time.perf_counter()
handler = importlib.import_module("handler").handler
imported = 1000 * (time.perf_counter() - began)


def context(headers):
    ends = int(headers.get("Lambda-Runtime-Deadline-Ms") or 1000 * time.time() + 30_000)
    return SimpleNamespace(
        aws_request_id=headers["Lambda-Runtime-Aws-Request-Id"],
        function_name=os.environ.get("AWS_LAMBDA_FUNCTION_NAME", "function"),
        get_remaining_time_in_millis=lambda: max(0, int(ends - 1000 * time.time())),
    )


while True:
    with urllib.request.urlopen(API + "next") as answer:
        event, of = json.load(answer), context(answer.headers)
    began = time.perf_counter()
    try:
        ended, body = "/response", handler(event, of)
    except Exception as error:
        ended, body = "/error", {"errorType": type(error).__name__, "errorMessage": str(error)}
    if os.environ.get("MEASURES"):
        body = {"imported": imported, "handled": 1000 * (time.perf_counter() - began), "answer": body}
    print("handled", of.aws_request_id, flush=True)
    headers = {"Lambda-Runtime-Function-Error-Type": body["errorType"]} if ended == "/error" else {}
    urllib.request.urlopen(urllib.request.Request(API + of.aws_request_id + ended, json.dumps(body).encode(), headers))
