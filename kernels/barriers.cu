// Ways in which the first warp of a block and the others meet at barriers, as small as can be: what
// the sanitizers make of each (tests/cuda_barriers.rs). The stixel kernel has the same ways
// (STIXEL_MEET in stixel_column.cuh).
//
// Rounds of: the others write a number each, all meet, the first warp adds them up and writes the
// sum, all meet, the others go on from the sum.
#include "common.cuh"

using namespace roadloop;

namespace {

constexpr int WRITTEN = 2, SUMMED = 3;
constexpr int MOST = 320;

struct Numbers {
    unsigned each[MOST];
    unsigned sum;
};

__device__ void write(Numbers &s, int tid, int round) {
    s.each[tid] = (round == 0 ? 0 : s.sum) + static_cast<unsigned>(tid * round);
}

__device__ void add(Numbers &s, int tid, int threads) {
    unsigned sum = 0;
    for (int i = WARP + tid; i < threads; i += WARP) sum += s.each[i];
    for (int offset = WARP / 2; offset > 0; offset /= 2) sum += __shfl_xor_sync(ALL_LANES, sum, offset);
    if (tid == 0) s.sum = sum;
}

struct Aligned {
    template <int BARRIER>
    static __device__ void meet(int threads) {
        __syncwarp();
        asm volatile("bar.sync %0, %1;" ::"n"(BARRIER), "r"(threads) : "memory");
    }
};

struct NotAligned {
    template <int BARRIER>
    static __device__ void meet(int threads) {
        __syncwarp();
        asm volatile("barrier.sync %0, %1;" ::"n"(BARRIER), "r"(threads) : "memory");
    }
};

template <int BARRIER>
__device__ __noinline__ void one_place(int threads) {
    asm volatile("bar.sync %0, %1;" ::"n"(BARRIER), "r"(threads) : "memory");
}

struct OnePlace {
    template <int BARRIER>
    static __device__ void meet(int threads) {
        __syncwarp();
        one_place<BARRIER>(threads);
    }
};

// The two kinds of warps have a loop each.
template <typename Way>
__device__ void two_loops(unsigned *out, int rounds) {
    __shared__ Numbers s;
    const int tid = threadIdx.x, threads = blockDim.x;
    if (__shfl_sync(ALL_LANES, tid / WARP, 0) == 0) {
        for (int round = 0; round < rounds; ++round) {
            Way::template meet<WRITTEN>(threads);
            add(s, tid, threads);
            Way::template meet<SUMMED>(threads);
        }
        if (tid == 0) *out = s.sum;
    } else {
        for (int round = 0; round < rounds; ++round) {
            write(s, tid, round);
            Way::template meet<WRITTEN>(threads);
            Way::template meet<SUMMED>(threads);
        }
    }
}

}  // namespace

extern "C" __global__ void barriers_two_places(unsigned *out, int rounds) { two_loops<Aligned>(out, rounds); }

extern "C" __global__ void barriers_not_aligned(unsigned *out, int rounds) { two_loops<NotAligned>(out, rounds); }

extern "C" __global__ void barriers_one_place(unsigned *out, int rounds) { two_loops<OnePlace>(out, rounds); }

// One loop for all.
extern "C" __global__ void barriers_one_loop(unsigned *out, int rounds) {
    __shared__ Numbers s;
    const int tid = threadIdx.x, threads = blockDim.x;
    const bool first = __shfl_sync(ALL_LANES, tid / WARP, 0) == 0;
    for (int round = 0; round < rounds; ++round) {
        if (!first) write(s, tid, round);
        __syncthreads();
        if (first) add(s, tid, threads);
        __syncthreads();
    }
    if (tid == 0) *out = s.sum;
}
