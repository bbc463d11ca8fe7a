"""The text of a package that its registry shows, from a README of the repository."""

from __future__ import annotations

import pathlib
import posixpath
import re

from release import Release

LINK = re.compile(r"\[([^\]]+)\]\(([^()\s]+)\)")


def published(release: Release, name: str) -> str:
    """The README with absolute links to the other files of this version: a registry has none of them. Without the address of the repository, the words of the link stay."""
    folder = pathlib.PurePosixPath(name).parent

    def absolute(link: re.Match[str]) -> str:
        words, target = link.groups()
        if re.match(r"#|[a-z]+:", target):
            return link[0]
        if not release.homepage:
            return words
        return f"[{words}]({release.homepage}/blob/v{release.version}/{posixpath.normpath(folder / target)})"

    # Every second part is a block of code.
    parts = release.document(name).decode().split("```")
    return "```".join(part if number % 2 else LINK.sub(absolute, part) for number, part in enumerate(parts))
