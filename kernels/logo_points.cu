// Extrema of the difference of Gaussians, their refinement, and which of them stay (rules 3 to 5 of
// the contract). Lists are written in any order: what stays depends on the set alone, and the
// kernel that describes points finds their ranks.
#include "logo.cuh"

using namespace roadloop;
using namespace roadloop::logo;

namespace {

constexpr int TILE_W = 32, TILE_H = 16, THREADS = 256;

// None of the 26 neighbours is in the way; those before in the order (layer, y, x) may be equal.
template <typename D>
__device__ bool is_extreme(const D &d, int layer, int y, int x, int v) {
    const int sign = v > 0 ? 1 : -1;
    v *= sign;
    const auto stands = [&](int l, int j, int i) {
        const int other = sign * d[layer + l][y + j][x + i];
        return 9 * l + 3 * j + i < 0 ? v >= other : v > other;
    };
    // On a slope one of these is in the way: a warp seldom gets further.
    if (!stands(0, 0, -1) || !stands(0, 0, 1) || !stands(0, -1, 0) || !stands(0, 1, 0)) return false;
#pragma unroll
    for (int l = -1; l <= 1; ++l) {
#pragma unroll
        for (int j = -1; j <= 1; ++j) {
#pragma unroll
            for (int i = -1; i <= 1; ++i) {
                if (l == 0 && (j == 0 || i == 0)) continue;
                if (!stands(l, j, i)) return false;
            }
        }
    }
    return true;
}

// Room for the differences and the list of a tile.
constexpr int LAYERS = 5;
constexpr int MOST = 2 * (TILE_W / 2) * (TILE_H / 2) * ((LAYERS + 1) / 2);
using Row = std::int16_t[TILE_W + 4];
using Layer = Row[TILE_H + 2];
struct ExtremaShared {
    Layer d[LAYERS + 2];
    std::uint32_t list[MOST];
    std::uint32_t listed, base;
};

template <int S>
__device__ void extrema(ExtremaShared &shared, const Geometry &g, const Region &r, const std::uint16_t *levels, int octave, Extent size,
                        int x0, int y0, int pretest, std::uint32_t *candidates, Counts *counts) {
    Layer *d = shared.d;
    const std::size_t plane = g.plane[octave];
    const std::uint16_t *level = levels + g.offset[octave];
    if (threadIdx.x == 0) shared.listed = 0;
    constexpr int AROUND = (TILE_W + 2) * (TILE_H + 2);
#pragma unroll
    for (int n = 0; n < (AROUND + THREADS - 1) / THREADS; ++n) {
        const int i = static_cast<int>(threadIdx.x) + n * THREADS;
        if (i >= AROUND) continue;
        const int u = i % (TILE_W + 2), v = i / (TILE_W + 2);
        const int x = min(max(x0 + u - 1, 0), size.width - 1), y = min(max(y0 + v - 1, 0), size.height - 1);
        const std::uint16_t *pixel = level + static_cast<std::size_t>(y) * g.pitch[octave] + x;
        int grey[S + 3];
#pragma unroll
        for (int l = 0; l < S + 3; ++l) grey[l] = __ldg(pixel + static_cast<std::size_t>(l) * plane);
#pragma unroll
        for (int l = 0; l < S + 2; ++l) d[l][v][u] = static_cast<std::int16_t>(grey[l + 1] - grey[l]);
    }
    __syncthreads();
    const std::uint32_t area = static_cast<std::uint32_t>(size.width) * static_cast<std::uint32_t>(size.height);
    for (int i = static_cast<int>(threadIdx.x); i < TILE_W * TILE_H; i += THREADS) {
        const int u = i % TILE_W, v = i / TILE_W, x = x0 + u, y = y0 + v;
        if (x < BORDER || y < BORDER || x >= size.width - BORDER || y >= size.height - BORDER) continue;
        for (int layer = 1; layer <= S; ++layer) {
            const int value = d[layer][v + 1][u + 1];
            if (abs(value) > pretest && is_extreme(d, layer, v + 1, u + 1, value)) {
                const std::uint32_t at = static_cast<std::uint32_t>(y) * static_cast<std::uint32_t>(size.width) +
                                         static_cast<std::uint32_t>(x);
                shared.list[atomicAdd(&shared.listed, 1u)] = static_cast<std::uint32_t>(layer - 1) * area + at;
            }
        }
    }
    __syncthreads();
    const std::uint32_t listed = shared.listed;
    if (listed == 0) return;
    if (threadIdx.x == 0) shared.base = atomicAdd(&counts->candidates, listed);
    __syncthreads();
    const std::uint32_t first = octave_position(g, r, octave);
    for (std::uint32_t i = threadIdx.x; i < listed; i += THREADS) candidates[shared.base + i] = first + shared.list[i];
}

}  // namespace

