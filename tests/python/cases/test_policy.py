import os
import pathlib
import subprocess
import json
from datetime import timedelta

import pytest

import backstop


def test_the_same_failure_gets_the_decision_of_the_command():
    policy = backstop.Policy("full-jitter", base="2s", max_attempts=9)
    for attempt in range(1, 10):
        made = policy.decide(code="HTTP 503", attempt=attempt)
        said = subprocess.run(
            [os.environ["BACKSTOP_COMMAND"], "policy", "run", "full-jitter", "--set", "base=2s", "--set", "max-attempts=9"]
            + ["--code", "HTTP 503", "--attempt", str(attempt), "--json"],
            capture_output=True,
            check=True,
        )
        answer = json.loads(said.stdout)
        assert made.error_class == answer["class"]
        if made.is_retry:
            assert made.delay == timedelta(milliseconds=answer["action"]["delay"])
        else:
            assert made.reason == answer["action"]["reason"]
        assert made.fuel == answer["fuel"]


def test_a_file_is_a_policy_and_sees_what_it_asks_for(tmp_path):
    top = pathlib.Path(os.environ["BACKSTOP_TOP"])
    with pytest.raises(ValueError, match="no such file"):
        backstop.Policy(tmp_path / "orders.wasm")
    (tmp_path / "text.wasm").write_text("no component")
    with pytest.raises(ValueError, match="text.wasm"):
        backstop.Policy(tmp_path / "text.wasm")
    found = next((top / "host/engine").rglob("*linear*.wasm"), None)
    if found is not None:
        assert backstop.Policy(found, base="1s").decide(code="HTTP 503", attempt=2).delay == timedelta(seconds=2)


def test_a_mistake_says_what_is_expected():
    with pytest.raises(ValueError, match="unknown setting `bass`"):
        backstop.Policy("full-jitter", bass="2s")
    with pytest.raises(ValueError, match="no built-in policy"):
        backstop.Policy("fulljitter")
    policy = backstop.Policy("full-jitter")
    with pytest.raises(TypeError, match="expected an exception or `code`"):
        policy.decide()
    with pytest.raises(ValueError, match="attempt"):
        policy.decide(code="HTTP 503", attempt=0)
    with pytest.raises(ValueError, match="random"):
        policy.decide(code="HTTP 503", random=1.0)
    with pytest.raises(ValueError, match="age"):
        policy.decide(code="HTTP 503", age="-1s")


def test_settings_have_the_types_of_python():
    policy = backstop.Policy("linear", base=timedelta(seconds=3), permanent=["CardDeclined", "NoSuch*"])
    assert policy.decide(code="HTTP 503", attempt=2).delay == timedelta(seconds=6)
    assert policy.decide(code="NoSuchArticle").verdict == "dead-letter"
