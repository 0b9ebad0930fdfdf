#!/usr/bin/env bash
# Builds what boot.sh boots: Debian's kernel, and the layers of an initramfs.
#
#   image.sh ARCH DIR              ARCH: amd64 or arm64 (Debian's names)
#
# DIR (made anew) receives:
#   kernel         Debian's kernel; for amd64 unpacked, so that QEMU enters it directly
#                  (PVH): unpacking costs seconds under emulation
#   base.cpio      static busybox and the modules below
#   systemd.cpio   Debian's systemd, dpkg and v4l2-ctl, for boot.sh --systemd
#   accel          "kvm" or "tcg": whether KVM really boots this kernel here
#   version        the kernel's release
#
# Needs (Debian packages): binutils cpio kmod xz-utils, and qemu-system-x86 or
# qemu-system-arm; apt's sources, from which linux-image-ARCH, busybox-static, systemd, dpkg
# and v4l-utils are downloaded with what they depend on. It installs nothing and needs no root.
set -euo pipefail

arch=${1:?usage: image.sh ARCH DIR}
out=${2:?usage: image.sh ARCH DIR}
native=$(dpkg --print-architecture)
# vivid: the cameras. virtio_*: the result channels. 9p*: shared folders. softdog: a
# /dev/watchdog.
modules=(virtio_pci virtio_console 9pnet_virtio 9p softdog vivid)
# What a package of ours may find installed in the guest.
installed=(systemd udev dpkg tar libc6 libgcc-s1)

PATH=$PATH:/usr/sbin:/sbin
die() { echo "vm/image: $*" >&2; exit 1; }
case $arch in
    amd64) qemu=(qemu-system-x86_64) console=ttyS0 ;;
    arm64) qemu=(qemu-system-aarch64 -M virt) console=ttyAMA0 ;;
    *) die "unknown architecture $arch, expected amd64 or arm64" ;;
esac
for tool in "${qemu[0]}" readelf cpio depmod modprobe xz dpkg-deb apt-get; do
    command -v "$tool" >/dev/null || die "$tool not found; see the packages named at the top of this script"
done

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
rm -rf "$out"
mkdir -p "$out"

# --- packages: apt with a state of its own, as if on a machine of ARCH ------------------
mkdir -p "$tmp"/apt/{lists,cache/archives}/partial "$tmp/deb"
touch "$tmp/apt/status"
apt() {
    local tool=$1; shift
    "$tool" -qq -o Dir::State="$tmp/apt" -o Dir::State::lists="$tmp/apt/lists" \
        -o Dir::State::status="$tmp/apt/status" -o Dir::Cache="$tmp/apt/cache" \
        -o APT::Architecture="$arch" -o APT::Architectures="$arch" \
        -o Acquire::Languages=none -o APT::Sandbox::User=root -o Debug::NoLocking=1 "$@"
}
# Without a network, or on another distribution: nothing of ours is wrong. Status 69.
unavailable() { echo "vm/image: $*" >&2; exit 69; }
apt apt-get update || unavailable "apt-get update failed"
meta=linux-image-$arch
kernel=$(apt apt-cache depends "$meta" | awk '$1 == "Depends:" && $2 ~ /^linux-image-[0-9]/ && !n++ {print $2}') || true
[ -n "$kernel" ] || unavailable "no kernel found behind $meta"
(cd "$tmp/deb" && apt apt-get download "$kernel" busybox-static) || unavailable "no $kernel or no busybox-static"
apt apt-get install -y --download-only --no-install-recommends systemd dpkg libgcc-s1 v4l-utils > /dev/null ||
    unavailable "no systemd, dpkg or v4l-utils for the guest"
