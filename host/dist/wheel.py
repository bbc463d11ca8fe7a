"""Wheels of `backstop-sqs`: the command for `pip install` and `uvx`, for each processor."""

from __future__ import annotations

import base64
import hashlib

import pack
from release import Program, Release, TOP

NAME = "backstop_sqs"

# A static program runs with every C library.
TAGS = "manylinux_2_17_{0}.manylinux2014_{0}.musllinux_1_1_{0}"

METADATA = """\
Metadata-Version: 2.4
Name: backstop-sqs
Version: {release.version}
Summary: {release.description}
License-Expression: Apache-2.0
License-File: LICENSE
Requires-Python: >=3.8
Keywords: aws,backoff,lambda,retry,sqs,webassembly
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: Rust
Description-Content-Type: text/markdown

{readme}"""


def build(release: Release) -> dict[str, bytes]:
    """A wheel for each processor."""
    return dict(_wheel(release, architecture) for architecture in release.architectures)


def tag(program: Program, processor: str) -> str:
    """Where a wheel may be installed. A program that needs libraries of this machine is for a machine like this one, and PyPI does not take it."""
    return f"py3-none-{TAGS.format(processor)}" if program.is_static else f"py3-none-linux_{processor}"


def _wheel(release: Release, architecture: str) -> tuple[str, bytes]:
    program = release.programs[architecture]["backstop"]
    tags = tag(program, release.name(architecture, "wheel"))
    info = f"{NAME}-{release.version}.dist-info"
    python, _, platforms = tags.rpartition("-")
    lines = "".join(f"Tag: {python}-{platform}\n" for platform in platforms.split("."))
    readme = (TOP / "host/dist/readme.md").read_text()
    files = {
        f"{NAME}-{release.version}.data/scripts/backstop": pack.program(program.bytes()),
        f"{NAME}/__init__.py": pack.plain((TOP / "host/dist/python/__init__.py").read_bytes()),
        f"{NAME}/__main__.py": pack.plain((TOP / "host/dist/python/__main__.py").read_bytes()),
        f"{info}/METADATA": pack.plain(METADATA.format(release=release, readme=readme).encode()),
        f"{info}/WHEEL": pack.plain(f"Wheel-Version: 1.0\nGenerator: backstop\nRoot-Is-Purelib: false\n{lines}".encode()),
        # `uvx backstop-sqs` runs the command that has the package's name.
        f"{info}/entry_points.txt": pack.plain(b"[console_scripts]\nbackstop-sqs = backstop_sqs:main\n"),
        f"{info}/licenses/LICENSE": pack.plain(release.document("LICENSE")),
    }
    if bom := release.boms.get("backstop-cli"):
        files[f"{info}/sboms/backstop.spdx.json"] = pack.plain(bom)
    files[f"{info}/RECORD"] = pack.plain(_record(files, f"{info}/RECORD"))
    return f"{NAME}-{release.version}-{tags}.whl", pack.zipped(files, release.level)


def _record(files: pack.Files, own: str) -> bytes:
    """The list of the files with their digests, itself without one."""
    digest = lambda content: base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    lines = [f"{path},sha256={digest(content)},{len(content)}\n" for path, (_, content) in files.items()]
    return "".join([*lines, f"{own},,\n"]).encode()
