"""npm packages: `backstop-sqs`, a shim in JavaScript, and one package with the program for each processor."""

from __future__ import annotations

import json

import pack
from release import ARCHITECTURES, Release, TOP

SCOPE = "@backstop-sqs"


def build(release: Release) -> dict[str, bytes]:
    """A package for each processor, and the shim that depends on them."""
    packages = dict(_platform(release, architecture) for architecture in release.architectures)
    return packages | dict([_shim(release)])


def _package(release: Release, name: str, files: pack.Files, **more: object) -> tuple[str, bytes]:
    """A tarball as `npm pack` makes it."""
    about = {"name": name, "version": release.version, "description": release.description, "license": "Apache-2.0"}
    if release.homepage:
        about["repository"] = {"type": "git", "url": f"git+{release.homepage}.git"}
    text = json.dumps({**about, **more}, indent=2) + "\n"
    files = {"package.json": pack.plain(text.encode()), "LICENSE": pack.plain(release.document("LICENSE")), **files}
    tar = pack.tar({f"package/{path}": file for path, file in files.items()})
    file = name.removeprefix("@").replace("/", "-")
    return f"{file}-{release.version}.tgz", pack.gzipped(tar, release.level)


def _platform(release: Release, architecture: str) -> tuple[str, bytes]:
    cpu = release.name(architecture, "npm")
    program = release.programs[architecture]["backstop"]
    files = {"bin/backstop": pack.program(program.bytes())}
    # A static program runs with every C library: no `libc`.
    return _package(release, f"{SCOPE}/linux-{cpu}", files, os=["linux"], cpu=[cpu], preferUnplugged=True)


def _shim(release: Release) -> tuple[str, bytes]:
    """Names the packages of all processors, so that a lock file made on one machine holds for the others."""
    every = {f"{SCOPE}/linux-{it['npm']}": release.version for it in ARCHITECTURES.values()}
    files = {
        "bin/backstop.js": pack.program((TOP / "host/dist/node/backstop.js").read_bytes()),
        "README.md": pack.plain((TOP / "host/dist/readme.md").read_bytes()),
    }
    return _package(
        release,
        "backstop-sqs",
        files,
        keywords=["aws", "backoff", "lambda", "retry", "sqs", "webassembly"],
        # `npx backstop-sqs` runs the command that has the package's name.
        bin={"backstop": "bin/backstop.js", "backstop-sqs": "bin/backstop.js"},
        engines={"node": ">=18"},
        optionalDependencies=every,
    )
