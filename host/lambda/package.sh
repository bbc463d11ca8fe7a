#!/usr/bin/env bash
# Builds the package of the Lambda retry handler for arm64 and x86-64: target/lambda/backstop-lambda-{arm64,x86-64}.zip.
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

    package=$folder/package
    rm -rf "$package"
    mkdir -p "$package"
    cp "$bootstrap" "$package/bootstrap"
    builtin=$(basename -s .wasm -a host/engine/builtin/*.wasm)
    # shellcheck disable=SC2086
    "$backstop" policy compile $builtin ${POLICIES:-} \
        --arch "$architecture" --output "$package/compiled"
    for file in ${CONFIG:-} ${POLICIES:-}; do
        cp "$file" "$package/"
    done
    [ -z "${CONFIG:-}" ] || [ "$(basename "$CONFIG")" = backstop.toml ] || mv "$package/$(basename "$CONFIG")" "$package/backstop.toml"

    zip=$output/backstop-lambda-$architecture.zip
    python3 - "$package" "$zip" <<'PYTHON'
import pathlib, sys, zipfile
package, target = map(pathlib.Path, sys.argv[1:])
with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
    for path in sorted(path for path in package.rglob("*") if path.is_file()):
        # A fixed time makes the archive reproducible; only the owner may write to a file.
        entry = zipfile.ZipInfo(str(path.relative_to(package)), (1980, 1, 1, 0, 0, 0))
        entry.external_attr = (0o100755 if path.name == "bootstrap" else 0o100644) << 16
        archive.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED, 9)
PYTHON
    size=$(stat --format %s "$zip")
    echo "$zip: $((size / 1024)) KiB, needs $glibc"
    [ "$profile" != lambda ] || [ "$size" -le "$largest_zip" ] || { echo "$zip has more than $largest_zip bytes" >&2 && exit 1; }
done