// Blocks of each octave from `octave` to `end - 1`: (pitch / 32) by `rows[octave]`.
struct Tiles {
    std::uint32_t octave, end;
    std::uint32_t blocks_x[MAX_OCTAVES], blocks[MAX_OCTAVES];
};

extern "C" __global__ void __launch_bounds__(THREADS)
    logo_extrema(Geometry g, Tiles tiles, const Region *region, const std::uint16_t *levels, std::int32_t pretest,
                 std::uint32_t *candidates, Counts *counts) {
    __shared__ ExtremaShared shared;
    const Region r = *region;
    std::uint32_t block = blockIdx.x;
    int octave = static_cast<int>(tiles.octave);
    while (octave + 1 < static_cast<int>(tiles.end) && block >= tiles.blocks[octave]) {
        block -= tiles.blocks[octave];
        ++octave;
    }
    const Extent size = octave_size(g, r, octave);
    const int x0 = static_cast<int>(block % tiles.blocks_x[octave]) * TILE_W;
    const int y0 = static_cast<int>(block / tiles.blocks_x[octave]) * TILE_H;
    if (x0 >= size.width - BORDER || y0 >= size.height - BORDER) return;
    switch (g.intervals) {
        case 2: extrema<2>(shared, g, r, levels, octave, size, x0, y0, pretest, candidates, counts); break;
        case 3: extrema<3>(shared, g, r, levels, octave, size, x0, y0, pretest, candidates, counts); break;
        case 4: extrema<4>(shared, g, r, levels, octave, size, x0, y0, pretest, candidates, counts); break;
        default: extrema<5>(shared, g, r, levels, octave, size, x0, y0, pretest, candidates, counts); break;
    }
}

// Cells that share out the points.
struct Cells {
    std::uint32_t side;  // 0: none
    std::uint32_t budget;
};

// A thread a candidate. Those that rest at one pixel are the same point: the first claims it. `usable` is
// 0 at pixels of the image where no point may be; null: anywhere.
extern "C" __global__ void __launch_bounds__(128)
    logo_refine(Geometry g, Cells cells, const Region *region, const std::uint16_t *levels,
                const std::uint32_t *candidates, float least, float edge, std::uint32_t *claims, std::uint64_t *keys,
                std::uint32_t *cell_of, Counts *counts, const std::uint8_t *usable) {
    const Region r = *region;
    const std::uint32_t n = counts->candidates;
    for (std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        const Place place = place_of(g, r, candidates[i]);
        int x = place.x, y = place.y, layer = place.layer;
        Point point;
        Step step = Step::moved;
        for (int round = 0; round < MAX_STEPS && step == Step::moved; ++round) {
            step = newton(levels + g.offset[place.octave], g.plane[place.octave],
                          static_cast<int>(g.pitch[place.octave]), x, y, layer, least, edge, point);
            const bool inside = x >= BORDER && y >= BORDER && x < place.size.width - BORDER &&
                                y < place.size.height - BORDER && layer >= 1 &&
                                layer <= static_cast<int>(g.intervals);
            if (step == Step::moved && !inside) step = Step::rejected;
        }
        if (step != Step::accepted) continue;
        if (usable != nullptr) {
            const float distance = octave_step(g, place.octave);
            const auto nearest = [](float v, std::uint32_t side) {
                return min(static_cast<std::uint32_t>(fmaxf(v + 0.5f, 0.0f)), side - 1);
            };
            const std::uint32_t column = r.x + nearest((static_cast<float>(x) + point.x) * distance, r.width);
            const std::uint32_t row = r.y + nearest((static_cast<float>(y) + point.y) * distance, r.height);
            if (usable[static_cast<std::size_t>(row) * g.image_pitch + column] == 0) continue;
        }
        const std::uint32_t width = static_cast<std::uint32_t>(place.size.width);
        const std::uint32_t height = static_cast<std::uint32_t>(place.size.height);
        const std::uint32_t at = (static_cast<std::uint32_t>(layer - 1) * height + static_cast<std::uint32_t>(y)) * width +
                                 static_cast<std::uint32_t>(x);
        const std::uint32_t position = octave_position(g, r, place.octave) + at;
        const std::uint32_t bit = 1u << (position % 32);
        if (atomicOr(&claims[position / 32], bit) & bit) continue;
        const std::uint32_t slot = atomicAdd(&counts->found, 1u);
        keys[slot] = static_cast<std::uint64_t>(__float_as_uint(fabsf(point.value))) << 32 | (~position & 0xffffffffu);
        if (cells.side > 0) {
            const float distance = octave_step(g, place.octave);
            const float fx = (static_cast<float>(x) + point.x) * distance;
            const float fy = (static_cast<float>(y) + point.y) * distance;
            const std::uint32_t columns = div_up(r.width, cells.side), rows = div_up(r.height, cells.side);
            const std::uint32_t column = min(static_cast<std::uint32_t>(fmaxf(fx, 0.0f)) / cells.side, columns - 1);
            const std::uint32_t row = min(static_cast<std::uint32_t>(fmaxf(fy, 0.0f)) / cells.side, rows - 1);
            cell_of[slot] = row * columns + column;
        }
    }
}

