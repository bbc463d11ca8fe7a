"""The module `backstop` with what is given on each line of standard input: its answer is a line of standard output."""

import json
import sys
from types import SimpleNamespace

import backstop
from backstop import events

POLICY = backstop.Policy("full-jitter")
KINDS = {it.__name__: it for it in (backstop.Failure, backstop.Permanent, backstop.Transient, backstop.Throttled)}


class Foreign(Exception):
    """An exception of another library, with what it has learned from a response."""


def exception(given):
    kind = KINDS.get(given.get("kind"))
    named = {name: given[name] for name in ("status", "retry_after", "details") if name in given}
    if kind is not None:
        error = kind(given.get("code"), given.get("message", ""), **named)
    else:
        error = Foreign(given.get("message"))
        response = given.get("response")
        if isinstance(response, dict) and "Error" not in response:
            response = SimpleNamespace(**{str(name): value for name, value in response.items()})
        error.response = response
    decided = POLICY.decide(error)
    delay = None if decided.delay is None else decided.delay.total_seconds()
    return {"verdict": decided.verdict, "class": decided.error_class, "delay": delay, "broken": decided.broken, "permanent": kind is backstop.Permanent}


def options(given):
    backstop.worker("local:orders", lambda message: None, **given)
    return {}


def event(given):
    original, retry = events.unwrap(given)
    assert original is (given if retry is None else given["_original_payload"])
    return {"retry": repr(retry), "attempt": retry and retry.attempt}


WHAT = {"exception": exception, "options": options, "event": event}


def answer(request):
    try:
        given = json.loads(request["given"])
    except (ValueError, RecursionError):
        return {"refused": "no JSON"}
    if not isinstance(given, dict):
        return {"refused": "no object"}
    try:
        return WHAT[request["what"]](given)
    except (TypeError, ValueError) as refused:
        # An event is somebody else's, and never a mistake of the program.
        return {"wrong" if request["what"] == "event" else "refused": f"{type(refused).__name__}: {refused}"}
    except BaseException as error:
        return {"wrong": f"{type(error).__name__}: {error}"}


for line in sys.stdin:
    print(json.dumps(answer(json.loads(line))), flush=True)
