"""What packages are made of: the programs of one version, with what is installed next to them."""

from __future__ import annotations

import json
import pathlib
import struct
import subprocess
from dataclasses import dataclass, field

TOP = pathlib.Path(__file__).resolve().parents[2]

# The names of a processor: ours, and those of the kinds of packages.
ARCHITECTURES = {
    "x86-64": {"elf": 62, "rust": "x86_64-unknown-linux-musl", "wheel": "x86_64", "npm": "x64", "system": "amd64", "oci": "amd64"},
    "arm64": {"elf": 183, "rust": "aarch64-unknown-linux-musl", "wheel": "aarch64", "npm": "arm64", "system": "arm64", "oci": "arm64"},
}


class Mistake(Exception):
    """What is given can't be packaged."""


@dataclass(frozen=True)
class Program:
    """A program for one processor, as an ELF file."""

    path: pathlib.Path
    is_static: bool

    @staticmethod
    def read(path: pathlib.Path, architecture: str) -> Program:
        """Reads its headers: which processor it is for, and whether it needs a loader of the system."""
        with path.open("rb") as file:
            header = file.read(64)
            if header[:6] != b"\x7fELF\x02\x01":
                raise Mistake(f"{path} is no program for a 64-bit Linux")
            machine, offset = struct.unpack_from("<H", header, 18)[0], struct.unpack_from("<Q", header, 32)[0]
            size, count = struct.unpack_from("<HH", header, 54)
            file.seek(offset)
            kinds = [struct.unpack_from("<I", file.read(size))[0] for _ in range(count)]
        if machine != ARCHITECTURES[architecture]["elf"]:
            raise Mistake(f"{path} is not for {architecture}")
        return Program(path, is_static=3 not in kinds)

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
    programs: dict[str, dict[str, Program]]
    # The manual pages and the completions, by file name.
    pages: dict[str, bytes]
    completions: dict[str, bytes]
    # The bill of materials of a program, by its name.
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

    @staticmethod
    def document(name: str) -> bytes:
        """A file of the project."""
        return (TOP / name).read_bytes()


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
