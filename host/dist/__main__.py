"""Makes packages of programs that are built: `python3 host/dist --output FOLDER --x86-64 FOLDER [--arm64 FOLDER] [KIND...]`.

A folder of a processor has `backstop`, `backstop-lambda` for the archives, and the modules for Python and Node.js in `gnu` and `musl`, for each C library. How they were built is not asked: `make dist` gives static programs, and the tests those of the development build, which then are packages for machines like this one.
"""

from __future__ import annotations

import argparse
import hashlib
import pathlib
import platform
import sys
import tempfile

# The sources stay as they are.
sys.dont_write_bytecode = True

import archive
import function
import image
import installer
import npm
import system
import wheel
from release import ARCHITECTURES, C_LIBRARIES, MODULES, Mistake, PROGRAMS, Release, built, package, written_by

KINDS = {"archives": archive, "wheels": wheel, "npm": npm, "system": system, "image": image, "function": function, "installer": installer}

# The function has a build of its own, `make lambda`, and the installer needs a key.
DEFAULT = ("archives", "wheels", "npm", "system", "image")


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="host/dist", description=(__doc__ or "").partition(":")[0])
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"what to make: {', '.join(KINDS)} [default: all but the last two]")
    parser.add_argument("--output", type=pathlib.Path, required=True, metavar="FOLDER")
    for architecture in ARCHITECTURES:
        parser.add_argument(f"--{architecture}", type=pathlib.Path, metavar="FOLDER", help=f"the programs and modules for {architecture}")
    parser.add_argument("--writer", type=pathlib.Path, metavar="PROGRAM", help="a `backstop` that runs here, which writes manual pages and completions [default: that for this machine]")
    parser.add_argument("--boms", type=pathlib.Path, metavar="FOLDER", help="with PROGRAM.spdx.json, the bills of materials")
    parser.add_argument("--certificates", type=pathlib.Path, metavar="FILE", help="the certificates of authorities, for the image")
    parser.add_argument("--url", default="", help="where the files of the release are, for the installer")
    parser.add_argument("--public-key", default="", metavar="KEY", help="minisign's public key of who signs SHA256SUMS, for the installer")
    parser.add_argument("--config", type=pathlib.Path, metavar="FILE", help="the configuration in the function's package")
    parser.add_argument("--policies", type=pathlib.Path, nargs="*", default=(), metavar="FILE", help="further policies in the function's package")
    parser.add_argument("--level", type=int, default=9, help="how hard to compress, from 1 to 9")
    given = parser.parse_args()
    if unknown := set(given.kinds) - set(KINDS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    return given


def release(given: argparse.Namespace, folder: pathlib.Path) -> Release:
    """What is to be packaged."""
    folders = {it: path for it in ARCHITECTURES if (path := getattr(given, it.replace("-", "_")))}
    programs = {it: built(path, PROGRAMS, it) for it, path in folders.items()}
    modules = {it: {libc: built(path / libc, MODULES, it) for libc in C_LIBRARIES} for it, path in folders.items()}
    here = {"x86_64": "x86-64", "aarch64": "arm64"}.get(platform.machine(), "")
    program = programs.get(here, {}).get("backstop")
    writer = given.writer or (program.path if program else None)
    if not writer or not writer.is_file():
        raise Mistake(f"--{here} or --writer has to name a program that runs here")
    pages, completions = written_by(writer, folder)
    about = package()
    return Release(
        version=about["version"],
        description="Sandboxed WebAssembly policies decide every retry of an SQS queue.",
        homepage=about["repository"] or "",
        programs=programs,
        modules=modules,
        pages=pages,
        completions=completions,
        boms={path.name.partition(".")[0]: path.read_bytes() for path in sorted(given.boms.glob("*.spdx.json"))} if given.boms else {},
        certificates=given.certificates.read_bytes() if given.certificates else b"",
        url=given.url,
        public_key=given.public_key,
        writer=writer.absolute(),
        policies=tuple(given.policies),
        config=given.config.read_bytes() if given.config else b"",
        level=given.level,
    )


def main() -> None:
    """Writes the packages, and prints their names with size and digest."""
    given = arguments()
    with tempfile.TemporaryDirectory() as folder:
        made = release(given, pathlib.Path(folder))
    given.output.mkdir(parents=True, exist_ok=True)
    for kind in given.kinds or DEFAULT:
        for name, content in KINDS[kind].build(made).items():
            (given.output / name).write_bytes(content)
            print(f"{hashlib.sha256(content).hexdigest()}  {name}  {len(content) / 2**20:.1f} MiB")


try:
    main()
except Mistake as mistake:
    sys.exit(f"host/dist: {mistake}")
