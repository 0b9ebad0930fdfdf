// The serial part of a column: row by row, a lane of the first warp for each row T of the tile.
#pragma once
#include "stixel_column.cuh"

namespace roadloop {
namespace stixel {

// Rows whose code is laid out one after the other.
#ifndef STIXEL_UNROLL
#define STIXEL_UNROLL 8
#endif
constexpr int UNROLLED = STIXEL_UNROLL;

// What an object of one mean does to the costs of an object above it.
template <typename Cost>
struct Below {
    int high, low;
    int nearer, farther;
    Cost alike;
};

template <bool TALL>
struct Serial {
    using T = Types<TALL>;
    using Cost = typename T::Cost;
    using Sum = typename T::Sum;
    static constexpr Cost INF = T::INF;

    // The best ends on the last row by class, and the best beginnings of ground and sky.
    Cost g, o, sk, ground_run, sky_run;
    // Of the best object there.
    Below<Cost> below;
    unsigned ground_link, sky_link;
    // What the first cut of the next tile costs at least.
    Cost key;
    // Of the tile solved last: the best object on the row of the lane, its mean doubled, and what
    // was best on the row below the tile.
    Cost best;
    int best_from, best_mean_2;
    Cost first_g, first_o;
    int first_mean_2;

    __device__ __forceinline__ void start(const Column<TALL> &c) {
        const Tables &k = c.k;
        g = o = sk = key = ground_run = sky_run = INF;
        below = {0, 0, 0, 0, INF};
        ground_link = sky_link = 0;
        if (c.s.ground_end > 0) ground_run = k.ln_2 + k.cut[0];
        if (c.s.sky_begin == 0 && !k.reference_road) sky_run = k.cut[0];
    }

    static __device__ __forceinline__ int nearer(int logs) { return static_cast<std::int16_t>(logs & 0xffff); }

    // P6. A tile from the best objects of all warps that begin below it.
    __device__ __forceinline__ void solve(Column<TALL> &c, int tile) {
        const Tables &k = c.k;
        Shared<TALL> &s = c.s;
        const int h = k.height, lane = lane_id(), warps = blockDim.x / WARP;
        const int t0 = tile * TILE, t = t0 + lane;
        const Prepared<TALL> &prepared = s.prepared[tile & 1];
        Cost cost = INF;
        int from = INT_MAX;
#pragma unroll
        for (int i = 1; i < MAX_WARPS; ++i) {
            const int w = min(i, warps - 1);
            const Cost there = s.found[w][lane];
            const int b = s.from[w - 1][lane];
            if (there < cost || (there == cost && b < from)) {
                cost = there;
                from = b;
            }
        }
        Below<Cost> own;
        {
            const int m = c.mean_of(from, min(t + 1, h));
            const int2 near = c.same[c.whole(m)];
            const int logs = c.logs(m);
            own = {m + near.x, m - near.x, nearer(logs), logs >> 16, c.alike(near)};
        }
        first_g = g;
        first_o = o;
        first_mean_2 = below.high + below.low;
        if (lane == 0) s.ends[0] = {g, sk, ground_run, sky_run};
        c.stamp(6);
        SLOW_SERIAL
        const Step<Cost> *steps = prepared.steps;
        const Pair<Cost> *pairs = prepared.pairs + lane;
        Ends<Cost> *ends = s.ends;
        Step<Cost> step = load_whole(steps);
        Pair<Cost> pair = *pairs;
        int2 near = c.same[c.whole(pair.mean)];
        const int sky_tolerance = k.sky_tolerance;
#pragma unroll UNROLLED
        for (int i = 0; i < TILE; ++i) {
            // What the next row needs, while this one is computed; after the last it is not used.
            const int on = i + 1 < TILE ? TILE - 1 - i : 0;
            pairs += on;
            const Step<Cost> next_step = load_whole(steps + i + 1);
            const Pair<Cost> next_pair = *pairs;
            const int2 next_near = c.same[c.whole(next_pair.mean)];
            // An object on this row and up to that of the lane: by far the longest chain from row to
            // row, so all that does not wait for the row below comes first.
            const int m = pair.mean;
            const Cost on_sky = m > sky_tolerance ? sk + step.sky_next + pair.object : INF;
            const Cost other = min(g + pair.on_ground, on_sky);
            const Cost after_object = step.object_next + pair.object;
            const Below<Cost> here = {m + near.x, m - near.x, nearer(pair.logs), pair.logs >> 16, c.alike(near)};
            // The rows before this one are done: nothing is better.
            const Cost to_beat = lane >= i ? cost : -INF - INF;
            const Cost on_object = m > below.high ? below.nearer : m < below.low ? below.farther : below.alike;
            const Cost there = min(on_object + (o + after_object), other);
            const bool better = there < to_beat;

            // Ground and sky that begin on this row, and the best up to it.
            ground_run = min(ground_run, min(g, o) + step.ground_begin);
            if (below.high + below.low >= 2 * sky_tolerance) sky_run = min(sky_run, o + step.sky_from_object);
            sky_run = min(sky_run, g + step.sky_from_ground);
            g = min(ground_run + step.ground_end, INF);
            sk = min(sky_run + step.sky_end, INF);
            if (lane == 0) ends[i + 1] = {g, sk, ground_run, sky_run};

            cost = better ? there : cost;
            from = better ? t0 + i : from;
            own.high = better ? here.high : own.high;
            own.low = better ? here.low : own.low;
            own.nearer = better ? here.nearer : own.nearer;
            own.farther = better ? here.farther : own.farther;
            own.alike = better ? here.alike : own.alike;
            o = __shfl_sync(ALL_LANES, cost, i);
            below.high = __shfl_sync(ALL_LANES, own.high, i);
            below.low = __shfl_sync(ALL_LANES, own.low, i);
            below.nearer = __shfl_sync(ALL_LANES, own.nearer, i);
            below.farther = __shfl_sync(ALL_LANES, own.farther, i);
            below.alike = __shfl_sync(ALL_LANES, own.alike, i);
            step = next_step;
            pair = next_pair;
            near = next_near;
        }
        c.stamp(7);
        __syncwarp();
        add_cut(c, prepared, tile, cost, own, s.ends[lane + 1]);
        if (lane == TILE - 1) s.guess[tile & 1] = from;
        best = cost;
        best_from = from;
        best_mean_2 = own.high + own.low;
    }

