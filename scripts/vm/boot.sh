#!/usr/bin/env bash
# Runs a program in a small virtual machine that has real V4L2 cameras: the kernel's
# vivid test driver. Passes the program's output through and returns its exit status.
#
#   boot.sh [option]… [--] PROGRAM [ARGUMENT]…
#
#   --arch ARCH       amd64 or arm64            (default: PROGRAM's, or this machine's)
#   --devs N          cameras, /dev/video0 … N-1                     (default 3)
#   --planes 1|2      single- or multi-planar cameras                (default 1)
#   --vivid 'A=B …'   further module parameters of vivid
#   --file SRC[:DST]  put a further file (with its shared libraries) into the guest
#   --share DIR       the host's DIR, read-only, at the same path in the guest
#   --out DIR         the host's DIR, writable, as /out in the guest
#   --env NAME=VALUE  environment of PROGRAM
#   --cwd DIR         its working folder                             (default /)
#   --systemd         systemd as PID 1; PROGRAM then runs as a unit, beside those of --unit
#   --unit FILE       a unit file for /etc/systemd/system (implies --systemd)
#   --watchdog        a /dev/watchdog (softdog)
#   --timeout S       wall-clock limit for the whole run             (default 120)
#   --smp N, --mem M  processors, memory in MiB                      (default 1, 512)
#   --verbose         the guest's console on standard error
#   --image           only makes the image, where it is not there yet; no PROGRAM. Status 69
#                     where its packages are not to be had
#
# Exit status: the program's; 124 past the time limit; 125 if the guest failed (its
# console is then shown); 2 on wrong usage.
#
# As a cargo runner, so that 'cargo test' runs each test binary in a guest of its own:
#   CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="…/boot.sh --" cargo test --test cameras
#
# Needs (Debian packages): qemu-system-x86 (or qemu-system-arm), binutils, cpio, kmod,
# xz-utils; apt's sources for the first run with each architecture.
# Environment: ROADLOOP_VM_CACHE (default ${XDG_CACHE_HOME:-~/.cache}/roadloop-vm); ROADLOOP_VM_ACCEL
# (kvm or tcg; default: what the image build found to work); ROADLOOP_VM_CPU (QEMU's model);
# ROADLOOP_VM_OPTIONS (options put before the given ones, split at blanks); SYSROOT_ARM64
# (where an arm64 program's libraries are; default /usr/aarch64-linux-gnu).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
native=$(dpkg --print-architecture)
arch='' devs=3 planes=1 vivid_more='' cwd=/ limit=120 smp=1 mem=512
verbose='' watchdog='' systemd='' out_dir='' only_image=''
files=() units=() shares=() envs=()

usage() { sed -n '2,/^set -euo/p' "${BASH_SOURCE[0]}" | sed '$d; s/^# \{0,1\}//' >&2; exit 2; }
say() { echo "vm/boot: $*" >&2; }

# shellcheck disable=SC2086
set -- ${ROADLOOP_VM_OPTIONS:-} "$@"
while [ $# -gt 0 ]; do
    case $1 in
        --systemd) systemd=1; shift ;;
        --watchdog) watchdog=1; shift ;;
        --verbose) verbose=1; shift ;;
        --image) only_image=1; shift ;;
        --) shift; break ;;
        --*)
            [ $# -ge 2 ] || usage
            case $1 in
                --arch) arch=$2 ;;
                --devs) devs=$2 ;;
                --planes) planes=$2 ;;
                --vivid) vivid_more=$2 ;;
                --file) files+=("$2") ;;
                --share) shares+=("$(realpath "$2")") ;;
                --out) out_dir=$2 ;;
                --env) envs+=("$2") ;;
                --cwd) cwd=$2 ;;
                --unit) units+=("$2"); systemd=1 ;;
                --timeout) limit=$2 ;;
                --smp) smp=$2 ;;
                --mem) mem=$2 ;;
                *) usage ;;
            esac
            shift 2 ;;
        *) break ;;
    esac
