#!/bin/sh
# Makes models/street.forest: the pixel classifier for the streets of `roadloop synth`, from
# generated drives alone. First the drives, with roadloop's own disparity, then the training, then
# the judgement on streets that it has not seen. The same bytes on every run and machine.
#
#   scripts/street-forest.sh [OUT]      OUT: models/street.forest unless given
#
# ROADLOOP names the program, WORK a folder for the drives (kept, so that a second run is short).
set -eu
cd "$(dirname "$0")/.."
roadloop=${ROADLOOP:-target/release/roadloop}
work=${WORK:-target/street-forest}
out=${1:-models/street.forest}
run=$PWD/scripts/with-libcuda.sh
case $roadloop in /*) ;; *) roadloop=$PWD/$roadloop ;; esac

# drive SET SEED FRAMES: a drive's pictures, labels and disparities go to the folder of its set.
if [ "${1:-}" = --drive ]; then
    set=$2 seed=$3 frames=$4
    [ ! -e "$set/done/$seed" ] || exit 0
    tmp=$set/tmp/$seed
    rm -rf "$tmp"
    mkdir -p "$set/images" "$set/labels" "$set/disparity" "$set/done" "$tmp"
    # Every other street has a wait at the kerb in it.
    motion=drive
    [ $((seed % 2)) = 0 ] || motion=mixed
    RUST_LOG=warn "$run" "$roadloop" synth --out "$tmp/drive" --seed "$seed" --frames "$frames" --motion $motion
    RUST_LOG=warn "$run" "$roadloop" replay "$tmp/drive" --out "$tmp/results" --backend cpu --threads 1 --save disparity >"$tmp/log"
    for picture in "$tmp"/results/disparity/*.png; do
        name=$(basename "$picture")
        mv "$picture" "$set/disparity/${seed}_$name"
        mv "$tmp/drive/image_2/$name" "$set/images/${seed}_$name"
        mv "$tmp/drive/truth/labels/$name" "$set/labels/${seed}_$name"
    done
    cp "$tmp/drive/truth/classes.csv" "$tmp/drive/calib.txt" "$set/"
    rm -rf "$tmp"
    : >"$set/done/$seed"
    exit 0
fi

# make SET FIRST LAST FRAMES: the drives of some seeds, as many at once as there are cores.
make() {
    echo "street-forest: drives $2 to $3, $4 frames each" >&2
    seq "$2" "$3" | ROADLOOP=$roadloop xargs -P "$(nproc)" -I SEED "$0" --drive "$work/$1" SEED "$4"
}

# camera SET: focal length and base line as arguments, from P1 = [f 0 cx -f*b ...].
camera() {
    awk '/^P1/ { printf "--focal-px %.9g --baseline-m %.9g\n", $2, -$5 / $2 }' "$work/$1/calib.txt"
}

make train 101 140 4
make held 1 6 8
# shellcheck disable=SC2046 # words on purpose
"$run" "$roadloop" forest train "$work/train" --disparity "$work/train/disparity" $(camera train) \
    --feature rgbd --depth-steps 256 --fill-depth --reference 2560 --offset 30 --region 3 --norm mean \
    --depth-share 128 --row-share 24 --samples 1536 --features 192 --trees 4 --depth-levels 18 \
    --min-pixels 24 --weight pedestrian=2,pole=2 --out "$out" --force
# shellcheck disable=SC2046
"$run" "$roadloop" forest test "$out" "$work/held" --disparity "$work/held/disparity" $(camera held)
