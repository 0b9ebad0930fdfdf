#!/usr/bin/env bash
# cuda-toolchain.sh [DEST]: CUDA compilers for a machine without a GPU, into DEST (default: .cuda
# in the project). Nothing on the system is changed; at once where they are already there.
#   DEST/cuda-12.4/bin/nvcc  sm_72 (Xavier), sm_87 (Orin), sm_90: cubins for JetPack 5 and 6
#   DEST/cuda-13.0/bin/nvcc  sm_87, sm_90, sm_110 (Thor): cubins for JetPack 7
# 13.0 comes from PyPI. 12.4 comes from Debian's non-free component (its last release with sm_72
# in a package) with the headers from PyPI: it needs apt-get and dpkg, not root.
# A toolkit that is installed already is better: then this script is not needed.
set -euo pipefail
project=$(cd "$(dirname "$0")/.." && pwd)
dest=${1:-$project/.cuda}
mkdir -p "$dest"
dest=$(cd "$dest" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if [ "$(uname -m)" != x86_64 ]; then
  echo "cuda-toolchain: for x86-64 only; on a Jetson use JetPack's nvcc (/usr/local/cuda)" >&2
  exit 69
fi
for tool in python3 g++; do
  command -v "$tool" >/dev/null || { echo "cuda-toolchain: $tool is needed (Debian, Ubuntu: sudo apt-get install python3-pip g++)" >&2; exit 69; }
done

pip_into() { # TARGET REQUIREMENT...
  local target=$1
  shift
  python3 -m pip install -q --disable-pip-version-check --root-user-action=ignore --no-deps --no-compile \
    --only-binary=:all: --target "$target" "$@"
}

# Each wheel is pinned (the metapackage mixes versions), all in one call (--target does not merge later ones).
if [ ! -x "$dest/cuda-13.0/bin/nvcc" ]; then
  echo "cuda-toolchain: fetching the compiler of CUDA 13.0" >&2
  pip_into "$work/13" nvidia-cuda-nvcc==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-crt==13.0.88 \
    nvidia-cuda-runtime==13.0.96 nvidia-cuda-cccl==13.0.85
  rm -rf "$dest/cuda-13.0"
  mv "$work/13/nvidia/cu13" "$dest/cuda-13.0"
fi

if [ ! -x "$dest/cuda-12.4/bin/nvcc" ]; then
  for tool in apt-get dpkg; do
    command -v "$tool" >/dev/null || {
      echo "cuda-toolchain: no $tool, so no CUDA 12.4: install the CUDA toolkit" >&2
      exit 69
    }
  done
  echo "cuda-toolchain: fetching the compiler of CUDA 12.4" >&2
  # Debian's mirror as this system has it set up.
  mirror=$({ cat /etc/apt/sources.list /etc/apt/sources.list.d/*.{list,sources} 2>/dev/null || true; } |
    sed -n -e 's/^URIs: *\([^ ]*debian\/\{0,1\}\) *$/\1/p' -e 's/^deb \([^ ]*debian\/\{0,1\}\) .*/\1/p' | head -n 1)
  [ -n "$mirror" ] || {
    echo "cuda-toolchain: no Debian mirror in /etc/apt, so no CUDA 12.4: install the CUDA toolkit" >&2
    exit 69
  }
  mkdir -p "$work"/{parts,lists/partial,cache/archives/partial,deb,x,h}
  chmod 755 "$work"
  printf 'Types: deb\nURIs: %s\nSuites: trixie\nComponents: non-free\nSigned-By: %s\n' \
    "$mirror" /usr/share/keyrings/debian-archive-keyring.gpg >"$work/parts/nonfree.sources"
  apt=(-qq -oDir::Etc::sourcelist=/dev/null -oDir::Etc::sourceparts="$work/parts" -oDir::State::Lists="$work/lists"
    -oDir::Cache="$work/cache" -oAcquire::Languages=none)
  [ "$(id -u)" != 0 ] || apt+=(-oAPT::Sandbox::User=root)
  apt-get "${apt[@]}" update
  (cd "$work/deb" && apt-get "${apt[@]}" download nvidia-cuda-toolkit)
  dpkg -x "$work"/deb/*.deb "$work/x"
  pip_into "$work/h" nvidia-cuda-nvcc-cu12==12.4.131 nvidia-cuda-runtime-cu12==12.4.127 nvidia-cuda-cccl-cu12==12.4.127.post1
  tree=$work/12 usr=$work/x/usr
  mkdir -p "$tree"/{bin,include,nvvm/bin,nvvm/libdevice}
  cp -r "$usr"/lib/nvidia-cuda-toolkit/bin/{nvcc,crt} "$tree/bin/"
  (cd "$usr/bin" && cp ptxas fatbinary cudafe++ nvlink bin2c cuobjdump nvdisasm "$tree/bin/")
  cp "$usr/lib/nvidia-cuda-toolkit/bin/cicc" "$tree/nvvm/bin/"
  cp "$usr"/lib/nvidia-cuda-toolkit/libdevice/* "$tree/nvvm/libdevice/"
  for part in cuda_runtime cuda_nvcc cuda_cccl; do cp -r "$work/h/nvidia/$part/include/." "$tree/include/"; done
  cat >"$tree/bin/nvcc.profile" <<'PROFILE'
TOP = $(_HERE_)/..
NVVMIR_LIBRARY_DIR = $(TOP)/nvvm/libdevice
PATH += $(TOP)/nvvm/bin:$(_HERE_):
INCLUDES += "-I$(TOP)/include" $(_SPACE_)
PROFILE
  rm -rf "$dest/cuda-12.4"
  mv "$tree" "$dest/cuda-12.4"
fi
for version in 12.4 13.0; do
  printf '%s: %s\n' "$dest/cuda-$version/bin/nvcc" "$("$dest/cuda-$version/bin/nvcc" --version | grep -o 'V[0-9][0-9.]*')"
done
