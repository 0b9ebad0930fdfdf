#!/usr/bin/env bash
# libcuda-stub.sh [OUT]: makes OUT/lib64/libcuda.so(.1) (default: .cuda-stub in the project), so
# that the feature "cuda" links, and its programs start, on a machine without NVIDIA's driver.
# Every call answers 100 (no device). `scripts/with-libcuda.sh` uses it where there is no real one.
set -euo pipefail
project=$(cd "$(dirname "$0")/.." && pwd)
out=${1:-$project/.cuda-stub}
cc=${CC:-cc}
mkdir -p "$out/lib64"
# All functions that cust's bindings declare, so that the linker finds whatever is used.
manifest=$(cd "$project" && cargo metadata --format-version 1 --all-features |
  grep -o '"manifest_path":"[^"]*/cust_raw-[^"]*/Cargo.toml"' | head -n 1 | cut -d '"' -f 4)
{
  echo 'int cuGetErrorString(int e, const char **p) { *p = "no CUDA driver on this machine (link stub)"; return 0; }'
  echo 'int cuGetErrorName(int e, const char **p) { *p = "CUDA_ERROR_NO_DEVICE"; return 0; }'
  echo 'int cuDriverGetVersion(int *v) { *v = 0; return 0; }'
  grep -oE 'pub fn cu[A-Za-z0-9_]+' "$(dirname "$manifest")/src/cuda.rs" | awk '{print $3}' | sort -u |
    grep -vxE 'cuGetErrorString|cuGetErrorName|cuDriverGetVersion' | sed 's/.*/int &(void) { return 100; }/'
} | "$cc" -x c - -shared -fPIC -O1 -w -nostdlib -Wl,-soname,libcuda.so.1 -o "$out/lib64/libcuda.so.tmp"
mv "$out/lib64/libcuda.so.tmp" "$out/lib64/libcuda.so"
ln -sf libcuda.so "$out/lib64/libcuda.so.1"
