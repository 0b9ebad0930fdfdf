#!/usr/bin/env bash
# kernel-report.sh [KERNEL.cu...]: compiles every kernel (or those named) for each Jetson and the
# desktop reference, and prints registers, shared memory, stack and spills of each. A spill on
# sm_87 (Orin) is an error, and so is a kernel that does not compile. Needs no GPU, no cargo.
#   CUDA 12.4: sm_72 (Xavier), sm_87 (Orin), sm_90
#   CUDA 13.0: sm_87, sm_90, sm_110 (Thor)
# REPORT_ARCHS="87 90" limits the architectures; ROADLOOP_NVCC names other compilers.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if [ -n "${ROADLOOP_NVCC:-}" ]; then
  IFS=: read -ra compilers <<<"$ROADLOOP_NVCC"
else
  compilers=(.cuda/*/bin/nvcc)
  [ -x "${compilers[0]}" ] || compilers=("$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)")
fi
[ -x "${compilers[0]}" ] || { echo "kernel-report: no nvcc: make cuda-setup, or set ROADLOOP_NVCC" >&2; exit 69; }
kernels=("$@")
[ $# -gt 0 ] || kernels=(kernels/*.cu)

# One compilation; its ptxas report goes to a file.
compile() { # NVCC VERSION ARCH KERNEL
  local name
  name=$(basename "$4" .cu)
  if ! "$1" -cubin --options-file kernels/nvcc.flags -I kernels -arch "sm_$3" -Xptxas -v "$4" \
    -o "$work/$name-$2-$3.cubin" >"$work/$name-$2-$3.log" 2>&1; then
    cat "$work/$name-$2-$3.log" >&2
    return 1
  fi
}

failed=0 jobs=() reports=()
for nvcc in "${compilers[@]}"; do
  version=$("$nvcc" --version | sed -n 's/.*release \([0-9.]*\),.*/\1/p')
  known=$("$nvcc" --list-gpu-arch)
  case $version in 13.* | [2-9][0-9].* | 1[4-9].*) archs="87 90 110" ;; 12.*) archs="72 87 90" ;; *) archs="72 87" ;; esac
  for arch in ${REPORT_ARCHS:-$archs}; do
    grep -qx "compute_$arch" <<<"$known" || continue
    for kernel in "${kernels[@]}"; do
      compile "$nvcc" "$version" "$arch" "$kernel" &
      jobs+=($!) reports+=("$version $arch $kernel")
      # As many at a time as there are processors.
      if [ $((${#jobs[@]} % $(nproc))) = 0 ]; then
        for job in "${jobs[@]}"; do wait "$job" || failed=1; done
        jobs=()
      fi
    done
  done
done
for job in "${jobs[@]}"; do wait "$job" || failed=1; done
[ "$failed" = 0 ] || { echo "kernel-report: kernels do not compile" >&2; exit 1; }

printf '%-6s %-7s %-40s %9s %13s %6s %7s\n' CUDA arch kernel registers 'shared bytes' stack spills
for report in "${reports[@]}"; do
  read -r version arch kernel <<<"$report"
  file=$(basename "$kernel" .cu)
  awk -v version="$version" -v arch="$arch" -v file="$file" '
    function show() {
      if (name != "") printf "%-6s sm_%-4s %-40s %9d %13d %6d %7d\n", version, arch, file "/" name, registers, shared, stack, spills
    }
    /Compiling entry function/ { show(); split($0, q, "\x27"); name = q[2]; registers = shared = stack = spills = 0 }
    /bytes stack frame/ {
      for (i = 2; i <= NF; i++) {
        if ($i == "stack") stack = $(i - 2)
        if ($i == "spill") spills += $(i - 2)
      }
    }
    /Used [0-9]+ registers/ {
      for (i = 2; i <= NF; i++) {
        if ($i ~ /^registers/) registers = $(i - 1)
        if ($i ~ /^smem/) shared = $(i - 2)
      }
    }
    END { show() }' "$work/$file-$version-$arch.log"
done | tee "$work/table"
if awk '$2 == "sm_87" && $NF > 0' "$work/table" | grep -q .; then
  echo "kernel-report: spills on sm_87:" >&2
  awk '$2 == "sm_87" && $NF > 0' "$work/table" >&2
  exit 1
fi
