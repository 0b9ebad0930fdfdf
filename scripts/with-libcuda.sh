#!/bin/sh
# Cargo's runner: starts a program as it is, but lets it find the stub of libcuda (made by
# `make cuda-setup`) where the system has no driver. A real driver always comes first.
stub=$(dirname "$0")/../.cuda-stub/lib64
if [ -e "$stub/libcuda.so.1" ] && ! { PATH=$PATH:/sbin:/usr/sbin ldconfig -p 2>/dev/null | grep -q 'libcuda\.so\.1'; }; then
    LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$(cd "$stub" && pwd)
    export LD_LIBRARY_PATH
fi
exec "$@"
