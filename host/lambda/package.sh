#!/usr/bin/env bash
# Builds the package of the Lambda retry handler for arm64 and x86-64: target/lambda/backstop-lambda-{arm64,x86-64}.zip, and the same as a layer, backstop-lambda-layer-….zip, for functions whose package is their configuration.
#
#   CONFIG=backstop.toml      is added to the package
#   POLICIES="a.wasm b.wasm"  are added to the package's top folder, compiled ahead of time like the built-in ones
#   ARCHITECTURES="arm64"     builds for one of the two only
#   PROFILE=dev               builds without optimisation, to see that it builds: too large for what is deployed
set -euo pipefail
cd "$(dirname "$0")/../.."
backstop=${CARGO_TARGET_DIR:-target}/debug/backstop
output=${CARGO_TARGET_DIR:-target}/lambda
tools=$PWD/.services/lambda
profile=${PROFILE:-lambda}
largest_zip=$((15 * 1024 * 1024))

# The cross toolchain: zig is its linker and C compiler, and targets an old glibc.
[ -x "$tools/bin/cargo-lambda" ] || {
    echo "installing cargo-lambda and zig into $tools"
    python3 -m venv "$tools"
    "$tools/bin/pip" install --quiet --disable-pip-version-check cargo-lambda==1.9.2 ziglang==0.17.0
}
export PATH=$tools/bin:$PATH

for architecture in ${ARCHITECTURES:-arm64 x86-64}; do
    case $architecture in
    arm64) target=aarch64-unknown-linux-gnu ;;
    x86-64) target=x86_64-unknown-linux-gnu ;;
    *) echo "ARCHITECTURES: \`$architecture\` is neither arm64 nor x86-64" >&2 && exit 2 ;;
    esac
    rustup target add "$target"
    folder=$output/$architecture
    cargo lambda build --locked --profile "$profile" --package backstop-lambda \
        "--$architecture" --lambda-dir "$folder"
    bootstrap=$folder/backstop-lambda/bootstrap

    # provided.al2023 has glibc 2.34.
    glibc=$(readelf --version-info --wide "$bootstrap" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -1)
    [ "$(printf '%s\nGLIBC_2.34\n' "$glibc" | sort -V | tail -1)" = GLIBC_2.34 ] || {
        echo "$bootstrap requires $glibc: Lambda has 2.34" >&2
        exit 1
    }

    cp "$bootstrap" "$folder/backstop-lambda/backstop-lambda"
    # shellcheck disable=SC2086
    python3 host/dist function --output "$output" "--$architecture" "$folder/backstop-lambda" --writer "$backstop" \
        ${CONFIG:+--config "$CONFIG"} ${POLICIES:+--policies $POLICIES}
    zip=$output/backstop-lambda-$architecture.zip
    size=$(stat --format %s "$zip")
    echo "$zip: $((size / 1024)) KiB, needs $glibc"
    [ "$profile" != lambda ] || [ "$size" -le "$largest_zip" ] || { echo "$zip has more than $largest_zip bytes" >&2 && exit 1; }
done
