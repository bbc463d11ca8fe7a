#!/usr/bin/env bash
# Installs the packages of a folder on this machine, each in its own way, and runs a demo and the test of a policy with each: try.sh FOLDER
#
# For a machine that is thrown away: the deb is installed by sudo.
set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
folder=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
case $(uname -m) in
x86_64) rust=x86_64 npm=x64 deb=amd64 ;;
aarch64) rust=aarch64 npm=arm64 deb=arm64 ;;
esac

try() {
    "$@" --version
    "$@" demo | tail -3
    "$@" policy test full-jitter --scenarios "$top/policies/full-jitter/scenarios.toml" | tail -1
}

(cd "$folder" && sha256sum --check --quiet SHA256SUMS)
mkdir archive
tar --extract --gzip --strip-components=1 --directory archive --file "$folder"/backstop-*-"$rust"-unknown-linux-musl.tar.gz
try archive/backstop

python3 -m venv environment
environment/bin/pip install --quiet --no-index --find-links "$folder" backstop-sqs
try environment/bin/backstop
environment/bin/backstop-sqs --version
environment/bin/python "$top/tests/packages/installed.py"

# The package of this platform first, so that npm has what the shim asks for.
mkdir project
npm install --prefix project --silent --omit=optional "$folder"/backstop-sqs-linux-"$npm"-[0-9]*.tgz "$folder"/backstop-sqs-linux-"$npm"-gnu-*.tgz "$folder"/backstop-sqs-[0-9]*.tgz
try project/node_modules/.bin/backstop

sudo dpkg --install "$folder"/backstop_*_"$deb".deb
try backstop
systemctl cat backstop.service >/dev/null
getent passwd backstop
