"""What packages are made of: the programs of one version, with what is installed next to them."""

from __future__ import annotations

import json
import pathlib
import subprocess
from dataclasses import dataclass, field

from elf import Elf

TOP = pathlib.Path(__file__).resolve().parents[2]

# The names of a processor: ours, and those of the kinds of packages.
ARCHITECTURES = {
    "x86-64": {"elf": 62, "rust": "x86_64-unknown-linux-musl", "wheel": "x86_64", "npm": "x64", "system": "amd64", "oci": "amd64"},
    "arm64": {"elf": 183, "rust": "aarch64-unknown-linux-musl", "wheel": "aarch64", "npm": "arm64", "system": "arm64", "oci": "arm64"},
}


PROGRAMS = ("backstop", "backstop-lambda")

# A library that another process loads needs the C library of that process.
C_LIBRARIES = ("gnu", "musl")

# What they are called by Cargo: the modules for Python and Node.js.
MODULES = ("libbackstop_python.so", "libbackstop_node.so")


class Mistake(Exception):
    """What is given can't be packaged."""


@dataclass(frozen=True)
class Binary:
    """A program for one processor, or a library that Python or Node.js loads, as an ELF file."""

    path: pathlib.Path
    elf: Elf

    @staticmethod
    def read(path: pathlib.Path, architecture: str) -> Binary:
        """Reads what it needs of a machine."""
        try:
            elf = Elf.read(path)
        except ValueError as error:
            raise Mistake(str(error)) from None
        if elf.machine != ARCHITECTURES[architecture]["elf"]:
            raise Mistake(f"{path} is not for {architecture}")
        return Binary(path, elf)

    def bytes(self) -> bytes:
        """Its content."""
        return self.path.read_bytes()


@dataclass(frozen=True)
class Release:
    """One version of Backstop, for some processors."""

    version: str
    description: str
    homepage: str
    # By processor, then by name.
    programs: dict[str, dict[str, Binary]]
    # The manual pages and the completions, by file name.
    pages: dict[str, bytes]
    completions: dict[str, bytes]
    # The modules for Python and Node.js, by processor, C library and name.
    modules: dict[str, dict[str, dict[str, Binary]]] = field(default_factory=dict)
    # The bill of materials of a program or a module, by the name of its crate.
    boms: dict[str, bytes] = field(default_factory=dict)
    # The certificates of authorities that a container trusts.
    certificates: bytes = b""
    # Where the files of the release are, and the key that signs their checksums.
    url: str = ""
    public_key: str = ""
    # What compiles policies for the function, those of one's own, and its configuration.
    writer: pathlib.Path = pathlib.Path()
    policies: tuple[pathlib.Path, ...] = ()
    config: bytes = b""
    # How hard to compress, from 1 to 9.
    level: int = 9

    @property
    def architectures(self) -> list[str]:
        """The processors, in a fixed order."""
        return [it for it in ARCHITECTURES if it in self.programs]

    def name(self, architecture: str, kind: str) -> str:
        """What a kind of package calls a processor."""
        return ARCHITECTURES[architecture][kind]

    def with_module(self, name: str) -> list[tuple[str, str, Binary]]:
        """The builds of a module: processor, C library and file."""
        return [(architecture, libc, built[name]) for architecture in self.architectures for libc, built in self.modules[architecture].items() if name in built]

    @staticmethod
    def document(name: str) -> bytes:
        """A file of the project."""
        return (TOP / name).read_bytes()


def built(folder: pathlib.Path, names: tuple[str, ...], architecture: str) -> dict[str, Binary]:
    """What a folder has of these files."""
    return {name: Binary.read(folder / name, architecture) for name in names if (folder / name).exists()}


def package() -> dict:
    """What Cargo knows about the command."""
    command = ["cargo", "metadata", "--locked", "--offline", "--no-deps", "--format-version", "1"]
    packages = json.loads(subprocess.run(command, cwd=TOP, check=True, capture_output=True).stdout)["packages"]
    return next(it for it in packages if it["name"] == "backstop-cli")


def written_by(program: pathlib.Path, folder: pathlib.Path) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """The manual pages and the completions, which a program writes that runs here. They are the same for every processor."""
    subprocess.run([program, "man", folder], check=True)
    pages = {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
    shells = {"bash": "backstop.bash", "zsh": "_backstop", "fish": "backstop.fish"}
    run = lambda shell: subprocess.run([program, "completions", shell], check=True, capture_output=True).stdout
    return pages, {name: run(shell) for shell, name in shells.items()}
