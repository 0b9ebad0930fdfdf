// What is done to the winners: left-right check, median, speckles, gaps (rules 8 to 12).
#include "stereo.cuh"

using namespace roadloop;

namespace {

__device__ inline void order(u32 &a, u32 &b) {
    const u32 least = min(a, b);
    b = max(a, b);
    a = least;
}

}  // namespace

// Left-right check (where `right` is not null: the disparity of each right pixel, INVALID = none)
// and median of 3x3 (where `median`). Blocks of 32 x 8.
extern "C" __global__ void __launch_bounds__(256)
    stereo_check(const u16 *winners, const u8 *best, const u16 *right, u16 *out, u32 width, u32 height, u32 left_right_max,
                 u32 median) {
    __shared__ u16 tile[10][34];
    const int w = static_cast<int>(width), h = static_cast<int>(height);
    const int x0 = static_cast<int>(blockIdx.x) * 32, y0 = static_cast<int>(blockIdx.y) * 8;
    const int tx = static_cast<int>(threadIdx.x), ty = static_cast<int>(threadIdx.y);
    for (int i = 32 * ty + tx; i < 340; i += 256) {
        const int x = x0 - 1 + i % 34, y = y0 - 1 + i / 34;
        u16 value = INVALID;
        if (x >= 0 && x < w && y >= 0 && y < h) {
            const std::size_t row = static_cast<std::size_t>(y) * width;
            value = winners[row + x];
            if (value != INVALID && right != nullptr) {
                const int d = best[row + x];
                const u16 other = right[row + x - d];
                if (other == INVALID || abs(static_cast<int>(other) - d) > static_cast<int>(left_right_max)) value = INVALID;
            }
        }
        tile[i / 34][i % 34] = value;
    }
    __syncthreads();
    const int x = x0 + tx, y = y0 + ty;
    if (x >= w || y >= h) return;
    u32 v[9];
    u32 valid = 0;
#pragma unroll
    for (int i = 0; i < 9; i++) {
        v[i] = tile[ty + i / 3][tx + i % 3];
        valid += v[i] != INVALID;
    }
    u32 value = v[4];
    if (median && value != INVALID) {
        // A sorting network; invalid is the largest value and ends up behind the valid ones.
        constexpr int NETWORK[25][2] = {{0, 3}, {1, 7}, {2, 5}, {4, 8}, {0, 7}, {2, 4}, {3, 8}, {5, 6}, {0, 2},
                                        {1, 3}, {4, 5}, {7, 8}, {1, 4}, {3, 6}, {5, 7}, {0, 1}, {2, 4}, {3, 5},
                                        {6, 8}, {2, 3}, {4, 5}, {6, 7}, {1, 2}, {3, 4}, {5, 6}};
#pragma unroll
        for (int i = 0; i < 25; i++) order(v[NETWORK[i][0]], v[NETWORK[i][1]]);
        value = v[0];
        value = valid > 2 ? v[1] : value;
        value = valid > 4 ? v[2] : value;
        value = valid > 6 ? v[3] : value;
        value = valid > 8 ? v[4] : value;
    }
    out[static_cast<std::size_t>(y) * width + x] = static_cast<u16>(value);
}

namespace {

// Regions are trees of pixels: a label is another pixel of the region with a smaller index, or
// the pixel itself at the root. Labels only fall, so any order of the work ends in the same trees'
// roots: the first pixel of each region.
__device__ inline u32 root_of(const u32 *labels, u32 pixel) {
    const volatile u32 *now = labels;
    u32 above = now[pixel];
    while (above != pixel) {
        pixel = above;
        above = now[pixel];
    }
    return pixel;
}

__device__ inline void join(u32 *labels, u32 a, u32 b) {
    for (;;) {
        a = root_of(labels, a);
        b = root_of(labels, b);
        if (a == b) return;
        const u32 child = max(a, b), parent = min(a, b);
        const u32 was = atomicMin(labels + child, parent);
        if (was == child) return;
        // Someone else was first: the two trees still have to be joined.
        a = was;
        b = parent;
    }
}

__device__ inline bool connected(u32 a, u32 b, u32 max_step) {
    return a != INVALID && b != INVALID && (a > b ? a - b : b - a) <= max_step;
}

// First lane of the run of connected pixels that this lane's is in; the warp has 32 pixels of a row.
__device__ inline int run_start(bool joins_left) {
    const unsigned starts = __ballot_sync(ALL_LANES, !joins_left);
    return 31 - __clz(static_cast<int>(starts & (ALL_LANES >> (31 - lane_id()))));
}

}  // namespace

// Labels: each pixel has the first of its run among 32 pixels of the row. Blocks of 32 x 8.
extern "C" __global__ void stereo_speckle_runs(const u16 *disparity, u32 *labels, u32 *areas, u32 width, u32 height, u32 max_step) {
    const u32 x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    const u32 at = y * width + x;
    const bool inside = x < width && y < height;
    const u32 value = inside ? disparity[at] : INVALID;
    const u32 left = __shfl_up_sync(ALL_LANES, value, 1);
    const bool joins = lane_id() > 0 && connected(value, left, max_step);
    const int start = run_start(joins);
    if (!inside) return;
    labels[at] = at - lane_id() + start;
    areas[at] = 0;
}

