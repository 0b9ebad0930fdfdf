#!/usr/bin/env bash
# Makes sure that what boot.sh needs for guests of ARCH (default: this machine's) is here;
# installs it as root on Debian or Ubuntu. Says why not, with status 69, where it cannot.
set -euo pipefail

native=$(dpkg --print-architecture 2> /dev/null) || {
    echo "no dpkg: the guest is made of Debian's packages" >&2
    exit 69
}
missing=()
need() { PATH=$PATH:/usr/sbin:/sbin command -v "$1" > /dev/null || missing+=("$2"); }    # TOOL PACKAGE
for arch in "${@:-$native}"; do
    case $arch in
        amd64) need qemu-system-x86_64 qemu-system-x86 ;;
        arm64) need qemu-system-aarch64 qemu-system-arm ;;
        *) echo "no guests for $arch, only for amd64 and arm64" >&2; exit 69 ;;
    esac
done
need readelf binutils
need cpio cpio
need modprobe kmod
need xz xz-utils
[ "${#missing[@]}" -gt 0 ] || exit 0

if [ "$(id -u)" != 0 ]; then
    echo "not root: sudo apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 69
fi
echo "vm: installing ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export DEBIAN_FRONTEND=noninteractive
if ! { apt-get -qq update && apt-get -o DPkg::Lock::Timeout=300 -qq install -y --no-install-recommends "${missing[@]}"; } > "$log" 2>&1; then
    tail -n 5 "$log" >&2
    echo "apt-get cannot install ${missing[*]}" >&2
    exit 69
fi
