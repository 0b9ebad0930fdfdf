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

# Drives of every kind: colour and grey, rectified and not, two cameras and one, PNG and JPEG.
stereo=(kitti_odom_06 kitti2015 euroc_micro)
mono=(cdnet_highway logo_kravag_truck)
digests() {
    local work drive
    work=$(mktemp -d)
    cargo build --quiet --release --features v4l2 --bin roadloop --example package_texts --example read_results
    arm build --quiet --release --features v4l2 --bin roadloop
    target/release/roadloop synth --out "$work/street" --frames 3 --seed 7 2> /dev/null
    for drive in "$work/street" "${stereo[@]/#/$data/}"; do same "$drive" "$work" 0..3 disparity; done
    for drive in "${mono[@]/#/$data/}"; do same "$drive" "$work" 0..6 foreground; done
    rm -r "$work"
}
same() {    # DRIVE WORK FRAMES PICTURES
    if [ ! -d "$1" ]; then
        echo "no $1: left out"
        return
    fi
    rm -rf "$2/native" "$2/other"
    target/release/roadloop replay "$1" --out "$2/native" --frames "$3" --save "$4" > "$2/log" 2>&1 || { cat "$2/log"; return 1; }
    emulated target/cross/aarch64-unknown-linux-gnu/release/roadloop replay "$1" --out "$2/other" --frames "$3" --save "$4" > "$2/log" 2>&1 ||
        { cat "$2/log"; return 1; }
    diff <(digests_of "$2/native") <(digests_of "$2/other")
    # Tables without times, pictures.
    diff -r -x 'summary.json' -x 'timing.csv' "$2/native" "$2/other"
    echo "same bytes: $(basename "$1") $(digests_of "$2/native" | tr -d '", \n{}')"
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
