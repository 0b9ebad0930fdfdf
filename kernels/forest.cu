// Labels by a random forest (src/stage/forest): an image's sum tables, row by row and then column
// by column; then a pixel a thread down all trees, and the class with the greatest sum.
#include "forest.cuh"

using namespace roadloop;
using namespace roadloop::forest;

namespace {

constexpr int ROW_THREADS = 128;
constexpr int COLUMN_WARPS = 32;

// Lab::of has the contract: forest::colour. 256 entries of the linear table, 9 of the matrix, then
// the table of f.
struct Lab {
    const std::uint32_t *tables;

    __device__ void of(const std::uint32_t (&rgb)[3], std::uint32_t (&lab)[3]) const {
        const std::uint32_t *const matrix = tables + 256, *const f = matrix + 9;
        unsigned long long linear[3];
        int v[3];
#pragma unroll
        for (int i = 0; i < 3; ++i) linear[i] = tables[rgb[i]];
#pragma unroll
        for (int i = 0; i < 3; ++i) {
            const unsigned long long sum = matrix[3 * i] * linear[0] + matrix[3 * i + 1] * linear[1] + matrix[3 * i + 2] * linear[2];
            v[i] = static_cast<int>(f[(sum + (1u << 17)) >> 18]);
        }
        const auto steps = [](int t) { return (t + 512) >> 10; };
        constexpr int BIAS = 128 * 64;
        const auto sample = [](int t) { return static_cast<std::uint32_t>(min(max(t, 0), 65535)); };
        lab[0] = sample(steps(116 * v[1] - 16 * 65536));
        lab[1] = sample(steps(500 * (v[0] - v[1])) + BIAS);
        lab[2] = sample(steps(200 * (v[1] - v[2])) + BIAS);
    }
};

// Sums along rows of N samples a pixel; a warp a row. `samples(x, y, to)` is called inside.
template <int N, typename Samples>
__device__ void sum_rows(int width, int height, std::uint32_t *sums, Samples samples) {
    const int lane = lane_id(), y = static_cast<int>(blockIdx.x * (ROW_THREADS / WARP) + warp_id());
    if (y > height) return;
    const std::size_t stride = static_cast<std::size_t>(width) + 1, table = stride * (static_cast<std::size_t>(height) + 1);
    // The first row of a table is 0, and so is the first of each row.
    std::uint32_t *const to = sums + (y == height ? 0 : (y + 1) * stride);
    std::uint32_t carry[N] = {};
#pragma unroll
    for (int c = 0; c < N; ++c) {
        if (lane == 0) to[c * table] = 0;
    }
    for (int first = 0; first < width; first += WARP) {
        const int x = first + lane;
        std::uint32_t own[N] = {};
        if (x < width && y < height) samples(x, y, own);
#pragma unroll
        for (int c = 0; c < N; ++c) {
            const std::uint32_t sum = carry[c] + warp_prefix_sum(own[c]);
            if (x < width) to[c * table + x + 1] = sum;
            carry[c] = __shfl_sync(ALL_LANES, sum, WARP - 1);
        }
    }
}

}  // namespace

// `lab`: null where samples are the image's own.
extern "C" __global__ void __launch_bounds__(ROW_THREADS)
    forest_rows_grey(Params p, const std::uint8_t *image, const std::uint32_t *lab, std::uint32_t *sums) {
    if (lab) {
        sum_rows<3>(p.width, p.height, sums, [&](int x, int y, std::uint32_t(&to)[3]) {
            const std::uint32_t grey = image[static_cast<std::size_t>(y) * p.width + x];
            const std::uint32_t rgb[3] = {grey, grey, grey};
            Lab{lab}.of(rgb, to);
        });
    } else {
        sum_rows<1>(p.width, p.height, sums, [&](int x, int y, std::uint32_t(&to)[1]) {
            to[0] = image[static_cast<std::size_t>(y) * p.width + x];
        });
    }
}

