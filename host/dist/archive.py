"""The release archives: both programs, manual pages, completions and documents, for each processor."""

from __future__ import annotations

import pack
from release import Release


def build(release: Release) -> dict[str, bytes]:
    """`backstop-VERSION-TARGET.tar.gz`, with one folder of this name."""
    return dict(_archive(release, architecture) for architecture in release.architectures)


def _archive(release: Release, architecture: str) -> tuple[str, bytes]:
    name = f"backstop-{release.version}-{release.name(architecture, 'rust')}"
    files = {it: pack.program(program.bytes()) for it, program in release.programs[architecture].items()}
    files |= {it: pack.plain(release.document(it)) for it in ("LICENSE", "README.md", "CHANGELOG.md")}
    files |= {f"man/man1/{it}": pack.plain(page) for it, page in release.pages.items()}
    files |= {f"completions/{it}": pack.plain(script) for it, script in release.completions.items()}
    tar = pack.tar({f"{name}/{path}": file for path, file in files.items()})
    return f"{name}.tar.gz", pack.gzipped(tar, release.level)
