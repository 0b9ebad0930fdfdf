// What is done to the winners: median, speckles, gaps (rules 9 to 12).
#include "stereo.cuh"

using namespace roadloop;

namespace {

__device__ inline void order(u32 &a, u32 &b) {
    const u32 least = min_pair(a, b);
    b = max_pair(a, b);
    a = least;
}

// The median among `sorted`, invalid ones last, in the half from bit `shift` on.
__device__ inline u32 median_of(const u32 *sorted, int shift) {
    auto at = [&](int i) { return sorted[i] >> shift & 0xffffu; };
    u32 value = at(0);
#pragma unroll
    for (int i = 1; i <= 4; i++)
        if (at(2 * i) != INVALID) value = at(i);
    return value;
}

}  // namespace

// Median of the valid ones of 3x3. Blocks of 32 x 8 for 64 x 8 pixels.
extern "C" __global__ void __launch_bounds__(256) stereo_median(const u16 *winners, u16 *out, u32 width, u32 height) {
    __shared__ __align__(4) u16 tile[10][68];
    const int w = static_cast<int>(width), h = static_cast<int>(height);
    const int x0 = static_cast<int>(blockIdx.x) * 64, y0 = static_cast<int>(blockIdx.y) * 8;
    const int tx = static_cast<int>(threadIdx.x), ty = static_cast<int>(threadIdx.y);
    for (int i = ty; i < 10; i += 8) {
        const int y = y0 - 1 + i;
        for (int j = tx; j < 68; j += 32) {
            const int x = x0 - 2 + j;
            const bool inside = x >= 0 && x < w && y >= 0 && y < h;
            tile[i][j] = inside ? winners[static_cast<std::size_t>(y) * width + x] : INVALID;
        }
    }
    __syncthreads();
    const int x = x0 + 2 * tx, y = y0 + ty;
    if (x >= w || y >= h) return;
    // Two pixels at once: the windows of x in the low halves, those of x + 1 in the high ones.
    u32 v[9];
#pragma unroll
    for (int i = 0; i < 3; i++) {
        const u32 *words = reinterpret_cast<const u32 *>(tile[ty + i]) + tx;
        v[3 * i] = bytes_of(words[0], words[1], 0x5432);
        v[3 * i + 1] = words[1];
        v[3 * i + 2] = bytes_of(words[1], words[2], 0x5432);
    }
    const u32 centre = v[4];
    // A sorting network.
    constexpr int NETWORK[25][2] = {{0, 3}, {1, 7}, {2, 5}, {4, 8}, {0, 7}, {2, 4}, {3, 8}, {5, 6}, {0, 2},
                                    {1, 3}, {4, 5}, {7, 8}, {1, 4}, {3, 6}, {5, 7}, {0, 1}, {2, 4}, {3, 5},
                                    {6, 8}, {2, 3}, {4, 5}, {6, 7}, {1, 2}, {3, 4}, {5, 6}};
#pragma unroll
    for (int i = 0; i < 25; i++) order(v[NETWORK[i][0]], v[NETWORK[i][1]]);
    u16 *to = out + static_cast<std::size_t>(y) * width + x;
    to[0] = static_cast<u16>((centre & 0xffffu) == INVALID ? INVALID : median_of(v, 0));
    if (x + 1 < w) to[1] = static_cast<u16>(centre >> 16 == INVALID ? INVALID : median_of(v, 16));
}

