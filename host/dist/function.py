"""The Lambda retry handler: the package of a function, and the same as a layer, for functions whose package is their configuration."""

from __future__ import annotations

import pathlib
import subprocess
import tempfile

import pack
from release import Mistake, Release, TOP


def build(release: Release) -> dict[str, bytes]:
    """`backstop-lambda-ARCHITECTURE.zip` and `backstop-lambda-layer-ARCHITECTURE.zip`."""
    built = {}
    for architecture in release.architectures:
        files = _files(release, architecture)
        layer = {path: file for path, file in files.items() if path != "backstop.toml"}
        built[f"backstop-lambda-{architecture}.zip"] = pack.zipped(files, release.level)
        # Lambda unpacks it into /opt, where it finds the bootstrap, and the handler what is compiled.
        built[f"backstop-lambda-layer-{architecture}.zip"] = pack.zipped(layer, release.level)
    return built


def _files(release: Release, architecture: str) -> pack.Files:
    program = release.programs[architecture].get("backstop-lambda")
    if not program:
        raise Mistake(f"the folder for {architecture} has no backstop-lambda")
    files = {"bootstrap": pack.program(program.bytes())}
    with tempfile.TemporaryDirectory() as folder:
        builtin = sorted(path.stem for path in (TOP / "host/engine/builtin").glob("*.wasm"))
        command = [release.writer, "policy", "compile", *builtin, *release.policies, "--arch", architecture, "--output", folder]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        files |= {f"compiled/{path.name}": pack.plain(path.read_bytes()) for path in sorted(pathlib.Path(folder).iterdir())}
    files |= {path.name: pack.plain(path.read_bytes()) for path in release.policies}
    if release.config:
        files["backstop.toml"] = pack.plain(release.config)
    return files
