// What the kernel that solves columns keeps of one: in registers, in shared memory and in its
// block's part of global memory; and the look-ups that all its parts use.
//
// What is impossible has a cost of INF, far above every other; sums of three of them fit.
#pragma once
#include <climits>

#include "stixel.cuh"

namespace roadloop {
namespace stixel {

__device__ inline int warp_max(int value) {
#if __CUDA_ARCH__ >= 800
    return __reduce_max_sync(ALL_LANES, value);
#else
#pragma unroll
    for (int offset = WARP / 2; offset > 0; offset /= 2) value = max(value, __shfl_xor_sync(ALL_LANES, value, offset));
    return value;
#endif
}

__device__ inline long long warp_min(long long value) {
#pragma unroll
    for (int offset = WARP / 2; offset > 0; offset /= 2) value = min(value, __shfl_xor_sync(ALL_LANES, value, offset));
    return value;
}

__device__ inline long long warp_max(long long value) {
#pragma unroll
    for (int offset = WARP / 2; offset > 0; offset /= 2) value = max(value, __shfl_xor_sync(ALL_LANES, value, offset));
    return value;
}

template <bool TALL>
struct Types {
    using Cost = int;
    using Sum = std::uint32_t;
    using Count = std::uint16_t;
    using Link = std::uint16_t;
    static constexpr Cost INF = 1 << 29;
    static constexpr int LINK_BITS = 14;
};

template <>
struct Types<true> {
    using Cost = long long;
    using Sum = unsigned long long;
    using Count = std::uint32_t;
    using Link = std::uint32_t;
    static constexpr Cost INF = 1ll << 40;
    static constexpr int LINK_BITS = 16;
};

// All that is fixed about an object that begins on one row, but for the sums below it.
template <typename Cost>
struct alignas(16) Cut {
    int ground;
    int high, low;
    int unused;
    Cost ground_nearer, ground_farther, ground_standing;
    Cost object_nearer, object_farther, object_same;
    Cost sky;
    Cost unused_cost;
};

// What one row brings to the serial part; impossible ways carry INF.
template <typename Cost>
struct alignas(16) Step {
    Cost ground_begin, ground_end, sky_from_object, sky_from_ground;
    Cost sky_end, object_next, sky_next, unused;
};

// What an object that begins on a row costs after ground, by where its mean lies.
template <typename Cost>
struct alignas(16) OnGround {
    int ground;
    Cost nearer, farther, standing;
};

// The rows B..=T of a tile as an object.
template <typename Cost>
struct alignas(sizeof(Cost) == 4 ? 16 : 8) Pair {
    Cost object;     // their cost
    Cost on_ground;  // the same, and what it costs to begin on ground
    int mean;
    int logs;  // what an object after this one costs: farther << 16 | nearer
};

// Best ends on a row of ground and sky, and their best beginnings up to it.
template <typename Cost>
struct alignas(16) Ends {
    Cost ground, sky, ground_run, sky_run;
};

template <typename T>
__device__ inline T load_whole(const T *from) {
    T out;
    const int4 *source = reinterpret_cast<const int4 *>(from);
    int4 *to = reinterpret_cast<int4 *>(&out);
#pragma unroll
    for (unsigned i = 0; i < sizeof(T) / 16; ++i) to[i] = source[i];
    return out;
}

// Pairs of rows B <= T of a tile lie in a triangle, at pair_row(B) + T.
constexpr int PAIRS = TILE * (TILE + 1) / 2;
__device__ constexpr int pair_row(int b) { return TILE * b - b * (b - 1) / 2 - b; }

// What the serial part needs of a tile; of the row above it, what begins there.
template <bool TALL>
struct Prepared {
    using Cost = typename Types<TALL>::Cost;
    Step<Cost> steps[TILE + 1];
    OnGround<Cost> begin[TILE + 1];
    Pair<Cost> pairs[PAIRS];
    // The least that one model costs from a row to the end of the tile.
    int rest[TILE];
};

template <bool TALL>
struct Shared {
    using T = Types<TALL>;
    using Cost = typename T::Cost;
    Prepared<TALL> prepared[2];
    // The cuts of the tile solved last, and that of the row above it.
    Cut<Cost> recent[TILE + 1];
    Ends<Cost> ends[TILE + 1];
    // Best objects of each warp, but in [0] those that all warps start from; sums of warps first.
    Cost found[MAX_WARPS][TILE];
    int from[MAX_WARPS - 1][TILE];
    Cost bound[TILE];
    // The least that one model costs from the start of the tile to a row.
    int in_tile[TILE];
    int top, largest, column, listed;
    int horizon, ground_end, sky_begin;  // of the frame
    unsigned own_cuts[MAX_WARPS];  // the cuts of a tile that a warp looks at
    int guess[2];  // winner of the last row of the tiles below, by parity
    int path_length;
    std::uint32_t started;  // by the clock of the multiprocessor
};

// Barriers are not "aligned" (bar.sync): the warps of a block come to them from different places,
// the first from another than those that prepare tiles.
template <int BARRIER>
__device__ inline void meet(int threads) {
    __syncwarp();
    asm volatile("barrier.sync %0, %1;" ::"n"(BARRIER), "r"(threads) : "memory");
}

// Waits for the warps that prepare tiles: three times a tile.
//
// racecheck sees no order by a barrier of a part of a block, nor, once there has been one, by some
// of those of the whole block. -DSTIXEL_RACECHECK=n is for it: the first warp comes to these
// barriers too, to n of a tile before it solves the tile below and to the others after. What may
// happen at the same time without it may do so for one n of 0 to 3.
#ifndef STIXEL_RACECHECK
#define STIXEL_RACECHECK (-1)
#endif
constexpr int HELPERS = 1, HELPERS_MEET = 3, RACECHECK = STIXEL_RACECHECK;
__device__ inline void helpers_meet() {
    meet<HELPERS>(RACECHECK < 0 ? blockDim.x - WARP : blockDim.x);
}
__device__ inline void join_helpers(int first, int end) {
    if constexpr (RACECHECK >= 0) {
        for (int i = first; i < end; ++i) helpers_meet();
    }
}

// The whole block. Barriers that follow one another are two: a warp may wait at the second while
// others have not left the first.
constexpr int SOLVED = 2;  // a tile is solved, the next prepared
constexpr int JOINED = 3;  // the solved tile's cuts are looked at
template <int BARRIER>
__device__ inline void block_meets() {
    meet<BARRIER>(blockDim.x);
}

// For measurements and tests only, by -D: cycles of each part behind the output (the bench shows
// them with STIXEL_PROFILE set), and delays that let either side of a tile run late.
#ifdef STIXEL_SLOW_SERIAL
#define SLOW_SERIAL __nanosleep(20000);
#else
#define SLOW_SERIAL
#endif
#ifdef STIXEL_SLOW_HELPERS
#define SLOW_HELPERS __nanosleep(7000 * (warp % 3));
#else
#define SLOW_HELPERS
#endif
#ifdef STIXEL_SLOW_CUTS
#define SLOW_CUTS __nanosleep(20000 * (warp % 3));
#else
#define SLOW_CUTS
#endif

template <bool TALL>
struct Column {
    using T = Types<TALL>;
    using Cost = typename T::Cost;
    using Sum = typename T::Sum;
    using Record = Cut<Cost>;

