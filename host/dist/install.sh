#!/bin/sh
# Installs backstop @VERSION@ for Linux on x86-64 or arm64, with its manual pages and completions:
#
#   sh install.sh [--prefix FOLDER]     ~/.local, or /usr/local for root
#
# The archive is installed only if SHA256SUMS has its checksum, and the key below has signed SHA256SUMS. The signature is minisign's, and is checked by minisign or by OpenSSL 3.
set -eu

version='@VERSION@'
url='@URL@'
public_key='@PUBLIC_KEY@'

fail() {
    echo "install.sh: $1" >&2
    exit 1
}

# Writes what is at an address to a file.
download() {
    case $url in https:*) only=https ;; *) only=http ;; esac
    if command -v curl >/dev/null; then
        curl --proto "=$only" --fail --silent --show-error --location --output "$2" "$url/$1" || fail "can't download $url/$1"
    elif command -v wget >/dev/null; then
        wget --quiet --output-document "$2" "$url/$1" || fail "can't download $url/$1"
    else
        fail "needs curl or wget"
    fi
}

# Bytes of a line in base64, from one on.
bytes() {
    printf '%s' "$1" | openssl base64 -d -A | tail -c "+$2" | head -c "$3"
}

# What minisign verifies: an Ed25519 signature of the BLAKE2b digest of a file. In its lines, two bytes name the kind, eight the key.
verify_with_openssl() {
    line=$(sed -n 2p "$1.minisig")
    [ "$(bytes "$line" 1 2)" = ED ] || fail "$1.minisig has another kind of signature"
    [ "$(bytes "$line" 3 8 | od -An -tx1)" = "$(bytes "$public_key" 3 8 | od -An -tx1)" ] || fail "another key has signed $1"
    bytes "$line" 11 64 >signature
    # The head of an Ed25519 key in DER, then the key.
    { printf '\060\052\060\005\006\003\053\145\160\003\041\000' && bytes "$public_key" 11 32; } >key
    openssl dgst -blake2b512 -binary "$1" >digest
    openssl pkeyutl -verify -pubin -keyform DER -inkey key -rawin -in digest -sigfile signature >/dev/null 2>&1
}

verify() {
    if command -v minisign >/dev/null; then
        minisign -V -q -P "$public_key" -m "$1" >/dev/null || fail "the signature of $1 is wrong: nothing is installed"
    elif command -v openssl >/dev/null && openssl version | grep -q '^OpenSSL [3-9]'; then
        verify_with_openssl "$1" || fail "the signature of $1 is wrong: nothing is installed"
    else
        fail "needs minisign or OpenSSL 3, to verify the signature of $1"
    fi
}

main() {
    prefix=$HOME/.local
    [ "$(id -u)" != 0 ] || prefix=/usr/local
    while [ $# -gt 0 ]; do
        case $1 in
        --prefix) [ $# -gt 1 ] || fail "--prefix needs a folder"; prefix=$2; shift 2 ;;
        *) fail "unknown: $1" ;;
        esac
    done
    case $(uname -s)-$(uname -m) in
    Linux-x86_64) target=x86_64-unknown-linux-musl ;;
    Linux-aarch64 | Linux-arm64) target=aarch64-unknown-linux-musl ;;
    *) fail "there is no program for $(uname -s) on $(uname -m): Linux on x86-64 and arm64 alone" ;;
    esac
    # Others are to run it, too.
    umask 022
    mkdir -p "$prefix"
    prefix=$(cd "$prefix" && pwd)
    name=backstop-$version-$target
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    cd "$work"
    for file in SHA256SUMS SHA256SUMS.minisig "$name.tar.gz"; do
        download "$file" "$file"
    done
    verify SHA256SUMS
    grep -F "  $name.tar.gz" SHA256SUMS >expected || fail "SHA256SUMS does not have $name.tar.gz"
    sha256sum -c expected >/dev/null 2>&1 || fail "the checksum of $name.tar.gz is wrong: nothing is installed"
    tar -xzf "$name.tar.gz"
    for folder in bin share/man/man1 share/bash-completion/completions share/zsh/site-functions share/fish/vendor_completions.d; do
        mkdir -p "$prefix/$folder"
    done
    # In the place of one that runs, at once.
    cp "$name/backstop" "$prefix/bin/.backstop.new"
    mv "$prefix/bin/.backstop.new" "$prefix/bin/backstop"
    cp "$name"/man/man1/* "$prefix/share/man/man1"
    cp "$name/completions/backstop.bash" "$prefix/share/bash-completion/completions/backstop"
    cp "$name/completions/_backstop" "$prefix/share/zsh/site-functions"
    cp "$name/completions/backstop.fish" "$prefix/share/fish/vendor_completions.d"
    shown=$("$prefix/bin/backstop" --version) || fail "$prefix/bin/backstop is there and does not run: does its file system allow programs (noexec)?"
    echo "installed $shown in $prefix/bin"
    case :$PATH: in
    *:"$prefix/bin":*) echo "Try it: backstop demo" ;;
    *) echo "Try it: $prefix/bin/backstop demo" ;;
    esac
}

# At the end, so that a part of this script does nothing.
main "$@"
