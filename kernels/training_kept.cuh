// The best split of a node from responses that were kept, in place of histograms of a whole level:
// where those do not fit into the device's memory, the responses of a level lie in the host's,
// which kernels read and write in place. Each is written once and read once, in whole lines of 128
// bytes. Gains and their order are training_score's and training_best's.
#pragma once
#include "training.cuh"

namespace roadloop {
namespace training {

constexpr std::uint32_t KEEP_WARPS = 4;
constexpr std::uint32_t SPLIT_WARPS = 8;

// Rows of 32 candidates' responses: [node][32 candidates][pixel of the node]. Of a Place, `base`
// is then how many pixels the nodes before have.
__device__ inline std::size_t kept_row(const Place &place, std::uint32_t tiles, std::uint32_t tile) {
    return static_cast<std::size_t>(place.base) * tiles + static_cast<std::size_t>(tile) * place.pixels;
}

// Responses of a batch's pixels, {x and y, view, place, which of the node's pixels}. A warp has a
// pixel and 32 candidates (blockIdx.y).
template <typename Feature>
__device__ void keep(const Options &o, const std::uint32_t *planes, const View *views, const uint4 *pixels, std::uint32_t n,
                     const Place *places, const Theta *thetas, std::uint32_t candidates, std::int32_t *responses) {
    const std::size_t at = static_cast<std::size_t>(blockIdx.x) * KEEP_WARPS + static_cast<std::size_t>(warp_id());
    if (at >= n) return;
    const uint4 pixel = pixels[at];
    const std::uint32_t lane = static_cast<std::uint32_t>(lane_id()), i = blockIdx.y * WARP + lane;
    int r = UNANSWERED;
    if (i < candidates) r = response<Feature>(o, planes, views, pixel.y, question(thetas, static_cast<std::size_t>(pixel.z) * candidates + i), pixel.x);
    const std::size_t row = kept_row(places[pixel.z], gridDim.y, blockIdx.y) + pixel.w;
    responses[row * WARP + lane] = r;
}

// What is split; the same fields as in src/training/cuda/kernels.rs.
struct Kept {
    const std::uint32_t *items;  // places
    const Place *places;
    const std::uint32_t *totals, *weights;
    const Theta *thetas;
    const std::uint32_t *picks;    // of each place, which pixels' responses are thresholds; null: uniform
    const std::uint8_t *classes;   // of each pixel, among its node's
    const std::int32_t *responses;
    Result *results;               // [place][32 candidates]
    std::uint32_t *lefts;          // [place][32 candidates][class]
    std::uint32_t first, candidates, thresholds, unused;
};

// The best of 32 candidates (blockIdx.y) of a node (blockIdx.x), and what goes left there. Shared
// memory has a histogram ([bin][class][candidate]; before it, thresholds as they were drawn),
// sorted thresholds, and their order.
template <typename Feature>
__device__ void split(const Options &o, const Xlog &xlog, const Kept &k) {
    extern __shared__ std::uint32_t shared[];
    __shared__ std::int64_t best_gains[SPLIT_WARPS * WARP];
    __shared__ std::uint32_t best_ranks[SPLIT_WARPS * WARP], best_drawn[SPLIT_WARPS * WARP];
    const std::uint32_t lane = static_cast<std::uint32_t>(lane_id()), warp = static_cast<std::uint32_t>(warp_id());
    const std::uint32_t warps = blockDim.x / WARP, tile = blockIdx.y, tiles = gridDim.y, i = tile * WARP + lane;
    const bool there = i < k.candidates;
    const std::size_t at = k.items[blockIdx.x];
    const Place place = k.places[at];
    const std::uint32_t t = k.thresholds, classes = place.classes, row = classes * WARP;
    std::uint32_t *const histogram = shared;
    std::int32_t *const drawn = reinterpret_cast<std::int32_t *>(shared);
    std::int32_t *const sorted = reinterpret_cast<std::int32_t *>(shared + (t + 1) * row);
    std::uint16_t *const order = reinterpret_cast<std::uint16_t *>(sorted + t * WARP);
    const std::int32_t *const responses = k.responses + kept_row(place, tiles, tile) * WARP + lane;

    if (k.picks == nullptr) {
        if (warp == 0) {
            const Range range = there ? Feature::range(k.thetas[at * k.candidates + i], o) : Range{0, 0};
            Words words(o, THRESHOLDS, place.heap, k.first + i);
            for (std::uint32_t j = 0; j < t; ++j) drawn[j * WARP + lane] = words.within(range.low, range.high);
        }
    } else {
        for (std::uint32_t j = warp; j < t; j += warps) {
            const std::int32_t r = responses[static_cast<std::size_t>(k.picks[at * t + j]) * WARP];
            drawn[j * WARP + lane] = r != UNANSWERED ? r : LARGEST;
        }
    }
    __syncthreads();
    for (std::uint32_t j = warp; j < t; j += warps) {
        const std::int32_t own = drawn[j * WARP + lane];
        std::uint32_t rank = 0;
        for (std::uint32_t l = 0; l < t; ++l) {
            const std::int32_t other = drawn[l * WARP + lane];
            rank += other < own || (other == own && l < j);
        }
        sorted[rank * WARP + lane] = own;
        order[rank * WARP + lane] = static_cast<std::uint16_t>(j);
    }
    __syncthreads();
    for (std::uint32_t c = threadIdx.x; c < (t + 1) * row; c += blockDim.x) histogram[c] = 0;
    __syncthreads();

    // Some at a time: what comes from the host is long on its way.
    constexpr std::uint32_t AHEAD = 4;
    const std::uint8_t *const classes_of = k.classes + place.base;
    for (std::uint32_t s = warp; s < place.pixels; s += AHEAD * warps) {
        std::int32_t r[AHEAD];
        std::uint32_t c[AHEAD];
#pragma unroll
        for (std::uint32_t a = 0; a < AHEAD; ++a) {
            const std::uint32_t pixel = s + a * warps;
            if (pixel >= place.pixels) continue;
            r[a] = responses[static_cast<std::size_t>(pixel) * WARP];
            c[a] = classes_of[pixel];
        }
#pragma unroll
        for (std::uint32_t a = 0; a < AHEAD; ++a) {
            if (s + a * warps >= place.pixels) continue;
            atomicAdd(histogram + bin_of(sorted + lane, WARP, t, r[a]) * row + c[a] * WARP + lane, 1u);
        }
    }
    __syncthreads();

    // Bins become left counts.
    for (std::uint32_t c = warp; c < classes; c += warps) {
        std::uint32_t sum = 0, *cell = histogram + c * WARP + lane;
        for (std::uint32_t rank = 0; rank < t; ++rank, cell += row) {
            sum += *cell;
            *cell = sum;
        }
    }
    __syncthreads();
    const std::uint32_t *const totals = k.totals + place.first_class, *const weights = k.weights + place.first_class;
    std::uint64_t all = 0;
    std::int64_t purity = 0;
    for (std::uint32_t c = 0; c < classes; ++c) {
        const std::uint64_t n = static_cast<std::uint64_t>(totals[c]) * weights[c];
        all += n;
        purity += xlog.of(n);
    }
    const std::int64_t base = xlog.of(all) - purity;
    std::int64_t best = INT64_MIN;
    std::uint32_t best_rank = NONE, best_threshold = 0;
    for (std::uint32_t rank = warp; rank < t && there; rank += warps) {
        const std::uint32_t *const cells = histogram + rank * row + lane;
        std::uint64_t left = 0;
        std::int64_t sum = 0;
        for (std::uint32_t c = 0; c < classes; ++c) {
            const std::uint64_t w = weights[c], n = totals[c] * w, l = cells[c * WARP] * w;
            sum += xlog.of(l) + xlog.of(n - l);
            left += l;
        }
        if (left == 0 || left == all) continue;
        const std::int64_t gain = base + sum - xlog.of(left) - xlog.of(all - left);
        const std::uint32_t own = order[rank * WARP + lane];
        if (best_rank == NONE || gain > best || (gain == best && own < best_threshold)) {
            best = gain;
            best_rank = rank;
            best_threshold = own;
        }
    }
    best_gains[threadIdx.x] = best;
    best_ranks[threadIdx.x] = best_rank;
    best_drawn[threadIdx.x] = best_threshold;
    __syncthreads();
    if (warp > 0) return;
    for (std::uint32_t other = lane + WARP; other < blockDim.x; other += WARP) {
        if (best_ranks[other] == NONE) continue;
        const std::int64_t gain = best_gains[other];
        const std::uint32_t own = best_drawn[other];
        if (best_rank == NONE || gain > best || (gain == best && own < best_threshold)) {
            best = gain;
            best_rank = best_ranks[other];
            best_threshold = own;
        }
    }
    // The first candidate among equals.
    std::uint32_t f = best_rank == NONE ? NONE : i;
    for (int apart = WARP / 2; apart > 0; apart /= 2) {
        const std::int64_t gain = __shfl_xor_sync(ALL_LANES, best, apart);
        const std::uint32_t its = __shfl_xor_sync(ALL_LANES, f, apart), rank = __shfl_xor_sync(ALL_LANES, best_rank, apart);
        if (precedes(gain, its, best, f)) {
            best = gain;
            f = its;
            best_rank = rank;
        }
    }
    const std::size_t unit = at * tiles + tile;
    const std::uint32_t candidate = f % WARP;
    if (lane == 0) {
        Result result = {};
        result.candidate = f;
        if (f != NONE) {
            result.gain = best;
            result.tau = sorted[best_rank * WARP + candidate];
            const uint4 theta = *reinterpret_cast<const uint4 *>(k.thetas + at * k.candidates + f);
            result.theta[0] = theta.x;
            result.theta[1] = theta.y;
            result.theta[2] = theta.z;
            result.theta[3] = theta.w;
        }
        k.results[unit] = result;
    }
    std::uint32_t *const lefts = k.lefts + static_cast<std::size_t>(place.first_class) * tiles + static_cast<std::size_t>(tile) * classes;
    for (std::uint32_t c = lane; c < classes; c += WARP) lefts[c] = f == NONE ? 0 : histogram[best_rank * row + c * WARP + candidate];
}

}  // namespace training
}  // namespace roadloop
