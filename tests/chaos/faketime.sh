#!/usr/bin/env bash
# Unpacks Debian's libfaketime into .services/faketime, for hosts whose time of day is set while they run. Without apt-get, the campaign does without, and says so.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
target=${1:-$here/../../.services}/faketime
[ -e "$target/libfaketimeMT.so.1" ] && exit 0
unpacked=$(mktemp -d)
trap 'rm -rf "$unpacked"' EXIT
download() { (cd "$unpacked" && apt-get -qq -o APT::Sandbox::User=root download libfaketime); }
if ! download 2>/dev/null; then
    if [ "$(id -u)" = 0 ]; then apt-get -qq update || true; fi
    download || { echo "libfaketime can't be downloaded: the campaign sets no clocks" >&2; exit 0; }
fi
dpkg-deb -x "$unpacked"/libfaketime_*.deb "$unpacked"
mkdir -p "$target"
cp "$(find "$unpacked" -name 'libfaketimeMT.so.1')" "$target/"
