// Extrema of the difference of Gaussians, their refinement, and which of them stay (rules 3 to 5 of
// the contract). Lists are written in any order: what stays depends on the set alone, and the
// kernel that describes points finds their ranks.
#include "logo.cuh"

using namespace roadloop;
using namespace roadloop::logo;

namespace {

// A block looks for extrema in 60 by 16 pixels; it reads two columns and a row more at each side.
constexpr int TILE_W = 60, TILE_H = 16, THREADS = 256, WARPS = THREADS / WARP;
constexpr int REGION_W = 2 * WARP, REGION_H = TILE_H + 2, ASIDE = 2, RUN = TILE_H / WARPS;
// Levels are below 2^14: so much more than a difference is above 0, and two of them are taken at once.
constexpr int ZERO = 0x4000;

// Room for the differences and the lists of a tile.
constexpr int LAYERS = 5;
constexpr int MOST = 2 * (TILE_W / 2) * (TILE_H / 2) * ((LAYERS + 1) / 2);
using Row = std::uint16_t[REGION_W];
using Layer = Row[REGION_H];
struct ExtremaShared {
    Layer d[LAYERS + 2];
    // Pixels of one layer that stand out in their row and column, and of the next.
    std::uint16_t likely[2][TILE_W * TILE_H];
    std::uint32_t likelies[2];
    std::uint16_t list[MOST];
    std::uint32_t listed, base;
};

// Where an entry of the lists is: column, row of the region, layer.
__device__ inline std::uint16_t entry_of(int u, int v, int layer) {
    return static_cast<std::uint16_t>(u | v << 6 | layer << 11);
}
static_assert(REGION_W <= 64 && REGION_H <= 32 && LAYERS < 31, "bits of an entry");

// None of the 26 neighbours is in the way; those before in the order (layer, y, x) may be equal.
__device__ bool is_extreme(const Layer *d, int layer, int y, int x) {
    int v = d[layer][y][x];
    const int sign = v > ZERO ? 1 : -1;
    v *= sign;
#pragma unroll
    for (int l = -1; l <= 1; ++l) {
        bool stands = true;
#pragma unroll
        for (int j = -1; j <= 1; ++j) {
#pragma unroll
            for (int i = -1; i <= 1; ++i) {
                if (l == 0 && (j == 0 || i == 0)) continue;
                const int other = sign * d[layer + l][y + j][x + i];
                stands &= 9 * l + 3 * j + i < 0 ? v >= other : v > other;
            }
        }
        if (!stands) return false;
    }
    return true;
}

// Lists the pixels of a layer that are far enough from 0 and before which none of the four next to
// them comes: a warp two rows, a lane two columns of them.
__device__ inline void list_likely(ExtremaShared &shared, int layer, int x0, int y0, Extent size, int pretest) {
    std::uint32_t found = 0;
#pragma unroll
    for (int side = 0; side < 2; ++side) {
        const int u = lane_id() + side * WARP, first = warp_id() * RUN + 1;
        const bool column = u >= ASIDE && u < ASIDE + TILE_W && x0 + u - ASIDE >= BORDER &&
                            x0 + u - ASIDE < size.width - BORDER;
        const int left = max(u - 1, 0), right = min(u + 1, REGION_W - 1);
        int own[RUN + 2];
#pragma unroll
        for (int j = 0; j < RUN + 2; ++j) own[j] = shared.d[layer][first - 1 + j][u];
#pragma unroll
        for (int j = 0; j < RUN; ++j) {
            const int y = y0 + first - 1 + j;
            const int v = own[j + 1], up = own[j], down = own[j + 2];
            const int before = shared.d[layer][first + j][left], after = shared.d[layer][first + j][right];
            const bool high = v > ZERO && v - ZERO > pretest && v >= max(up, before) && v > max(down, after);
            const bool low = v <= ZERO && ZERO - v > pretest && v <= min(up, before) && v < min(down, after);
            const bool there = column && y >= BORDER && y < size.height - BORDER;
            found |= (there && (high || low) ? 1u : 0u) << (side * RUN + j);
        }
    }
    if (!__any_sync(ALL_LANES, found != 0)) return;
    const std::uint32_t own = static_cast<std::uint32_t>(__popc(found));
    const std::uint32_t before = warp_prefix_sum_exclusive(own);
    std::uint32_t at = 0;
    if (lane_id() == WARP - 1) at = atomicAdd(&shared.likelies[layer & 1], before + own);
    at = __shfl_sync(ALL_LANES, at, WARP - 1) + before;
#pragma unroll
    for (int k = 0; k < 2 * RUN; ++k) {
        if (!(found >> k & 1)) continue;
        shared.likely[layer & 1][at++] =
            entry_of(lane_id() + k / RUN * WARP, warp_id() * RUN + 1 + k % RUN, layer);
    }
}

template <int S>
__device__ void extrema(ExtremaShared &shared, const Geometry &g, const Region &r, const std::uint16_t *levels, int octave, Extent size,
                        int x0, int y0, int pretest, std::uint32_t *candidates, Counts *counts) {
    Layer *d = shared.d;
    const std::size_t plane = g.plane[octave];
    const int pitch = static_cast<int>(g.pitch[octave]);
    if (threadIdx.x == 0) shared.listed = shared.likelies[0] = shared.likelies[1] = 0;
    {
        // Pixels outside the image are never compared with, but are read inside the level.
        const int x = min(max(x0 - ASIDE + 2 * lane_id(), 0), pitch - 2);
        const std::uint16_t *const column = levels + g.offset[octave] + x;
        constexpr int OWN = (REGION_H + WARPS - 1) / WARPS;
#pragma unroll
        for (int n = 0; n < OWN; ++n) {
            const int v = warp_id() + n * WARPS;
            if (v >= REGION_H) continue;
            const int y = min(max(y0 + v - 1, 0), size.height - 1);
            const std::uint16_t *const pixel = column + static_cast<std::size_t>(y) * pitch;
            std::uint32_t two[S + 3];
#pragma unroll
            for (int l = 0; l < S + 3; ++l) {
                two[l] = __ldg(reinterpret_cast<const std::uint32_t *>(pixel + static_cast<std::size_t>(l) * plane));
            }
#pragma unroll
            for (int l = 0; l < S + 2; ++l) {
                *reinterpret_cast<std::uint32_t *>(&d[l][v][2 * lane_id()]) =
                    two[l + 1] + (ZERO | ZERO << 16) - two[l];
            }
        }
    }
    __syncthreads();
    list_likely(shared, 1, x0, y0, size, pretest);
    __syncthreads();
#pragma unroll 1
    for (int layer = 1; layer <= S; ++layer) {
        const std::uint32_t n = shared.likelies[layer & 1];
        if (layer < S) list_likely(shared, layer + 1, x0, y0, size, pretest);
        for (std::uint32_t i = threadIdx.x; i < n; i += THREADS) {
            const std::uint16_t entry = shared.likely[layer & 1][i];
            if (is_extreme(d, layer, entry >> 6 & 31, entry & 63)) {
                shared.list[atomicAdd(&shared.listed, 1u)] = entry;
            }
        }
        __syncthreads();
        // The list after the next one begins where this one was.
        if (threadIdx.x == 0) shared.likelies[layer & 1] = 0;
        __syncthreads();
    }
    const std::uint32_t listed = shared.listed;
    if (listed == 0) return;
    if (threadIdx.x == 0) shared.base = atomicAdd(&counts->candidates, listed);
    __syncthreads();
    const std::uint32_t first = octave_position(g, r, octave);
    const std::uint32_t area = static_cast<std::uint32_t>(size.width) * static_cast<std::uint32_t>(size.height);
    for (std::uint32_t i = threadIdx.x; i < listed; i += THREADS) {
        const std::uint32_t entry = shared.list[i];
        const int x = x0 + static_cast<int>(entry & 63) - ASIDE, y = y0 + static_cast<int>(entry >> 6 & 31) - 1;
        const std::uint32_t at = static_cast<std::uint32_t>(y) * static_cast<std::uint32_t>(size.width) +
                                 static_cast<std::uint32_t>(x);
        candidates[shared.base + i] = first + ((entry >> 11) - 1) * area + at;
    }
}

}  // namespace

// Blocks of each octave from `octave` to `end - 1`, and how many of them lie side by side.
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
