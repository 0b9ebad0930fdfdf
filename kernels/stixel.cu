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
    constexpr Cost INF = T::INF;
    __shared__ Shared<TALL> s;
    extern __shared__ int4 dynamic[];
    char *const memory = reinterpret_cast<char *>(dynamic);
    // Blocks of one multiprocessor have their serial warps on different schedulers.
    const int tid = static_cast<int>((threadIdx.x + blockIdx.x / k.sms % 4 * WARP) % blockDim.x);
    const int h = k.height, lane = lane_id(), warp = tid / WARP, warps = blockDim.x / WARP, helpers = warps - 1;
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
                   0,
                   0,
                   0,
                   0,
                   0};
#ifdef STIXEL_PROFILE
    c.profile = out + 1 + (k.columns + 3) / 4 + static_cast<std::size_t>(k.columns) * k.capacity;
    c.last = clock64();
#endif
    if (!TALL) {
        for (int i = tid; i <= h; i += blockDim.x) reciprocals[i] = k.short_reciprocals[i];
    }
    for (int i = tid; i < k.disparities; i += blockDim.x) {
        const int alike = k.same[2 * i + 1];
        same[i] = make_int2(k.same[2 * i], TALL || alike != IMPOSSIBLE ? alike : static_cast<int>(T::INF));
    }
    // The cuts of a tile that this warp looks at.
    unsigned own_cuts = 0;
    for (int i = warp; i < TILE; i += warps) own_cuts |= 1u << i;

    for (int u = blockIdx.x; u < k.columns;) {
        c.measure(disparity, stride, u);
        c.stamp(0);
        Serial<TALL> serial;
        serial.start(c);
        const int tiles = div_up(h, TILE);
        // Best objects so far of the tile in preparation, T by the lane.
        Cost cost = INF;
        int from = INT_MAX;

        for (int done = -1; done < tiles; ++done) {
            const int next = done + 1;
            if (warp > 0 && next < tiles) {
                const int t0 = next * TILE, t = t0 + lane, to = min(t + 1, h);
                Prepared<TALL> &prepared = s.prepared[next & 1];
                if (warp == helpers) c.step_rows(prepared, t0);
                if (warp == 1) {
                    s.in_tile[lane] = INT_MAX;
                    prepared.rest[lane] = INT_MAX;
                }
                c.build_tile(t0);
                const int guess = next >= 2 ? s.guess[next & 1] : 0;
                const Sum sum = c.sums[to];
                const unsigned count = c.counts[to];
                c.stamp(1);
                helpers_meet(blockDim.x - WARP);
                c.stamp(13);

                from = INT_MAX;
                if (warp == 1) {
                    // An object on all rows, and the winner of a row below.
                    cost = k.cut[0] + (t <= c.horizon ? k.ln_2 : 0) + k.ln_range + c.tile[c.model(c.mean(sum, count)) * PITCH + lane + 1];
                    from = 0;
                    if (guess > 0) {
                        const int one[1] = {guess};
                        c.best_of(c.cuts, one, 0, sum, count, cost, from);
                    }
                    s.found[0][lane] = cost;
                    s.bound[lane] = cost;
                    if (lane == 0) s.listed = 0;
                }
                c.pair_rows(prepared, t0);
                c.bound_rows(prepared);
                c.stamp(2);
                helpers_meet(blockDim.x - WARP);
                c.stamp(3);

                // The tile below is not solved yet.
                cost = s.found[0][lane];
                Cost limit = warp_max(t < h ? cost - s.in_tile[lane] : -INF);
                SLOW_HELPERS
                c.list_cuts(done, limit);
                helpers_meet(blockDim.x - WARP);
                c.stamp(4);
#ifdef STIXEL_PROFILE
                if (warp == 1 && lane == 0) atomicAdd(reinterpret_cast<unsigned long long *>(c.profile) + 31, s.listed);
#endif

                // A lane looks after one cut at a time; the cheapest to reject are many.
                const int listed = s.listed;
                for (int base = warp - 1; base < listed; base += helpers * WARP) {
                    const int mine = base + lane * helpers;
                    const bool on = mine < listed;
                    const int cut = on ? c.list[mine] : 0;
                    const Cost least = on ? c.keys[cut] - c.slack[cut / TILE] : INF + INF;
                    unsigned live = __ballot_sync(ALL_LANES, least <= limit);
                    while (live) {
                        const int a = __ffs(live) - 1;
                        live &= live - 1;
                        const int first = __shfl_sync(ALL_LANES, cut, a);
                        if (live) {
                            const int b = __ffs(live) - 1;
                            live &= live - 1;
                            const int two[2] = {first, __shfl_sync(ALL_LANES, cut, b)};
                            c.try_cuts(two, sum, count, t < h, cost, from, limit);
                        } else {
                            const int one[1] = {first};
                            c.try_cuts(one, sum, count, t < h, cost, from, limit);
                        }
                        live &= __ballot_sync(ALL_LANES, least <= limit);
                    }
                }
                // The column to solve after this one.
                if (next == tiles - 1 && warp == helpers && lane == 0) {
                    s.column = static_cast<int>(gridDim.x) + atomicAdd(k.frame + FRAME_NEXT, 1);
                }
                c.stamp(5);
            }

            if (warp == 0 && done >= 0) serial.solve(c, done, cost, from);
            c.stamp(8);
            __syncthreads();
            c.stamp(9);

            // P5. The cuts of the tile just solved, for the next.
            if (next < tiles) {
                const int t = next * TILE + lane, to = min(t + 1, h);
                if (warp == 0) {
                    cost = INF;
                    from = INT_MAX;
                }
                if (next > 0) {
                    SLOW_CUTS
                    const Sum sum = c.sums[to];
                    const unsigned count = c.counts[to];
                    const Cost limit = warp_max(t < h ? s.bound[lane] - s.in_tile[lane] : -INF);
                    const int first = done * TILE;
                    unsigned mine = __ballot_sync(ALL_LANES, c.keys[first + lane] <= limit) & own_cuts;
                    while (mine) {
                        const int a = 31 - __clz(mine);
                        mine ^= 1u << a;
                        if (mine) {
                            const int b = 31 - __clz(mine);
                            mine ^= 1u << b;
                            const int two[2] = {first + a, first + b};
                            c.best_of(s.recent, two, first, sum, count, cost, from);
                        } else {
                            const int one[1] = {first + a};
                            c.best_of(s.recent, one, first, sum, count, cost, from);
                        }
                    }
                }
                if (warp > 0) {
                    s.found[warp][lane] = cost;
                    s.from[warp - 1][lane] = from;
                }
                c.stamp(10);
                __syncthreads();
                c.stamp(11);
            }
        }
        c.backtrack(out, u);
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
