#!/usr/bin/env bash
# run.sh [tests] [sanitize] [drives] [bench]: what to do; without any, all of these.
# run.sh next: what has not run on a GPU yet, most important first: tests, sanitizers, the stixel
#   variants, benches. $NEXT names the programs, $PARTS the parts where there is no time for all at
#   once, BUDGET the seconds after which nothing new begins
#   tests     every GPU test (ROADLOOP_REQUIRE_GPU=1: a missing device is a failure)
#   sanitize  the tests under compute-sanitizer, where it is installed
#   drives    a synthetic drive, and every folder in $DATA, on the CPU and on the GPU: one digest?
#   bench     latency of each stage and frame
#   variants  ways in which the stixel kernel's warps may meet: what the sanitizers say, and times
# Results go to $OUT (default results/): logs, JSON. DATA= names a folder of drives, LIMIT= the
# most seconds that a program may take (300), JOBS= how many tests run at a time (1).
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
OUT=${OUT:-$here/results}
LIMIT=${LIMIT:-300}
JOBS=${JOBS:-1}
[ -z "${DATA:-}" ] || export ROADLOOP_DATA=$DATA
if [ ! -d "$here/bin" ]; then
  command -v xz >/dev/null || { echo "run.sh: xz is needed (Debian, Ubuntu: sudo apt-get install xz-utils)" >&2; exit 69; }
  tar -C "$here" -xJf "$here/bin.tar.xz" || exit 65
fi
mkdir -p "$OUT"
export ROADLOOP_REQUIRE_GPU=1
ROADLOOP_COMMIT=$(cat "$here/COMMIT")
export ROADLOOP_COMMIT
NEXT=${NEXT:-mono foreground logo egomotion forest}
BUDGET=${BUDGET:-1000000}
PARTS=${PARTS:-tests sanitize variants bench}
if [ $# = 0 ]; then set -- tests sanitize drives bench; fi
failed=0
fail() { echo "FAILED: $*"; failed=1; }

{
  echo "commit $ROADLOOP_COMMIT, $(date -u +%Y-%m-%dT%H:%M:%SZ), $(uname -srm)"
  command -v nvidia-smi >/dev/null &&
    nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,clocks.max.sm,power.limit --format=csv
  [ -r /etc/nv_tegra_release ] && cat /etc/nv_tegra_release
  true
} | tee "$OUT/provenance.txt"

# These two run in shells of their own, $JOBS at a time.
one_test() { # PROGRAM
  local name
  name=$(basename "$1")
  timeout "$LIMIT" "$1" >"$OUT/$name.log" 2>&1 || { echo "FAILED: $name, status $?: $OUT/$name.log"; return 1; }
  echo "$name: $(tail -1 "$OUT/$name.log")"
}

one_sanitizer() { # TOOL PROGRAM
  local name small
  name=$(basename "$2")
  # Sanitizers take some hundred times as long: a stage's small test runs all its kernels.
  small=$("$2" --list | sed -n 's/^\(small_[a-z_0-9]*\): test$/\1/p')
  # shellcheck disable=SC2086 # none, or one word each
  timeout "$LIMIT" compute-sanitizer --tool "$1" --report-api-errors no --error-exitcode 9 "$2" $small \
    >"$OUT/$name-$1.log" 2>&1 || { echo "FAILED: $1 of $name, status $?: $OUT/$name-$1.log"; return 1; }
  echo "$1 $name: $(grep -h 'SUMMARY' "$OUT/$name-$1.log" | tail -1)"
}
export -f one_test one_sanitizer
export OUT LIMIT

tests() {
  printf '%s\n' "$here"/bin/cuda* | xargs -P "$JOBS" -I{} bash -c 'one_test {}' || failed=1
}

sanitize() {
  command -v compute-sanitizer >/dev/null || { echo "SKIPPED: no compute-sanitizer"; return; }
  for tool in memcheck racecheck initcheck synccheck; do
    for program in "$here"/bin/cuda*; do
      # What these two try on purpose is an error to the sanitizer.
      case $(basename "$program") in cuda | cuda_memory | cuda_barriers) continue ;; esac
      echo "$tool $program"
    done
  done | xargs -P "$JOBS" -L 1 bash -c 'one_sanitizer "$0" "$1"' || failed=1
}

digest() { sed -n 's/^digest: //p' "$1"; }

drive() { # NAME FOLDER [ARGUMENT...]
  local name=$1 folder=$2
  shift 2
  for backend in cpu cuda; do
    if ! "$here/bin/roadloop" replay "$folder" --out "$OUT/$name-$backend" --force --save none \
      --backend "$backend" "$@" >"$OUT/$name-$backend.txt" 2>"$OUT/$name-$backend.log"; then
      fail "$name on $backend: $(tail -1 "$OUT/$name-$backend.log")"
      return
    fi
  done
  local cpu gpu
  cpu=$(digest "$OUT/$name-cpu.txt") gpu=$(digest "$OUT/$name-cuda.txt")
  if [ -n "$cpu" ] && [ "$cpu" = "$gpu" ]; then
    echo "$name $*: one digest, $cpu; $(grep '^frame:' "$OUT/$name-cuda.txt")"
  else
    fail "$name: digest on the CPU $cpu, on the GPU $gpu"
  fi
}

