#!/usr/bin/env bash
# Builds the release archives: target/archives/backstop-VERSION-TARGET.tar.gz for x86-64 and arm64 Linux, an SBOM (SPDX) for each program, and SHA256SUMS.
#
#   ARCHITECTURES="x86-64"  builds for one of the two only
#   PROFILE=dev             builds faster and larger, to try this script
#
# The programs are static: they need nothing of the machine. If root runs this, the archive for this machine's processor is tried in an empty root folder.
set -euo pipefail
cd "$(dirname "$0")/.."
output=${CARGO_TARGET_DIR:-$PWD/target}/archives
tools=$PWD/.services/dist
profile=${PROFILE:-dist}
version=$(cargo metadata --locked --no-deps --format-version 1 |
    python3 -c 'import json, sys; print(next(p["version"] for p in json.load(sys.stdin)["packages"] if p["name"] == "backstop-cli"))')

# zig is the linker and the C compiler for other machines, and has their C library.
[ -x "$tools/bin/cargo-zigbuild" ] || {
    echo "installing cargo-zigbuild and zig into $tools"
    python3 -m venv "$tools"
    "$tools/bin/pip" install --quiet --disable-pip-version-check cargo-zigbuild==0.24.0 ziglang==0.17.0
}
[ -x "$tools/bin/cargo-sbom" ] || {
    echo "installing cargo-sbom into $tools"
    cargo install --quiet --locked --root "$tools" cargo-sbom@0.10.0
}
export PATH=$tools/bin:$PATH

rm -rf "$output"
mkdir -p "$output"
for program in backstop-cli backstop-lambda; do
    cargo sbom --cargo-package "$program" --output-format spdx_json_2_3 >"$output/$program-$version.spdx.json"
done

# A program that loads no library, and no loader.
check() {
    ! readelf --program-headers --dynamic --wide "$1" | grep -E 'INTERP|\(NEEDED\)' ||
        { echo "$1 is not static" >&2 && exit 1; }
}

# Unpacks an archive into an empty root and runs its programs there.
run_in_an_empty_root() {
    local archive=$1 name=$2 root
    root=$(mktemp -d)
    mkdir "$root/tmp" "$root/dev"
    : >"$root/dev/null"
    tar --extract --gzip --directory "$root" --file "$archive"
    local run=(env --ignore-environment HOME=/tmp "$(command -v chroot)" "$root")
    "${run[@]}" "/$name/backstop" --version
    "${run[@]}" "/$name/backstop" policy inspect full-jitter
    "${run[@]}" "/$name/backstop" demo | tail -3
    # Outside Lambda, it says that Lambda runs it.
    "${run[@]}" "/$name/backstop-lambda" >"$root/lambda.log" 2>&1 && exit 1
    grep "Lambda retry handler" "$root/lambda.log" || { cat "$root/lambda.log" >&2 && exit 1; }
    rm -rf "$root"
    echo "$archive runs in an empty root"
}

for architecture in ${ARCHITECTURES:-x86-64 arm64}; do
    case $architecture in
    arm64) target=aarch64-unknown-linux-musl ;;
    x86-64) target=x86_64-unknown-linux-musl ;;
    *) echo "ARCHITECTURES: \`$architecture\` is neither x86-64 nor arm64" >&2 && exit 2 ;;
    esac
    rustup target add "$target"
    cargo zigbuild --locked --profile "$profile" --target "$target" \
        --package backstop-cli --package backstop-lambda --bin backstop --bin backstop-lambda
    built=${CARGO_TARGET_DIR:-target}/$target/${profile/#dev/debug}

    name=backstop-$version-$target
    mkdir "$output/$name"
    cp "$built/backstop" "$built/backstop-lambda" LICENSE README.md CHANGELOG.md "$output/$name/"
    check "$output/$name/backstop"
    check "$output/$name/backstop-lambda"
    # The same files make the same archive, whenever it is made.
    tar --create --directory "$output" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner "$name" |
        gzip --no-name --best >"$output/$name.tar.gz"
    rm -rf "${output:?}/$name"
    [ "$(id -u)" != 0 ] || [ "$(uname -m)" != "${target%%-*}" ] || run_in_an_empty_root "$output/$name.tar.gz" "$name"
done

cd "$output"
sha256sum -- *.tar.gz *.spdx.json >SHA256SUMS
ls -l
