// Pixels to measurements, as src/stage/stixel/reduce.rs, and the prefix sums over a column's rows.
#pragma once
#include "stixel_column.cuh"

namespace roadloop {
namespace stixel {

// The k-th smallest (from 0) of the pixels by bisection: any width, no memory.
__device__ inline int kth(const std::uint16_t *pixels, int n, bool as_zero, int limit, int k) {
    int low = 0, high = limit;
    while (low < high) {
        const int middle = (low + high) / 2;
        int below = 0;
        for (int i = 0; i < n; ++i) {
            const int d = __ldg(pixels + i);
            if (d == INVALID) {
                below += as_zero;
            } else {
                below += min(d, limit) <= middle;
            }
        }
        if (below > k) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

// Pixels of a row that are loaded together.
constexpr int ROW_PIXELS = 8;

// Those from `first` on; -1 beyond `width`.
__device__ inline void load_pixels(int (&d)[ROW_PIXELS], const std::uint16_t *pixels, int first, int width) {
#pragma unroll
    for (int i = 0; i < ROW_PIXELS; ++i) d[i] = first + i < width ? __ldg(pixels + first + i) : -1;
}

// One row's measurement from its pixels, the first of which are loaded.
__device__ inline int reduce_row(const Tables &k, int (&d)[ROW_PIXELS], const std::uint16_t *pixels, int blind) {
    const int width = k.width, limit = k.pixel_limit;
    const bool as_zero = k.invalid_as_zero != 0;
    int count = 0;
    unsigned sum = 0;
    for (int first = blind;;) {
#pragma unroll
        for (int i = 0; i < ROW_PIXELS; ++i) {
            const bool valid = d[i] >= 0 && d[i] != INVALID;
            sum += valid ? min(d[i], limit) : 0;
            count += valid || (as_zero && d[i] == INVALID);
        }
        first += ROW_PIXELS;
        if (first >= width) break;
        load_pixels(d, pixels, first, width);
    }
    int out;
    if (k.median) {
        if (count == 0 || count * 2 < width) return MISSING;
        const int low = kth(pixels + blind, width - blind, as_zero, limit, (count - 1) / 2);
        const int high = count % 2 ? low : kth(pixels + blind, width - blind, as_zero, limit, count / 2);
        out = (low + high) / 2 * (k.unit / 256);
    } else if (as_zero) {
        out = static_cast<int>(sum);
    } else {
        if (count * 2 < width) return MISSING;
        const unsigned half = k.nearest ? count / 2 : 0;
        out = static_cast<int>((sum + half) / max(count, 1));
    }
    return min(out, k.disparities * k.unit - 1);
}

__device__ inline int gauss_cost(float px, float model, float base, float weight, int outlier) {
    const float e = px - model;
    const float g = base + e * e * weight;
    return g < static_cast<float>(outlier) ? static_cast<int>(floorf(g + 0.5f)) : outlier;
}

// Measurements and all prefix sums over the column's rows: two neighbouring rows a thread.
template <bool TALL>
__device__ void Column<TALL>::measure(const std::uint16_t *disparity, std::size_t stride, int u) {
    const int h = k.height, threads = blockDim.x, lane = lane_id();
    const int centre = u * k.width + k.width / 2;
    const int edge = centre >= k.unseen_border || k.invalid_as_zero ? k.disparities : min(centre + 1, k.disparities);
    unseen = edge < k.disparities ? edge * k.unit : 0;
    if (tid == 0) {
        s.top = -1;
        s.largest = unseen;
        s.horizon = k.frame[FRAME_HORIZON];
        s.ground_end = k.frame[FRAME_END];
        s.sky_begin = k.frame[FRAME_SKY];
    }
    int *measured = reinterpret_cast<int *>(keys);
    const int blind = k.invalid_as_zero ? 0 : min(max(k.left_border - u * k.width, 0), k.width);
    int top = -1, largest = 0;
    for (int v = 2 * tid; v < h; v += 2 * threads) {
        const bool two = v + 1 < h;
        const std::uint16_t *lower = disparity + static_cast<std::size_t>(h - 1 - v) * stride + static_cast<std::size_t>(u) * k.width;
        const std::uint16_t *upper = two ? lower - stride : lower;
        int d[ROW_PIXELS], e[ROW_PIXELS];
        load_pixels(d, lower, blind, k.width);
        load_pixels(e, upper, blind, k.width);
        const int first = reduce_row(k, d, lower, blind), second = reduce_row(k, e, upper, blind);
        measured[v] = first;
        if (two) measured[v + 1] = second;
        if (first != MISSING) top = v;
        if (two && second != MISSING) top = v + 1;
        largest = max(largest, max(first, second));
    }
    top = warp_max(top);
    largest = warp_max(largest);
    __syncthreads();
    if (lane == 0) {
        atomicMax(&s.top, top);
        atomicMax(&s.largest, largest);
    }
    __syncthreads();
    models = min((model(s.largest) + 16) / 16 * 16, k.disparities);
    const int end = s.ground_end, sky_row = s.sky_begin;
    const int above = s.top < 0 ? h : s.top + 1;
    const int clear = above > sky_row ? above : h;
    if (tid == 0) {
        sums[0] = 0;
        counts[0] = 0;
        ground()[0] = sky()[0] = 0;
    }
    const float unit = static_cast<float>(k.unit);
    Sum *total_sum = reinterpret_cast<Sum *>(&s.found[0][0]);
    int *totals = &s.from[0][0];
    Sum sum_before = 0;
    int before[3] = {0, 0, 0};
    for (int base = 0; base < h; base += 2 * threads) {
        Sum sum[2];
        int part[2][3];  // count, ground, sky
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int v = base + 2 * tid + i;
            sum[i] = 0;
            part[i][0] = part[i][1] = part[i][2] = 0;
            if (v < h) {
                const int d = measured[v];
                const float4 g = __ldg(reinterpret_cast<const float4 *>(k.rows + v));  // model_px, base, weight
                int row;
                if (d == MISSING) {
                    row = k.missing_rows + edge;
                    const bool not_seen = edge < k.disparities && g.x >= static_cast<float>(edge);
                    part[i][1] = not_seen ? 0 : k.ground_missing;
                    part[i][2] = v >= clear ? k.sky_missing_at_top : k.sky_missing;
                } else {
                    row = (d * k.steps + k.half_step) / k.unit;
                    sum[i] = static_cast<Sum>(d) << DOUBLED;
                    part[i][0] = 1;
                    const float px = static_cast<float>(d) / unit;
                    if (v < end) part[i][1] = gauss_cost(px, g.x, g.y, g.z, k.ground_outlier);
                    if (v >= sky_row) part[i][2] = gauss_cost(px, 0.0f, k.sky_base, k.sky_weight, k.sky_outlier);
                }
                object_rows[v] = static_cast<std::uint16_t>(row);
            }
        }
        // Sums up to the end of this thread's rows, then of the whole block.
        Sum sum_here = warp_prefix_sum(static_cast<Sum>(sum[0] + sum[1]));
        int here[3];
#pragma unroll
        for (int i = 0; i < 3; ++i) here[i] = warp_prefix_sum(part[0][i] + part[1][i]);
        if (lane == WARP - 1) {
            total_sum[warp] = sum_here;
#pragma unroll
            for (int i = 0; i < 3; ++i) totals[i * MAX_WARPS + warp] = here[i];
        }
        __syncthreads();
        const int warps = threads / WARP;
        const Sum sum_to = warp_prefix_sum(lane < warps ? total_sum[lane] : Sum(0));
        sum_here += sum_before + (warp > 0 ? __shfl_sync(ALL_LANES, sum_to, warp - 1) : Sum(0));
        sum_before += __shfl_sync(ALL_LANES, sum_to, warps - 1);
#pragma unroll
        for (int i = 0; i < 3; ++i) {
            const int to = warp_prefix_sum(lane < warps ? totals[i * MAX_WARPS + lane] : 0);
            here[i] += before[i] + (warp > 0 ? __shfl_sync(ALL_LANES, to, warp - 1) : 0);
            before[i] += __shfl_sync(ALL_LANES, to, warps - 1);
        }
        const int v = base + 2 * tid;
        if (v < h) {
            sums[v + 1] = sum_here - sum[1];
            counts[v + 1] = static_cast<typename T::Count>(here[0] - part[1][0]);
            ground()[v + 1] = here[1] - part[1][1];
            sky()[v + 1] = here[2] - part[1][2];
        }
        if (v + 1 < h) {
            sums[v + 2] = sum_here;
            counts[v + 2] = static_cast<typename T::Count>(here[0]);
            ground()[v + 2] = here[1];
            sky()[v + 2] = here[2];
        }
        __syncthreads();
    }
    if (tid == 0) keys[0] = T::INF;
}

}  // namespace stixel
}  // namespace roadloop