done
if [ -z "$only_image" ]; then
    [ $# -gt 0 ] || usage
    program=$(command -v -- "$1") || { say "no such program: $1"; exit 2; }
    program=$(realpath "$program")
    shift
fi

if [ -n "$only_image" ]; then
    arch=${arch:-$native}
elif [ -z "$arch" ]; then
    case $(od -An -tx1 -N20 "$program" | tr -d ' \n') in    # ELF's e_machine
        7f454c46*3e00) arch=amd64 ;;
        7f454c46*b700) arch=arm64 ;;
        *) arch=$native ;;
    esac
fi
case $arch in
    # The kernel's check of its timer fails, and it panics, where the host gives QEMU no time just then.
    amd64) qemu=(qemu-system-x86_64) console='ttyS0 no_timer_check' cpu=max,la57=off ;;
    arm64) qemu=(qemu-system-aarch64 -M virt) console=ttyAMA0 cpu=cortex-a72 ;;
    *) usage ;;
esac

# --- image: built once for each version of its script, by one builder at a time ---------
cache=${ROADLOOP_VM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/roadloop-vm}
image=$cache/$arch-$(sha256sum < "$here/image.sh" | cut -c1-16)
mkdir -p "$cache"
(
    flock 9
    [ -e "$image/version" ] || "$here/image.sh" "$arch" "$image" >&2
    touch "$image"
    find "$cache" -maxdepth 1 -name '*-*' -mtime +14 -exec rm -rf {} +    # images of earlier versions
) 9> "$cache/lock"
[ -z "$only_image" ] || exit 0
accel=${ROADLOOP_VM_ACCEL:-$(cat "$image/accel")}
[ "$accel" != kvm ] || cpu=host
cpu=${ROADLOOP_VM_CPU:-$cpu}

# --- the job: program, libraries, command line -> one more initramfs layer ---------------
tmp=$(mktemp -d)
running=''
# shellcheck disable=SC2317
cleanup() {
    [ -z "$running" ] || kill "$running" 2>/dev/null || true
    rm -rf "$tmp"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

job=$tmp/job
mkdir -p "$job/guest/bin" "$job"/usr/{bin,sbin,lib,lib64}
for dir in bin sbin lib lib64; do ln -s "usr/$dir" "$job/$dir"; done
quote() { printf "'%s'" "$(printf %s "$1" | sed "s/'/'\\\\''/g")"; }
add() { mkdir -p "$job$(dirname "$2")"; [ -e "$job$2" ] || cp -L "$1" "$job$2"; }
libraries() {    # FILE: adds the shared libraries that it needs
    local name path
    if [ "$arch" = "$native" ]; then
        { ldd "$1" 2>/dev/null || true; } |
            awk '$2 == "=>" && $3 ~ /^\// {print $3} $1 ~ /^\/lib/ {print $1}' |
            while read -r path; do add "$path" "$path"; done
    else
        { readelf -Wld "$1" 2>/dev/null || true; } |
            sed -n 's/.*(NEEDED).*\[\(.*\)\].*/\1/p; s/.*program interpreter: .*\/\(.*\)\]/\1/p' |
            while read -r name; do
                path=${SYSROOT_ARM64:-/usr/aarch64-linux-gnu}/lib/$name
                [ -e "$path" ] || { say "no $name in the sysroot, needed by $1"; exit 2; }
                case $name in
                    ld-linux-*) add "$path" "/lib/$name" ;;
                    *)  [ ! -e "$job/lib/aarch64-linux-gnu/$name" ] || continue
                        add "$path" "/lib/aarch64-linux-gnu/$name"
                        libraries "$path" ;;
                esac
            done
    fi
}
strip=strip
[ "$arch" = "$native" ] || [ "$arch" != arm64 ] || strip=aarch64-linux-gnu-strip
put() {    # without debug information, which is most of a program, where there is a strip
    add "$1" "$2"
    "$strip" --strip-debug "$job$2" 2> /dev/null || true
    libraries "$1"
}

