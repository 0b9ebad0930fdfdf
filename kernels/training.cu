// The forest's trainer (src/training/cuda): images' tables, candidates, histograms of a slice of
// the frontier and the best split of each node. The contract is src/training's; all of it are
// whole numbers, so that no order of additions decides anything.
//
// Candidates of a node lie side by side in all tables ([node][threshold][candidate],
// [node][bin][class][candidate]): a lane is a candidate, a warp asks 32 of them about one pixel.
#include "training_kept.cuh"

using namespace roadloop;
using namespace roadloop::training;

namespace {

constexpr int ROW_WARPS = 4;
constexpr int COLUMN_WARPS = 32;
constexpr int DIRECT_WARPS = 4;
constexpr int BEST_THREADS = 128;

// What a table of a view is made of: its channels, then the sums of depths and of the pixels that
// have one, then depth itself.
struct Tables {
    std::int32_t channels, depth_sums, depth;
    __device__ int count() const { return channels + 2 * depth_sums + depth; }
};

}  // namespace

// Sums along rows of what was copied (samples of each channel, then depth); a warp a row of a table.
extern "C" __global__ void __launch_bounds__(ROW_WARPS *WARP)
    training_rows(Tables tables, const View *views, const std::uint16_t *raw, std::uint32_t *planes) {
    const View v = views[blockIdx.y];
    const int lane = lane_id(), line = static_cast<int>(blockIdx.x * ROW_WARPS + warp_id());
    const int rows = v.height + 1, k = line / rows, y = line % rows;
    if (k >= tables.count()) return;
    const std::size_t stride = static_cast<std::size_t>(v.width) + 1, table = stride * rows;
    const std::size_t area = static_cast<std::size_t>(v.width) * v.height;
    const bool last = y == v.height, coloured = k < tables.channels;
    const std::uint16_t *const from = raw + v.raw + (coloured ? k : tables.channels) * area + (last ? 0 : y * static_cast<std::size_t>(v.width));
    if (k >= tables.channels + 2 * tables.depth_sums) {
        if (last) return;
        std::uint16_t *const depth = reinterpret_cast<std::uint16_t *>(planes) + v.depth + y * static_cast<std::size_t>(v.width);
        for (int x = lane; x < v.width; x += WARP) depth[x] = from[x];
        return;
    }
    const bool counts = k == tables.channels + 1;
    std::uint32_t *const to = planes + (coloured ? v.sums + k * table : v.depth_sums + (counts ? table : 0)) + (last ? 0 : (y + 1) * stride);
    // The first row of a table is 0, and so is the first of each row.
    if (lane == 0) to[0] = 0;
    std::uint32_t carry = 0;
    for (int first = 0; first < v.width; first += WARP) {
        const int x = first + lane;
        std::uint32_t own = x < v.width && !last ? from[x] : 0;
        if (counts && !coloured) own = own > 0;
        const std::uint32_t sum = carry + warp_prefix_sum(own);
        if (x < v.width) to[x + 1] = sum;
        carry = __shfl_sync(ALL_LANES, sum, WARP - 1);
    }
}

// From sums along rows to sum tables: a block has 32 columns of a table (blockIdx.y) of a view
// (blockIdx.z), a warp a part of their rows.
extern "C" __global__ void __launch_bounds__(COLUMN_WARPS *WARP)
    training_columns(Tables tables, const View *views, std::uint32_t *planes) {
    __shared__ std::uint32_t part[COLUMN_WARPS][WARP];
    const View v = views[blockIdx.z];
    const int lane = lane_id(), warp = warp_id(), k = static_cast<int>(blockIdx.y);
    const std::size_t stride = static_cast<std::size_t>(v.width) + 1, table = stride * (static_cast<std::size_t>(v.height) + 1);
    const std::size_t x = static_cast<std::size_t>(blockIdx.x) * WARP + lane;
    const bool inside = x < stride;
    const std::size_t first = k < tables.channels ? v.sums + k * table : v.depth_sums + (k - tables.channels) * table;
    std::uint32_t *const own = planes + first + (inside ? x : 0);
    const int rows = div_up(v.height + 1, COLUMN_WARPS);
    const int from = min(warp * rows, v.height + 1), to = min(from + rows, v.height + 1);
    std::uint32_t sum = 0;
    for (int y = from; y < to; ++y) sum += own[y * stride];
    part[warp][lane] = sum;
    __syncthreads();
    sum = 0;
    for (int w = 0; w < warp; ++w) sum += part[w][lane];
    if (!inside) return;
    for (int y = from; y < to; ++y) {
        sum += own[y * stride];
        own[y * stride] = sum;
    }
}