    const Tables &k;
    Shared<TALL> &s;
    // In shared memory.
    int *tile;        // [model][33]: prefix sums before the rows t0..=t0 + 32
    const std::uint32_t *reciprocals;
    const int2 *same;  // separation and cost of the same depth (see alike()), by whole disparity
    // In shared memory, or of this block in global memory where the image is tall.
    Sum *sums;  // doubled where not TALL, see mean()
    Cost *keys;
    typename T::Count *counts;
    std::uint16_t *object_rows;
    std::uint16_t *list;
    Cost *slack;
    // Of this block in global memory.
    int *lut;
    Record *cuts;
    int tid, warp;
    // Of this column.
    int unseen, models;
#ifdef STIXEL_PROFILE
    std::uint64_t *profile;
    long long last;
#endif

    // Adds the cycles since the last stamp to part n of this warp.
    __device__ __forceinline__ void stamp(int n) {
#ifdef STIXEL_PROFILE
        const long long now = clock64();
        if (lane_id() == 0 && warp < 2) atomicAdd(reinterpret_cast<unsigned long long *>(profile) + 16 * warp + n, now - last);
        last = clock64();
#endif
    }

    // Of this block in global memory, and seldom used: prefix sums of ground and sky costs, best path.
    __device__ int *ground() const { return k.ground_sums + static_cast<std::size_t>(blockIdx.x) * (k.height + 1); }
    __device__ int *sky() const { return k.sky_sums + static_cast<std::size_t>(blockIdx.x) * (k.height + 1); }
    __device__ unsigned long long *path() const { return k.path + static_cast<std::size_t>(blockIdx.x) * k.height; }
    // With the other rows, or in global memory where many blocks share a multiprocessor.
    __device__ typename T::Link *links() const {
        char *global = reinterpret_cast<char *>(k.links) + static_cast<std::size_t>(blockIdx.x) * k.link_bytes;
        return reinterpret_cast<typename T::Link *>(k.links_at < 0 ? global : reinterpret_cast<char *>(sums) + (k.links_at - k.sums_at));
    }

