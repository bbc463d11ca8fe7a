#!/usr/bin/env bash
# Builds the built-in policies and copies their modules to a folder: policies/build.sh [FOLDER], by default host/engine/builtin.
#
# The same sources and toolchain give the same bytes on every machine, because they contain no paths of the machine. A test compares them.
set -euo pipefail
cd "$(dirname "$0")/.."
output=${1:-host/engine/builtin}
target=${CARGO_TARGET_DIR:-$PWD/target}/policies
# Every folder that makes a module.
policies=$(cd policies && grep -l cdylib ./*/Cargo.toml | cut -d/ -f2)

# Variables for the build of the host (flags, a wrapper for lints or coverage) must not affect the policies.
unset CARGO_BUILD_TARGET CARGO_ENCODED_RUSTFLAGS CARGO_INCREMENTAL CLIPPY_ARGS RUSTC RUSTC_WRAPPER RUSTC_WORKSPACE_WRAPPER RUSTUP_TOOLCHAIN
rust=$(rustc --print sysroot)
export CARGO_ENCODED_RUSTFLAGS
CARGO_ENCODED_RUSTFLAGS=$(printf '%s\x1f' \
    "--remap-path-prefix=$PWD=/backstop" \
    "--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo" \
    "--remap-path-prefix=$rust/lib/rustlib/src/rust=/rust")-Clink-arg=-zstack-size=32768

# shellcheck disable=SC2046
cargo build --quiet --locked --profile policy --target wasm32-unknown-unknown --target-dir "$target" \
    $(printf -- '--package %s ' ${policies//./-})
mkdir -p "$output"
for policy in $policies; do
    module=${policy//[-.]/_}.wasm
    install -m 644 "$target/wasm32-unknown-unknown/policy/$module" "$output/$policy.wasm"
done
