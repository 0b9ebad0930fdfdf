#!/bin/sh
# Makes sure that what the feature "mpi" needs is here: OpenMPI with its headers, and libclang.
# Installs it where it may (Debian, Ubuntu); else ends with status 1 and says what is missing.
set -u
ready() {
    command -v mpirun >/dev/null 2>&1 && command -v mpicc >/dev/null 2>&1 &&
        { [ -n "${LIBCLANG_PATH:-}" ] || ls /usr/lib/llvm*/lib/libclang*.so* >/dev/null 2>&1; }
}
ready && exit 0
if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
    echo "setup-mpi: installing OpenMPI and libclang" >&2
    apt-get update -qq >&2 &&
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
            libopenmpi-dev openmpi-bin libclang-dev >&2
fi
ready && exit 0
echo "setup-mpi: no OpenMPI or no libclang (Debian, Ubuntu: sudo apt-get install libopenmpi-dev openmpi-bin libclang-dev)" >&2
exit 1