namespace {

// Parameters of candidates from.. of each node, and uniform thresholds; else what is replaced.
template <typename Feature>
__device__ void draw(const Options &o, const Place *places, std::uint32_t n, std::uint32_t from, std::uint32_t candidates,
                     std::uint32_t thresholds, std::uint32_t uniform, Theta *thetas, std::int32_t *taus) {
    const std::size_t at = global_index();
    if (at >= static_cast<std::size_t>(n) * candidates) return;
    const std::size_t place = at / candidates, i = at % candidates;
    const std::uint32_t heap = places[place].heap, f = from + static_cast<std::uint32_t>(i);
    Words words(o, FEATURE, heap, f);
    const Theta q = Feature::draw(words, o);
    thetas[at] = q;
    std::int32_t *const own = taus + place * thresholds * candidates + i;
    if (!uniform) {
        for (std::uint32_t j = 0; j < thresholds; ++j) own[static_cast<std::size_t>(j) * candidates] = LARGEST;
        return;
    }
    const Range range = Feature::range(q, o);
    Words drawn(o, THRESHOLDS, heap, f);
    for (std::uint32_t j = 0; j < thresholds; ++j) own[static_cast<std::size_t>(j) * candidates] = drawn.within(range.low, range.high);
}

// Responses of picked pixels become thresholds: {place, which threshold, x and y, view}.
template <typename Feature>
__device__ void pick(const Options &o, const std::uint32_t *planes, const View *views, const uint4 *picks, std::uint32_t n,
                     std::uint32_t candidates, std::uint32_t thresholds, const Theta *thetas, std::int32_t *taus) {
    const std::size_t at = global_index();
    if (at >= static_cast<std::size_t>(n) * candidates) return;
    const uint4 p = picks[at / candidates];
    const std::size_t i = at % candidates;
    const Split q = question(thetas, static_cast<std::size_t>(p.x) * candidates + i);
    const int r = response<Feature>(o, planes, views, p.w, q, p.z);
    if (r != UNANSWERED) taus[(static_cast<std::size_t>(p.x) * thresholds + p.y) * candidates + i] = r;
}

}  // namespace

// Ranks the thresholds of each candidate; equal ones stay in the order in which they were drawn.
// A thread a threshold.
extern "C" __global__ void __launch_bounds__(256)
    training_sort(std::uint32_t n, std::uint32_t candidates, std::uint32_t thresholds, const std::int32_t *taus, std::int32_t *sorted,
                  std::uint16_t *order) {
    const std::size_t at = global_index(), all = static_cast<std::size_t>(thresholds) * candidates;
    if (at >= n * all) return;
    const std::size_t first = at / all * all + at % candidates;
    const std::uint32_t j = static_cast<std::uint32_t>(at % all / candidates);
    const std::int32_t own = taus[at];
    std::uint32_t rank = 0;
    for (std::uint32_t k = 0; k < thresholds; ++k) {
        const std::int32_t other = taus[first + static_cast<std::size_t>(k) * candidates];
        rank += other < own || (other == own && k < j);
    }
    const std::size_t to = first + static_cast<std::size_t>(rank) * candidates;
    sorted[to] = own;
    order[to] = static_cast<std::uint16_t>(j);
}

