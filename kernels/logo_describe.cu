// Orientation and descriptor of each point, a block a point, a warp a word of the descriptor (rules 6
// and 7 of the contract); then their list without gaps.
#include "logo.cuh"

using namespace roadloop;
using namespace roadloop::logo;

namespace {

constexpr int BINS = 36;
constexpr int MAX_ORIENTATIONS = 4;
constexpr int WARPS = 4;
constexpr int FRACTION = 18;

// As the host's features::cuda::Keypoint.
struct Keypoint {
    float x, y, sigma, response;
    std::uint32_t angle;
    std::int32_t octave;
    std::uint32_t layer;
    std::int32_t sign;
};
static_assert(sizeof(Keypoint) == 32, "two times 16 bytes");

struct Descriptor {
    std::uint32_t words[8];
};

}  // namespace

struct DescribeParams {
    const std::uint32_t *window;         // [scale][WINDOW], as u16 on the host
    const std::uint8_t *window_radius;   // [scale]
    const float *sigma;                  // [scale]
    const std::int32_t *sigma_fixed;     // [scale]
    const std::int32_t *turn;            // cosines, then sines
    const std::uint64_t *pattern;        // x0, y0, x1, y1 of 16 bits each
    float least, edge;
    std::uint32_t oriented, most_orientations, each, scaled, drop, unscaled_octave, unscaled_layer;
    std::uint32_t reserved;
};

