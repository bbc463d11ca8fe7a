"""Archives that are the same, byte for byte, whenever and wherever they are made of the same files."""

from __future__ import annotations

import gzip
import io
import pathlib
import tarfile
import zipfile

# An archive's oldest time that every reader of zip files understands.
ZIP_TIME = (1980, 1, 1, 0, 0, 0)

# A file's mode and its content, by its path.
Files = dict[str, tuple[int, bytes]]


def plain(content: bytes) -> tuple[int, bytes]:
    """A file that everybody may read."""
    return 0o644, content


def program(content: bytes) -> tuple[int, bytes]:
    """A file that everybody may run."""
    return 0o755, content


def gzipped(content: bytes, level: int = 9) -> bytes:
    """Compressed, without a name or a time."""
    packed = io.BytesIO()
    with gzip.GzipFile("", "wb", level, packed, mtime=0) as file:
        file.write(content)
    # The byte for the system that compressed it: unknown.
    return packed.getvalue()[:9] + b"\xff" + packed.getvalue()[10:]


def tar(files: Files, folders: dict[str, int] | None = None, owner: int = 0) -> bytes:
    """A tar of these files and of the folders that they are in. A folder that is named has its own mode, and belongs to the owner."""
    packed, made = io.BytesIO(), set()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:

        def folder(path: pathlib.PurePosixPath) -> None:
            if str(path) in made or str(path) == ".":
                return
            folder(path.parent)
            made.add(str(path))
            entry = tarfile.TarInfo(str(path))
            named = folders is not None and str(path) in folders
            entry.type, entry.mode = tarfile.DIRTYPE, folders[str(path)] if named else 0o755
            entry.uid = entry.gid = owner if named else 0
            archive.addfile(entry)

        for path in sorted([*files, *(folders or {})]):
            if path not in files:
                folder(pathlib.PurePosixPath(path))
                continue
            mode, content = files[path]
            folder(pathlib.PurePosixPath(path).parent)
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(content), mode
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def zipped(files: Files, level: int = 9) -> bytes:
    """A zip of these files, in their order."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path, (mode, content) in files.items():
            entry = zipfile.ZipInfo(path, ZIP_TIME)
            entry.external_attr = (0o100000 | mode) << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED, level)
    return packed.getvalue()
