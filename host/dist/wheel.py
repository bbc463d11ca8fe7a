"""Wheels of `backstop-sqs`: the command and the module for Python, for each processor and C library."""

from __future__ import annotations

import base64
import hashlib

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    from pip._vendor import tomli as tomllib

import pack
import readme
from release import Binary, Mistake, Release, TOP

NAME = "backstop_sqs"

MODULE = "libbackstop_python.so"

# The oldest Python whose stable ABI the module uses: the feature of pyo3 in host/python/Cargo.toml.
PYTHON = "cp310-abi3"

# The libraries that every platform of a tag has.
LIBRARIES = {
    "gnu": {"libc.so.6", "libdl.so.2", "libgcc_s.so.1", "libm.so.6", "libpthread.so.0", "librt.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"},
    "musl": {"libc.so"},
}

# The oldest C libraries that Rust supports. The symbols of musl have no versions.
GLIBC = (2, 17)
MUSL = "musllinux_1_2"

# What older versions of pip call a platform.
ALIASES = {"manylinux_2_17": "manylinux2014"}


def build(release: Release) -> dict[str, bytes]:
    """A wheel for each processor and C library."""
    built = release.with_module(MODULE)
    if not built:
        raise Mistake(f"the wheels need {MODULE} in the folders `gnu` or `musl` of a processor")
    return dict(_wheel(release, *it) for it in built)


def platforms(libc: str, binaries: list[Binary]) -> list[str]:
    """The names of the platforms that have what these files need."""
    needed = frozenset().union(*(it.elf.libraries for it in binaries))
    if unknown := needed - LIBRARIES[libc]:
        raise Mistake(f"no platform of a wheel for {libc} has {', '.join(sorted(unknown))}")
    name = MUSL if libc == "musl" else "manylinux_{}_{}".format(*max(GLIBC, *(it.elf.glibc for it in binaries)))
    return [it for it in (name, ALIASES.get(name)) if it]


def _wheel(release: Release, architecture: str, libc: str, module: Binary) -> tuple[str, bytes]:
    program = release.programs[architecture]["backstop"]
    tags = [f"{it}_{release.name(architecture, 'wheel')}" for it in platforms(libc, [program, module])]
    info = f"{NAME}-{release.version}.dist-info"
    project = tomllib.loads((TOP / "host/python/pyproject.toml").read_text())["project"]
    package = TOP / "host/python/backstop"
    files = {f"backstop/{path.name}": pack.plain(path.read_bytes()) for path in sorted(package.iterdir()) if path.suffix in (".py", ".pyi", ".typed")}
    files |= {
        "backstop/_native.abi3.so": pack.program(module.bytes()),
        f"{NAME}-{release.version}.data/scripts/backstop": pack.program(program.bytes()),
        f"{info}/METADATA": pack.plain(_metadata(release, project).encode()),
        f"{info}/WHEEL": pack.plain(_lines({"Wheel-Version": "1.0", "Generator": "backstop", "Root-Is-Purelib": "false", "Tag": [f"{PYTHON}-{it}" for it in tags]}).encode()),
        f"{info}/entry_points.txt": pack.plain(_entry_points(project).encode()),
        f"{info}/licenses/LICENSE": pack.plain(release.document("LICENSE")),
    }
    files |= {f"{info}/sboms/{crate}.spdx.json": pack.plain(release.boms[crate]) for crate in ("backstop-cli", "backstop-python") if crate in release.boms}
    files[f"{info}/RECORD"] = pack.plain(_record(files, f"{info}/RECORD"))
    return f"{NAME}-{release.version}-{PYTHON}-{'.'.join(tags)}.whl", pack.zipped(files, release.level)


def _lines(fields: dict[str, str | list[str]]) -> str:
    """The fields of a wheel's files; one of several values is repeated."""
    every = [(name, value) for name, values in fields.items() for value in ([values] if isinstance(values, str) else values)]
    return "".join(f"{name}: {value}\n" for name, value in every)


def _metadata(release: Release, project: dict) -> str:
    """What a registry says of the package: the project file's own words."""
    fields = {
        "Metadata-Version": "2.4",
        "Name": project["name"],
        "Version": release.version,
        "Summary": project["description"],
        "License-Expression": project["license"],
        "License-File": "LICENSE",
        "Requires-Python": project["requires-python"],
        "Keywords": ",".join(project["keywords"]),
        "Classifier": project["classifiers"],
        "Project-URL": [f"Repository, {release.homepage}"] if release.homepage else [],
        "Description-Content-Type": "text/markdown",
    }
    text = readme.published(release, "host/python/" + project["readme"])
    return f"{_lines(fields)}\n{text}"


def _entry_points(project: dict) -> str:
    """The scripts and the plugins of the project file."""
    groups = {"console_scripts": project["scripts"], **project["entry-points"]}
    sections = [f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in named.items()) for group, named in groups.items()]
    return "\n".join(sections)


def _record(files: pack.Files, own: str) -> bytes:
    """The list of the files with their digests, itself without one."""
    digest = lambda content: base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    lines = [f"{path},sha256={digest(content)},{len(content)}\n" for path, (_, content) in files.items()]
    return "".join([*lines, f"{own},,\n"]).encode()
