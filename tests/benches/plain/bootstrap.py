"""A loop over the Lambda Runtime API, in the order of the managed runtime: the handler's module first, then event after event."""

import http.client
import json
import os
import time
import traceback

from handler import handler

INVOCATION = "/2018-06-01/runtime/invocation/"


class Context:
    def __init__(self, headers):
        self.aws_request_id = headers["Lambda-Runtime-Aws-Request-Id"]
        self.invoked_function_arn = headers["Lambda-Runtime-Invoked-Function-Arn"]
        self.deadline_ms = int(headers["Lambda-Runtime-Deadline-Ms"])

    def get_remaining_time_in_millis(self):
        return max(0, self.deadline_ms - int(time.time() * 1000))


def ask(api, method, path, body=None, headers={}):
    api.request(method, INVOCATION + path, body, headers)
    answer = api.getresponse()
    text = answer.read()
    if answer.status >= 300:
        raise RuntimeError(f"{method} {path}: {answer.status} {text}")
    return answer.headers, text


def main():
    # Without a timeout: the next event may be long in coming.
    api = http.client.HTTPConnection(os.environ["AWS_LAMBDA_RUNTIME_API"])
    while True:
        headers, event = ask(api, "GET", "next")
        context = Context(headers)
        os.environ["_X_AMZN_TRACE_ID"] = headers.get("Lambda-Runtime-Trace-Id", "")
        try:
            body = json.dumps(handler(json.loads(event), context))
        except Exception as error:
            kind = type(error).__name__
            failure = {"errorType": kind, "errorMessage": str(error), "stackTrace": traceback.format_exc().splitlines()}
            ask(
                api,
                "POST",
                f"{context.aws_request_id}/error",
                json.dumps(failure),
                {"Lambda-Runtime-Function-Error-Type": kind},
            )
        else:
            ask(api, "POST", f"{context.aws_request_id}/response", body)


main()
