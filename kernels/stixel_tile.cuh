// What the warps but the first do for a tile of rows before its serial part.
#pragma once
#include "stixel_column.cuh"

namespace roadloop {
namespace stixel {

// P1. The prefix sums before the rows t0..=t0 + 32, a model a thread.
template <bool TALL>
__device__ void Column<TALL>::build_tile(int t0) {
    const int h = k.height, helpers = blockDim.x - WARP;
    for (int n = tid - WARP; n < models; n += helpers) {
        int costs[TILE];
#pragma unroll
        for (int r = 0; r < TILE; ++r) {
            const unsigned row = object_rows[min(t0 + r, h - 1)];
            costs[r] = __ldg(k.object + (row * static_cast<unsigned>(k.disparities) + static_cast<unsigned>(n)));
        }
        int *own = tile + n * PITCH;
        int *row = lut + static_cast<std::size_t>(t0) * models + n;
        int sum = t0 > 0 ? own[TILE] : 0;
#pragma unroll
        for (int r = 0; r < TILE; ++r) {
            own[r] = sum;
            *row = sum;
            row += models;
            // Above the image: anything.
            sum += costs[r];
        }
        own[TILE] = sum;
        if (t0 + TILE >= h) *row = sum;
    }
}

// P1. What the rows of a tile, and the first above it, bring to the serial part.
template <bool TALL>
__device__ void Column<TALL>::step_rows(Prepared<TALL> &to, int t0) {
    const int h = k.height;
    const int end = k.frame[FRAME_END], sky_row = k.frame[FRAME_SKY], horizon = k.frame[FRAME_HORIZON];
    for (int i = lane_id(); i <= TILE; i += WARP) {
        const int t = t0 + i;
        Step<Cost> step;
        step.ground_begin = step.ground_end = step.sky_from_object = step.sky_from_ground = step.sky_end = T::INF;
        step.object_next = step.sky_next = T::INF;
        step.unused = 0;
        OnGround<Cost> on;
        on.ground = 0;
        on.nearer = on.farther = on.standing = T::INF;
        if (t < h) {
            const int cut = __ldg(k.cut + t);
            if (t < end) {
                if (t > 0) step.ground_begin = k.ground_next + cut - ground[t];
                step.ground_end = ground[t + 1];
            }
            step.sky_end = sky[t + 1];
            if (t > 0) {
                const GroundRow g = k.rows[t - 1];
                if (t >= sky_row) {
                    step.sky_from_object = cut - sky[t] + k.ln_2;
                    if (g.sky_next) step.sky_from_ground = cut - sky[t];
                }
                step.object_next = (t - 1 < horizon ? k.object_next : k.ln_2) + cut;
                step.sky_next = k.on_sky + cut;
                on.ground = g.ground;
                on.nearer = widen(g.nearer);
                on.farther = widen(g.farther);
                on.standing = g.standing;
            }
        }
        to.steps[i] = step;
        to.begin[i] = on;
    }
}

// P2. Means, object costs and logarithms of the rows B..=T of the tile. A pass does the rows x and
// 32 - x: together they have 32 pairs.
template <bool TALL>
__device__ void Column<TALL>::pair_rows(Prepared<TALL> &to, int t0) {
    constexpr int PASSES = TILE / 2 + 1;
    const int lane = lane_id(), helpers = blockDim.x / WARP - 1, h = k.height;
    const auto pair = [&](int x, int &at) {
        const bool upper = lane >= x;
        const int b = upper ? x : TILE - x, t = upper ? lane : TILE - x + lane;
        at = pair_row(b) + t;
        Pair<Cost> out;
        out.mean = mean_of(min(t0 + b, h), min(t0 + t + 1, h));
        const int *row = tile + model(out.mean) * PITCH;
        out.object = t0 + t < h ? row[t + 1] - row[b] : T::INF;
        out.on_ground = out.object + after_ground(to.begin[b], out.mean);
        out.logs = logs(out.mean);
        return out;
    };
    // The first warp has more to do besides.
    for (int x = helpers - warp; x < PASSES; x += 2 * helpers) {
        const bool two = x + helpers < PASSES;
        int at, at_second;
        const Pair<Cost> first = pair(x, at), second = pair(two ? x + helpers : x, at_second);
        // The last pass has its rows twice.
        if (x < PASSES - 1 || lane >= x) to.pairs[at] = first;
        if (two && (x + helpers < PASSES - 1 || lane >= x + helpers)) to.pairs[at_second] = second;
    }
}

// P2. The least that one model costs within the tile: from its start to the row of each lane, and
// from there to its end. A warp looks at some models.
template <bool TALL>
__device__ void Column<TALL>::bound_rows(Prepared<TALL> &to) {
    const int lane = lane_id(), helpers = blockDim.x / WARP - 1;
    int least_to = INT_MAX, least_from = INT_MAX;
#pragma unroll 4
    for (int n = warp - 1; n < models; n += helpers) {
        const int *row = tile + n * PITCH;
        least_to = min(least_to, row[lane + 1] - row[0]);
        least_from = min(least_from, row[TILE] - row[lane]);
    }
    atomicMin(&s.in_tile[lane], least_to);
    atomicMin(&to.rest[lane], least_from);
}

// P3. The cuts below the tile that may win one of its rows, nearest tiles first.
template <bool TALL>
__device__ void Column<TALL>::list_cuts(int tiles, Cost limit) {
    const int lane = lane_id(), helpers = blockDim.x / WARP - 1;
    for (int j = tiles - warp; j >= 0; j -= helpers) {
        // The least that one model costs on all rows between the two tiles.
        const int *row = lut + static_cast<std::size_t>(j + 1) * TILE * models;
        int span = INT_MAX;
        for (int first = lane; first < models; first += 4 * WARP) {
            int there[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) there[i] = row[min(first + i * WARP, models - 1)];
#pragma unroll
            for (int i = 0; i < 4; ++i) span = min(span, tile[min(first + i * WARP, models - 1) * PITCH] - there[i]);
        }
        span = warp_min(span);
        const bool live = keys[j * TILE + lane] <= limit - span;
        const unsigned mask = __ballot_sync(ALL_LANES, live);
        int at = 0;
        if (lane == 0) {
            slack[j] = -static_cast<Cost>(span);
            if (mask) at = atomicAdd(&s.listed, __popc(mask));
        }
        at = __shfl_sync(ALL_LANES, at, 0);
        if (live) list[at + __popc(mask & ((1u << lane) - 1))] = static_cast<std::uint16_t>(j * TILE + lane);
    }
}

// Costs of the best paths whose last stixel is an object from some cuts up to the rows T of the
// lanes; equal cost: the lowest cut wins. Whether one was better. `records` begin with that of
// row `first`.
template <bool TALL>
template <int N>
__device__ bool Column<TALL>::best_of(const Record *records, const int (&cuts_from)[N], int first, Sum sum, unsigned count,
                                      Cost &cost, int &from) const {
    const int lane = lane_id();
    Cost found[N];
#pragma unroll
    for (int i = 0; i < N; ++i) {
        const int b = cuts_from[i];
        const Record c = load_whole(records + (b - first));
        const int m = mean(sum - sums[b], count - counts[b]);
        const int n = model(m);
        const int below = lut[static_cast<std::size_t>(b) * models + n];
        Cost g, o, sk;
        transitions(c, m, g, o, sk);
        found[i] = min(min(g, o), sk) + (tile[n * PITCH + lane + 1] - below);
    }
    bool better = false;
#pragma unroll
    for (int i = 0; i < N; ++i) {
        if (found[i] < cost || (found[i] == cost && cuts_from[i] < from)) {
            cost = found[i];
            from = cuts_from[i];
            better = true;
        }
    }
    return better;
}

// P4. The same, and the bound that all warps share.
template <bool TALL>
template <int N>
__device__ void Column<TALL>::try_cuts(const int (&cuts_from)[N], Sum sum, unsigned count, bool inside, Cost &cost, int &from,
                                       Cost &limit) {
    if (__any_sync(ALL_LANES, best_of(cuts, cuts_from, 0, sum, count, cost, from))) {
        const int lane = lane_id();
        const Cost others = atomicMin(&s.bound[lane], cost);
        limit = warp_max(inside ? min(others, cost) - s.in_tile[lane] : -T::INF);
    }
}

}  // namespace stixel
}  // namespace roadloop
