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
    const int h = k.height, lane = lane_id();
    const int horizon = s.horizon, ground_end = s.ground_end, sky_begin = s.sky_begin;
    // All loads first: the row of this lane and, all lanes alike, the first above the tile.
    GroundRow on_row[2];
    int cut[2], ground_to[2], ground_on[2], sky_to[2], sky_on[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int t = min(t0 + (i == 0 ? lane : TILE), h - 1);
        on_row[i] = load_whole(k.rows + max(t - 1, 0));
        cut[i] = __ldg(k.cut + t);
        ground_to[i] = ground()[t];
        ground_on[i] = ground()[t + 1];
        sky_to[i] = sky()[t];
        sky_on[i] = sky()[t + 1];
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int row = i == 0 ? lane : TILE, t = t0 + row;
        const bool inside = t < h, later = inside && t > 0;
        const GroundRow &g = on_row[i];
        const Cost from_sky = cut[i] - sky_to[i];
        Step<Cost> step;
        step.ground_begin = later && t < ground_end ? k.ground_next + cut[i] - ground_to[i] : T::INF;
        step.ground_end = inside && t < ground_end ? ground_on[i] : T::INF;
        step.sky_from_object = later && t >= sky_begin ? from_sky + k.ln_2 : T::INF;
        step.sky_from_ground = later && t >= sky_begin && g.sky_next ? from_sky : T::INF;
        step.sky_end = inside ? sky_on[i] : T::INF;
        step.object_next = later ? (t - 1 < horizon ? k.object_next : k.ln_2) + cut[i] : T::INF;
        step.sky_next = later ? k.on_sky + cut[i] : T::INF;
        step.unused = 0;
        OnGround<Cost> on;
        on.ground = later ? g.ground : 0;
        on.nearer = later ? widen(g.nearer) : T::INF;
        on.farther = later ? widen(g.farther) : T::INF;
        on.standing = later ? g.standing : T::INF;
        to.steps[row] = step;
        to.begin[row] = on;
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
    const int lane = lane_id(), warps = blockDim.x / WARP;
    int least_to = INT_MAX, least_from = INT_MAX;
    // The first helper has more to do besides.
#pragma unroll 4
    for (int n = warp - 2; n < models; n += warps - 2) {
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
        const int below = lut[static_cast<unsigned>(b) * static_cast<unsigned>(models) + static_cast<unsigned>(n)];
        Cost g, o, sk;
        transitions(c, m, g, o, sk);
        found[i] = min(min(g, o), sk) + (tile[n * PITCH + lane + 1] - below);
    }
    bool better = false;
#pragma unroll
    for (int i = 0; i < N; ++i) {
        const bool wins = (found[i] < cost) | ((found[i] == cost) & (cuts_from[i] < from));
        cost = wins ? found[i] : cost;
        from = wins ? cuts_from[i] : from;
        better |= wins;
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

// P1 to P4 for one of the tiles, by all warps but the first: the best objects of this warp, T by
// the lane.
template <bool TALL>
__device__ __forceinline__ void Column<TALL>::prepare(int number, int tiles, Cost &cost, int &from) {
    const int h = k.height, lane = lane_id(), helpers = blockDim.x / WARP - 1;
    const int t0 = number * TILE, t = t0 + lane, to = min(t + 1, h);
    Prepared<TALL> &prepared = s.prepared[number & 1];
    if (warp == helpers) step_rows(prepared, t0);
    if (warp == 1) {
        s.in_tile[lane] = INT_MAX;
        prepared.rest[lane] = INT_MAX;
    }
    build_tile(t0);
    const int guess = number >= 2 ? s.guess[number & 1] : 0;
    const Sum sum = sums[to];
    const unsigned count = counts[to];
    stamp(1);
    helpers_meet();
    stamp(13);

    from = INT_MAX;
    if (warp == 1) {
        // An object on all rows, and the winner of a row below.
        cost = k.cut[0] + (t <= s.horizon ? k.ln_2 : 0) + k.ln_range + tile[model(mean(sum, count)) * PITCH + lane + 1];
        from = 0;
        if (guess > 0) {
            const int one[1] = {guess};
            best_of(cuts, one, 0, sum, count, cost, from);
        }
        s.found[0][lane] = cost;
        s.bound[lane] = cost;
        if (lane == 0) s.listed = 0;
    }
    pair_rows(prepared, t0);
    if (warp > 1) bound_rows(prepared);
    stamp(2);
    helpers_meet();
    stamp(3);

    // The tile below is not solved yet.
    cost = s.found[0][lane];
    Cost limit = warp_max(t < h ? cost - s.in_tile[lane] : -T::INF);
    SLOW_HELPERS
    list_cuts(number - 1, limit);
    helpers_meet();
    stamp(4);
#ifdef STIXEL_PROFILE
    if (warp == 1 && lane == 0) atomicAdd(reinterpret_cast<unsigned long long *>(profile) + 31, s.listed);
#endif

    // A lane looks after one cut at a time; loads of up to three cuts are under way together.
    const int listed = s.listed;
    for (int base = warp - 1; base < listed; base += helpers * WARP) {
        const int mine = base + lane * helpers;
        const bool on = mine < listed;
        const int cut = on ? list[mine] : 0;
        const Cost least = on ? keys[cut] - slack[cut / TILE] : T::INF + T::INF;
        unsigned live = __ballot_sync(ALL_LANES, least <= limit);
        while (live) {
            const int a = __ffs(live) - 1;
            live &= live - 1;
            const int first = __shfl_sync(ALL_LANES, cut, a);
            if (live) {
                const int b = __ffs(live) - 1;
                live &= live - 1;
                const int second = __shfl_sync(ALL_LANES, cut, b);
                if (live) {
                    const int d = __ffs(live) - 1;
                    live &= live - 1;
                    const int three[3] = {first, second, __shfl_sync(ALL_LANES, cut, d)};
                    try_cuts(three, sum, count, t < h, cost, from, limit);
                } else {
                    const int two[2] = {first, second};
                    try_cuts(two, sum, count, t < h, cost, from, limit);
                }
            } else {
                const int one[1] = {first};
                try_cuts(one, sum, count, t < h, cost, from, limit);
            }
            live &= __ballot_sync(ALL_LANES, least <= limit);
        }
    }
    // The column to solve after this one.
    if (number == tiles - 1 && warp == helpers && lane == 0) {
        const int next = static_cast<int>(gridDim.x) + atomicAdd(k.frame + FRAME_NEXT, 1);
        s.column = next < k.columns ? static_cast<int>(k.order[next]) : k.columns;
    }
}

// P5. The cuts of the tile just solved, for the next; all warps but the first.
template <bool TALL>
__device__ __forceinline__ void Column<TALL>::last_cuts(int number, Cost cost, int from) {
    const int h = k.height, lane = lane_id();
    const int t = number * TILE + lane, to = min(t + 1, h);
    if (number > 0) {
        SLOW_CUTS
        const Sum sum = sums[to];
        const unsigned count = counts[to];
        const Cost limit = warp_max(t < h ? s.bound[lane] - s.in_tile[lane] : -T::INF);
        const int first = (number - 1) * TILE;
        unsigned mine = __ballot_sync(ALL_LANES, keys[first + lane] <= limit) & s.own_cuts[warp];
        while (mine) {
            const int a = 31 - __clz(mine);
            mine ^= 1u << a;
            if (mine) {
                const int b = 31 - __clz(mine);
                mine ^= 1u << b;
                const int two[2] = {first + a, first + b};
                best_of(s.recent, two, first, sum, count, cost, from);
            } else {
                const int one[1] = {first + a};
                best_of(s.recent, one, first, sum, count, cost, from);
            }
        }
    }
    s.found[warp][lane] = cost;
    s.from[warp - 1][lane] = from;
}

}  // namespace stixel
}  // namespace roadloop