extern "C" __global__ void __launch_bounds__(ROW_THREADS)
    forest_rows_rgb(Params p, const std::uint8_t *image, const std::uint32_t *lab, std::uint32_t *sums) {
    sum_rows<3>(p.width, p.height, sums, [&](int x, int y, std::uint32_t(&to)[3]) {
        const std::uint8_t *const at = image + 3 * (static_cast<std::size_t>(y) * p.width + x);
        const std::uint32_t rgb[3] = {at[0], at[1], at[2]};
        if (lab) {
            Lab{lab}.of(rgb, to);
        } else {
#pragma unroll
            for (int c = 0; c < 3; ++c) to[c] = rgb[c];
        }
    });
}

// Steps of depth from disparities by a table, or (without one) as they come; 0 everywhere without
// either. With `fill` missing pixels take the nearest to their right, else the nearest to their
// left; `last` keeps of each row whether it has any. A warp a row.
extern "C" __global__ void __launch_bounds__(ROW_THREADS)
    forest_depth(Params p, const std::uint16_t *from, const std::uint16_t *steps, int fill, std::uint16_t *depth,
                 std::uint32_t *last) {
    const int lane = lane_id(), y = static_cast<int>(blockIdx.x * (ROW_THREADS / WARP) + warp_id());
    if (y >= p.height) return;
    std::uint16_t *const row = depth + static_cast<std::size_t>(y) * p.width;
    const std::uint16_t *const there = from + (from ? static_cast<std::size_t>(y) * p.width : 0);
    unsigned carry = 0, rightmost = 0;
    int end = p.width;  // of what is right of the last pixel that has depth
    for (int first = (p.width - 1) / WARP * WARP; first >= 0; first -= WARP) {
        const int x = first + lane;
        unsigned own = 0;
        if (from && x < p.width) own = steps ? steps[there[x]] : there[x];
        if (fill) {
            const unsigned mask = __ballot_sync(ALL_LANES, own != 0);
            const unsigned right = mask >> lane;
            const unsigned near = __shfl_sync(ALL_LANES, own, right ? lane + __ffs(right) - 1 : lane);
            if (carry == 0 && mask) {
                const int at = 31 - __clz(mask);
                rightmost = __shfl_sync(ALL_LANES, own, at);
                end = first + at + 1;
            }
            own = right ? near : carry;
            carry = __shfl_sync(ALL_LANES, own, 0);
        }
        if (x < p.width) row[x] = static_cast<std::uint16_t>(own);
    }
    if (fill) {
        if (rightmost) {
            // The same thread wrote these before.
            for (int x = end + (lane + WARP - end % WARP) % WARP; x < p.width; x += WARP) row[x] = static_cast<std::uint16_t>(rightmost);
        }
        if (lane == 0) last[y] = rightmost;
    }
}

// Rows without depth take the nearest row above that has some, else the nearest below. A warp a row.
extern "C" __global__ void __launch_bounds__(ROW_THREADS)
    forest_fill(Params p, const std::uint32_t *last, std::uint16_t *depth) {
    const int lane = lane_id(), y = static_cast<int>(blockIdx.x * (ROW_THREADS / WARP) + warp_id());
    if (y >= p.height || last[y]) return;
    int from = y - 1;
    while (from >= 0 && !last[from]) --from;
    if (from < 0) {
        from = y + 1;
        while (from < p.height && !last[from]) ++from;
        if (from == p.height) return;
    }
    // Rows with depth are written by none.
    const std::uint16_t *const source = depth + static_cast<std::size_t>(from) * p.width;
    std::uint16_t *const row = depth + static_cast<std::size_t>(y) * p.width;
    for (int x = lane; x < p.width; x += WARP) row[x] = source[x];
}

// Sums of depth along rows, and behind them those of the pixels that have one.
extern "C" __global__ void __launch_bounds__(ROW_THREADS)
    forest_rows_depth(Params p, const std::uint16_t *depth, std::uint32_t *sums) {
    sum_rows<2>(p.width, p.height, sums, [&](int x, int y, std::uint32_t(&to)[2]) {
        to[0] = depth[static_cast<std::size_t>(y) * p.width + x];
        to[1] = to[0] > 0;
    });
}