namespace {

// Nearest bin and length of a gradient, as orientation::direction.
__device__ void direction(int dx, int dy, unsigned &bin, unsigned &length) {
    const float fx = static_cast<float>(abs(dx)), fy = static_cast<float>(abs(dy));
    const float high = fmaxf(fx, fy), low = fminf(fx, fy);
    const float t = high > 0.0f ? low / high : 0.0f;
    const float q = t * t;
    float angle = t * (5.728812f + q * (-1.8925068f + q * (1.0322359f + q * (-0.48790857f + q * 0.11943298f))));
    angle = fy > fx ? 9.0f - angle : angle;
    angle = dx < 0 ? 18.0f - angle : angle;
    angle = dy < 0 ? 36.0f - angle : angle;
    int whole = static_cast<int>(angle + 0.5f);
    if (whole >= BINS) whole -= BINS;
    bin = static_cast<unsigned>(whole);
    length = static_cast<unsigned>(static_cast<int>(sqrtf(static_cast<float>(dx * dx + dy * dy))));
}

struct Shared {
    std::uint32_t bins[BINS];
    std::uint32_t smooth[WARPS][BINS];
    std::uint32_t ranks[WARPS];
    Point point;
};

__device__ void histogram(Shared &s, const std::uint16_t *level, int pitch, Extent size, int x, int y, int radius,
                          const std::uint32_t *weights) {
    const int left = max(x - radius, 1), right = min(x + radius, size.width - 2);
    const int top = max(y - radius, 1), bottom = min(y + radius, size.height - 2);
    const unsigned columns = static_cast<unsigned>(right - left + 1);
    const unsigned n = columns * static_cast<unsigned>(bottom - top + 1);
    // i / columns for i < 2,300 and columns < 48: exact, since i * (columns - 1) < 2^20.
    const unsigned inverse = ((1u << 20) + columns - 1u) / columns;
#pragma unroll 2
    for (unsigned i = threadIdx.x; i < n; i += WARPS * WARP) {
        const unsigned row = (i * inverse) >> 20;
        const int v = top + static_cast<int>(row), u = left + static_cast<int>(i - row * columns);
        const std::uint16_t *at = level + static_cast<std::size_t>(v) * pitch + u;
        const int dx = static_cast<int>(__ldg(at + 1)) - static_cast<int>(__ldg(at - 1));
        const int dy = static_cast<int>(__ldg(at + pitch)) - static_cast<int>(__ldg(at - pitch));
        unsigned bin, length;
        direction(dx, dy, bin, length);
        const unsigned weight = __ldg(weights + abs(u - x)) * __ldg(weights + abs(v - y));
        atomicAdd(&s.bins[bin], (length * weight) >> 12);
    }
}

// Directions of a histogram, as orientation::peaks; the same in all threads.
__device__ int peaks(Shared &s, int most, unsigned *angles) {
    const int lane = lane_id();
    std::uint32_t *smooth = s.smooth[warp_id()];
    unsigned value[2] = {0, 0};
    for (int half = 0; half < 2; ++half) {
        const int i = lane + half * WARP;
        if (i >= BINS) continue;
        const auto at = [&](int d) { return s.bins[(i + BINS + d) % BINS]; };
        value[half] = at(-2) + at(2) + 4 * (at(-1) + at(1)) + 6 * at(0);
        smooth[i] = value[half];
    }
    unsigned highest = max(value[0], value[1]);
#pragma unroll
    for (int o = WARP / 2; o > 0; o /= 2) highest = max(highest, __shfl_xor_sync(ALL_LANES, highest, o));
    __syncwarp();
    // Higher first, of equals the first bin; 0: no peak.
    unsigned long long own[2] = {0, 0};
    for (int half = 0; half < 2; ++half) {
        const int i = lane + half * WARP;
        if (i >= BINS) continue;
        const unsigned before = smooth[(i + BINS - 1) % BINS], after = smooth[(i + 1) % BINS];
        const bool peak = value[half] > before && value[half] >= after &&
                          5ull * value[half] >= 4ull * highest;
        if (peak) own[half] = static_cast<unsigned long long>(value[half]) << 8 | static_cast<unsigned>(64 - i);
    }
    unsigned long long chosen = 0;
    for (int n = 0; n < most; ++n) {
        unsigned long long best = max(own[0], own[1]);
#pragma unroll
        for (int o = WARP / 2; o > 0; o /= 2) best = max(best, __shfl_xor_sync(ALL_LANES, best, o));
        if (best == 0) break;
        chosen |= 1ull << (64 - static_cast<int>(best & 0xff));
        if (own[0] == best) own[0] = 0;
        if (own[1] == best) own[1] = 0;
    }
    int n = 0;
#pragma unroll
    for (int slot = 0; slot < MAX_ORIENTATIONS; ++slot) {
        angles[slot] = 0;
        if (chosen == 0) continue;
        const int i = __ffsll(static_cast<long long>(chosen)) - 1;
        chosen &= chosen - 1;
        const float l = static_cast<float>(smooth[(i + BINS - 1) % BINS]);
        const float c = static_cast<float>(smooth[i]), r = static_cast<float>(smooth[(i + 1) % BINS]);
        const float offset = 0.5f * (l - r) / (l - 2.0f * c + r);
        const float angle = (static_cast<float>(i) + offset) * (static_cast<float>(ANGLES) / static_cast<float>(BINS));
        angles[slot] = static_cast<unsigned>(static_cast<int>(angle + static_cast<float>(ANGLES) + 0.5f) % ANGLES);
        n = slot + 1;
    }
    return n > 0 ? n : 1;
}

// Where a descriptor reads, as brief::Placement.
struct Placement {
    int x, y, fx, fy, cos, sin;
};

__device__ unsigned sample(const std::uint16_t *level, int pitch, Extent size, const Placement &p, int u, int v) {
    const int dx = p.cos * u - p.sin * v + p.fx, dy = p.sin * u + p.cos * v + p.fy;
    const unsigned a = static_cast<unsigned>(dx >> (FRACTION - 8)) & 255u;
    const unsigned b = static_cast<unsigned>(dy >> (FRACTION - 8)) & 255u;
    const int x = p.x + (dx >> FRACTION), y = p.y + (dy >> FRACTION);
    const int x0 = min(max(x, 0), size.width - 1), x1 = min(max(x + 1, 0), size.width - 1);
    const std::uint16_t *above = level + static_cast<std::size_t>(min(max(y, 0), size.height - 1)) * pitch;
    const std::uint16_t *below = level + static_cast<std::size_t>(min(max(y + 1, 0), size.height - 1)) * pitch;
    const unsigned top = __ldg(above + x0) * (256u - a) + __ldg(above + x1) * a;
    const unsigned bottom = __ldg(below + x0) * (256u - a) + __ldg(below + x1) * a;
    return top * (256u - b) + bottom * b;
}

// A word of the descriptor, in all lanes.
__device__ std::uint32_t describe(const std::uint16_t *level, int pitch, Extent size, const Placement &p,
                                  std::uint64_t pair) {
    const auto part = [pair](int i) { return static_cast<int>(static_cast<std::int16_t>(pair >> (16 * i))); };
    const bool darker =
        sample(level, pitch, size, p, part(0), part(1)) < sample(level, pitch, size, p, part(2), part(3));
    return __ballot_sync(ALL_LANES, darker);
}

}  // namespace

