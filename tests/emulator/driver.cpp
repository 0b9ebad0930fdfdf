// A CUDA driver that runs kernels/training.cu on the processor: what the trainer's host code, its
// kernels' index arithmetic and their barriers do is tried without a GPU (tests/cuda_training.rs
// builds it and starts itself with it in the place of libcuda.so.1).
//
// Threads of a block are coroutines: one runs until it meets a barrier, a warp's or the block's.
// Blocks and all work of streams run one after the other, at once; races between streams or blocks
// are not seen. Device memory is the process's, filled with a pattern.
#include <setjmp.h>
#include <ucontext.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

struct Three {
    unsigned x, y, z;
};
static Three threadIdx, blockIdx, blockDim, gridDim;
struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct alignas(16) int4 {
    int x, y, z, w;
};

namespace emulated {

enum Wait { RUNS, WARP_BARRIER, BLOCK_BARRIER, ENDED };
struct Thread {
    ucontext_t start;
    jmp_buf at;
    bool started;
    std::vector<char> stack;
    Wait wait;
    std::uint64_t value;
};
static jmp_buf scheduler;
static std::vector<Thread> threads;
static unsigned current;
static std::function<void()> body;
static std::vector<std::uint64_t> shared_memory;

// Jumps, which unlike swapcontext make no system call.
static void meet(Wait barrier) {
    Thread &own = threads[current];
    own.wait = barrier;
    if (_setjmp(own.at) == 0) _longjmp(scheduler, 1);
}

// A coroutine serves one block after the other.
static void entry() {
    for (;;) {
        body();
        meet(ENDED);
    }
}

__attribute__((noinline)) static void resume(Thread &thread) {
    if (_setjmp(scheduler) != 0) return;
    if (thread.started) _longjmp(thread.at, 1);
    thread.started = true;
    setcontext(&thread.start);
}

static void run_block(unsigned n) {
    // They must not move once they run.
    if (threads.empty()) threads.resize(1024);
    for (unsigned i = 0; i < n; ++i) {
        Thread &thread = threads[i];
        thread.wait = RUNS;
        if (thread.started || !thread.stack.empty()) continue;
        thread.stack.resize(64 << 10);
        getcontext(&thread.start);
        thread.start.uc_stack.ss_sp = thread.stack.data();
        thread.start.uc_stack.ss_size = thread.stack.size();
        thread.start.uc_link = nullptr;
        makecontext(&thread.start, entry, 0);
    }
    const auto release = [&](unsigned from, unsigned to, Wait barrier) {
        bool waits = false;
        for (unsigned i = from; i < to; ++i) {
            if (threads[i].wait != barrier && threads[i].wait != ENDED) return false;
            waits |= threads[i].wait == barrier;
        }
        for (unsigned i = from; i < to; ++i) {
            if (threads[i].wait == barrier) threads[i].wait = RUNS;
        }
        return waits;
    };
    for (;;) {
        bool progress = false, live = false;
        for (unsigned i = 0; i < n; ++i) {
            if (threads[i].wait != RUNS) continue;
            current = i;
            threadIdx = {i, 0, 0};
            resume(threads[i]);
            progress = true;
        }
        for (unsigned from = 0; from < n; from += 32) progress |= release(from, from + 32 < n ? from + 32 : n, WARP_BARRIER);
        progress |= release(0, n, BLOCK_BARRIER);
        for (unsigned i = 0; i < n; ++i) live |= threads[i].wait != ENDED;
        if (!live) return;
        if (!progress) {
            std::fprintf(stderr, "emulated kernel: threads wait at different barriers\n");
            std::abort();
        }
    }
}

template <typename T>
static T exchanged(T value, unsigned from) {
    std::memcpy(&threads[current].value, &value, sizeof value);
    meet(WARP_BARRIER);
    T other;
    std::memcpy(&other, &threads[current / 32 * 32 + from].value, sizeof other);
    meet(WARP_BARRIER);
    return other;
}

}  // namespace emulated

#define __host__
#define __device__
#define __global__
#define __shared__ static
#define __forceinline__ inline
#define __launch_bounds__(...)
#define EMULATED_SHARED (reinterpret_cast<std::uint32_t *>(emulated::shared_memory.data()))
static void __syncthreads() { emulated::meet(emulated::BLOCK_BARRIER); }
template <typename T>
static T __shfl_sync(unsigned, T value, int lane) { return emulated::exchanged(value, static_cast<unsigned>(lane) % 32); }
template <typename T>
static T __shfl_up_sync(unsigned, T value, int by) {
    const int own = static_cast<int>(emulated::current % 32), from = own - by;
    return emulated::exchanged(value, static_cast<unsigned>(from < 0 ? own : from));
}
template <typename T>
static T __shfl_xor_sync(unsigned, T value, int mask) { return emulated::exchanged(value, emulated::current % 32 ^ static_cast<unsigned>(mask)); }
template <typename T>
static T __ldg(const T *from) {
    if (reinterpret_cast<std::uintptr_t>(from) % alignof(T) != 0) {
        std::fprintf(stderr, "emulated kernel: a load that is not aligned\n");
        std::abort();
    }
    return *from;
}
static unsigned atomicAdd(unsigned *to, unsigned value) {
    const unsigned before = *to;
    *to += value;
    return before;
}
static int __clzll(long long v) { return v == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(v)); }
static unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}
template <typename T>
static T min(T a, T b) { return b < a ? b : a; }
template <typename T>
static T max(T a, T b) { return a < b ? b : a; }