drives() {
  "$here/bin/roadloop" synth --out "$OUT/synthetic" --frames 30 --force >/dev/null 2>&1 || fail synth
  drive synthetic "$OUT/synthetic"
  drive synthetic-paper "$OUT/synthetic" --preset paper
  drive synthetic-stored "$OUT/synthetic" --disparity "$OUT/synthetic/truth/disparity"
  rm -rf "$OUT/synthetic"
  [ -n "${DATA:-}" ] || return 0
  for folder in "$DATA"/*/; do
    "$here/bin/roadloop" check drive "$folder" >/dev/null 2>&1 || continue
    drive "$(basename "$folder")" "$folder"
  done
}

bench() {
  for program in "$here"/bin/gpu_*; do
    name=$(basename "$program")
    "$program" | tee "$OUT/$name.txt" || fail "$name"
    "$program" --sms 16 | tee "$OUT/$name-16sms.txt" || fail "$name on 16 SMs"
  done
  "$here/bin/gpu_latency" --json "$OUT/gpu_latency.json" --frames 10000 >/dev/null || fail "latency"
}

# Whether there is time left; $SECONDS counts from the start.
time_left() {
  [ "$SECONDS" -lt "$BUDGET" ] && return
  echo "LEFT OUT after $SECONDS s: $*"
  failed=1
  return 1
}

bench_both() { # PROGRAM NAME
  local sms
  for sms in "" 16; do
    timeout "$LIMIT" "$1" ${sms:+--sms "$sms"} >"$OUT/$2${sms:+-16sms}.txt" 2>&1 || fail "$2, ${sms:-all} SMs"
    tail -25 "$OUT/$2${sms:+-16sms}.txt"
  done
}

# The smallest kernels first: what a tool makes of a way does not depend on the stage.
variants() {
  local way tool test folder
  for way in two_places not_aligned one_place one_loop; do
    "$here/bin/cuda_barriers" "$way" --exact >/dev/null 2>&1 || fail "barriers $way"
    command -v compute-sanitizer >/dev/null || continue
    for tool in racecheck synccheck; do
      timeout "$LIMIT" compute-sanitizer --tool "$tool" --report-api-errors no --error-exitcode 9 \
        "$here/bin/cuda_barriers" "$way" --exact >"$OUT/barriers-$way-$tool.log" 2>&1
      echo "$tool, barriers $way: status $?, $(grep -h SUMMARY "$OUT/barriers-$way-$tool.log" | tail -1)"
    done
  done
  for way in 0 3 2 1; do
    folder=$here/bin/meet-$way
    [ "$way" != 0 ] || folder=$here/bin
    [ -x "$folder/cuda_stixel" ] || { echo "SKIPPED: meet-$way is not in this bundle"; continue; }
    time_left "variant $way" || return
    timeout "$LIMIT" "$folder/cuda_stixel" >"$OUT/stixel-meet-$way.log" 2>&1 || fail "stixel, meet $way"
    echo "stixel, meet $way: $(tail -1 "$OUT/stixel-meet-$way.log")"
    if command -v compute-sanitizer >/dev/null; then
      for tool in racecheck synccheck; do
        test=$OUT/stixel-meet-$way-$tool.log
        timeout "$LIMIT" compute-sanitizer --tool "$tool" --report-api-errors no --error-exitcode 9 \
          "$folder/cuda_stixel" small_columns >"$test" 2>&1
        echo "$tool, stixel, meet $way: status $?, $(grep -h SUMMARY "$test" | tail -1)"
      done
    fi
    bench_both "$folder/gpu_stixel" "gpu_stixel-meet-$way"
  done
}

next_tests() {
  local name
  # shellcheck disable=SC2086 # words
  for name in $NEXT barriers; do
    time_left "test $name" || return
    one_test "$here/bin/cuda_$name" || failed=1
  done
  drive_mono
}

next_sanitize() {
  local name tool
  command -v compute-sanitizer >/dev/null || { echo "SKIPPED: no compute-sanitizer"; return; }
  for tool in memcheck racecheck synccheck initcheck; do
    # shellcheck disable=SC2086
    for name in $NEXT; do
      time_left "$tool $name" || return
      one_sanitizer "$tool" "$here/bin/cuda_$name" || failed=1
    done
  done
}

next_bench() {
  local name
  # shellcheck disable=SC2086
  for name in $NEXT; do
    [ -x "$here/bin/gpu_$name" ] || continue
    time_left "bench $name" || return
    bench_both "$here/bin/gpu_$name" "gpu_$name"
  done
}

next() {
  local part
  for part in $PARTS; do
    case $part in
    variants) variants ;;
    tests | sanitize | bench) "next_$part" ;;
    *) echo "run.sh: PARTS=$part: expected tests, sanitize, variants or bench" >&2 && exit 64 ;;
    esac
  done
}

# The mono chain of whole drives, with the graphs of its own.
drive_mono() {
  printf '[cuda]\nmono = true\n[foreground]\nenabled = true\n' >"$OUT/mono.toml"
  "$here/bin/roadloop" synth --out "$OUT/synthetic" --frames 30 --motion mixed --force >/dev/null 2>&1 || fail synth
  drive synthetic-mono "$OUT/synthetic" --config "$OUT/mono.toml"
  rm -rf "$OUT/synthetic"
}

for step in "$@"; do
  case $step in
  tests | sanitize | drives | bench | variants | next) echo "== $step" && "$step" ;;
  *) echo "run.sh: $step: expected tests, sanitize, drives, bench, variants or next" >&2 && exit 64 ;;
  esac
done
[ $failed = 0 ] && echo "run.sh: all passed; results in $OUT"
exit $failed