    static constexpr int DOUBLED = TALL ? 0 : 1;

    static __device__ Cost widen(int cost) { return cost == IMPOSSIBLE ? T::INF : static_cast<Cost>(cost); }

    // Mean of n measurements, by the doubled difference of two sums (in TALL, not doubled).
    __device__ int mean(Sum sum, unsigned n) const {
        unsigned q;
        if constexpr (TALL) {
            const unsigned long long r = __ldg(k.reciprocals + n);
            q = static_cast<unsigned>((__umul64hi(sum, r) << 1) | ((sum * r) >> 63));
        } else {
            // The reciprocal has 31 bits before its binary point at bit 31 + log2 n.
            q = __umulhi(sum, reciprocals[n]) >> ((31 - __clz(n)) & 31);
        }
        return n == 0 ? unseen : static_cast<int>(q);
    }

    // Cost of the same depth; where not TALL the table is widened before.
    static __device__ Cost alike(int2 near) { return TALL ? widen(near.y) : static_cast<Cost>(near.y); }

    // Mean of the rows first..to.
    __device__ int mean_of(int first, int to) const {
        return mean(sums[to] - sums[first], static_cast<unsigned>(counts[to]) - counts[first]);
    }

    __device__ int whole(unsigned x) const {
        if constexpr (TALL) return static_cast<int>((x * k.unit_reciprocal) >> 40);
        return static_cast<int>(__umulhi(x, k.short_unit_reciprocal));
    }

    __device__ int model(int mean) const { return min(whole(static_cast<unsigned>(mean + k.half_step)), k.disparities - 1); }

    // The two logarithms that an object above one of this mean needs. Where there is none no
    // mean asks for it.
    __device__ int logs(int mean) const {
        const int separation = same[whole(mean)].x;
        const int high = k.disparities * k.unit - mean - separation, low = mean - separation;
        const int nearer = k.nearer_prior + whole_ln(k, max(high, 1)), farther = k.farther_prior + whole_ln(k, max(low, 1));
        return (farther << 16) | (nearer & 0xffff);
    }

    __device__ Cost after_ground(const OnGround<Cost> &on, int m) const {
        const int off = m - on.ground;
        return off > k.ground_tolerance ? on.nearer : off < -k.ground_tolerance ? on.farther : on.standing;
    }

    __device__ void transitions(const Record &c, int m, Cost &g, Cost &o, Cost &sky_cost) const {
        const int off = m - c.ground;
        g = off > k.ground_tolerance ? c.ground_nearer : off < -k.ground_tolerance ? c.ground_farther : c.ground_standing;
        o = m > c.high ? c.object_nearer : m < c.low ? c.object_farther : c.object_same;
        sky_cost = m > k.sky_tolerance ? c.sky : T::INF;
    }

    __device__ void measure(const std::uint16_t *disparity, std::size_t stride, int u);
    __device__ void build_tile(int t0);
    __device__ void step_rows(Prepared<TALL> &to, int t0);
    __device__ void pair_rows(Prepared<TALL> &to, int t0);
    __device__ void bound_rows(Prepared<TALL> &to);
    __device__ void list_cuts(int tiles, Cost limit);
    template <int N>
    __device__ bool best_of(const Record *records, const int (&cuts_from)[N], int first, Sum sum, unsigned count, Cost &cost,
                            int &from) const;
    template <int N>
    __device__ void try_cuts(const int (&cuts_from)[N], Sum sum, unsigned count, bool inside, Cost &cost, int &from, Cost &limit);
    __device__ void prepare(int number, int tiles, Cost &cost, int &from);
    __device__ void last_cuts(int number, Cost cost, int from);
    __device__ void walk(int kind);
    __device__ void backtrack(std::uint64_t *out, int u);
};

}  // namespace stixel
}  // namespace roadloop
