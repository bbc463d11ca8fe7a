#!/usr/bin/env bash
# Builds the WebAssembly of the JavaScript packages: host/node-retry/build.sh [FOLDER]. FOLDER/retrier.wasm is the retrier of `backstop-retry`, and FOLDER/rules.wasm has the rules that exported policies need. Without a folder, the rules that are committed are replaced.
#
# The same sources and toolchain give the same bytes on every machine, because they contain no paths of the machine. A test compares them.
set -euo pipefail
cd "$(dirname "$0")/../.."
output=${1:-}
target=${CARGO_TARGET_DIR:-$PWD/target}/node-retry

# Variables for the build of the host (flags, a wrapper for lints or coverage) must not affect the modules.
unset CARGO_BUILD_TARGET CARGO_ENCODED_RUSTFLAGS CARGO_INCREMENTAL CLIPPY_ARGS RUSTC RUSTC_WRAPPER RUSTC_WORKSPACE_WRAPPER RUSTUP_TOOLCHAIN
rust=$(rustc --print sysroot)
export CARGO_ENCODED_RUSTFLAGS
# SHA-256 in few bytes: it hashes ids, not files.
CARGO_ENCODED_RUSTFLAGS=$(printf '%s\x1f' \
    "--remap-path-prefix=$PWD=" \
    "--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=" \
    "--remap-path-prefix=$rust/lib/rustlib/src/rust=" \
    '--cfg=sha2_backend_soft="compact"')-Clink-arg=-zstack-size=32768
# Downloaded by each who uses them: as small as they get.
export CARGO_PROFILE_POLICY_OPT_LEVEL=z

# $1: the file, $2: the features
build() {
    cargo build --quiet --locked --profile policy --target wasm32-unknown-unknown --target-dir "$target" \
        --package backstop-node-retry --no-default-features --features "$2"
    install -m 644 "$target/wasm32-unknown-unknown/policy/backstop_node_retry.wasm" "$1"
}

if [ -n "$output" ]; then
    mkdir -p "$output"
    build "$output/retrier.wasm" retrier
    build "$output/rules.wasm" ""
else
    build host/workbench/src/export/rules.wasm ""
fi