// `slots` and `slot_descriptors` have `each` entries a point, in the order of the list; `flags`
// has the number of a point's orientations, and in bits 4 to 7 which of them stay.
extern "C" __global__ void __launch_bounds__(WARPS * WARP)
    logo_describe(Geometry g, DescribeParams p, const Region *region, const std::uint16_t *levels,
                  const std::uint32_t *chosen, const Counts *counts, Keypoint *slots, Descriptor *slot_descriptors,
                  std::uint8_t *flags) {
    __shared__ Shared s;
    const Region r = *region;
    const std::uint32_t kept = counts->kept;
    if (blockIdx.x >= kept) return;
    const std::uint32_t position = chosen[blockIdx.x];
    const Place place = place_of(g, r, position);
    int x = place.x, y = place.y, layer = place.layer;
    const std::uint16_t *own = levels + g.offset[place.octave];
    const int pitch = static_cast<int>(g.pitch[place.octave]);
    // One warp refines, which is one step here, where the point rests; the others find its rank.
    if (warp_id() == 0) {
        Point point;
        newton(own, g.plane[place.octave], pitch, x, y, layer, p.least, p.edge, point);
        if (lane_id() == 0) {
            s.point = point;
            s.ranks[0] = 0;
        }
        for (int b = lane_id(); b < BINS; b += WARP) s.bins[b] = 0;
    } else {
        std::uint32_t rank = 0;
#pragma unroll 4
        for (std::uint32_t j = threadIdx.x - WARP; j < kept; j += (WARPS - 1) * WARP)
            rank += __ldg(chosen + j) < position ? 1u : 0u;
        rank = warp_sum(rank);
        if (lane_id() == 0) s.ranks[warp_id()] = rank;
    }
    __syncthreads();
    const Point point = s.point;
    std::uint32_t rank = 0;
#pragma unroll
    for (int w = 0; w < WARPS; ++w) rank += s.ranks[w];
    const std::uint16_t *level = own + static_cast<std::size_t>(layer) * g.plane[place.octave];
    const float in_layers = (static_cast<float>(layer) + point.layer) * 64.0f;
    const int scale = static_cast<int>(in_layers + 0.5f);

    unsigned angles[MAX_ORIENTATIONS] = {0, 0, 0, 0};
    int orientations = 1;
    if (p.oriented) {
        histogram(s, level, pitch, place.size, x, y, p.window_radius[scale], p.window + scale * WINDOW);
        __syncthreads();
        orientations = peaks(s, static_cast<int>(p.most_orientations), angles);
    }
    const float distance = octave_step(g, place.octave);
    const float at_x = (static_cast<float>(x) + point.x) * distance;
    const float at_y = (static_cast<float>(y) + point.y) * distance;
    Placement to{x, y, static_cast<int>(point.x * 262144.0f), static_cast<int>(point.y * 262144.0f), 0, 0};
    Extent size = place.size;
    int size_fixed = p.sigma_fixed[scale], read_pitch = pitch;
    const std::uint16_t *read = level;
    if (!p.scaled) {
        // At the image's own pixels, where there is such an octave.
        int octave = static_cast<int>(p.unscaled_octave);
        size = octave < static_cast<int>(g.octaves) ? octave_size(g, r, octave) : Extent{0, 0};
        if (size.width == 0) size = octave_size(g, r, octave = 0);
        const float step = octave_step(g, octave);
        const float u = at_x / step, v = at_y / step;
        to.x = static_cast<int>(u + 0.5f);
        to.y = static_cast<int>(v + 0.5f);
        to.fx = static_cast<int>((u - static_cast<float>(to.x)) * 262144.0f);
        to.fy = static_cast<int>((v - static_cast<float>(to.y)) * 262144.0f);
        size_fixed = 2 << 10;
        read_pitch = static_cast<int>(g.pitch[octave]);
        read = levels + g.offset[octave] + p.unscaled_layer * g.plane[octave];
    }
    const int reach = (size_fixed * 12 >> 10) + 2;
    const bool inside = to.x >= reach && to.x + reach < size.width && to.y >= reach && to.y + reach < size.height;
    const std::size_t slot = static_cast<std::size_t>(rank) * p.each;
    if (!p.drop || inside) {
#pragma unroll
        for (int o = 0; o < MAX_ORIENTATIONS; ++o) {
            if (o >= orientations) continue;
            to.cos = (size_fixed * p.turn[angles[o]] + (1 << 13)) >> 14;
            to.sin = (size_fixed * p.turn[ANGLES + angles[o]] + (1 << 13)) >> 14;
#pragma unroll
            for (int word = 0; word < 8; word += WARPS) {
                const int own_word = word + warp_id();
                const std::uint64_t pair = __ldg(p.pattern + own_word * WARP + lane_id());
                const std::uint32_t bits = describe(read, read_pitch, size, to, pair);
                if (lane_id() == 0) slot_descriptors[slot + o].words[own_word] = bits;
            }
            if (threadIdx.x == 0) {
                Keypoint k;
                k.x = fminf(fmaxf(at_x, 0.0f), static_cast<float>(r.width - 1)) + static_cast<float>(r.x);
                k.y = fminf(fmaxf(at_y, 0.0f), static_cast<float>(r.height - 1)) + static_cast<float>(r.y);
                k.sigma = p.sigma[scale] * distance;
                k.response = fabsf(point.value) / 64.0f;
                k.angle = angles[o];
                k.octave = place.octave - static_cast<int>(g.upsample);
                k.layer = static_cast<std::uint32_t>(layer);
                k.sign = point.value > 0.0f ? 1 : -1;
                slots[slot + o] = k;
            }
        }
    }
    if (threadIdx.x == 0) {
        const unsigned stay = p.drop && !inside ? 0u : (1u << orientations) - 1u;
        flags[rank] = static_cast<std::uint8_t>(static_cast<unsigned>(orientations) | stay << 4);
    }
}