// From sums along rows to sum tables: a block has 32 columns of a table (blockIdx.y), a warp a part
// of their rows.
extern "C" __global__ void __launch_bounds__(COLUMN_WARPS *WARP) forest_columns(Params p, std::uint32_t *sums) {
    __shared__ std::uint32_t part[COLUMN_WARPS][WARP];
    const int lane = lane_id(), warp = warp_id();
    const std::size_t stride = static_cast<std::size_t>(p.width) + 1, table = stride * (static_cast<std::size_t>(p.height) + 1);
    const std::size_t x = static_cast<std::size_t>(blockIdx.x) * WARP + lane;
    const bool inside = x < stride;
    std::uint32_t *const own = sums + blockIdx.y * table + (inside ? x : 0);
    const int rows = div_up(p.height + 1, COLUMN_WARPS);
    const int from = min(warp * rows, p.height + 1), to = min(from + rows, p.height + 1);
    std::uint32_t sum = 0;
#pragma unroll 4
    for (int y = from; y < to; ++y) sum += own[y * stride];
    part[warp][lane] = sum;
    __syncthreads();
    sum = 0;
    for (int w = 0; w < warp; ++w) sum += part[w][lane];
    if (!inside) return;
#pragma unroll 4
    for (int y = from; y < to; ++y) {
        sum += own[y * stride];
        own[y * stride] = sum;
    }
}

namespace {

// The pixel of a cell of the grid.
__device__ int judged(int cell, int step, int side) { return min(cell * step + step / 2, side - 1); }

template <typename Feature>
__device__ void label(const Params &p, const Planes &planes, const Split *splits, const std::uint32_t *roots,
                      const std::uint16_t *posteriors, const std::uint8_t *indices, std::uint32_t *leaves,
                      std::uint8_t *labels, std::uint16_t *confidence, std::uint16_t *all) {
    const std::size_t cells = static_cast<std::size_t>(p.grid_width) * p.grid_height, cell = global_index();
    if (cell >= cells) return;
    const int x = judged(static_cast<int>(cell % p.grid_width), p.step, p.width);
    const int y = judged(static_cast<int>(cell / p.grid_width), p.step, p.height);
    const bool nothing = p.void_without_depth && planes.depth[static_cast<std::size_t>(y) * p.width + x] == 0;
    if (!nothing) {
        for (int t = 0; t < p.trees; ++t) {
            std::uint32_t at = roots[t];
            while (!(at & AT_LEAF)) {
                const int4 *const source = reinterpret_cast<const int4 *>(splits + at);
                Split split;
                reinterpret_cast<int4 *>(&split)[0] = __ldg(source);
                reinterpret_cast<int4 *>(&split)[1] = __ldg(source + 1);
                at = Feature::response(p, planes, split, x, y) > split.tau ? split.right : split.left;
            }
            // Read by this thread alone.
            leaves[t * cells + cell] = (at & ~AT_LEAF) * static_cast<std::uint32_t>(p.classes);
        }
    }
    std::uint32_t best = 0;
    int winner = 0;
    for (int c = 0; c < p.classes; ++c) {
        std::uint32_t sum = 0;
        if (!nothing) {
            for (int t = 0; t < p.trees; ++t) sum += __ldg(posteriors + leaves[t * cells + cell] + c);
        }
        if (all) all[cell * p.classes + c] = static_cast<std::uint16_t>(sum / p.trees);
        if (sum > best) {
            best = sum;
            winner = c;
        }
    }
    labels[cell] = best > 0 ? indices[winner] : static_cast<std::uint8_t>(p.blank);
    confidence[cell] = static_cast<std::uint16_t>(best / p.trees);
}

}  // namespace

#define LABEL(NAME, FEATURE)                                                                                        \
    extern "C" __global__ void __launch_bounds__(256)                                                               \
        NAME(Params p, Planes planes, const Split *splits, const std::uint32_t *roots, const std::uint16_t *posteriors, \
             const std::uint8_t *indices, std::uint32_t *leaves, std::uint8_t *labels, std::uint16_t *confidence,   \
             std::uint16_t *all) {                                                                                  \
        label<FEATURE>(p, planes, splits, roots, posteriors, indices, leaves, labels, confidence, all);             \
    }
LABEL(forest_label_region, RegionFeature)
LABEL(forest_label_rgbd, RgbdFeature)
LABEL(forest_label_depth, DepthFeature)
