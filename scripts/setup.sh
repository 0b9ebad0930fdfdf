#!/bin/sh
# Makes sure that a Rust toolchain and a C linker are here; installs the linker where it may.
set -eu

need=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$(dirname "$0")/../Cargo.toml")

if ! command -v cc >/dev/null 2>&1; then
    if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
        echo "setup: installing a C linker (gcc)"
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq gcc libc6-dev
    else
        echo "setup: no C linker found: install gcc (Debian, Ubuntu: sudo apt-get install gcc libc6-dev)" >&2
        exit 69
    fi
fi

if ! command -v cargo >/dev/null 2>&1; then
    echo "setup: no cargo found: install Rust $need or newer with rustup" >&2
    exit 69
fi

have=$(rustc --version | sed 's/^rustc \([0-9.]*\).*/\1/')
oldest=$(printf '%s\n%s\n' "$need" "$have" | sort -V | head -n 1)
if [ "$oldest" != "$need" ]; then
    echo "setup: Rust $have found, $need or newer needed: rustup update stable" >&2
    exit 69
fi