namespace {

struct SelectShared {
    std::uint32_t bins[256];
    unsigned long long any, all;
    std::uint32_t alive, digit, left, exact;
};

// The key from which on there are `most` keys that `alive(i)` holds for; 0 where there are no more.
// All threads of the block take part. Keys differ from each other.
template <int N, typename Alive>
__device__ std::uint64_t threshold(SelectShared &s, const std::uint64_t *keys, std::uint32_t n, std::uint32_t most,
                                   Alive alive) {
    if (threadIdx.x == 0) {
        s.any = 0;
        s.all = ~0ull;
        s.alive = 0;
    }
    __syncthreads();
    unsigned long long any = 0, all = ~0ull;
    std::uint32_t count = 0;
    for (std::uint32_t i = threadIdx.x; i < n; i += N) {
        if (!alive(i)) continue;
        any |= keys[i];
        all &= keys[i];
        ++count;
    }
    if (count > 0) {
        atomicOr(&s.any, any);
        atomicAnd(&s.all, all);
        atomicAdd(&s.alive, count);
    }
    __syncthreads();
    if (s.alive <= most) return 0;
    // Bits above are the same in all; the highest is a sign, never set.
    int bits = 64 - __clzll(static_cast<long long>(s.any ^ s.all));
    std::uint64_t prefix = bits > 63 ? 0 : s.any >> bits << bits;
    std::uint32_t left = most;
    while (bits > 0) {
        const int width = min(bits, 8), shift = bits - width;
        for (int i = static_cast<int>(threadIdx.x); i < 256; i += N) s.bins[i] = 0;
        __syncthreads();
        for (std::uint32_t i = threadIdx.x; i < n; i += N) {
            const std::uint64_t key = keys[i];
            if (key >> bits == prefix >> bits && alive(i))
                atomicAdd(&s.bins[static_cast<unsigned>(key >> shift) & ((1u << width) - 1u)], 1u);
        }
        __syncthreads();
        if (threadIdx.x < WARP) {
            // Lane 0 has the highest bins; how many keys lie in the lanes before?
            std::uint32_t own = 0;
            for (int b = 0; b < 8; ++b) own += s.bins[255 - 8 * lane_id() - b];
            std::uint32_t above = warp_prefix_sum_exclusive(own);
            if (above < left && above + own >= left) {
                int bin = 255 - 8 * lane_id();
                while (above + s.bins[bin] < left) above += s.bins[bin--];
                s.digit = static_cast<std::uint32_t>(bin);
                s.left = left - above;
                s.exact = s.bins[bin] == left - above;
            }
        }
        __syncthreads();
        prefix |= static_cast<std::uint64_t>(s.digit) << shift;
        left = s.left;
        bits = shift;
        const bool exact = s.exact != 0;
        __syncthreads();
        if (exact) break;
    }
    return prefix;
}

}  // namespace

// A block a cell: from which key on its points may stay.
extern "C" __global__ void __launch_bounds__(256)
    logo_cells(Cells cells, const std::uint64_t *keys, const std::uint32_t *cell_of, const Counts *counts,
               std::uint64_t *least) {
    __shared__ SelectShared shared;
    const std::uint32_t cell = blockIdx.x;
    const std::uint64_t key = threshold<256>(shared, keys, counts->found, cells.budget,
                                             [=](std::uint32_t i) { return cell_of[i] == cell; });
    if (threadIdx.x == 0) least[cell] = key;
}

// One block: the positions of the strongest points, in any order.
extern "C" __global__ void __launch_bounds__(1024)
    logo_select(Cells cells, std::uint32_t most, const std::uint64_t *keys, const std::uint32_t *cell_of,
                const std::uint64_t *least, std::uint32_t *chosen, Counts *counts) {
    __shared__ SelectShared shared;
    __shared__ std::uint32_t kept;
    const std::uint32_t n = counts->found;
    const auto alive = [=](std::uint32_t i) { return cells.side == 0 || keys[i] >= least[cell_of[i]]; };
    const std::uint64_t from = cells.side == 0 && n <= most ? 0 : threshold<1024>(shared, keys, n, most, alive);
    if (threadIdx.x == 0) kept = 0;
    __syncthreads();
    for (std::uint32_t i = threadIdx.x; i < n; i += 1024) {
        if (keys[i] >= from && alive(i)) chosen[atomicAdd(&kept, 1u)] = ~static_cast<std::uint32_t>(keys[i]);
    }
    __syncthreads();
    if (threadIdx.x == 0) counts->kept = kept;
}
