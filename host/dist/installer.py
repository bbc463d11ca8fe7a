"""`install.sh` of a release: with its version, its address and the key that signs its checksums."""

from __future__ import annotations

import re

from release import Mistake, Release, TOP


def build(release: Release) -> dict[str, bytes]:
    """The script, which needs `--public-key` and `--url`."""
    if not re.fullmatch(r"RW[A-Za-z0-9+/]{54}", release.public_key):
        raise Mistake("the installer needs --public-key, one of minisign's")
    if not re.fullmatch(r"https?://[A-Za-z0-9.:/_-]+", release.url):
        raise Mistake("the installer needs --url, where the files of the release are")
    script = (TOP / "host/dist/install.sh").read_text()
    for name, value in {"VERSION": release.version, "URL": release.url.rstrip("/"), "PUBLIC_KEY": release.public_key}.items():
        script = script.replace(f"@{name}@", value)
    return {"install.sh": script.encode()}