namespace {

// What is counted; the same fields as in src/training/cuda/kernels.rs.
struct Work {
    const std::uint32_t *planes;
    const View *views;
    const uint2 *samples;  // {x and y, class among the node's and view << 8}, by node
    const uint4 *items;    // {place, first sample, behind the last, unused}
    const Place *places;
    const Theta *thetas;
    const std::int32_t *taus;  // sorted
    std::uint32_t *bins;
    std::uint32_t candidates, thresholds, items_count, tiles;
};

// A block an item and 32 candidates; its warps share the item's pixels and a histogram in shared
// memory, [bin][class][candidate].
template <typename Feature>
__device__ void count(const Options &o, const Work &w) {
    extern __shared__ std::uint32_t shared[];
    const uint4 item = w.items[blockIdx.x / w.tiles];
    const std::uint32_t lane = static_cast<std::uint32_t>(lane_id()), first = blockIdx.x % w.tiles * WARP;
    const bool there = first + lane < w.candidates;
    const Place place = w.places[item.x];
    const std::uint32_t cells = (w.thresholds + 1) * place.classes * WARP;
    std::uint32_t *const histogram = shared;
    for (std::uint32_t c = threadIdx.x; c < cells; c += blockDim.x) histogram[c] = 0;
    const std::int32_t *taus = w.taus + static_cast<std::size_t>(item.x) * w.thresholds * w.candidates + first + (there ? lane : 0);
    std::size_t step = w.candidates;
    if (w.thresholds <= FEW) {
        std::int32_t *const near = reinterpret_cast<std::int32_t *>(shared + cells);
        for (std::uint32_t t = threadIdx.x / WARP; t < w.thresholds; t += blockDim.x / WARP) near[t * WARP + lane] = taus[t * step];
        taus = near + lane;
        step = WARP;
    }
    __syncthreads();
    if (there) {
        const Split q = question(w.thetas, static_cast<std::size_t>(item.x) * w.candidates + first + lane);
        for (std::uint32_t s = item.y + threadIdx.x / WARP; s < item.z; s += blockDim.x / WARP) {
            const uint2 sample = __ldg(w.samples + s);
            const int r = response<Feature>(o, w.planes, w.views, sample.y >> 8, q, sample.x);
            const std::uint32_t bin = bin_of(taus, step, w.thresholds, r);
            atomicAdd(histogram + (bin * place.classes + (sample.y & 0xff)) * WARP + lane, 1u);
        }
    }
    __syncthreads();
    std::uint32_t *const bins = w.bins + place.base * w.candidates + first;
    for (std::uint32_t c = threadIdx.x; c < cells; c += blockDim.x) {
        const std::uint32_t sum = histogram[c];
        if (sum > 0) atomicAdd(bins + static_cast<std::size_t>(c / WARP) * w.candidates + c % WARP, sum);
    }
}

// The same of items with few pixels, or more bins than shared memory has: a warp an item and 32
// candidates, counted where the bins are.
template <typename Feature>
__device__ void count_direct(const Options &o, const Work &w) {
    // Below 2^31, as the host has it.
    const std::uint32_t at = blockIdx.x * DIRECT_WARPS + static_cast<std::uint32_t>(warp_id());
    if (at >= w.items_count * w.tiles) return;
    const uint4 item = w.items[at / w.tiles];
    const std::uint32_t i = at % w.tiles * WARP + static_cast<std::uint32_t>(lane_id());
    if (i >= w.candidates) return;
    const Place place = w.places[item.x];
    const std::int32_t *const taus = w.taus + static_cast<std::size_t>(item.x) * w.thresholds * w.candidates + i;
    std::uint32_t *const bins = w.bins + place.base * w.candidates + i;
    const Split q = question(w.thetas, static_cast<std::size_t>(item.x) * w.candidates + i);
    for (std::uint32_t s = item.y; s < item.z; ++s) {
        const uint2 sample = __ldg(w.samples + s);
        const int r = response<Feature>(o, w.planes, w.views, sample.y >> 8, q, sample.x);
        const std::uint32_t bin = bin_of(taus, w.candidates, w.thresholds, r);
        atomicAdd(bins + (static_cast<std::size_t>(bin) * place.classes + (sample.y & 0xff)) * w.candidates, 1u);
    }
}

// Brings pixels ({x and y, view}) from their nodes to leaves. Nodes are a tree's, `left` all ones
// in a leaf; the right child follows the left one.
template <typename Feature>
__device__ void route(const Options &o, const std::uint32_t *planes, const View *views, const Split *tree, const uint2 *samples,
                      std::uint32_t n, std::uint32_t *nodes) {
    const std::size_t at = global_index();
    if (at >= n) return;
    const uint2 sample = samples[at];
    std::uint32_t node = nodes[at];
    for (;;) {
        Split q;
        reinterpret_cast<int4 *>(&q)[0] = __ldg(reinterpret_cast<const int4 *>(tree + node));
        reinterpret_cast<int4 *>(&q)[1] = __ldg(reinterpret_cast<const int4 *>(tree + node) + 1);
        if (q.left == NONE) break;
        node = q.left + (response<Feature>(o, planes, views, sample.y, q, sample.x) > q.tau);
    }
    nodes[at] = node;
}

}  // namespace

