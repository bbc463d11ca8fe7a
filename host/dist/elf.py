"""What a program or a library for Linux needs of a machine, read from its ELF file."""

from __future__ import annotations

import pathlib
import re
import struct
from dataclasses import dataclass

# Kinds of program headers and of entries of the dynamic section, as <elf.h> has them.
PT_LOAD, PT_DYNAMIC, PT_INTERP = 1, 2, 3
DT_NEEDED, DT_STRTAB, DT_VERNEED, DT_VERNEEDNUM = 1, 5, 0x6FFFFFFE, 0x6FFFFFFF


@dataclass(frozen=True)
class Elf:
    """The headers of a 64-bit file."""

    machine: int
    is_static: bool
    """Whether it needs neither a library nor a loader of the system."""
    libraries: frozenset[str]
    """The libraries that are loaded with it."""
    versions: frozenset[str]
    """The versions of symbols of these libraries, such as `GLIBC_2.17`."""

    @staticmethod
    def read(path: pathlib.Path) -> Elf:
        """Reads them. Raises ValueError if the file is for no 64-bit Linux."""
        content = path.read_bytes()
        if content[:6] != b"\x7fELF\x02\x01":
            raise ValueError(f"{path} is not for a 64-bit Linux")
        offset, size, count = _at("<Q", content, 32), _at("<H", content, 54), _at("<H", content, 56)
        headers = [struct.unpack_from("<IIQQQQ", content, offset + number * size) for number in range(count)]
        loaded = [(address, start, length) for kind, _, start, address, _, length in headers if kind == PT_LOAD]
        libraries, versions = frozenset(), frozenset()
        for kind, _, start, _, _, length in headers:
            if kind == PT_DYNAMIC:
                libraries, versions = _needed(content, content[start : start + length], loaded)
        is_static = not libraries and all(kind != PT_INTERP for kind, *_ in headers)
        return Elf(_at("<H", content, 18), is_static, libraries, versions)

    @property
    def glibc(self) -> tuple[int, int]:
        """The glibc that it needs at least; (0, 0) if none."""
        found = [re.fullmatch(r"GLIBC_(\d+)\.(\d+)(\.\d+)?", version) for version in self.versions]
        return max(((int(it[1]), int(it[2])) for it in found if it), default=(0, 0))


def _at(form: str, content: bytes, offset: int) -> int:
    return struct.unpack_from(form, content, offset)[0]


def _text(content: bytes, offset: int) -> str:
    return content[offset : content.index(b"\0", offset)].decode()


def _needed(content: bytes, dynamic: bytes, loaded: list[tuple[int, int, int]]) -> tuple[frozenset[str], frozenset[str]]:
    """The libraries and the versions of symbols that a dynamic section names."""

    def place(address: int) -> int:
        return next(address - start + offset for start, offset, length in loaded if start <= address < start + length)

    entries = list(struct.iter_unpack("<qQ", dynamic))
    first = dict(reversed(entries))
    if DT_STRTAB not in first:
        return frozenset(), frozenset()
    texts = place(first[DT_STRTAB])
    libraries = {_text(content, texts + value) for tag, value in entries if tag == DT_NEEDED}
    versions = set()
    library = place(first[DT_VERNEED]) if DT_VERNEED in first else 0
    for _ in range(first.get(DT_VERNEEDNUM, 0)):
        _, count, _, auxiliary, following = struct.unpack_from("<HHIII", content, library)
        version = library + auxiliary
        for _ in range(count):
            _, _, _, name, further = struct.unpack_from("<IHHII", content, version)
            versions.add(_text(content, texts + name))
            version += further
        library += following
    return frozenset(libraries), frozenset(versions)
