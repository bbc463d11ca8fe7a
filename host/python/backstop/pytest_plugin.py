"""A plugin of pytest: the scenarios of a policy, and the checks that every policy must pass, as tests; and the fixture `backstop_queue`, a queue in virtual time for tests of workers.

    # pytest.ini
    [pytest]
    backstop_policies =
        ./orders.wasm scenarios.toml
        full-jitter throttled.scenarios.toml

Each line names a policy and its file of scenarios; paths are relative to the file with the settings. pytest collects the file of scenarios where it is.

    def test_orders(backstop_queue):
        assert backstop_queue.run(ship, messages=["book", "piano"]).counts.dead_lettered == 1
"""

from __future__ import annotations

import json
import pathlib
import subprocess
from typing import Any, Dict, Iterator, List, Optional, Tuple

import pytest

from backstop import command
from backstop.testing import VirtualQueue

_INI = "backstop_policies"


@pytest.fixture
def backstop_queue() -> VirtualQueue:
    """Queues in memory with a time that jumps: see `backstop.testing.VirtualQueue`."""
    return VirtualQueue()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(_INI, "policies and their files of scenarios, a pair in each line", type="linelist", default=[])


def pytest_collect_file(file_path: pathlib.Path, parent: pytest.Collector) -> Optional[pytest.Collector]:
    if file_path.suffix != ".toml":
        return None
    policies = [policy for policy, file in _pairs(parent.config) if file == file_path.resolve()]
    if not policies:
        return None
    return ScenarioFile.from_parent(parent, path=file_path, policies=policies)


def _pairs(config: pytest.Config) -> List[Tuple[str, pathlib.Path]]:
    pairs = []
    for line in config.getini(_INI):
        words = line.rsplit(maxsplit=1)
        if len(words) != 2:
            raise pytest.UsageError(f"{_INI}: `{line}`: expected a policy and its file of scenarios, such as `./orders.wasm scenarios.toml`")
        policy, file = words
        pairs.append((policy, (config.rootpath / file).resolve()))
    return pairs


class ScenarioFile(pytest.File):
    """A file of scenarios, and the policies that have to pass it."""

    def __init__(self, *, policies: List[str], **more: Any) -> None:
        super().__init__(**more)
        self.policies = policies

    def collect(self) -> Iterator[pytest.Item]:
        for policy in self.policies:
            for line in self._lines(policy):
                yield Scenario.from_parent(self, name=f"{policy}: {line['test']}", line=line)

    def _lines(self, policy: str) -> List[Dict[str, Any]]:
        program = command.path()
        if program is None:
            raise self.CollectError("the command `backstop` is not there: install the package backstop-sqs again")
        # Their failures are in the lines; what can't be tested at all is said on standard error.
        said = subprocess.run(
            [program, "policy", "test", policy, "--scenarios", str(self.path), "--json"],
            cwd=self.config.rootpath,
            capture_output=True,
            text=True,
        )
        tests = [it for it in map(json.loads, said.stdout.splitlines()) if "test" in it]
        if not tests:
            raise self.CollectError(said.stderr.strip() or f"{policy}: no test has run")
        return tests


class Scenario(pytest.Item):
    """One scenario, or one check, of a policy."""

    def __init__(self, *, line: Dict[str, Any], **more: Any) -> None:
        super().__init__(**more)
        self.line = line

    def runtest(self) -> None:
        if not self.line["passed"]:
            raise NotPassed

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if not isinstance(excinfo.value, NotPassed):
            return super().repr_failure(excinfo, style)
        rows = [row for row in self.line.get("rows", []) if not row.get("holds", True)]
        differences = [f"{row['what']}: expected {row['expected']}, got {row['got']}" for row in rows]
        return "\n".join(differences) or json.dumps(self.line, indent=2)

    def reportinfo(self) -> Tuple[pathlib.Path, Optional[int], str]:
        return self.path, (self.line.get("line") or 1) - 1, self.name


class NotPassed(Exception):
    """The policy has answered something else."""