    // The cut above the row of each lane, and the keys of the cuts of the tile.
    __device__ __forceinline__ void add_cut(Column<TALL> &c, const Prepared<TALL> &prepared, int tile, Cost cost,
                                            const Below<Cost> &own, const Ends<Cost> &end) {
        Shared<TALL> &s = c.s;
        const int lane = lane_id(), h = c.k.height, b = tile * TILE + lane + 1;
        // That of the tile's first row came with the tile below.
        Cut<Cost> cut = load_whole(s.recent + TILE);
        __syncwarp();
        if (lane == 0) s.recent[0] = cut;
        const OnGround<Cost> on = load_whole(prepared.begin + lane + 1);
        const Step<Cost> step = load_whole(prepared.steps + lane + 1);
        const Cost next = cost + step.object_next;
        cut.ground = on.ground;
        cut.high = own.high;
        cut.low = own.low;
        cut.unused = 0;
        cut.unused_cost = 0;
        cut.ground_nearer = min(end.ground + on.nearer, INF);
        cut.ground_farther = min(end.ground + on.farther, INF);
        cut.ground_standing = min(end.ground + on.standing, INF);
        cut.object_nearer = min(next + own.nearer, INF);
        cut.object_farther = min(next + own.farther, INF);
        cut.object_same = min(next + own.alike, INF);
        cut.sky = min(end.sky + step.sky_next, INF);
        const Cost on_ground = min(min(cut.ground_nearer, cut.ground_farther), cut.ground_standing);
        const Cost on_object = min(min(cut.object_nearer, cut.object_farther), cut.object_same);
        const Cost least = min(min(on_ground, on_object), cut.sky);
        s.recent[lane + 1] = cut;
        if (b < h) c.cuts[b] = cut;
        const Cost lower = __shfl_up_sync(ALL_LANES, least, 1);
        if (b - 1 < h) c.keys[b - 1] = (lane == 0 ? key : lower) + prepared.rest[lane];
        key = __shfl_sync(ALL_LANES, least, TILE - 1);
    }

    // What no other warp waits for: where the best ends on the row of each lane begin, and on what;
    // after the last tile the best path.
    __device__ __forceinline__ void finish(Column<TALL> &c, int tile) {
        const int lane = lane_id(), h = c.k.height, t0 = tile * TILE, t = t0 + lane;
        const Ends<Cost> before = c.s.ends[lane], end = c.s.ends[lane + 1];
        const Step<Cost> step = load_whole(c.s.prepared[tile & 1].steps + lane);
        Cost o_before = __shfl_up_sync(ALL_LANES, best, 1);
        int mean_2 = __shfl_up_sync(ALL_LANES, best_mean_2, 1);
        if (lane == 0) {
            o_before = first_o;
            mean_2 = first_mean_2;
        }
        const Cost g_before = lane == 0 ? first_g : before.ground;
        const Cost after_object = mean_2 < 2 * c.k.sky_tolerance ? INF : o_before + step.sky_from_object;
        const Cost after_ground = g_before + step.sky_from_ground;
        const unsigned to_here = 0xffffffffu >> (TILE - 1 - lane);
        const auto since = [&](bool begins, bool on_ground, unsigned &carried) {
            const unsigned begin = __ballot_sync(ALL_LANES, begins), kinds = __ballot_sync(ALL_LANES, on_ground);
            const unsigned until = begin & to_here;
            const int row = 31 - __clz(until);
            const unsigned kind = kinds >> (row & 31) & 1 ? GROUND : OBJECT;
            const unsigned found = until ? static_cast<unsigned>(t0 + row) | kind << T::LINK_BITS : carried;
            carried = __shfl_sync(ALL_LANES, found, TILE - 1);
            return found;
        };
        const unsigned ground = since(end.ground_run < before.ground_run, g_before < o_before, ground_link);
        const unsigned sky = since(end.sky_run < before.sky_run, after_ground < after_object, sky_link);
        if (t < h) {
            typename T::Link *const links = c.links();
            links[GROUND * h + t] = static_cast<typename T::Link>(ground);
            links[OBJECT * h + t] = static_cast<typename T::Link>(best_from | OBJECT << T::LINK_BITS);
            links[SKY * h + t] = static_cast<typename T::Link>(sky);
        }
        if (t0 + TILE >= h) {
            const int last = h - 1 - t0;
            const Cost end_ground = __shfl_sync(ALL_LANES, end.ground, last);
            const Cost end_object = __shfl_sync(ALL_LANES, best, last);
            const Cost end_sky = __shfl_sync(ALL_LANES, end.sky, last);
            __syncwarp();
            if (lane == 0) {
                c.walk(end_sky < min(end_ground, end_object) ? SKY : end_object < end_ground ? OBJECT : GROUND);
            }
        }
    }
};

}  // namespace stixel
}  // namespace roadloop
