#!/usr/bin/env bash
# gpu-bundle.sh [OUT]: packs what a machine with a GPU and nothing else needs to try roadloop:
# the program, the GPU tests and benches, stripped, and run.sh. Default OUT: gpu-bundle.
# Built here, without a GPU (`make cuda-setup` first). BUNDLE_PROFILE=dev packs the checked build.
# RACECHECK=1 packs the tests of the stixel kernel four times more, as racecheck understands it
# (STIXEL_RACECHECK in kernels/stixel_column.cuh); run.sh then uses these for racecheck.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-gpu-bundle}
profile=${BUNDLE_PROFILE:-release}
limit_mib=40

case $out in /* | [A-Za-z0-9_.]*) ;; *) echo "gpu-bundle: $out: expected a path" >&2; exit 64 ;; esac
if [ -e "$out" ] && [ ! -e "$out/run.sh" ]; then
  echo "gpu-bundle: $out exists and is no bundle" >&2
  exit 64
fi

# Every GPU test and bench there is, by name; the compiler says where it put them.
selected=()
for file in tests/cuda*.rs; do selected+=(--test "$(basename "$file" .rs)"); done
for file in benches/gpu_*.rs; do selected+=(--bench "$(basename "$file" .rs)"); done
# Not in a pipe or substitution, so that a failed build ends this.
messages=$(mktemp)
trap 'rm -f "$messages"' EXIT
cargo build --profile "$profile" --features cuda --bin roadloop "${selected[@]}" \
  --message-format=json-render-diagnostics >"$messages"
programs=$(sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' "$messages" | sort -u)
[ -n "$programs" ] || { echo "gpu-bundle: the build made no programs" >&2; exit 70; }

rm -rf "$out"
mkdir -p "$out/bin"
pack() { # FOLDER PROGRAM...
  local name program folder=$1
  shift
  for program; do
    name=$(basename "$program")
    # Cargo adds a hash to tests and benches.
    strip -o "$folder/${name%-[0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f]*}" "$program"
  done
}
# shellcheck disable=SC2086 # cargo's paths have no spaces
pack "$out/bin" $programs
if [ "${RACECHECK:-}" = 1 ]; then
  for n in 0 1 2 3; do
    NVCC_APPEND_FLAGS="-DSTIXEL_RACECHECK=$n" cargo build --profile "$profile" --features cuda \
      --test cuda_stixel --test cuda_chain --test cuda_labels --message-format=json-render-diagnostics >"$messages"
    mkdir -p "$out/bin/racecheck-$n"
    # Cargo builds the program beside its tests.
    # shellcheck disable=SC2046
    pack "$out/bin/racecheck-$n" $(sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' "$messages" | grep /cuda_ | sort -u)
  done
fi
{
  git rev-parse --short HEAD 2>/dev/null || echo unknown
} >"$out/COMMIT"
cp scripts/gpu-bundle-run.sh "$out/run.sh"
chmod +x "$out/run.sh"
# The programs have much in common, kernels above all, and a large window finds it; run.sh unpacks.
count=$(find "$out/bin" -type f | wc -l)
tar -C "$out" -c bin | xz --lzma2=preset=6,dict=64MiB >"$out/bin.tar.xz"
rm -r "$out/bin"

kib=$(du -sk "$out" | cut -f1)
echo "gpu-bundle: $out, $((kib / 1024)) MiB, $count programs of commit $(cat "$out/COMMIT")"
if [ "$kib" -gt $((limit_mib * 1024)) ]; then
  echo "gpu-bundle: over $limit_mib MiB" >&2
  exit 1
fi
