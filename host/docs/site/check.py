#!/usr/bin/env python3
"""Checks that every link of the site leads to a file of it, and every anchor to a place there: `make site`."""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

BOOK = Path(__file__).resolve().parents[3] / "target/site/book"


class Page(HTMLParser):
    """The links of a page, and the places that links may name."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links, self.places = [], set()
        self.feed(path.read_text())

    def handle_starttag(self, _: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if name in ("id", "name"):
                self.places.add(value)
            if name in ("href", "src"):
                self.links.append(value or "")


def main() -> None:
    pages = {path: Page(path) for path in BOOK.rglob("*.html")}
    wrong, checked = [], 0
    for path, page in pages.items():
        for link in page.links:
            url = urlsplit(link)
            if url.scheme or url.netloc or path.name in ("print.html", "404.html", "toc.html"):
                continue
            checked += 1
            there = (path.parent / unquote(url.path)).resolve() if url.path else path
            there = there / "index.html" if there.is_dir() else there
            if not there.is_file():
                wrong.append(f"{path.relative_to(BOOK)}: {link}: no such file")
            elif url.fragment and there in pages and unquote(url.fragment) not in pages[there].places:
                wrong.append(f"{path.relative_to(BOOK)}: {link}: no such place")
    for line in wrong:
        print(line)
    print(f"{checked} links of {len(pages)} pages, {len(wrong)} wrong")
    if wrong or checked < 1000:
        sys.exit(1)


if __name__ == "__main__":
    main()
