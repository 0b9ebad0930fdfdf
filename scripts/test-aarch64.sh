#!/usr/bin/env bash
# test-aarch64.sh [PART]…: roadloop for the Jetson's processor, tested on an x86-64 machine. Parts:
#   build     everything, all features for which there are compilers
#   suite     the tests under qemu-user, but for those of $left_out
#   digests   real drives replayed by this build and by the native one: the same bytes
#   guest     cameras, live loop and service in an arm64 guest (scripts/test-vm.sh)
# Default: all. LEFT_OUT='' runs every test. Each part is printed with its time.
set -euo pipefail
cd "$(dirname "$0")/.."

parts=("$@")
[ $# -gt 0 ] || parts=(build suite digests guest)
data=${ROADLOOP_DATA:-../shared/data}

# Minutes of arithmetic each under emulation; what is aarch64 about them (float formats, libm,
# byte order of files, atomics) is in the others and in 'digests'.
left_out=${LEFT_OUT-'stereo_accuracy stixel_reference stereo_reference logo_kravag logo_benchmark logo_street
    foreground_highway egomotion evidence forest_training allocations logo_allocations'}

arm() { scripts/aarch64.sh cargo "$@"; }
emulated() { scripts/aarch64.sh run "$@"; }

build() {
    local features=v4l2
    if compgen -G '.cuda/*/bin/nvcc' > /dev/null || command -v nvcc > /dev/null; then
        CC=aarch64-linux-gnu-gcc scripts/libcuda-stub.sh .cuda-stub/aarch64
        arm build --release --features v4l2,cuda --bin roadloop
        features=v4l2,cuda
    else
        echo "no nvcc: the feature cuda is left out (make cuda-setup fetches compilers)"
    fi
    arm build --release --features v4l2 --bin roadloop
    echo "built with $features and with v4l2"
}

suite() {
    local test tests=()
    # Tests start the program itself: the kernel must know what to run it with.
    if ! scripts/aarch64.sh binfmt on; then
        echo "no binfmt_misc here (root?): tests that start the program cannot run" >&2
        return 1
    fi
    for test in tests/*.rs; do
        test=$(basename "$test" .rs)
        case $test in cuda*) continue ;; cameras) continue ;; esac
        [[ " $(tr -s '\n ' '  ' <<< "$left_out") " == *" $test "* ]] || tests+=(--test "$test")
    done
    arm test --lib "${tests[@]}" -- --quiet
    echo "left out: $(tr -s '\n ' '  ' <<< "$left_out")"
}

# Drives of every kind: colour and grey, rectified and not, one camera and two, PNG and JPEG.
drives=(kitti_odom_06 kitti2015 euroc_micro cdnet_highway logo_kravag_truck)
digests() {
    local drive work native=target/release/roadloop other=target/cross/aarch64-unknown-linux-gnu/release/roadloop
    work=$(mktemp -d)
    cargo build --quiet --release --features v4l2 --bin roadloop
    arm build --quiet --release --features v4l2 --bin roadloop
    "$native" synth --out "$work/street" --frames 3 --seed 7
    for drive in "$work/street" "${drives[@]/#/$data/}"; do
        if [ ! -d "$drive" ]; then
            echo "no $drive: left out"
            continue
        fi
        "$native" replay "$drive" --out "$work/native" --frames 0..3 --save disparity --force 2> /dev/null
        emulated "$other" replay "$drive" --out "$work/other" --frames 0..3 --save disparity --force 2> /dev/null
        diff <(digests_of "$work/native") <(digests_of "$work/other")
        for file in stixels.csv logos.csv; do
            [ ! -e "$work/native/$file" ] || cmp "$work/native/$file" "$work/other/$file"
        done
        echo "$(basename "$drive"): $(digests_of "$work/native" | tr -d '", \n{}')"
    done
    rm -r "$work"
}
digests_of() { sed -n '/^  "digest/,/}/p' "$1/summary.json"; }

guest() { scripts/test-vm.sh --arch arm64; }

scripts/aarch64.sh setup
for part in "${parts[@]}"; do
    start=$SECONDS
    echo "== $part"
    "$part"
    echo "== $part: $((SECONDS - start)) s"
done
