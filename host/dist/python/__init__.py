"""The `backstop` command: sandboxed WebAssembly policies decide every retry of an SQS queue."""

import os
import sys
import sysconfig


def find_backstop():
    """The path of the command that this package has installed."""
    folders = [sysconfig.get_path("scripts"), os.path.dirname(sys.argv[0])]
    # Installed with `pip install --user` or `--target`.
    folders.append(sysconfig.get_path("scripts", scheme=sysconfig.get_preferred_scheme("user")) if sys.version_info >= (3, 10) else None)
    folders.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bin"))
    for folder in filter(None, folders):
        path = os.path.join(folder, "backstop")
        if os.path.isfile(path):
            return path
    raise FileNotFoundError("the command `backstop` is not there: install the package backstop-sqs again")


def main():
    """Becomes the command."""
    path = find_backstop()
    os.execv(path, [path, *sys.argv[1:]])
