#!/usr/bin/env bash
# Builds and tests for aarch64-unknown-linux-gnu, the Jetson's processor, on an x86-64 Debian
# with Debian's own packages only.
#
#   aarch64.sh setup             installs and unpacks what is missing (as root, or with the
#                                packages of $packages below already installed)
#   aarch64.sh update            the same, and takes a newer compiler if there is one
#   aarch64.sh cargo ARGUMENT…   cargo for aarch64; 'test' and 'run' use qemu-user
#   aarch64.sh run PROGRAM …     an aarch64 program under qemu-user
#   aarch64.sh env               the environment that 'cargo' sets, as shell exports
#   aarch64.sh binfmt on|off     as root: lets aarch64 programs start other aarch64 programs
#                                (tests that run the project's own binaries)
#
# A standard library only works with the very compiler that built it. Debian's rustc-web comes
# with one for each architecture, so that rustup need not reach its servers; both are unpacked,
# unregistered, into a folder of their own: nothing changes for the native toolchain, whose
# cargo drives this compiler.
#
# Environment: AARCH64_RUST (folder, default ${XDG_CACHE_HOME:-~/.cache}/aarch64-rust);
# CARGO_TARGET_DIR (default target/cross); CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER
# (default qemu-user; "scripts/vm/boot.sh --" runs tests in an arm64 guest with cameras).
set -euo pipefail

dir=${AARCH64_RUST:-${XDG_CACHE_HOME:-$HOME/.cache}/aarch64-rust}
target=aarch64-unknown-linux-gnu
sysroot=/usr/aarch64-linux-gnu                 # of libc6-dev-arm64-cross
packages=(gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static libclang1)

die() { echo "aarch64: $*" >&2; exit 1; }

missing() {
    local package
    for package in "${packages[@]}"; do
        dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null | grep -q '^ii' || echo "$package"
    done
}

# apt-get and apt-cache with a state of their own, in which arm64 is an architecture too.
private_apt() {
    local tool=$1; shift
    "$tool" -o Dir::State="$dir/apt" -o Dir::State::lists="$dir/apt/lists" \
        -o Dir::State::status="$dir/apt/status" -o Dir::Cache="$dir/apt/cache" \
        -o APT::Architectures::=amd64 -o APT::Architectures::=arm64 \
        -o Acquire::Languages=none -o APT::Sandbox::User=root "$@"
}

setup() {
    local need version series
    mapfile -t need < <(missing)
    if [ "${#need[@]}" -gt 0 ]; then
        [ "$(id -u)" = 0 ] || die "install these Debian packages first: ${need[*]}"
        DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -qq update
        DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -qq install -y --no-install-recommends "${need[@]}"
    fi

    if [ "${1:-}" != update ] && [ -e "$dir/version" ]; then
        "$dir/bin/rustc" --version
        return
    fi
    mkdir -p "$dir"/apt/{lists,cache/archives}/partial "$dir/bin"
    touch "$dir/apt/status"
    private_apt apt-get -qq update
    # The newest version that both architectures have.
    version=$(comm -12 \
        <(private_apt apt-cache madison rustc-web | awk -F' *\\| *' '{print $2}' | sort -u) \
        <(private_apt apt-cache madison libstd-rust-web-dev:arm64 | awk -F' *\\| *' '{print $2}' | sort -u) |
        sort -V | tail -n 1)
    [ -n "$version" ] || die 'no rustc-web with an arm64 standard library in the package lists'
    if [ "$(cat "$dir/version" 2>/dev/null)" != "$version" ]; then
        series=$(echo "$version" | cut -d. -f1,2)
        rm -rf "$dir/root" "$dir/deb" "$dir/version"
        mkdir -p "$dir/root" "$dir/deb"
        (
            cd "$dir/deb"
            llvm=$(private_apt apt-cache show "libstd-rust-web-$series=$version" |
                sed -n 's/^Depends:.*\(libllvm[0-9]*\).*/\1/p' | sort -u)
            private_apt apt-get -qq download "rustc-web=$version" "libstd-rust-web-$series=$version" \
                "libstd-rust-web-dev=$version" "libstd-rust-web-dev:arm64=$version" "$llvm"
        )
        for deb in "$dir"/deb/*.deb; do dpkg-deb -x "$deb" "$dir/root"; done
        rm -rf "$dir/deb" "$dir/root/usr/share"
        echo "$version" > "$dir/version"
    fi
    rm -rf "$dir/apt/lists"                     # tens of megabytes, fetched anew by the next setup
    for tool in rustc rustdoc; do
        printf '#!/bin/sh\nLD_LIBRARY_PATH=%s exec %s --sysroot %s "$@"\n' \
            "'$dir/root/usr/lib/x86_64-linux-gnu'" "'$dir/root/usr/bin/$tool'" "'$dir/root/usr'" > "$dir/bin/$tool"
        chmod 755 "$dir/bin/$tool"
    done
    "$dir/bin/rustc" --version
}

exports() {
    [ -e "$dir/version" ] || die "run '$0 setup' first"
    local name=${target//-/_}
    echo "export RUSTC='$dir/bin/rustc'"
    echo "export RUSTDOC='$dir/bin/rustdoc'"
    echo "export CARGO_BUILD_TARGET=$target"
    echo "export CARGO_TARGET_DIR='${CARGO_TARGET_DIR:-target/cross}'"
    echo "export CARGO_TARGET_${name^^}_LINKER=aarch64-linux-gnu-gcc"
    echo "export CARGO_TARGET_${name^^}_RUNNER='${CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER:-qemu-aarch64-static -L $sysroot}'"
    echo "export QEMU_LD_PREFIX=$sysroot"
    echo "export CC_$name=aarch64-linux-gnu-gcc AR_$name=aarch64-linux-gnu-ar"
    echo "export BINDGEN_EXTRA_CLANG_ARGS_$name=-I$sysroot/include"
    # The feature "cuda": a stub of libcuda to link with (scripts/libcuda-stub.sh).
    echo "export CUDA_LIBRARY_PATH='$(cd "$(dirname "$0")/.." && pwd)/.cuda-stub/aarch64'"
}

binfmt() {
    local fs=/proc/sys/fs/binfmt_misc entry=qemu-aarch64
    [ -e $fs/register ] || mount -t binfmt_misc binfmt_misc $fs
    case ${1:-} in
        on) [ -e $fs/$entry ] || printf '%s' ":$entry:M::\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00:\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff:/usr/bin/qemu-aarch64-static:F" > $fs/register ;;
        off) [ ! -e $fs/$entry ] || echo -1 > $fs/$entry ;;
        *) die 'binfmt on|off' ;;
    esac
}

command=${1:-}
[ $# -eq 0 ] || shift
case $command in
    setup | update) setup "$command" ;;
    env) exports ;;
    cargo) vars=$(exports); eval "$vars"; exec cargo "$@" ;;
    run) exec qemu-aarch64-static -L "$sysroot" "$@" ;;
    binfmt) binfmt "$@" ;;
    *) sed -n '2,/^set -euo/p' "${BASH_SOURCE[0]}" | sed '$d; s/^# \{0,1\}//' >&2; exit 2 ;;
esac
