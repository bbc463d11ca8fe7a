#!/usr/bin/env python3
"""Makes a site of the documents, in target/site, by mdBook: `make site`.

The documents stay as they are. Their copies keep their places, the README of the project is the first page, and the parts of the index are those of the site. A link to another file of the project leads to a copy of it as text, and a link to a folder to a list of its files.
"""

import functools
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[3]
DOCS = TOP / "host/docs"
SITE = TOP / "target/site"
SRC = SITE / "src"
LINK = re.compile(r"(\]\(|src=\"|href=\")([^)\"\s]+)")
OTHER_PAGES = {"README.md": "index.md", "host/docs/README.md": "documents.md", "examples/lambda/README.md": "deploy/lambda-deployment.md", "CONTRIBUTING.md": "contributing/contributing.md", "CHANGELOG.md": "contributing/changes.md", "SECURITY.md": "deploy/security.md"}


def place(path: Path) -> str:
    """Where a file of the project is on the site."""
    name = path.relative_to(TOP).as_posix()
    if name in OTHER_PAGES:
        return OTHER_PAGES[name]
    if path.is_dir():
        return f"source/{name}/index.md"
    if path.is_relative_to(DOCS) and not path.is_relative_to(DOCS / "site"):
        return path.relative_to(DOCS).as_posix()
    return f"source/{name.replace('.md', '-md')}.txt"  # mdBook takes every `.md` for a page


def linked(path: Path) -> list[Path]:
    """The files and folders of the project that a document links."""
    found = []
    for _, target in LINK.findall(outside_of_blocks(path.read_text())):
        if not re.match(r"[a-z+]+:|#|/", target):
            found.append((path.parent / target.partition("#")[0]).resolve())
    return found


def outside_of_blocks(text: str) -> str:
    return "".join(text.split("```")[::2])


def rewritten(path: Path) -> str:
    """A document with links to where things are on the site."""
    here = os.path.dirname(place(path))

    def change(match: re.Match) -> str:
        before, target = match.groups()
        if re.match(r"[a-z+]+:|#|/", target):
            return match.group(0)
        file, _, anchor = target.partition("#")
        there = os.path.relpath(place((path.parent / file).resolve()), here or ".")
        return f"{before}{there}{'#' if anchor else ''}{anchor}"

    parts = path.read_text().split("```")
    parts[::2] = [LINK.sub(change, part) for part in parts[::2]]
    return "```".join(parts)


@functools.cache
def files(folder: Path) -> list[Path]:
    """The files of a folder that git knows."""
    names = subprocess.run(["git", "ls-files", folder], cwd=TOP, check=True, capture_output=True, text=True).stdout
    return [TOP / name for name in names.splitlines() if not (TOP / name).is_dir()]


def listing(folder: Path) -> str:
    """The page of a folder that a document links. The files of a large one have names alone."""
    here = os.path.dirname(place(folder))
    lines = [f"# {folder.relative_to(TOP).as_posix()}", ""]
    for file in files(folder):
        name = file.relative_to(folder).as_posix()
        lines.append(f"- [{name}]({os.path.relpath(place(file), here)})" if is_small(folder) else f"- {name}")
    return "\n".join(lines) + "\n"


def is_small(folder: Path) -> bool:
    return len(files(folder)) <= 50


def title(path: Path) -> str:
    return re.search(r"^# (.*)$", path.read_text(), re.M).group(1).replace("`", "")


def summary(pages: set[Path], folders: list[Path]) -> str:
    """The table of contents, in the order of the index."""
    index = DOCS / "README.md"
    lines = ["# Summary", "", "[Backstop](index.md)", "[Documents](documents.md)"]
    seen = {TOP / "README.md", index}
    for part in re.split(r"^## ", index.read_text(), flags=re.M):
        head, _, _ = part.partition("\n")
        listed = [(index.parent / target).resolve() for _, target in LINK.findall(part) if not re.match(r"[a-z+]+:|#", target)]
        listed = [path for path in dict.fromkeys(listed) if path in pages and path not in seen]
        if head.startswith("# "):
            lines += [f"[{title(path)}]({place(path)})" for path in listed]
        elif listed:
            lines += ["", f"# {head}", ""] + [f"- [{title(path)}]({place(path)})" for path in listed]
        seen |= set(listed)
    if missing := pages - seen:
        sys.exit(f"host/docs/README.md does not list {sorted(map(str, missing))}")
    lines += ["", "# Sources", ""] + [f"- [{path.relative_to(TOP)}]({place(path)})" for path in folders]
    return "\n".join(lines) + "\n"


def main() -> None:
    shutil.rmtree(SITE, ignore_errors=True)
    pages = set(DOCS.rglob("*.md")) | {TOP / name for name in OTHER_PAGES}
    targets = {target for page in pages for target in linked(page)} - pages
    folders = sorted(target for target in targets if target.is_dir())
    for folder in folders:
        targets |= set(files(folder)) if is_small(folder) else set()
    written = {place(page): rewritten(page) for page in pages} | {place(folder): listing(folder) for folder in folders}
    written["SUMMARY.md"] = summary(pages, folders)
    for name, text in written.items():
        (SRC / name).parent.mkdir(parents=True, exist_ok=True)
        (SRC / name).write_text(text)
    for file in targets - pages:
        if file.is_file():
            (SRC / place(file)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, SRC / place(file))
    shutil.copyfile(Path(__file__).parent / "book.toml", SITE / "book.toml")
    mdbook = TOP / ".services/python/bin/mdbook"
    subprocess.run([mdbook if mdbook.exists() else "mdbook", "build", SITE], check=True)


if __name__ == "__main__":
    main()
