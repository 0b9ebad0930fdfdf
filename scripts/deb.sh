#!/usr/bin/env bash
# deb.sh [--cpu] [ARCH]…: Debian packages in target/debian, for amd64 and arm64 (default: both, on an
# x86-64 Debian; elsewhere the machine's own).
#   roadloop        CPU and V4L2 cameras
#   roadloop-cuda   with CUDA besides, in place of roadloop; only where there is an nvcc, and
#                   not with --cpu
# Each is held against what it must be: its files, its conffile, the oldest glibc it starts on.
set -euo pipefail
cd "$(dirname "$0")/.."
# JetPack 6 is Ubuntu 22.04, whose glibc is 2.35; Cargo.toml promises 2.34.
newest_glibc=2.34

say() { echo "deb: $*"; }
fail() { echo "deb: $*" >&2; exit 1; }
command -v dpkg-deb > /dev/null || fail "no dpkg-deb: packages are made on Debian or Ubuntu"
command -v cargo-deb > /dev/null || cargo install --locked cargo-deb --version '^3.8'

native=$(dpkg --print-architecture)
cuda=1
if [ "${1:-}" = --cpu ]; then cuda=''; shift; fi
archs=("$@")
if [ $# = 0 ]; then
    archs=("$native")
    if [ "$native" = amd64 ]; then archs+=(arm64); fi
fi

kinds=(cpu)
if [ -z "$cuda" ]; then
    :
elif [ -n "${ROADLOOP_NVCC:-}" ] || command -v nvcc > /dev/null || [ -x "${CUDA_HOME:-}/bin/nvcc" ] ||
    [ -x /usr/local/cuda/bin/nvcc ] || compgen -G '.cuda/*/bin/nvcc' > /dev/null; then
    kinds+=(cuda)
else
    say "no nvcc found: roadloop-cuda is not made (make cuda-setup fetches compilers)"
fi

# Completions and man pages are the same for each processor: the native program's. Built together
# with the native program, so that the library is compiled once.
say "man pages and completions"
cargo build --quiet --release --features v4l2 --bin roadloop --example package_texts --example read_results
rm -rf target/package
target/release/examples/package_texts target/package

check() {    # DEB ARCH NAME
    local deb=$1 arch=$2 name=$3 work files program glibc
    work=$(mktemp -d)
    dpkg-deb -R "$deb" "$work"
    files=$(cd "$work" && find . -type f -printf '%P\n' | sort)
    [ "$(dpkg-deb -f "$deb" Package Architecture | tr '\n' ' ')" = "Package: $name Architecture: $arch " ] ||
        fail "$deb: not $name for $arch"
    [ "$(cat "$work/DEBIAN/conffiles")" = /etc/roadloop/roadloop.toml ] ||
        fail "$deb: conffiles are '$(cat "$work/DEBIAN/conffiles")', expected /etc/roadloop/roadloop.toml"
    for file in usr/bin/roadloop usr/lib/systemd/system/roadloop.service usr/lib/udev/rules.d/60-roadloop.rules \
        usr/lib/tmpfiles.d/roadloop.conf usr/lib/sysusers.d/roadloop.conf usr/share/man/man1/roadloop.1.gz usr/share/man/man1/roadloop-replay.1.gz \
        usr/share/bash-completion/completions/roadloop usr/share/zsh/vendor-completions/_roadloop \
        usr/share/fish/vendor_completions.d/roadloop.fish usr/share/roadloop/calib/template.yaml \
        "usr/share/doc/$name/copyright" DEBIAN/postinst DEBIAN/prerm DEBIAN/postrm; do
        grep -qxF "$file" <<< "$files" || fail "$deb: has no /$file"
    done
    # What unit and pages send their reader to is in the package, too.
    local page
    for page in $(grep -ho '/usr/share/[A-Za-z0-9_/.-]*[a-z]' "$work"/usr/lib/systemd/system/* "$work"/usr/share/doc/roadloop/docs/*.md | sort -u); do
        [ -e "$work$page" ] || fail "$deb: has no $page, which its unit or its pages name"
    done
    for page in $(grep -ho '](\(\.\./examples/\)\?[a-z_]*\.[a-z]*)' "$work"/usr/share/doc/roadloop/docs/*.md | tr -d ']()' | sort -u); do
        [ -e "$work/usr/share/doc/roadloop/docs/$page" ] || fail "$deb: has no docs/$page, which its pages name"
    done
    program=$work/usr/bin/roadloop
    glibc=$(readelf -W --dyn-syms "$program" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1)
    glibc=${glibc#GLIBC_}
    [ "$(printf '%s\n' "$glibc" "$newest_glibc" | sort -V | tail -n 1)" = "$newest_glibc" ] ||
        fail "$deb: needs glibc $glibc, at most $newest_glibc is promised"
    # Nothing but what is declared, the loader and, with CUDA, the driver.
    local library
    while read -r library; do
        case $library in
            libc.so.6 | libm.so.6 | libgcc_s.so.1 | ld-linux-*) ;;
            libcuda.so.1) [ "$name" = roadloop-cuda ] || fail "$deb: $library is needed" ;;
            *) fail "$deb: $library is needed, and no dependency says so" ;;
        esac
    done < <(readelf -Wd "$program" | sed -n 's/.*(NEEDED).*\[\(.*\)\].*/\1/p')
    rm -r "$work"
    say "$deb: $(($(stat -c %s "$deb") / 1024)) KiB, starts with glibc $glibc"
}

build() {    # ARCH KIND
    local arch=$1 kind=$2 name=roadloop cross=() options=(--no-build --quiet --strip)
    local features=v4l2
    if [ "$kind" = cuda ]; then
        name=roadloop-cuda features=v4l2,cuda
        options+=(--variant cuda)
    fi
    say "$name, $arch"
    if [ "$arch" = "$native" ]; then
        if [ "$kind" = cuda ]; then scripts/libcuda-stub.sh; fi
        cargo build --quiet --release --features "$features" --bin roadloop --example package_texts --example read_results
        cargo deb "${options[@]}" --output target/debian/
    elif [ "$native-$arch" = amd64-arm64 ]; then
        scripts/aarch64.sh setup > /dev/null
        if [ "$kind" = cuda ]; then CC=aarch64-linux-gnu-gcc scripts/libcuda-stub.sh .cuda-stub/aarch64; fi
        scripts/aarch64.sh cargo build --quiet --release --features "$features" --bin roadloop --example package_texts --example read_results
        CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_STRIP=aarch64-linux-gnu-strip \
            scripts/aarch64.sh cargo deb "${options[@]}" --target aarch64-unknown-linux-gnu --output target/debian/
    else
        fail "cannot make packages for $arch on $native"
    fi
    check "$(find target/debian -name "${name}_*_$arch.deb" -newer "$stamp" | head -n 1)" "$arch" "$name"
}

mkdir -p target/debian
stamp=$(mktemp)
trap 'rm -f "$stamp"' EXIT
for arch in "${archs[@]}"; do
    for kind in "${kinds[@]}"; do build "$arch" "$kind"; done
done