namespace {

constexpr int GATHER = 256;

// Sum over the block, in each thread.
__device__ std::uint32_t block_sum(std::uint32_t value, std::uint32_t *shared) {
    value = warp_sum(value);
    __syncthreads();
    if (lane_id() == 0) shared[warp_id()] = value;
    __syncthreads();
    std::uint32_t sum = 0;
    for (int w = 0; w < GATHER / WARP; ++w) sum += shared[w];
    return sum;
}

}  // namespace

// A thread a point: its keypoints to their places in the list.
extern "C" __global__ void __launch_bounds__(GATHER)
    logo_gather(std::uint32_t each, const std::uint8_t *flags, const Keypoint *slots,
                const Descriptor *slot_descriptors, Keypoint *keypoints, Descriptor *descriptors,
                std::uint32_t *original, Counts *counts) {
    __shared__ std::uint32_t shared[GATHER / WARP];
    const std::uint32_t kept = counts->kept;
    const std::uint32_t first = blockIdx.x * GATHER;
    if (first >= kept && blockIdx.x > 0) return;
    // Keypoints before this block's, in the low half; of all orientations, in the high.
    std::uint32_t stay = 0, all = 0;
    for (std::uint32_t i = threadIdx.x; i < first; i += GATHER) {
        stay += static_cast<std::uint32_t>(__popc(flags[i] >> 4));
        all += flags[i] & 15u;
    }
    const std::uint32_t stay_before = block_sum(stay, shared);
    const std::uint32_t all_before = block_sum(all, shared);
    const std::uint32_t i = first + threadIdx.x;
    const std::uint32_t flag = i < kept ? flags[i] : 0u;
    const std::uint32_t own = static_cast<std::uint32_t>(__popc(flag >> 4)), own_all = flag & 15u;
    std::uint32_t to = warp_prefix_sum_exclusive(own), number = warp_prefix_sum_exclusive(own_all);
    __shared__ std::uint32_t warps[2][GATHER / WARP];
    if (lane_id() == WARP - 1) {
        warps[0][warp_id()] = to + own;
        warps[1][warp_id()] = number + own_all;
    }
    __syncthreads();
    to += stay_before;
    number += all_before;
    for (int w = 0; w < warp_id(); ++w) {
        to += warps[0][w];
        number += warps[1][w];
    }
    for (std::uint32_t o = 0; o < own_all; ++o, ++number) {
        if ((flag >> 4 >> o & 1u) == 0) continue;
        const std::size_t slot = static_cast<std::size_t>(i) * each + o;
        const uint4 *k = reinterpret_cast<const uint4 *>(slots + slot);
        const uint4 *d = reinterpret_cast<const uint4 *>(slot_descriptors + slot);
        uint4 *to_k = reinterpret_cast<uint4 *>(keypoints + to), *to_d = reinterpret_cast<uint4 *>(descriptors + to);
        to_k[0] = k[0];
        to_k[1] = k[1];
        to_d[0] = d[0];
        to_d[1] = d[1];
        original[to] = number;
        ++to;
    }
    // The last point's thread has the totals.
    if (kept == 0 ? i == 0 : i == kept - 1) {
        counts->count = to;
        counts->oriented = number;
    }
}
