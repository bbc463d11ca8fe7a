#!/usr/bin/env bash
# Pushes the image of a release: push.sh backstop-VERSION.oci.tar ghcr.io/owner/backstop [OPTION OF SKOPEO COPY...]
#
# Each entry of the layout gets the tag that it is named with: the image its version, and the bill of materials of each processor's image the tag under which registries without the API of referrers keep it.
set -euo pipefail
archive=$1 name=$2
shift 2
tags=$(tar --extract --to-stdout --file "$archive" index.json |
    python3 -c 'import json, sys; print(*(it["annotations"]["org.opencontainers.image.ref.name"] for it in json.load(sys.stdin)["manifests"]))')
for tag in $tags; do
    skopeo copy --all --quiet "$@" "oci-archive:$archive:$tag" "docker://$name:$tag"
    echo "$name:$tag"
done
