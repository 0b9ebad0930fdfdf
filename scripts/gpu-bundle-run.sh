#!/usr/bin/env bash
# run.sh [tests] [sanitize] [drives] [bench]: what to do; without any, all of these.
#   tests     every GPU test (ROADLOOP_REQUIRE_GPU=1: a missing device is a failure)
#   sanitize  the tests under compute-sanitizer, where it is installed
#   drives    a synthetic drive, and every folder in $DATA, on the CPU and on the GPU: one digest?
#   bench     latency of each stage and frame
# Results go to $OUT (default results/): logs, JSON. DATA= names a folder of drives, ONLY= what to
# do of tests, sanitizers and benches ("mono forest"), LIMIT= the most seconds that a program may take
# (300), BUDGET= those after which nothing new begins, JOBS= how many tests run at a time (1).
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
ONLY=${ONLY:-}
BUDGET=${BUDGET:-1000000}
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

# Whether there is time left; $SECONDS counts from the start.
time_left() {
  [ "$SECONDS" -lt "$BUDGET" ] && return
  echo "LEFT OUT after $SECONDS s: $*"
  failed=1
  return 1
}

# Programs whose names begin so, of those asked for.
programs() { # PREFIX
  local name
  if [ -z "$ONLY" ]; then
    printf '%s\n' "$here/bin/$1"*
  else
    for name in $ONLY; do [ ! -x "$here/bin/$1_$name" ] || echo "$here/bin/$1_$name"; done
  fi
}

# These two run in shells of their own, $JOBS at a time.
one_test() { # PROGRAM
  local name
  name=$(basename "$1")
  timeout "$LIMIT" "$1" >"$OUT/$name.log" 2>&1 || { echo "FAILED: $name, status $?: $OUT/$name.log"; return 1; }
  echo "$name: $(tail -1 "$OUT/$name.log")"
}

one_sanitizer() { # TOOL PROGRAM [FOLDER OF THE PROGRAM]
  local name small log
  name=$(basename "$2")
  log=$OUT/$name${3:+-$3}-$1.log
  # Sanitizers take some hundred times as long: a stage's small test runs all its kernels.
  small=$("$2" --list | sed -n 's/^\(small_[a-z_0-9]*\): test$/\1/p')
  # shellcheck disable=SC2086 # none, or one word each
  timeout "$LIMIT" compute-sanitizer --tool "$1" --report-api-errors no --error-exitcode 9 "$2" $small \
    >"$log" 2>&1 || { echo "FAILED: $1 of $name${3:+, $3}, status $?: $log"; return 1; }
  echo "$1 $name${3:+, $3}: $(grep -h 'SUMMARY' "$log" | tail -1)"
}
export -f one_test one_sanitizer
export OUT LIMIT

tests() {
  programs cuda | xargs -P "$JOBS" -I{} bash -c 'one_test {}' || failed=1
}

sanitize() {
  command -v compute-sanitizer >/dev/null || { echo "SKIPPED: no compute-sanitizer"; return; }
  local tool program name way
  for tool in memcheck racecheck initcheck synccheck; do
    time_left "$tool" || break
    for program in $(programs cuda); do
      name=$(basename "$program")
      case $tool/$name in
      # What these two try on purpose is an error to the sanitizer.
      */cuda | */cuda_memory) ;;
      # racecheck does not understand barriers of a part of a block (kernels/stixel_column.cuh).
      racecheck/cuda_stixel | racecheck/cuda_chain | racecheck/cuda_labels)
        [ -d "$here/bin/racecheck-0" ] || echo "SKIPPED: racecheck of $name: not in this bundle" >&2
        for way in 0 1 2 3; do
          [ ! -x "$here/bin/racecheck-$way/$name" ] || echo "$tool $here/bin/racecheck-$way/$name racecheck-$way"
        done
        ;;
      *) echo "$tool $program" ;;
      esac
    done | xargs -P "$JOBS" -L 1 bash -c 'one_sanitizer "$@"' one || failed=1
  done
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
  printf '[cuda]\nmono = true\nlabels = true\n[foreground]\nenabled = true\n' >"$OUT/all.toml"
  drive synthetic-all "$OUT/synthetic" --config "$OUT/all.toml"
  rm -rf "$OUT/synthetic"
  [ -n "${DATA:-}" ] || return 0
  for folder in "$DATA"/*/; do
    "$here/bin/roadloop" check drive "$folder" >/dev/null 2>&1 || continue
    drive "$(basename "$folder")" "$folder"
  done
}

bench() {
  local program name sms
  for program in $(programs gpu); do
    name=$(basename "$program")
    time_left "bench $name" || return
    for sms in "" 16; do
      timeout "$LIMIT" "$program" ${sms:+--sms "$sms"} >"$OUT/$name${sms:+-16sms}.txt" 2>&1 ||
        fail "$name on ${sms:-all} SMs: $OUT/$name${sms:+-16sms}.txt"
      tail -25 "$OUT/$name${sms:+-16sms}.txt"
    done
  done
  [ -n "$ONLY" ] || "$here/bin/gpu_latency" --json "$OUT/gpu_latency.json" --frames 10000 >/dev/null || fail "latency"
}

for step in "$@"; do
  case $step in
  tests | sanitize | drives | bench) echo "== $step" && "$step" ;;
  *) echo "run.sh: $step: expected tests, sanitize, drives or bench" >&2 && exit 64 ;;
  esac
done
[ $failed = 0 ] && echo "run.sh: all passed; results in $OUT"
exit $failed