#define KERNELS(NAME, FEATURE)                                                                                                       \
    extern "C" __global__ void __launch_bounds__(128)                                                                                \
        training_draw_##NAME(Options o, const Place *places, std::uint32_t n, std::uint32_t from, std::uint32_t candidates,           \
                             std::uint32_t thresholds, std::uint32_t uniform, Theta *thetas, std::int32_t *taus) {                    \
        draw<FEATURE>(o, places, n, from, candidates, thresholds, uniform, thetas, taus);                                            \
    }                                                                                                                                \
    extern "C" __global__ void __launch_bounds__(128)                                                                                \
        training_pick_##NAME(Options o, const std::uint32_t *planes, const View *views, const uint4 *picks, std::uint32_t n,          \
                             std::uint32_t candidates, std::uint32_t thresholds, const Theta *thetas, std::int32_t *taus) {           \
        pick<FEATURE>(o, planes, views, picks, n, candidates, thresholds, thetas, taus);                                             \
    }                                                                                                                                \
    extern "C" __global__ void __launch_bounds__(256) training_count_##NAME(Options o, Work w) { count<FEATURE>(o, w); }              \
    extern "C" __global__ void __launch_bounds__(DIRECT_WARPS *WARP) training_direct_##NAME(Options o, Work w) {                      \
        count_direct<FEATURE>(o, w);                                                                                                 \
    }                                                                                                                                \
    extern "C" __global__ void __launch_bounds__(128)                                                                                \
        training_route_##NAME(Options o, const std::uint32_t *planes, const View *views, const Split *tree, const uint2 *samples,     \
                              std::uint32_t n, std::uint32_t *nodes) {                                                               \
        route<FEATURE>(o, planes, views, tree, samples, n, nodes);                                                                   \
    }                                                                                                                                \
    extern "C" __global__ void __launch_bounds__(KEEP_WARPS *WARP)                                                                    \
        training_keep_##NAME(Options o, const std::uint32_t *planes, const View *views, const uint4 *pixels, std::uint32_t n,         \
                             const Place *places, const Theta *thetas, std::uint32_t candidates, std::int32_t *responses) {           \
        keep<FEATURE>(o, planes, views, pixels, n, places, thetas, candidates, responses);                                           \
    }                                                                                                                                \
    extern "C" __global__ void __launch_bounds__(SPLIT_WARPS *WARP) training_split_##NAME(Options o, Xlog xlog, Kept k) {              \
        split<FEATURE>(o, xlog, k);                                                                                                  \
    }
KERNELS(region, RegionFeature)
KERNELS(rgbd, RgbdFeature)
KERNELS(depth, DepthFeature)

