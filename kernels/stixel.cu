// Stixels: one block a column, from pixels to a list of stixels (src/stage/stixel has the model):
// reduction, prefix sums, the dynamic programme in tiles of 32 rows, backtrack and confidences.
//
// A tile of 32 rows is prepared by all warps but the first, while the first works on the tile
// below: the prefix sums of object costs of its rows (P1), all that its rows need to know of each
// other (P2), the cuts far below that may still win (P3), these cuts (P4). Then all warps look at
// the cuts of the tile below (P5), and the first does the serial part (P6): row by row, a lane
// for each row T of the tile.
#include "stixel_backtrack.cuh"
#include "stixel_measure.cuh"
#include "stixel_serial.cuh"
#include "stixel_tile.cuh"

using namespace roadloop;
using namespace roadloop::stixel;

namespace {

template <bool TALL>
__device__ __forceinline__ void solve_columns(const Tables &k, const std::uint16_t *disparity, std::size_t stride,
                                              std::uint64_t *out) {
    using T = Types<TALL>;
    using Cost = typename T::Cost;
    using Sum = typename T::Sum;
    __shared__ Shared<TALL> s;
    extern __shared__ int4 dynamic[];
    char *const memory = reinterpret_cast<char *>(dynamic);
    // Blocks of one multiprocessor have their serial warps on different schedulers.
    const int tid = static_cast<int>((threadIdx.x + blockIdx.x / k.sms % 4 * WARP) % blockDim.x);
    const int h = k.height, lane = lane_id(), warps = blockDim.x / WARP;
    // By a shuffle, so that the compiler knows that a warp stays together.
    const int warp = __shfl_sync(ALL_LANES, tid / WARP, 0);
    const std::size_t slot = blockIdx.x;

    int2 *same = reinterpret_cast<int2 *>(memory);
    std::uint32_t *reciprocals = reinterpret_cast<std::uint32_t *>(memory + k.reciprocals_at);
    char *rows = TALL ? reinterpret_cast<char *>(k.row_memory) + slot * k.row_bytes : memory + k.rows_at;
    Column<TALL> c{k,
                   s,
                   reinterpret_cast<int *>(memory + k.tile_at),
                   reciprocals,
                   same,
                   reinterpret_cast<Sum *>(rows + k.sums_at),
                   reinterpret_cast<Cost *>(rows + k.keys_at),
                   reinterpret_cast<typename T::Count *>(rows + k.counts_at),
                   reinterpret_cast<std::uint16_t *>(rows + k.object_rows_at),
                   reinterpret_cast<std::uint16_t *>(rows + k.list_at),
                   reinterpret_cast<Cost *>(rows + k.slack_at),
                   k.lut + slot * k.lut_rows * k.disparities,
                   reinterpret_cast<Cut<Cost> *>(k.cuts) + slot * h,
                   tid,
                   warp,
                   0,
                   0};
#ifdef STIXEL_PROFILE
    c.profile = out + 1 + (k.columns + 3) / 4 + static_cast<std::size_t>(k.columns) * k.capacity;
    c.last = clock64();
    long long start = c.last;
#endif
    if (!TALL) {
        for (int i = tid; i <= h; i += blockDim.x) reciprocals[i] = k.short_reciprocals[i];
    }
    for (int i = tid; i < k.disparities; i += blockDim.x) {
        const int alike = k.same[2 * i + 1];
        same[i] = make_int2(k.same[2 * i], TALL || alike != IMPOSSIBLE ? alike : static_cast<int>(T::INF));
    }
    if (warp > 0 && lane == 0) {
        unsigned own_cuts = 0;
        for (int i = warp - 1; i < TILE; i += warps - 1) own_cuts |= 1u << i;
        s.own_cuts[warp] = own_cuts;
    }

    for (int u = static_cast<int>(k.order[blockIdx.x]); u < k.columns;) {
        if (tid == 0) s.started = static_cast<std::uint32_t>(clock64());
        c.measure(disparity, stride, u);
        c.stamp(0);
        const int tiles = div_up(h, TILE);
        // The first warp solves a tile while the others prepare the next.
        if (warp == 0) {
            Serial<TALL> serial;
            serial.start(c);
            join_helpers(0, HELPERS_MEET);
            block_meets<SOLVED>();
            block_meets<JOINED>();
            for (int t = 0; t < tiles; ++t) {
                if (t + 1 < tiles) join_helpers(0, RACECHECK);
                serial.solve(c, t);
                if (t + 1 < tiles) join_helpers(RACECHECK, HELPERS_MEET);
                c.stamp(8);
                block_meets<SOLVED>();
                c.stamp(9);
                serial.finish(c, t);
                c.stamp(10);
                block_meets<JOINED>();
                c.stamp(11);
            }
        } else {
            for (int t = 0; t < tiles; ++t) {
                Cost cost;
                int from;
                c.prepare(t, tiles, cost, from);
                c.stamp(5);
                block_meets<SOLVED>();
                c.stamp(9);
                c.last_cuts(t, cost, from);
                c.stamp(10);
                block_meets<JOINED>();
                c.stamp(11);
            }
            block_meets<SOLVED>();
            block_meets<JOINED>();
        }
#ifdef STIXEL_PROFILE
        if (tid == 0) {
            const long long whole = clock64() - start;
            atomicMax(reinterpret_cast<unsigned long long *>(c.profile) + 32, static_cast<unsigned long long>(whole));
            start = clock64();
        }
#endif
        c.backtrack(out, u);
        if (tid == 0) k.effort[u] = static_cast<std::uint32_t>(clock64()) - s.started;
        u = s.column;
        c.stamp(12);
        __syncthreads();
    }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(320, 2)
    stixel_columns(Tables k, const std::uint16_t *disparity, std::uint64_t stride, std::uint64_t *out) {
    solve_columns<false>(k, disparity, stride, out);
}

// Where 32-bit costs or sums, or shared memory, do not reach.
extern "C" __global__ void __launch_bounds__(320, 1)
    stixel_columns_tall(Tables k, const std::uint16_t *disparity, std::uint64_t stride, std::uint64_t *out) {
    solve_columns<true>(k, disparity, stride, out);
}