name=/guest/bin/$(basename "$program")
put "$program" "$name"
for file in ${files[@]+"${files[@]}"}; do put "${file%%:*}" "${file#*:}"; done
for unit in ${units[@]+"${units[@]}"}; do add "$unit" "/etc/systemd/system/$(basename "$unit")"; done
install -m 755 "$here/init" "$job/init"
install -m 644 "$here/run-job" "$job/guest/run-job"
{
    for pair in ${envs[@]+"${envs[@]}"}; do echo "export $(quote "$pair")"; done
    echo "cd $(quote "$cwd") || exit 125"
    printf 'exec %s' "$(quote "$name")"
    for argument in "$@"; do printf ' %s' "$(quote "$argument")"; done
    echo
} > "$job/guest/job"

disks=()
: > "$job/guest/shares"
for dir in ${shares[@]+"${shares[@]}"}; do
    disks+=(-virtfs "local,path=$dir,mount_tag=share${#disks[@]},security_model=none,readonly=on,multidevs=remap")
    echo "share$((${#disks[@]} - 2))|$dir|ro" >> "$job/guest/shares"
done
if [ -n "$out_dir" ]; then
    mkdir -p "$out_dir"
    disks+=(-virtfs "local,path=$(realpath "$out_dir"),mount_tag=out,security_model=none,multidevs=remap")
    echo 'out|/out|rw' >> "$job/guest/shares"
fi
each() { local i list=$1; for ((i = 1; i < devs; i++)); do list+=,$1; done; echo "$list"; }
{
    # One capture node and one input (a webcam: discrete sizes and rates) for each device.
    echo "vivid=$(quote "n_devs=$devs node_types=$(each 0x1) num_inputs=$(each 1) input_types=$(each 0) multiplanar=$(each "$planes") $vivid_more")"
    echo "nodes=$devs"
    echo "shares=${disks[*]+1}"
    echo "watchdog=$watchdog"
    echo "systemd=$systemd"
} > "$job/guest/config"
layers=("$image/base.cpio")
[ -z "$systemd" ] || layers+=("$image/systemd.cpio")
(cd "$job" && find . -mindepth 1 | LC_ALL=C sort | cpio --quiet -o -H newc -R 0:0) > "$tmp/job.cpio"
cat "${layers[@]}" "$tmp/job.cpio" > "$tmp/initrd"
rm -rf "$job" "$tmp/job.cpio"

# --- boot -----------------------------------------------------------------------------------
# The shell holds both fifos open, so that neither QEMU nor cat waits in opening one.
mkfifo "$tmp/stdout" "$tmp/stderr"
exec 7<> "$tmp/stdout" 8<> "$tmp/stderr"
cat "$tmp/stdout" 7<&- 8<&- & cats=("$!")
cat "$tmp/stderr" >&2 7<&- 8<&- & cats+=("$!")
ports=()
for port in stdout stderr status; do
    ports+=(-chardev "file,id=$port,path=$tmp/$port" -device "virtserialport,chardev=$port,name=$port")
done
timeout -k 5 "$limit" "${qemu[@]}" -accel "$accel" -cpu "$cpu" -smp "$smp" -m "$mem" \
    -nodefaults -no-user-config -display none -no-reboot \
    -kernel "$image/kernel" -initrd "$tmp/initrd" \
    -append "console=$console ${verbose:+loglevel=6} $([ -n "$verbose" ] || echo quiet) panic=-1 mitigations=off random.trust_cpu=on cryptomgr.notests" \
    -serial "file:$tmp/console" -device virtio-serial-pci "${ports[@]}" ${disks[@]+"${disks[@]}"} \
    < /dev/null >&2 7<&- 8<&- &
running=$!
code=0
wait "$running" || code=$?
running=''
exec 7<&- 8<&-
wait "${cats[@]}" || true

[ -z "$verbose" ] || cat "$tmp/console" >&2
if [ "$code" = 124 ] || [ "$code" = 137 ]; then
    say "no result within $limit s; the guest's console ends:"
    tail -n 20 "$tmp/console" >&2 || true
    exit 124
fi
status=$(tr -d '\r\n' < "$tmp/status" 2>/dev/null || true)
if [ -z "$status" ] || [ "$status" = 125 ]; then
    say "the guest failed (QEMU ended with $code); its console ends:"
    tail -n 40 "$tmp/console" >&2 || true
    status=125
fi
exit "$status"