// training::gain::Scorer: the best threshold of each candidate, the first as drawn among equals. A
// thread a candidate; blockIdx.x is a node and 128 of its candidates. Bins become left counts.
extern "C" __global__ void __launch_bounds__(BEST_THREADS)
    training_score(Xlog xlog, const Place *places, const std::uint32_t *totals, const std::uint32_t *weights, std::uint32_t candidates,
                   std::uint32_t thresholds, const std::uint16_t *order, std::uint32_t *bins, std::int64_t *gains, std::uint32_t *ranks) {
    const std::uint32_t tiles = div_up(candidates, static_cast<std::uint32_t>(BEST_THREADS));
    const std::size_t at = blockIdx.x / tiles;
    const std::uint32_t i = blockIdx.x % tiles * BEST_THREADS + threadIdx.x;
    if (i >= candidates) return;
    const Place place = places[at];
    totals += place.first_class;
    weights += place.first_class;
    std::uint64_t all = 0;
    std::int64_t purity = 0;
    for (std::uint32_t c = 0; c < place.classes; ++c) {
        const std::uint64_t n = static_cast<std::uint64_t>(totals[c]) * weights[c];
        all += n;
        purity += xlog.of(n);
    }
    const std::int64_t base = xlog.of(all) - purity;
    std::int64_t sum = purity, best = INT64_MIN;
    std::uint64_t left = 0;
    std::uint32_t threshold = 0, best_rank = NONE;
    std::uint32_t *cell = bins + place.base * candidates + i;
    const std::uint16_t *drawn = order + at * thresholds * candidates + i;
    const std::size_t row = static_cast<std::size_t>(place.classes) * candidates;
    for (std::uint32_t rank = 0; rank < thresholds; ++rank, drawn += candidates) {
        for (std::uint32_t c = 0; c < place.classes; ++c, cell += candidates) {
            const std::uint32_t here = *cell, before = rank > 0 ? *(cell - row) : 0;
            if (here > 0) {
                const std::uint64_t w = weights[c], n = here * w, l = before * w, r = (totals[c] - before) * w;
                // One after the other: each has a branch.
#pragma unroll 1
                for (int k = 0; k < 2; ++k) {
                    const std::uint64_t from = k == 0 ? l : r, to = k == 0 ? l + n : r - n;
                    sum += xlog.of(to) - xlog.of(from);
                }
                left += n;
            }
            if (before > 0) *cell = here + before;
        }
        if (left == 0 || left == all) continue;
        const std::int64_t gain = base + sum - xlog.of(left) - xlog.of(all - left);
        const std::uint32_t own = *drawn;
        if (best_rank == NONE || gain > best || (gain == best && own < threshold)) {
            best = gain;
            threshold = own;
            best_rank = rank;
        }
    }
    gains[at * candidates + i] = best;
    ranks[at * candidates + i] = best_rank;
}

// The best candidate of each node, the first among equals, and what goes left there. A block a node.
extern "C" __global__ void __launch_bounds__(BEST_THREADS)
    training_best(const Place *places, std::uint32_t candidates, std::uint32_t thresholds, const Theta *thetas, const std::int32_t *taus,
                  const std::uint32_t *bins, const std::int64_t *gains, const std::uint32_t *ranks, Result *results, std::uint32_t *lefts) {
    __shared__ std::int64_t shared_gain[BEST_THREADS];
    __shared__ std::uint32_t shared_f[BEST_THREADS];
    const std::size_t at = blockIdx.x;
    std::int64_t gain = INT64_MIN;
    std::uint32_t f = NONE;
    for (std::uint32_t i = threadIdx.x; i < candidates; i += BEST_THREADS) {
        const std::uint32_t own = ranks[at * candidates + i] == NONE ? NONE : i;
        const std::int64_t its = gains[at * candidates + i];
        if (precedes(its, own, gain, f)) {
            gain = its;
            f = own;
        }
    }
    shared_gain[threadIdx.x] = gain;
    shared_f[threadIdx.x] = f;
    for (unsigned half = BEST_THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half && precedes(shared_gain[threadIdx.x + half], shared_f[threadIdx.x + half], shared_gain[threadIdx.x], shared_f[threadIdx.x])) {
            shared_gain[threadIdx.x] = shared_gain[threadIdx.x + half];
            shared_f[threadIdx.x] = shared_f[threadIdx.x + half];
        }
    }
    __syncthreads();
    f = shared_f[0];
    const Place place = places[at];
    const std::uint32_t rank = f == NONE ? 0 : ranks[at * candidates + f];
    if (threadIdx.x == 0) {
        Result result = {};
        result.candidate = f;
        if (f != NONE) {
            result.gain = shared_gain[0];
            result.tau = taus[(at * thresholds + rank) * candidates + f];
            const uint4 theta = *reinterpret_cast<const uint4 *>(thetas + at * candidates + f);
            result.theta[0] = theta.x;
            result.theta[1] = theta.y;
            result.theta[2] = theta.z;
            result.theta[3] = theta.w;
        }
        results[at] = result;
    }
    for (std::uint32_t c = threadIdx.x; c < place.classes; c += BEST_THREADS) {
        const std::size_t cell = static_cast<std::size_t>(rank) * place.classes + c;
        lefts[place.first_class + c] = f == NONE ? 0 : bins[(place.base + cell) * candidates + f];
    }
}
