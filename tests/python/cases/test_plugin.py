"""The plugin of pytest, in a pytest of its own."""

import subprocess
import sys

SCENARIOS = """
[[scenario]]
name = "busy is transient"
failure = { code = "HTTP 503" }
expect = { class = "transient", verdict = "retry" }

[[scenario]]
name = "busy is permanent"
failure = { code = "HTTP 503" }
expect = { class = "permanent" }
"""


def run(folder, policies, scenarios=SCENARIOS):
    (folder / "pytest.ini").write_text(f"[pytest]\nbackstop_policies =\n    {policies}\n")
    (folder / "throttled.toml").write_text(scenarios)
    (folder / "other.toml").write_text("no scenarios")
    arguments = [sys.executable, "-m", "pytest", "-p", "backstop.pytest_plugin", "-p", "no:cacheprovider", "-v"]
    said = subprocess.run(arguments, cwd=folder, capture_output=True, text=True)
    return said.returncode, said.stdout + said.stderr


def test_each_scenario_and_each_check_is_a_test(tmp_path):
    code, said = run(tmp_path, "full-jitter throttled.toml")
    assert code == 1
    assert "full-jitter: busy is transient PASSED" in said, said
    assert "full-jitter: busy is permanent FAILED" in said
    assert "class: expected permanent, got transient" in said
    assert "1 failed" in said and "other.toml" not in said


def test_what_cannot_be_tested_is_an_error_that_says_why(tmp_path):
    code, said = run(tmp_path, "./orders.wasm throttled.toml")
    assert code != 0 and "orders.wasm" in said and "passed" not in said
    code, said = run(tmp_path, "full-jitter throttled.toml", "[[scenario]]\nnamed = 5\n")
    assert code != 0 and "unknown key `named`" in said
    code, said = run(tmp_path, "throttled.toml")
    assert code != 0 and "expected a policy and its file of scenarios" in said


def test_nothing_chooses_nothing(tmp_path):
    code, said = run(tmp_path, "")
    assert code == 5, said