// Joins runs with those left of and above them. Blocks of 32 x 8.
extern "C" __global__ void stereo_speckle_join(const u16 *disparity, u32 *labels, u32 width, u32 height, u32 max_step) {
    const u32 x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    if (x >= width || y >= height) return;
    const u32 at = y * width + x;
    const u32 value = disparity[at];
    if (value == INVALID) return;
    const u32 left = x > 0 ? disparity[at - 1] : INVALID;
    const bool joins_left = connected(value, left, max_step);
    if (threadIdx.x == 0 && joins_left) join(labels, at, at - 1);
    if (y == 0) return;
    const u32 above = disparity[at - width];
    if (!connected(value, above, max_step)) return;
    // Where the pixels on the left make the same connection, they do it.
    if (joins_left && threadIdx.x > 0) {
        const u32 corner = disparity[at - width - 1];
        if (connected(left, corner, max_step) && connected(above, corner, max_step)) return;
    }
    join(labels, at, at - width);
}

// Areas at the roots, counted until they are large enough. Blocks of 32 x 8.
extern "C" __global__ void stereo_speckle_areas(const u16 *disparity, u32 *labels, u32 *areas, u32 width, u32 height,
                                                u32 max_step, u32 max_area) {
    const u32 x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    const u32 at = y * width + x;
    const bool inside = x < width && y < height;
    const u32 value = inside ? disparity[at] : INVALID;
    const u32 left = __shfl_up_sync(ALL_LANES, value, 1);
    const bool joins = lane_id() > 0 && connected(value, left, max_step);
    const unsigned starts = __ballot_sync(ALL_LANES, !joins);
    if (value == INVALID || joins) return;
    const unsigned later = lane_id() == 31 ? 0 : starts & (ALL_LANES << (lane_id() + 1));
    const int end = later == 0 ? 32 : __ffs(static_cast<int>(later)) - 1;
    const u32 root = root_of(labels, at);
    // How often it is counted past the limit changes nothing.
    const volatile u32 *now = areas;
    if (now[root] <= max_area) atomicAdd(areas + root, static_cast<u32>(end - lane_id()));
}

// Removes the speckles (where `labels` is not null) and closes the gaps of each row. A block of 256
// a row, 2 bytes of dynamic shared memory a pixel.
extern "C" __global__ void __launch_bounds__(256)
    stereo_gaps_rows(const u16 *disparity, const u32 *labels, const u32 *areas, u16 *out, u32 width, u32 max_area, u32 max_len,
                     u32 max_step) {
    extern __shared__ u16 values[];
    const u32 start = blockIdx.x * width;
    for (u32 x = threadIdx.x; x < width; x += 256) {
        u16 value = disparity[start + x];
        if (labels != nullptr && value != INVALID && areas[root_of(labels, start + x)] <= max_area) value = INVALID;
        values[x] = value;
    }
    __syncthreads();
    const int w = static_cast<int>(width), limit = static_cast<int>(max_len);
    for (int x = static_cast<int>(threadIdx.x); x < w; x += 256) {
        u16 value = values[x];
        if (value == INVALID && limit > 0) {
            int before = x - 1;
            const int lowest = max(x - limit, 0);
            while (before >= lowest && values[before] == INVALID) before--;
            if (before >= lowest) {
                const int highest = min(before + limit + 1, w - 1);
                int after = x + 1;
                while (after <= highest && values[after] == INVALID) after++;
                if (after <= highest) {
                    const int a = values[before], b = values[after];
                    if (abs(a - b) <= static_cast<int>(max_step)) {
                        const u32 n = after - before, t = x - before;
                        value = static_cast<u16>((static_cast<u32>(a / 16) * (n - t) + static_cast<u32>(b / 16) * t + n / 2) / n * 16);
                    }
                }
            }
        }
        out[start + x] = value;
    }
}

// Closes the gaps of each column and masks (where `mask` is not null). Blocks of 32 x 8.
extern "C" __global__ void stereo_gaps_columns(const u16 *disparity, const u8 *mask, u16 *out, u32 width, u32 height,
                                               u32 max_len, u32 max_step) {
    const int x = static_cast<int>(blockIdx.x * 32 + threadIdx.x), y = static_cast<int>(blockIdx.y * 8 + threadIdx.y);
    const int w = static_cast<int>(width), h = static_cast<int>(height), limit = static_cast<int>(max_len);
    if (x >= w || y >= h) return;
    const std::size_t at = static_cast<std::size_t>(y) * width + x;
    u16 value = disparity[at];
    if (mask != nullptr && mask[at] == 0) {
        value = INVALID;
    } else if (value == INVALID && limit > 0) {
        const u16 *column = disparity + x;
        auto value_at = [&](int y) { return column[static_cast<std::size_t>(y) * width]; };
        int before = y - 1;
        const int lowest = max(y - limit, 0);
        while (before >= lowest && value_at(before) == INVALID) before--;
        if (before >= lowest) {
            const int highest = min(before + limit + 1, h - 1);
            int after = y + 1;
            while (after <= highest && value_at(after) == INVALID) after++;
            if (after <= highest) {
                const int a = value_at(before), b = value_at(after);
                if (abs(a - b) <= static_cast<int>(max_step)) {
                    const u32 n = after - before, t = y - before;
                    value = static_cast<u16>((static_cast<u32>(a / 16) * (n - t) + static_cast<u32>(b / 16) * t + n / 2) / n * 16);
                }
            }
        }
    }
    out[at] = value;
}