#include "training.cu"

namespace emulated {

struct Kernel {
    std::string name;
    std::vector<std::size_t> sizes;
    std::function<void(void **)> call;
};

template <typename... A, std::size_t... I>
static Kernel kernel(const char *name, void (*function)(A...), std::index_sequence<I...>) {
    return {name, {sizeof(A)...}, [function](void **p) { function(*static_cast<std::remove_cv_t<A> *>(p[I])...); }};
}
template <typename... A>
static Kernel kernel(const char *name, void (*function)(A...)) {
    return kernel(name, function, std::index_sequence_for<A...>{});
}

#define KERNEL(NAME) kernel(#NAME, NAME)
#define KERNELS_OF(FEATURE)                                                                                                     \
    KERNEL(training_draw_##FEATURE), KERNEL(training_pick_##FEATURE), KERNEL(training_count_##FEATURE),                         \
        KERNEL(training_direct_##FEATURE), KERNEL(training_route_##FEATURE), KERNEL(training_keep_##FEATURE),                   \
        KERNEL(training_split_##FEATURE)
static std::vector<Kernel> &kernels() {
    static std::vector<Kernel> list = {KERNEL(training_rows), KERNEL(training_columns), KERNEL(training_sort), KERNEL(training_score),
                                       KERNEL(training_best), KERNELS_OF(region),       KERNELS_OF(rgbd),      KERNELS_OF(depth)};
    return list;
}

static int param_info(void *function, std::size_t index, std::size_t *offset, std::size_t *size) {
    const auto &sizes = static_cast<Kernel *>(function)->sizes;
    if (index >= sizes.size()) return 1;
    *offset = 0;
    *size = sizes[index];
    return 0;
}

static void *const HANDLE = reinterpret_cast<void *>(std::uintptr_t{1});

}  // namespace emulated

using Pointer = unsigned long long;
template <typename T>
static void set(Pointer to, T value, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) reinterpret_cast<T *>(to)[i] = value;
}

extern "C" {
int cuGetErrorString(int, const char **text) { return *text = "emulated", 0; }
int cuGetErrorName(int, const char **text) { return *text = "EMULATED", 0; }
int cuInit(unsigned) { return 0; }
int cuDriverGetVersion(int *v) { return *v = 13000, 0; }
int cuDeviceGetCount(int *n) { return *n = 1, 0; }
int cuDeviceGet(int *device, int) { return *device = 0, 0; }
int cuDeviceGetName(char *name, int n, int) { return std::snprintf(name, static_cast<std::size_t>(n), "emulated"), 0; }
int cuDeviceTotalMem_v2(std::size_t *n, int) { return *n = std::size_t{1} << 30, 0; }
int cuDeviceGetAttribute(int *value, int which, int) {
    *value = which == 75 ? 9 : which == 76 ? 0 : which == 97 || which == 81 ? 99 << 10 : which == 16 ? 4 : 1;
    return 0;
}
int cuDevicePrimaryCtxRetain(void **context, int) { return *context = emulated::HANDLE, 0; }
int cuDevicePrimaryCtxRelease_v2(int) { return 0; }
int cuDevicePrimaryCtxSetFlags_v2(int, unsigned) { return 0; }
int cuCtxSetCurrent(void *) { return 0; }
int cuCtxSynchronize() { return 0; }
int cuCtxGetStreamPriorityRange(int *least, int *greatest) { return *least = 0, *greatest = 0, 0; }
int cuStreamCreateWithPriority(void **stream, unsigned, int) { return *stream = emulated::HANDLE, 0; }
int cuStreamDestroy_v2(void *) { return 0; }
int cuStreamSynchronize(void *) { return 0; }
int cuStreamQuery(void *) { return 0; }
int cuStreamWaitEvent(void *, void *, unsigned) { return 0; }
int cuStreamIsCapturing(void *, int *status) { return *status = 0, 0; }
int cuStreamBeginCapture_v2(void *, int) { return 801; }
int cuStreamEndCapture(void *, void **) { return 801; }
int cuStreamGetCaptureInfo_v2(void *, int *, std::uint64_t *, void **, const void **, std::size_t *) { return 801; }
int cuEventCreate(void **event, unsigned) { return *event = emulated::HANDLE, 0; }
int cuEventDestroy_v2(void *) { return 0; }
int cuEventRecordWithFlags(void *, void *, unsigned) { return 0; }
int cuEventSynchronize(void *) { return 0; }
int cuEventQuery(void *) { return 0; }
int cuEventElapsedTime(float *ms, void *, void *) { return *ms = 0, 0; }
int cuMemGetInfo_v2(std::size_t *free, std::size_t *total) { return *free = *total = std::size_t{1} << 30, 0; }
int cuMemAlloc_v2(Pointer *to, std::size_t n) {
    void *const block = std::aligned_alloc(256, (n + 255) / 256 * 256);
    if (!block) return 2;
    std::memset(block, 0xcd, (n + 255) / 256 * 256);
    return *to = reinterpret_cast<Pointer>(block), 0;
}
int cuMemFree_v2(Pointer block) { return std::free(reinterpret_cast<void *>(block)), 0; }
int cuMemHostAlloc(void **to, std::size_t n, unsigned) { return (*to = std::aligned_alloc(4096, (n + 4095) / 4096 * 4096)) ? 0 : 2; }
int cuMemHostGetDevicePointer_v2(Pointer *to, void *host, unsigned) { return *to = reinterpret_cast<Pointer>(host), 0; }
int cuMemFreeHost(void *block) { return std::free(block), 0; }
int cuMemcpyHtoDAsync_v2(Pointer to, const void *from, std::size_t n, void *) { return std::memcpy(reinterpret_cast<void *>(to), from, n), 0; }
int cuMemcpyDtoHAsync_v2(void *to, Pointer from, std::size_t n, void *) { return std::memcpy(to, reinterpret_cast<void *>(from), n), 0; }
int cuMemcpyDtoDAsync_v2(Pointer to, Pointer from, std::size_t n, void *) {
    return std::memcpy(reinterpret_cast<void *>(to), reinterpret_cast<void *>(from), n), 0;
}
int cuMemcpy2DAsync_v2(const void *, void *) { return 801; }
int cuMemsetD8Async(Pointer to, unsigned char v, std::size_t n, void *) { return set(to, v, n), 0; }
int cuMemsetD16Async(Pointer to, unsigned short v, std::size_t n, void *) { return set(to, v, n), 0; }
int cuMemsetD32Async(Pointer to, unsigned v, std::size_t n, void *) { return set(to, v, n), 0; }
int cuModuleLoadData(void **module, const void *) { return *module = emulated::HANDLE, 0; }
int cuModuleUnload(void *) { return 0; }
int cuModuleGetFunction(void **function, void *, const char *name) {
    for (auto &kernel : emulated::kernels()) {
        if (kernel.name == name) return *function = &kernel, 0;
    }
    return 500;
}
int cuModuleGetGlobal_v2(Pointer *, std::size_t *, void *, const char *) { return 500; }
int cuFuncGetAttribute(int *value, int which, void *) { return *value = which == 0 ? 1024 : which == 8 ? 48 << 10 : 0, 0; }
int cuFuncSetAttribute(void *, int, int) { return 0; }
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, void *, int, std::size_t) { return *n = 1, 0; }
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, void *,
                   void **arguments, void **) {
    if (by != 1 || bz != 1) return 801;
    static std::mutex device;
    const std::lock_guard<std::mutex> one(device);
    gridDim = {gx, gy, gz};
    blockDim = {bx, by, bz};
    auto &kernel = *static_cast<emulated::Kernel *>(function);
    emulated::body = [&] { kernel.call(arguments); };
    for (unsigned z = 0; z < gz; ++z) {
        for (unsigned y = 0; y < gy; ++y) {
            for (unsigned x = 0; x < gx; ++x) {
                blockIdx = {x, y, z};
                emulated::shared_memory.assign(shared / 8 + 1, 0xcdcdcdcdcdcdcdcd);
                emulated::run_block(bx);
            }
        }
    }
    return 0;
}
int cuLaunchCooperativeKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **) { return 801; }
int cuGraphDestroy(void *) { return 801; }
int cuGraphGetNodes(void *, void **, std::size_t *) { return 801; }
int cuGraphInstantiateWithFlags(void **, void *, unsigned long long) { return 801; }
int cuGraphExecDestroy(void *) { return 801; }
int cuGraphUpload(void *, void *) { return 801; }
int cuGraphLaunch(void *, void *) { return 801; }
int cuGraphExecUpdate(void *, void *, void **, int *) { return 801; }
int cuGraphExecKernelNodeSetParams(void *, void *, const void *) { return 801; }
int cuGetProcAddress(const char *name, void **function, int, std::uint64_t) {
    if (std::strcmp(name, "cuFuncGetParamInfo") != 0) return 500;
    return *function = reinterpret_cast<void *>(emulated::param_info), 0;
}
}