namespace {

// Regions are trees of pixels: a label is another pixel of the region with a smaller index, or
// the pixel itself at the root. Labels only fall, so any order of the work ends in the same trees'
// roots: the first pixel of each region.
// The way is halved as it is walked: a label is replaced by its label's label, which stays in the tree.
__device__ inline u32 root_of(u32 *labels, u32 pixel) {
    volatile u32 *now = labels;
    u32 above = now[pixel];
    while (above != pixel) {
        const u32 next = now[above];
        if (next == above) return above;
        now[pixel] = next;
        pixel = next;
        above = now[pixel];
    }
    return pixel;
}

// The same, changing nothing.
__device__ inline u32 find_root(const u32 *labels, u32 pixel) {
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
    // Nobody else writes this label any more: all runs end up right below their roots.
    const u32 root = find_root(labels, at);
    labels[at] = root;
    // How often it is counted past the limit changes nothing.
    const volatile u32 *now = areas;
    if (now[root] <= max_area) atomicAdd(areas + root, static_cast<u32>(end - lane_id()));
}

namespace {

// The value `t` of `n` steps from a to b, in 1/16 px.
__device__ inline u16 between(u32 a, u32 b, u32 t, u32 n) {
    return static_cast<u16>((a / 16 * (n - t) + b / 16 * t + n / 2) / n * 16);
}

// The bits below and above bit `at`.
__device__ inline u32 bits_below(u32 bits, int at) { return bits & ((1u << at) - 1); }
__device__ inline u32 bits_above(u32 bits, int at) { return bits & ~((2u << at) - 1); }
__device__ inline int highest_of(u32 bits) { return 31 - __clz(static_cast<int>(bits)); }
__device__ inline int lowest_of(u32 bits) { return __ffs(static_cast<int>(bits)) - 1; }

}  // namespace

// Removes the speckles (where `labels` is not null) and closes the gaps of each row. A block of 256
// a row; dynamic shared memory: a bit a pixel, which are valid, in whole words; then 2 bytes a pixel.
extern "C" __global__ void __launch_bounds__(256)
    stereo_gaps_rows(const u16 *disparity, const u32 *labels, const u32 *areas, u16 *out, u32 width, u32 max_area, u32 max_len,
                     u32 max_step) {
    extern __shared__ u32 valid[];
    const u32 start = blockIdx.x * width, words = div_up(width, 32u);
    u16 *values = reinterpret_cast<u16 *>(valid + words);
    for (u32 x = threadIdx.x; x < 32 * words; x += 256) {
        u16 value = INVALID;
        if (x < width) {
            value = disparity[start + x];
            // A pixel's run is its label, and its run's label by now the root.
            if (labels != nullptr && value != INVALID && areas[labels[labels[start + x]]] <= max_area) value = INVALID;
            values[x] = value;
        }
        const u32 bits = __ballot_sync(ALL_LANES, value != INVALID);
        if (lane_id() == 0) valid[x / 32] = bits;
    }
    __syncthreads();
    const int w = static_cast<int>(width), limit = static_cast<int>(max_len);
    for (int x = static_cast<int>(threadIdx.x); x < w; x += 256) {
        u16 value = values[x];
        if (value == INVALID && limit > 0) {
            const int lowest = max(x - limit, 0);
            int word = x / 32;
            u32 near = bits_below(valid[word], x % 32);
            while (near == 0 && 32 * word > lowest) near = valid[--word];
            const int before = near == 0 ? -1 : 32 * word + highest_of(near);
            if (before >= lowest) {
                const int highest = min(before + limit + 1, w - 1);
                word = x / 32;
                near = bits_above(valid[word], x % 32);
                while (near == 0 && 32 * word + 32 <= highest) near = valid[++word];
                const int after = near == 0 ? w : 32 * word + lowest_of(near);
                if (after <= highest) {
                    const int a = values[before], b = values[after];
                    if (abs(a - b) <= static_cast<int>(max_step)) value = between(a, b, x - before, after - before);
                }
            }
        }
        out[start + x] = value;
    }
}

// Closes the gaps of each column and masks (where `mask` is not null). Blocks of 32 x 4 for 32 x 128
// pixels: a thread has 32 rows of a column.
extern "C" __global__ void __launch_bounds__(128)
    stereo_gaps_columns(const u16 *disparity, const u8 *mask, u16 *out, u32 width, u32 height, u32 max_len, u32 max_step) {
    // Which of a thread's rows are valid.
    __shared__ u32 valid[4][32];
    const int tx = static_cast<int>(threadIdx.x), ty = static_cast<int>(threadIdx.y);
    const int x = static_cast<int>(blockIdx.x) * 32 + tx, y0 = (static_cast<int>(blockIdx.y) * 4 + ty) * 32;
    const int w = static_cast<int>(width), h = static_cast<int>(height), limit = static_cast<int>(max_len);
    const int rows = x < w ? min(max(h - y0, 0), 32) : 0;
    const u16 *column = disparity + x;
    auto value_at = [&](int y) { return column[static_cast<std::size_t>(y) * width]; };
    u32 own = 0;
#pragma unroll 8
    for (int i = 0; i < 32; i++)
        if (i < rows) own |= static_cast<u32>(value_at(y0 + i) != INVALID) << i;
    valid[ty][tx] = own;
    __syncthreads();
#pragma unroll 2
    for (int i = 0; i < rows; i++) {
        const int y = y0 + i;
        const std::size_t at = static_cast<std::size_t>(y) * width + x;
        u16 value = disparity[at];
        if (mask != nullptr && mask[at] == 0) {
            value = INVALID;
        } else if (value == INVALID && limit > 0) {
            const int lowest = max(y - limit, 0);
            int part = ty, first = y0;
            u32 near = bits_below(own, i);
            while (near == 0 && part > 0 && first > lowest) {
                near = valid[--part][tx];
                first -= 32;
            }
            int before = first - 1;
            if (near != 0)
                before = first + highest_of(near);
            else
                while (before >= lowest && value_at(before) == INVALID) before--;
            if (before >= lowest) {
                const int highest = min(before + limit + 1, h - 1);
                part = ty;
                first = y0;
                near = bits_above(own, i);
                while (near == 0 && part < 3 && first + 32 <= highest) {
                    near = valid[++part][tx];
                    first += 32;
                }
                int after = first + 32;
                if (near != 0)
                    after = first + lowest_of(near);
                else
                    while (after <= highest && value_at(after) == INVALID) after++;
                if (after <= highest) {
                    const int a = value_at(before), b = value_at(after);
                    if (abs(a - b) <= static_cast<int>(max_step)) value = between(a, b, y - before, after - before);
                }
            }
        }
        out[at] = value;
    }
}
