#!/bin/sh
# What scripts/predict_orin.py reads: whole frames of 1280x720 (stereo and mono, a vehicle that stands,
# all stages, the built-in forest on every second pixel, three logos), measured on an NVIDIA GPU.
#
#   scripts/orin-input.sh OUT
#
# OUT/sms8.json, OUT/sms16.json: stages one after the other on slices of 8 and 16 multiprocessors.
# OUT/kernels.csv: bytes and instructions of each kernel, by Nsight Compute (ncu), on 16.
# ROADLOOP names the program (a release build with the feature cuda), FOREST the forest, NCU ncu.
# WORK takes the drive (OUT/work). NCU_SMS=all counts on the whole GPU, where ncu refuses slices
# (what the host does within a stage is then taken to be more than it is).
# BACKEND=cpu tries the commands without a GPU: no slices, no ncu. FRAMES are timed, at RATE a second.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
[ $# = 1 ] || { echo "orin-input.sh: expected the folder to write to" >&2; exit 64; }
roadloop=${ROADLOOP:-$here/target/release/roadloop}
forest=${FOREST:-$here/models/street.forest}
ncu=${NCU:-ncu} backend=${BACKEND:-cuda} size=${SIZE:-1280x720}
mkdir -p "$1" "${WORK:-$1/work}"
out=$(cd "$1" && pwd)
work=$(cd "${WORK:-$1/work}" && pwd)

"$roadloop" synth --out "$work/drive" --frames 16 --motion still --width "${size%x*}" --height "${size#*x}" --force >&2
"$roadloop" logos build "$work/drive/logos" --out "$work/logos.bin" >&2
# Nothing is skipped, and no stage runs beside another: each time is a stage's own.
cat >"$work/all.toml" <<EOF
[frame_loop]
deadline_us = 60000000
overlap = false
[foreground]
enabled = true
[logo]
templates = "logos.bin"
[forest]
model = "$forest"
step = 2
EOF
if [ "$backend" = cpu ]; then
    "$roadloop" bench latency --backend cpu --config "$work/all.toml" --drive "$work/drive" --json \
        --rate "${RATE:-2}" --warm-up 1 --frames "${FRAMES:-4}" >"$out/cpu.json"
    exit 0
fi
for sms in 8 16; do
    "$roadloop" bench latency --backend cuda --sms $sms --config "$work/all.toml" --drive "$work/drive" --json \
        --rate "${RATE:-20}" --frames "${FRAMES:-200}" >"$out/sms$sms.json"
done
if [ "${NCU_SMS:-16}" = all ]; then slice=; else slice="--sms ${NCU_SMS:-16}"; fi
# Kernels are run several times over: a frame takes seconds, so few frames come, and slowly.
# shellcheck disable=SC2086 # none, or two words
"$ncu" --graph-profiling node --clock-control none --cache-control none --csv --page raw --print-units base \
    --log-file "$out/kernels.csv" --metrics "gpu__time_duration.sum,dram__bytes.sum,lts__t_bytes.sum,\
smsp__inst_executed.sum,smsp__thread_inst_executed.sum,launch__grid_size,launch__block_size" \
    "$roadloop" bench latency --backend cuda $slice --config "$work/all.toml" --drive "$work/drive" --json \
    --rate 0.2 --warm-up 2 --frames 4 >"$out/profiled.json"
"$here/scripts/predict_orin.py" "$out/kernels.csv" "$out/sms8.json" "$out/sms16.json" >"$out/orin.md"
cat "$out/orin.md"
