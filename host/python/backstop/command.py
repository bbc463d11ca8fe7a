"""The `backstop` command that this package has installed."""

from __future__ import annotations

import os
import sys
import sysconfig
from functools import cache
from typing import NoReturn, Optional

from backstop import _native

_OVERRIDE = "BACKSTOP_COMMAND"


def path() -> Optional[str]:
    """Where the command is; none if the package has been installed without it."""
    named = os.environ.get(_OVERRIDE)
    if named:
        return named
    package = os.path.dirname(os.path.abspath(__file__))
    # The command of this very package: by `pip install --target`, or in an environment, with `--prefix` or `--user`.
    near = [os.path.join(package, *[os.pardir] * levels, "bin") for levels in (1, 4)]
    for folder in [*near, sysconfig.get_path("scripts")]:
        found = os.path.normpath(os.path.join(folder, "backstop"))
        if os.path.isfile(found) and os.access(found, os.X_OK):
            return found
    return None


@cache
def compiles() -> None:
    """Has policies compiled in child processes of the command, with limits: the main program is Python's."""
    found = path()
    if found is not None:
        _native.compile_by(found)


def main() -> NoReturn:
    """Becomes the command."""
    found = path()
    if found is None:
        raise FileNotFoundError("the command `backstop` is not there: install the package backstop-sqs again")
    os.execv(found, [found, *sys.argv[1:]])
