#!/bin/sh
# setup.sh [v4l2]: makes sure that a Rust toolchain and a C linker are here, and for the feature
# "v4l2" libclang (at build time only); installs the latter two where it may.
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

has_libclang() {
    [ -n "${LIBCLANG_PATH:-}" ] || PATH=$PATH:/sbin:/usr/sbin ldconfig -p 2>/dev/null | grep -q libclang ||
        ls /usr/lib/llvm-*/lib/libclang*.so* >/dev/null 2>&1
}
if [ "${1:-}" = v4l2 ] && ! has_libclang; then
    if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
        echo "setup: installing libclang, for the feature v4l2"
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends libclang1
    else
        echo "setup: no libclang found, needed to build the feature v4l2: install it (Debian, Ubuntu: sudo apt-get install libclang1)" >&2
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
