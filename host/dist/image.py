"""The container image for all processors, as an OCI layout in a tar: an index, a manifest with one layer for each processor, and the bill of materials as its referrer."""

from __future__ import annotations

import hashlib
import json

import pack
from release import Mistake, Release

USER = 65532

CACHE = "var/cache/backstop"

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
SPDX = "application/spdx+json"
EMPTY = "application/vnd.oci.empty.v1+json"

PASSWD = f"root:x:0:0:root:/:/sbin/nologin\nbackstop:x:{USER}:{USER}:Backstop:/{CACHE}:/sbin/nologin\n"
GROUP = f"root:x:0:\nbackstop:x:{USER}:\n"


class Layout:
    """The files of an OCI layout."""

    def __init__(self) -> None:
        """An empty one."""
        self.files: pack.Files = {"oci-layout": pack.plain(b'{"imageLayoutVersion":"1.0.0"}')}

    def add(self, kind: str, content: bytes | dict, **more: object) -> dict:
        """Adds a blob. Returns its descriptor."""
        if isinstance(content, dict):
            content = json.dumps(content, separators=(",", ":")).encode()
        digest = hashlib.sha256(content).hexdigest()
        self.files[f"blobs/sha256/{digest}"] = pack.plain(content)
        return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(content), **more}


def build(release: Release) -> dict[str, bytes]:
    """`backstop-VERSION.oci.tar`: what `skopeo copy --all oci-archive:FILE:VERSION` reads."""
    if not release.certificates:
        raise Mistake("the image needs --certificates")
    layout = Layout()
    images = [_image(release, architecture, layout) for architecture in release.architectures]
    entries = [_named(layout.add(INDEX, _index(images, annotations=_labels(release))), release.version)]
    for image in images if "backstop-cli" in release.boms else []:
        referrers = layout.add(INDEX, _index([_bom(release, image, layout)]))
        # Where a registry without the API of referrers has them: a tag with the digest of what they refer to.
        entries.append(_named(referrers, image["digest"].replace(":", "-")))
    layout.files["index.json"] = pack.plain(json.dumps(_index(entries), separators=(",", ":")).encode())
    return {f"backstop-{release.version}.oci.tar": pack.tar(layout.files)}


def _index(manifests: list[dict], **more: object) -> dict:
    return {"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests, **more}


def _named(descriptor: dict, name: str) -> dict:
    return {**descriptor, "annotations": {"org.opencontainers.image.ref.name": name}}


def _labels(release: Release) -> dict[str, str]:
    labels = {"title": "backstop", "description": release.description, "version": release.version, "licenses": "Apache-2.0", "source": release.homepage}
    return {f"org.opencontainers.image.{name}": value for name, value in labels.items() if value}


def _root(release: Release, architecture: str) -> bytes:
    """The only layer. A static program needs no more of a system than certificates, and a folder that it may write to if nothing is mounted there."""
    files = {
        "usr/bin/backstop": pack.program(release.programs[architecture]["backstop"].bytes()),
        "etc/passwd": pack.plain(PASSWD.encode()),
        "etc/group": pack.plain(GROUP.encode()),
        "etc/ssl/certs/ca-certificates.crt": pack.plain(release.certificates),
        "usr/share/doc/backstop/LICENSE": pack.plain(release.document("LICENSE")),
    }
    return pack.tar(files, {CACHE: 0o700, "tmp": 0o1777}, USER)


def _image(release: Release, architecture: str, layout: Layout) -> dict:
    """Adds the image of a processor. Returns its descriptor."""
    root = _root(release, architecture)
    layer = layout.add(LAYER, pack.gzipped(root, release.level))
    platform = {"architecture": release.name(architecture, "oci"), "os": "linux"}
    config = layout.add(CONFIG, {
        **platform,
        "config": {
            "User": f"{USER}:{USER}",
            "Env": ["PATH=/usr/bin", f"HOME=/{CACHE}", f"BACKSTOP_CACHE=/{CACHE}"],
            "Entrypoint": ["/usr/bin/backstop"],
            "Cmd": ["--help"],
            "WorkingDir": "/",
            "StopSignal": "SIGTERM",
            "Labels": _labels(release),
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(root).hexdigest()}"]},
        "history": [{"created_by": "make dist", "comment": f"backstop {release.version}"}],
    })
    manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer], "annotations": _labels(release)}
    return layout.add(MANIFEST, manifest, platform=platform)


def _bom(release: Release, image: dict, layout: Layout) -> dict:
    """Adds the bill of materials of an image. Returns its descriptor."""
    content = layout.add(SPDX, release.boms["backstop-cli"], annotations={"org.opencontainers.image.title": "backstop.spdx.json"})
    subject = {name: image[name] for name in ("mediaType", "digest", "size")}
    manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "artifactType": SPDX, "config": layout.add(EMPTY, b"{}"), "layers": [content], "subject": subject}
    return layout.add(MANIFEST, manifest, artifactType=SPDX)