dpkg-deb -x "$tmp"/deb/linux-image-*.deb "$tmp/k"
dpkg-deb -x "$tmp"/deb/busybox-static_*.deb "$tmp/b"
for deb in "$tmp"/apt/cache/archives/*.deb; do dpkg-deb -x "$deb" "$tmp/s"; done
dpkg-deb -x "$tmp"/apt/cache/archives/systemd_*.deb "$tmp/systemd"
: > "$tmp/status"
for package in "${installed[@]}"; do
    version=$(apt apt-cache show "$package" | sed -n 's/^Version: //p' | sort -V | tail -n 1)
    printf '%s\n' "Package: $package" 'Status: install ok installed' "Architecture: $arch" \
        'Maintainer: Debian' "Version: $version" 'Description: as in the image' '' >> "$tmp/status"
done
rm -rf "$tmp/apt" "$tmp/deb"

# --- kernel -----------------------------------------------------------------------------
release=$(basename "$tmp"/k/lib/modules/*)
image=$tmp/k/boot/vmlinuz-$release
if [ "$arch" = amd64 ]; then
    # The x86 boot protocol gives the payload's place in the bzImage.
    byte() { od -An -v -tu1 -j "$1" -N1 "$image" | tr -d ' '; }
    long() { od -An -v -tu4 -j "$1" -N4 "$image" | tr -d ' '; }
    start=$(( ($(byte 0x1f1) + 1) * 512 + $(long 0x248) ))
    length=$(( $(long 0x24c) - 4 ))          # the last four bytes hold the unpacked size
    payload() { head -c $((start + length)) "$image" | tail -c "$length"; }
    case $(od -An -tx1 -j "$start" -N4 "$image" | tr -d ' ') in
        fd377a58) payload | xz -dc > "$out/kernel" ;;
        28b52ffd) payload | zstd -dqc > "$out/kernel" ;;
        1f8b*) payload | gzip -dc > "$out/kernel" ;;
        *) cp "$image" "$out/kernel" ;;      # unknown packing: boot the bzImage itself
    esac
else
    cp "$image" "$out/kernel"
fi

# --- base layer ---------------------------------------------------------------------------
layout() {    # merged /usr, the same in every layer: a folder entry would replace a link
    mkdir -p "$1"/usr/{bin,sbin,lib,lib64}
    local d
    for d in bin sbin lib lib64; do ln -s "usr/$d" "$1/$d"; done
}
pack() { (cd "$1" && find . -mindepth 1 | LC_ALL=C sort | cpio --quiet -o -H newc -R 0:0) > "$2"; }

unsign() {    # MODULE: cuts the signature off; to check it costs 0.1 s a module under emulation
    local size sig
    [ "$(tail -c 28 "$1" | head -c 27 | tr -d '\0')" = '~Module signature appended~' ] || return 0
    size=$(stat -c %s "$1")
    sig=$(od -An -v -tu1 -j $((size - 32)) -N4 "$1" | awk '{print (($1 * 256 + $2) * 256 + $3) * 256 + $4}')
    truncate -s $((size - 40 - sig)) "$1"
}

root=$tmp/root lib=$tmp/root/lib/guest
layout "$root"
mkdir -p "$root"/{dev,proc,sys,tmp,run,etc,root,var/log} "$lib"
depmod -b "$tmp/k" "$release"
for module in "${modules[@]}"; do
    # NAME.order lists NAME and what it depends on, in loading order.
    modprobe -S "$release" -d "$tmp/k" --show-depends "$module" > "$tmp/depends" \
        || die "$kernel has no module $module"
    while read -r verb file _; do
        [ "$verb" = insmod ] || continue
        name=$(basename "$file"); name=${name%.xz}; name=${name%.zst}
        echo "$name" >> "$lib/$module.order"
        [ ! -e "$lib/$name" ] || continue
        case $file in
            *.xz) xz -dc "$file" > "$lib/$name" ;;
            *.zst) zstd -dqc "$file" > "$lib/$name" ;;
            *) cp "$file" "$lib/$name" ;;
        esac
        unsign "$lib/$name"
    done < "$tmp/depends"
done
cp "$tmp/b/bin/busybox" "$root/bin/busybox" 2>/dev/null || cp "$tmp/b/usr/bin/busybox" "$root/bin/busybox"
printf '%s\n' root:x:0:0:root:/root:/bin/sh nobody:x:65534:65534:nobody:/:/bin/false > "$root/etc/passwd"
printf '%s\n' root:x:0: tty:x:5: video:x:44: systemd-journal:x:101: nogroup:x:65534: > "$root/etc/group"
pack "$root" "$out/base.cpio"

# --- systemd layer --------------------------------------------------------------------------
sd=$tmp/sd
layout "$sd"
mkdir -p "$sd"/etc/systemd/system "$sd"/var/lib/dpkg/{info,updates,triggers} "$sd/var/log" "$sd/var/cache"
take() { [ -e "$sd$1" ] || [ -L "$sd$1" ] || { mkdir -p "$sd$(dirname "$1")"; cp -P "$tmp/s$1" "$sd$1"; }; }
(cd "$tmp/systemd" && find . ! -type d) | sed 's/^\.//' |
    grep -Ev '^/usr/share/|/hwdb|/catalog|/kernel/|/initramfs|^/etc/' |
    while read -r file; do take "$file"; done
# dpkg and its tools, v4l2-ctl, and what programs in Rust link.
for file in "$tmp"/s/{usr/bin/v4l2-ctl,usr/bin/dpkg{,-deb,-query,-split,-divert,-trigger},{,usr/}bin/tar,{,usr/}sbin/start-stop-daemon} \
    "$tmp"/s/{,usr/}lib/*-linux-gnu/lib{gcc_s.so.1,m.so.6}; do
    if [ -e "$file" ]; then take "${file#"$tmp/s"}"; fi
done
found=-1
while [ "$(find "$sd" | wc -l)" != "$found" ]; do    # libraries, and the libraries that those need
    found=$(find "$sd" | wc -l)
    { find "$sd" -type f -exec readelf -Wld {} + 2>/dev/null || true; } |
        sed -n 's/.*(NEEDED).*\[\(.*\)\].*/\1/p; s/.*program interpreter: .*\/\(.*\)\]/\1/p' | sort -u |
        while read -r name; do
            for file in "$tmp"/s/{,usr/}lib{,64}/{,*-linux-gnu/,*-linux-gnu/systemd/,systemd/}"$name"; do
                [ -e "$file" ] || continue
                take "${file#"$tmp/s"}"
                [ ! -L "$file" ] || take "$(dirname "${file#"$tmp/s"}")/$(basename "$(readlink "$file")")"
            done
        done
done
printf '%s\n' '#!/bin/sh' 'exit 0' > "$sd/sbin/ldconfig"    # dpkg insists on one
chmod 755 "$sd/sbin/ldconfig"
for package in "${installed[@]}"; do : > "$sd/var/lib/dpkg/info/$package.list"; done
cp "$tmp/status" "$sd/var/lib/dpkg/status"
: > "$sd/var/lib/dpkg/available"
echo 00000000000000000000000000000001 > "$sd/etc/machine-id"
echo 'passwd: files' > "$sd/etc/nsswitch.conf"
# Nothing that a service file speaks of, and slow to start under emulation.
for unit in systemd-{random-seed,hwdb-update,journal-catalog-update,update-done,machine-id-commit}.service \
    systemd-{modules-load,sysctl,sysusers,binfmt,boot-random-seed,pcrphase-sysinit,update-utmp}.service \
    systemd-{ask-password-console,journal-flush,tmpfiles-setup,tmpfiles-setup-dev,remount-fs}.service \
    modprobe@{configfs,drm,efi_pstore,fuse,loop,dm_mod}.service \
    dev-hugepages.mount dev-mqueue.mount sys-kernel-{debug,tracing,config}.mount \
    sys-fs-fuse-connections.mount proc-sys-fs-binfmt_misc.automount \
    systemd-ask-password-{wall,console}.path systemd-tmpfiles-clean.timer; do
    ln -sf /dev/null "$sd/etc/systemd/system/$unit"
done
printf '%s\n' '[Unit]' 'Description=The job that boot.sh was given' \
    '[Service]' 'Type=exec' 'ExecStart=/bin/sh /guest/run-job' \
    > "$sd/etc/systemd/system/guest-job.service"
printf '%s\n' '[Unit]' 'Requires=basic.target guest-job.service' 'After=basic.target' \
    > "$sd/etc/systemd/system/guest.target"
pack "$sd" "$out/systemd.cpio"

# --- does KVM work? -----------------------------------------------------------------------
# /dev/kvm can be there and yet not run a stock kernel (nested paravirtual hosts).
accel=tcg
if [ "$arch" = "$native" ] && [ -w /dev/kvm ]; then
    mkdir -p "$tmp"/probe/{bin,dev}
    printf '%s\n' '#!/bin/busybox sh' '/bin/busybox echo guest-is-up > /dev/console' \
        '/bin/busybox reboot -f' > "$tmp/probe/init"
    chmod 755 "$tmp/probe/init"
    cp "$root/bin/busybox" "$tmp/probe/bin/busybox"
    pack "$tmp/probe" "$tmp/probe.cpio"
    { timeout -k 2 8 "${qemu[@]}" -accel kvm -cpu host -m 256 \
        -nodefaults -no-user-config -display none -no-reboot -serial "file:$tmp/probe.log" \
        -kernel "$out/kernel" -initrd "$tmp/probe.cpio" -append "console=$console quiet panic=-1" \
        < /dev/null > /dev/null || true; } 2> /dev/null    # QEMU may abort there
    if grep -q guest-is-up "$tmp/probe.log" 2>/dev/null; then accel=kvm; fi
fi
echo "$accel" > "$out/accel"
echo "$release" > "$out/version"
