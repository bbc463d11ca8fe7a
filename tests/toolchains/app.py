"""The same policy in Python, as componentize-py builds it."""

import sys

from componentize_py_types import Err
from wit_world.exports import Settings, Classifier, Backoff, DeadLettering
from wit_world.imports import log, payload, types

base = 1000


class Settings(Settings):
    def configure(self, settings):
        global base
        for name, value in settings:
            if name != "base":
                raise Err(f"unknown setting {name}")
            base = int(value)


class Classifier(Classifier):
    def classify(self, error):
        if error.code == "Crash":
            print("about to crash", file=sys.stderr)
            raise RuntimeError("told to crash")
        return types.ErrorClass_Other("stock") if error.code == "OutOfStock" else types.ErrorClass_Transient()


class Backoff(Backoff):
    def delay(self, failure, error_class):
        log.log(log.Level.INFO, f"tenant {payload.get('/tenant')}")
        return int(base * failure.attempt * (1 + failure.random))


class DeadLettering(DeadLettering):
    def judge(self, failure, error_class):
        if isinstance(error_class, types.ErrorClass_Other):
            return types.Verdict_DeadLetter(f"no stock after {failure.age} ms")
        return types.Verdict_Retry()
