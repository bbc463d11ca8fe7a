"""npm packages: `backstop-sqs`, the program and the addons of each processor in packages of their own, and `backstop-retry`."""

from __future__ import annotations

import json

import pack
import readme
from release import ARCHITECTURES, Binary, Mistake, Release, TOP

SCOPE = "@backstop-sqs"

ADDON = "libbackstop_node.so"

# What npm calls the C libraries.
LIBRARIES = {"gnu": "glibc", "musl": "musl"}


def build(release: Release) -> dict[str, bytes]:
    """A package with the program for each processor, one with the addon for each processor and C library, the one that depends on them, and the retrier."""
    packages = [_program(release, architecture) for architecture in release.architectures]
    packages += [_addon(release, *it) for it in release.with_module(ADDON)]
    return dict([*packages, _main(release), _retrier(release)])


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


def _program(release: Release, architecture: str) -> tuple[str, bytes]:
    cpu = release.name(architecture, "npm")
    program = release.programs[architecture]["backstop"]
    files = {"bin/backstop": pack.program(program.bytes())}
    # A static program runs with every C library: no `libc`.
    return _package(release, f"{SCOPE}/linux-{cpu}", files, os=["linux"], cpu=[cpu], preferUnplugged=True)


def _addon(release: Release, architecture: str, libc: str, addon: Binary) -> tuple[str, bytes]:
    cpu = release.name(architecture, "npm")
    files = {"backstop.node": pack.program(addon.bytes())}
    name = f"{SCOPE}/linux-{cpu}-{libc}"
    return _package(release, name, files, main="backstop.node", os=["linux"], cpu=[cpu], libc=[LIBRARIES[libc]], preferUnplugged=True)


def _main(release: Release) -> tuple[str, bytes]:
    """Names the packages of all platforms, so that a lock file made on one machine holds for the others."""
    every = [f"linux-{it['npm']}{libc}" for it in ARCHITECTURES.values() for libc in ("", *(f"-{it}" for it in LIBRARIES))]
    command = pack.program((TOP / "host/node/bin/backstop.js").read_bytes())
    return _built(release, "host/node", {"bin/backstop.js": command}, optionalDependencies={f"{SCOPE}/{name}": release.version for name in every})


def _retrier(release: Release) -> tuple[str, bytes]:
    return _built(release, "host/node-retry", {})


def _built(release: Release, folder: str, files: pack.Files, **more: object) -> tuple[str, bytes]:
    """A package of JavaScript, as its `package.json` says."""
    dist = TOP / folder / "dist"
    if not dist.is_dir():
        raise Mistake(f"{folder} is not built: run `npm ci && npm run build` in it")
    about = json.loads((TOP / folder / "package.json").read_text())
    own = {key: about[key] for key in about if key not in ("name", "version", "license", "files", "scripts", "devDependencies")}
    files = files | {f"dist/{path.relative_to(dist)}": pack.plain(path.read_bytes()) for path in sorted(dist.rglob("*")) if path.is_file() and path.suffix != ".node"}
    files["README.md"] = pack.plain(readme.published(release, f"{folder}/README.md").encode())
    return _package(release, about["name"], files, **own, **more)
