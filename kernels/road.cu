// The ground line from the v-disparity histogram: stage::road states the contract, its cpu.rs is
// the reference. Three kernels a frame: a histogram of each row, the search over the grid of
// lines, and one block that fits, judges and tracks. Nothing leaves the device.
#include "common.cuh"

using namespace roadloop;

namespace {

constexpr int BIN_SHIFT = 6;        // disparity (1/256 px) to bin
constexpr int LINE_BIN_SHIFT = 14;  // line (1/65536 px) to bin
constexpr double ONE = 65536.0;

constexpr unsigned HISTOGRAM_THREADS = 256;
constexpr unsigned SEARCH_THREADS = 256;
constexpr unsigned FIT_THREADS = 512;

// slope * row + offset in 1/65536 px.
struct Candidate {
    std::int64_t slope;
    std::int64_t offset;
};

struct Line {
    double slope;
    double horizon;
};

// The host's twins are in stage/road/cuda.rs.
struct RoadParams {
    std::uint32_t width, height, bins;
    std::uint32_t every;       // rows from one searched to the next
    std::uint32_t candidates;
    std::uint32_t reacquire;
    std::int32_t cap;          // most that a row may say
    std::int32_t ground;       // least pixels that make a row one with ground
    std::int32_t wide;         // reaches around a line, 1/65536 px
    std::int32_t inlier;
    std::int32_t inlier_ratio; // 1/65536
    std::int32_t reserved;
    std::int64_t least;        // least disparity looked at, 1/65536 px
    double focal_px, cy, baseline_m;
    double min_height_m, max_height_m, max_pitch_rad, min_support;
    double inlier_px, inlier_share;
    double height_gain, pitch_gain, height_step, pitch_step, decay;
    Road assumed;
    std::uint32_t pad;
};

// What is known from earlier frames; all zero: nothing.
struct TrackState {
    Line line;
    double confidence;
    Line pending;
    std::uint32_t tracked;
    std::uint32_t blind;
    std::uint32_t seen;  // frames that have shown `pending`; 0: none
    std::uint32_t pad;
};
static_assert(sizeof(TrackState) == 56, "the host clears so many bytes");

// Rows a..b that a line crosses between the least disparity and the range's end.
struct Rows {
    std::int32_t a, b;
};

// n / positive, rounded down, held to 0..=h (at most 65,535).
__device__ std::int32_t row_of(std::int64_t n, std::int64_t positive, std::int32_t h) {
    if (n < positive) return 0;
    // Beyond all rows, whatever the product would be.
    if (positive >= static_cast<std::int64_t>(1) << 46) {
        const std::int64_t q = n / positive;
        return q < h ? static_cast<std::int32_t>(q) : h;
    }
    if (n >= positive * h) return h;
    // The quotient is small: an estimate is off by one at most, and the remainder says so.
    std::int32_t q = static_cast<std::int32_t>(__fdividef(static_cast<float>(n), static_cast<float>(positive)));
    std::int64_t rest = n - q * positive;
    while (rest < 0) {
        q -= 1;
        rest += positive;
    }
    while (rest >= positive) {
        q += 1;
        rest -= positive;
    }
    return q;
}

__device__ Rows crossed(const RoadParams &p, const Candidate &line) {
    if (line.slope <= 0) return {0, 0};
    const std::int64_t most = static_cast<std::int64_t>(p.bins) << LINE_BIN_SHIFT;
    const std::int32_t h = static_cast<std::int32_t>(p.height);
    const std::int32_t a = row_of(p.least - line.offset + line.slope - 1, line.slope, h);
    const std::int32_t b = row_of(most - line.offset + line.slope - 1, line.slope, h);
    return {a, b < a ? a : b};
}

// Of a line at a row that it crosses: below 2^24, whatever its parts are.
__device__ std::int32_t line_at(const Candidate &line, std::int32_t row) {
    return static_cast<std::int32_t>(static_cast<std::uint64_t>(line.slope) * static_cast<std::uint64_t>(row) +
                                     static_cast<std::uint64_t>(line.offset));
}

// Bins of the band around d and of what is clearly below the ground.
struct Band {
    std::int32_t from, to, below;
};

__device__ std::int32_t bin_of(std::int32_t d, std::int32_t bins) {
    const std::int32_t k = d >> LINE_BIN_SHIFT;
    return k < 0 ? 0 : k > bins ? bins : k;
}

// d < 2^24 and least <= 2^28: nothing overflows.
__device__ Band band(std::int32_t d, std::int32_t least, std::int32_t ratio, std::int32_t bins) {
    const std::int32_t reach = least + static_cast<std::int32_t>((static_cast<std::int64_t>(d) * ratio) >> 16);
    const std::int32_t half = 1 << (LINE_BIN_SHIFT - 1);
    return {bin_of(d - reach + half, bins), bin_of(d + reach + half, bins), bin_of(d - d / 4 - 2 * least, bins)};
}

__device__ std::int32_t least_of(std::int32_t a, std::int32_t b) { return a < b ? a : b; }

}  // namespace

// One block a row: prefix sums over the bins, pixels and their disparities.
// counts and sums have bins + 1 entries a row. Dynamic shared memory: 12 bytes a bin.
extern "C" __global__ void __launch_bounds__(HISTOGRAM_THREADS)
    road_histogram(const std::uint16_t *disparity, const std::uint8_t *mask, std::uint16_t *counts, std::uint32_t *sums,
                   unsigned long long *best, std::uint32_t width, std::uint32_t bins) {
    // Pixels in the upper 13 bits, what is left of their disparities in the lower 19: so many
    // pixels at a time fit.
    constexpr unsigned SEGMENT = 8188;
    constexpr unsigned SHIFT = 19;
    constexpr unsigned REST = (1u << BIN_SHIFT) - 1;
    extern __shared__ std::uint64_t totals[];
    std::uint32_t *packed = reinterpret_cast<std::uint32_t *>(totals + bins);
    __shared__ std::uint64_t warp_totals[HISTOGRAM_THREADS / WARP];

    const unsigned thread = threadIdx.x;
    const std::size_t y = blockIdx.x;
    if (y == 0 && thread == 0) *best = 0;
    for (unsigned k = thread; k < bins; k += HISTOGRAM_THREADS) {
        totals[k] = 0;
        packed[k] = 0;
    }
    __syncthreads();
    const std::uint16_t *row = disparity + y * width;
    const std::uint8_t *usable = mask == nullptr ? nullptr : mask + y * width;
    for (unsigned first = 0; first < width; first += SEGMENT) {
        const unsigned end = first + SEGMENT < width ? first + SEGMENT : width;
        for (unsigned x = first + 4 * thread; x < end; x += 4 * HISTOGRAM_THREADS) {
            // Neighbours are alike: one addition for those in the same bin.
            unsigned bin = bins, gathered = 0;
#pragma unroll
            for (unsigned i = 0; i < 4; ++i) {
                unsigned k = bins, add = 0;
                if (x + i < end) {
                    const unsigned d = row[x + i];
                    const bool counts_in = d != INVALID && (usable == nullptr || usable[x + i] != 0);
                    if (counts_in) {
                        k = d >> BIN_SHIFT;
                        add = (1u << SHIFT) | (d & REST);
                    }
                }
                if (k != bin) {
                    if (bin < bins) atomicAdd(&packed[bin], gathered);
                    bin = k;
                    gathered = 0;
                }
                gathered += add;
            }
            if (bin < bins) atomicAdd(&packed[bin], gathered);
        }
        __syncthreads();
        for (unsigned k = thread; k < bins; k += HISTOGRAM_THREADS) {
            const std::uint64_t n = packed[k] >> SHIFT;
            totals[k] += (n << 32) + n * (k << BIN_SHIFT) + (packed[k] & ((1u << SHIFT) - 1));
            packed[k] = 0;
        }
        __syncthreads();
    }

    // Each thread a run of bins, then over threads.
    const unsigned each = div_up(bins, HISTOGRAM_THREADS);
    const unsigned from = least_of(thread * each, bins), to = least_of(from + each, bins);
    std::uint64_t sum = 0;
    for (unsigned k = from; k < to; ++k) sum += totals[k];
    const std::uint64_t up_to = warp_prefix_sum(sum);
    if (lane_id() == WARP - 1) warp_totals[warp_id()] = up_to;
    __syncthreads();
    std::uint64_t before = up_to - sum;
    for (int w = 0; w < warp_id(); ++w) before += warp_totals[w];
    const std::size_t start = y * (bins + 1);
    if (thread == 0) {
        counts[start] = 0;
        sums[start] = 0;
    }
    for (unsigned k = from; k < to; ++k) {
        before += totals[k];
        counts[start + k + 1] = static_cast<std::uint16_t>(before >> 32);
        sums[start + k + 1] = static_cast<std::uint32_t>(before);
    }
}

// A lane a line of the grid, the rows spread over the block's warps. best: the highest score in
// the upper half, in the lower the complement of the first line that has it; 0: none above 0.
extern "C" __global__ void __launch_bounds__(SEARCH_THREADS)
    road_search(RoadParams p, const Candidate *candidates, const std::uint16_t *counts, unsigned long long *best) {
    constexpr int GROUPS = SEARCH_THREADS / WARP;
    __shared__ std::int32_t from[WARP], to[WARP], at_from[WARP], slope[WARP], scores[GROUPS][WARP];
    const int lane = lane_id(), group = warp_id();
    const std::uint32_t index = blockIdx.x * WARP + lane;
    const std::int32_t every = static_cast<std::int32_t>(p.every), bins = static_cast<std::int32_t>(p.bins);
    if (group == 0) {
        Rows rows = {0, 0};
        Candidate line = {0, 0};
        if (index < p.candidates) {
            line = candidates[index];
            rows = crossed(p, line);
        }
        from[lane] = div_up(rows.a, every) * every;
        to[lane] = rows.b;
        at_from[lane] = line_at(line, from[lane]);
        slope[lane] = static_cast<std::int32_t>(line.slope);
    }
    __syncthreads();
    std::int32_t score = 0;
    const std::int32_t start = from[lane], end = to[lane];
    const std::size_t pitch = p.bins + 1;
#pragma unroll 4
    for (std::int32_t y = start + group * every; y < end; y += GROUPS * every) {
        const std::int32_t d = static_cast<std::int32_t>(static_cast<std::uint32_t>(at_from[lane]) +
                                                         static_cast<std::uint32_t>(slope[lane]) * static_cast<std::uint32_t>(y - start));
        const Band b = band(d, p.wide, p.inlier_ratio, bins);
        const std::uint16_t *row = counts + y * pitch;
        const std::int32_t inside = row[b.to] - row[b.from], below = row[b.below];
        score += 2 * least_of(inside, p.cap) - least_of(below, p.cap);
    }
    scores[group][lane] = score;
    __syncthreads();
    if (group != 0) return;
    for (int g = 1; g < GROUPS; ++g) score += scores[g][lane];
    unsigned long long key = 0;
    if (score > 0) key = (static_cast<unsigned long long>(score) << 32) | (0xffffffffu - index);
#pragma unroll
    for (int offset = WARP / 2; offset > 0; offset /= 2) {
        const unsigned long long other = __shfl_xor_sync(ALL_LANES, key, offset);
        key = other > key ? other : key;
    }
    if (lane == 0 && key != 0) atomicMax(best, key);
}

namespace {

// a * b - c * d in 128 bits, then to the nearest f64 (ties to even), as the host converts i128.
struct Wide {
    std::int64_t high;
    std::uint64_t low;
};

__device__ Wide wide(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
    const std::uint64_t low1 = static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b);
    const std::uint64_t low2 = static_cast<std::uint64_t>(c) * static_cast<std::uint64_t>(d);
    const std::uint64_t high1 = static_cast<std::uint64_t>(__mul64hi(a, b));
    const std::uint64_t high2 = static_cast<std::uint64_t>(__mul64hi(c, d));
    return {static_cast<std::int64_t>(high1 - high2 - (low1 < low2 ? 1 : 0)), low1 - low2};
}

__device__ double to_double(Wide v) {
    const bool negative = v.high < 0;
    std::uint64_t high = static_cast<std::uint64_t>(v.high), low = v.low;
    if (negative) {
        low = ~low + 1;
        high = ~high + (low == 0 ? 1 : 0);
    }
    double magnitude;
    if (high == 0) {
        magnitude = __ull2double_rn(low);
    } else {
        const int shift = __clzll(static_cast<long long>(high));
        if (shift > 0) {
            high = (high << shift) | (low >> (64 - shift));
            low <<= shift;
        }
        // What is cut off only says on which side of a half the rest lies.
        if (low != 0) high |= 1;
        const double scale = __longlong_as_double(static_cast<long long>(1023 + 64 - shift) << 52);
        magnitude = __ull2double_rn(high) * scale;
    }
    return negative ? -magnitude : magnitude;
}

__device__ double arc_tangent(double t) {
    double u = t;
#pragma unroll 1
    for (int i = 0; i < 4; ++i) u = u / (1.0 + sqrt(1.0 + u * u));
    const double s = u * u;
    return 16.0 * (u * (1.0 + s * (-1.0 / 3.0 + s * (1.0 / 5.0 + s * (-1.0 / 7.0 + s * (1.0 / 9.0))))));
}

__device__ double tan_pitch(const RoadParams &p, const Line &line) { return (p.cy - line.horizon) / p.focal_px; }

__device__ double height_m(const RoadParams &p, const Line &line) {
    const double t = tan_pitch(p, line);
    return p.baseline_m / (line.slope * sqrt(1.0 + t * t));
}

__device__ Candidate fixed_point(const Line &line) {
    return {static_cast<std::int64_t>(line.slope * ONE), static_cast<std::int64_t>(-line.slope * line.horizon * ONE)};
}

__device__ Road road_of(const RoadParams &p, const Line &line, double confidence, std::uint32_t origin) {
    Road road;
    road.slope = static_cast<float>(line.slope);
    road.offset = static_cast<float>(-line.slope * line.horizon);
    road.horizon_row = static_cast<float>(line.horizon);
    road.pitch_rad = static_cast<float>(arc_tangent(tan_pitch(p, line)));
    road.camera_height_m = static_cast<float>(height_m(p, line));
    road.confidence = static_cast<float>(confidence);
    road.origin = origin;
    return road;
}

// What the one block of road_fit shares. Thread 0 alone reckons in f64, which small GPUs have
// little of; the others count.
struct FitShared {
    std::int64_t partial[FIT_THREADS / WARP][5];
    // The line to be looked at next and the rows that it crosses.
    Candidate line;
    Rows rows;
    bool go_on;
    // What the line is as f64, and whether it is a plausible camera's.
    Line precise;
    bool plausible;
};

// What thread 0 knows of a fit.
struct Refined {
    Line line;
    double mean_row, mean_px;
    double determinant, count;
};

struct Fit {
    Line line;
    double mean_row, mean_px, confidence;
    bool good;
};

// By thread 0.
__device__ void look_at(FitShared &shared, const RoadParams &p, const Candidate &line) {
    shared.line = line;
    shared.rows = crossed(p, line);
}

// Sum over a warp's lanes of numbers that are not negative, in each lane. In three parts where the
// hardware sums 32 bits in one instruction.
__device__ std::int64_t wide_sum(std::int64_t value) {
#if __CUDA_ARCH__ >= 800
    const std::uint64_t v = static_cast<std::uint64_t>(value);
    constexpr std::uint32_t PART = (1u << 26) - 1;
    const std::uint64_t low = __reduce_add_sync(ALL_LANES, static_cast<std::uint32_t>(v) & PART);
    const std::uint64_t middle = __reduce_add_sync(ALL_LANES, static_cast<std::uint32_t>(v >> 26) & PART);
    const std::uint64_t high = __reduce_add_sync(ALL_LANES, static_cast<std::uint32_t>(v >> 52));
    return static_cast<std::int64_t>(low + (middle << 26) + (high << 52));
#else
    return warp_sum(value);
#endif
}

// Sums over the block of N numbers a thread, none negative, in thread 0. `counted`: whether this
// warp has any.
template <int N>
__device__ void block_sum(FitShared &shared, std::int64_t (&values)[N], bool counted) {
    constexpr int WARPS = FIT_THREADS / WARP;
#pragma unroll
    for (int i = 0; i < N; ++i) {
        const std::int64_t sum = counted ? wide_sum(values[i]) : 0;
        if (lane_id() == 0) shared.partial[warp_id()][i] = sum;
    }
    __syncthreads();
    if (warp_id() != 0) return;
#pragma unroll
    for (int i = 0; i < N; ++i) values[i] = wide_sum(lane_id() < WARPS ? shared.partial[lane_id()][i] : 0);
}

struct Histogram {
    const std::uint16_t *counts;
    const std::uint32_t *sums;
};

struct Votes {
    std::int64_t inside, below, rows, ground_rows;
    __device__ std::int64_t score() const { return 2 * inside - below; }
};

// For and against the shared line, by the whole block; known to thread 0.
__device__ Votes votes(FitShared &shared, const RoadParams &p, const Histogram &of, std::int32_t reach, std::int32_t every) {
    const Candidate line = shared.line;
    const Rows rows = shared.rows;
    const std::int32_t bins = static_cast<std::int32_t>(p.bins);
    std::int64_t v[4] = {0, 0, 0, 0};
    const std::int32_t first = div_up(rows.a, every) * every;
    for (std::int32_t y = first + static_cast<std::int32_t>(threadIdx.x) * every; y < rows.b;
         y += static_cast<std::int32_t>(FIT_THREADS) * every) {
        const Band b = band(line_at(line, y), reach, p.inlier_ratio, bins);
        const std::uint16_t *row = of.counts + y * static_cast<std::size_t>(bins + 1);
        const std::int32_t inside = row[b.to] - row[b.from], below = row[b.below], valid = row[bins];
        v[0] += least_of(inside, p.cap);
        v[1] += least_of(below, p.cap);
        v[2] += 1;
        v[3] += inside >= p.ground && 16 * inside >= valid ? 1 : 0;
    }
    block_sum(shared, v, first + warp_id() * WARP * every < rows.b);
    return {v[0], v[1], v[2], v[3]};
}

// Least squares on the inliers of the shared line, by the whole block; `out` and the next line to
// look at by thread 0. Whether there is one, in every thread.
__device__ bool refine(FitShared &shared, const RoadParams &p, const Histogram &of, std::int32_t reach, std::int32_t ratio,
                       Refined &out) {
    const Candidate line = shared.line;
    const Rows rows = shared.rows;
    const std::int32_t bins = static_cast<std::int32_t>(p.bins);
    std::int64_t v[5] = {0, 0, 0, 0, 0};
    for (std::int32_t y = rows.a + static_cast<std::int32_t>(threadIdx.x); y < rows.b; y += FIT_THREADS) {
        const Band b = band(line_at(line, y), reach, ratio, bins);
        const std::size_t start = y * static_cast<std::size_t>(bins + 1);
        // Both loads on their way before the first is waited for.
        const std::int32_t n = of.counts[start + b.to] - of.counts[start + b.from];
        const std::uint32_t sum = of.sums[start + b.to] - of.sums[start + b.from];
        if (n == 0) continue;
        // (weight * sum + n / 2) / n; the weight is n where it is not limited.
        std::int64_t weight = n, d = sum;
        if (n > p.cap) {
            weight = p.cap;
            const std::uint64_t whole = static_cast<std::uint64_t>(p.cap) * sum + static_cast<std::uint64_t>(n / 2);
            d = static_cast<std::int64_t>(whole / static_cast<std::uint64_t>(n));
        }
        const std::int64_t r = y;
        v[0] += weight;
        v[1] += weight * r;
        v[2] += weight * r * r;
        v[3] += d;
        v[4] += d * r;
    }
    block_sum(shared, v, rows.a + warp_id() * WARP < rows.b);
    if (threadIdx.x == 0) {
        const std::int64_t w = v[0], wr = v[1], wrr = v[2], wd = v[3], wrd = v[4];
        bool good = false;
        const Wide determinant = wide(w, wrr, wr, wr);
        if (determinant.high >= 0 && (determinant.high | static_cast<std::int64_t>(determinant.low)) != 0) {
            out.determinant = to_double(determinant);
            out.count = static_cast<double>(w);
            const double slope = to_double(wide(w, wrd, wr, wd)) / out.determinant / 256.0;
            out.mean_row = static_cast<double>(wr) / out.count;
            out.mean_px = static_cast<double>(wd) / out.count / 256.0;
            if (slope >= 1e-6 && slope <= 1e3) {
                out.line = {slope, out.mean_row - out.mean_px / slope};
                look_at(shared, p, fixed_point(out.line));
                shared.precise = out.line;
                good = true;
            }
        }
        shared.go_on = good;
    }
    __syncthreads();
    return shared.go_on;
}

// By the whole block; the fit in thread 0.
__device__ Fit measure(FitShared &shared, const RoadParams &p, const Candidate *candidates, unsigned long long best,
                       const Histogram &of, const TrackState &state) {
    const Fit none = {};
    if (best == 0) return none;
    const Candidate found = candidates[0xffffffffu - static_cast<std::uint32_t>(best)];
    if (threadIdx.x == 0) look_at(shared, p, state.tracked != 0 ? fixed_point(state.line) : found);
    __syncthreads();
    if (state.tracked != 0) {
        const Votes v = votes(shared, p, of, p.wide, static_cast<std::int32_t>(p.every));
        if (threadIdx.x == 0 && v.score() * 8 < static_cast<std::int64_t>(best >> 32) * 7) look_at(shared, p, found);
        __syncthreads();
    }
    Refined refined = {};
    // One copy of the code; what it waits for is thread 0, one division after the other.
#pragma unroll 1
    for (int i = 0; i < 6; ++i) {
        // With the grid's step, twice the full band, then the narrow one.
        const bool narrow = i >= 3;
        const std::int32_t reach = i == 0 ? p.wide : narrow ? p.inlier / 2 : p.inlier;
        if (!refine(shared, p, of, reach, narrow ? p.inlier_ratio / 4 : p.inlier_ratio, refined)) return none;
    }
    // The last warp, with the fewest rows, looks at the camera while the others count.
    if (threadIdx.x == FIT_THREADS - WARP) {
        const Line line = shared.precise;
        const double height = height_m(p, line);
        shared.plausible = height >= p.min_height_m && height <= p.max_height_m &&
                           fabs(arc_tangent(tan_pitch(p, line))) <= p.max_pitch_rad;
    }
    const Votes v = votes(shared, p, of, p.inlier, 1);
    if (threadIdx.x != 0) return none;
    const double support = static_cast<double>(v.ground_rows) / static_cast<double>(v.rows > 1 ? v.rows : 1);
    // Standard deviation of the inliers' disparities along the line, px.
    const double spread = refined.line.slope * sqrt(refined.determinant / (refined.count * refined.count));
    if (!(shared.plausible && support >= p.min_support && v.score() > 0 &&
          spread >= 2.0 * (p.inlier_px + p.inlier_share * refined.mean_px)))
        return none;
    const double share = static_cast<double>(v.inside) / static_cast<double>(v.inside + v.below);
    return {refined.line, refined.mean_row, refined.mean_px, fmin(2.0 * support, 1.0) * share, true};
}

__device__ bool near(const RoadParams &p, const Line &a, const Line &b, double times) {
    return fabs(a.slope - b.slope) <= p.height_step * times * b.slope &&
           fabs(tan_pitch(p, a) - tan_pitch(p, b)) <= p.pitch_step * times;
}

// One line over time: gains, a gate against jumps, hold and reacquisition. One thread.
__device__ Road track(const RoadParams &p, TrackState &state, const Fit &fit) {
    bool accepted = false;
    Line line = fit.line;
    if (fit.good && state.tracked == 0) {
        accepted = true;
    } else if (fit.good) {
        const double times = static_cast<double>(state.blind + 1);
        if (near(p, fit.line, state.line, times)) {
            const double height_gain = fmin(p.height_gain * times, 1.0), pitch_gain = fmin(p.pitch_gain * times, 1.0);
            line.slope = state.line.slope + height_gain * (fit.line.slope - state.line.slope);
            const double horizon = fit.mean_row - fit.mean_px / line.slope;
            line.horizon = state.line.horizon + pitch_gain * (horizon - state.line.horizon);
            accepted = true;
        } else {
            const bool again = state.seen != 0 && near(p, fit.line, state.pending, 1.0);
            state.seen = again ? state.seen + 1 : 1;
            state.pending = fit.line;
            accepted = state.seen >= p.reacquire;
        }
    }
    if (accepted) {
        state.seen = 0;
        state.line = line;
        state.confidence = fit.confidence;
        state.blind = 0;
        state.tracked = 1;
        return road_of(p, line, fit.confidence, 1);
    }
    if (state.tracked == 0) return p.assumed;
    const std::uint32_t blind = state.blind + 1;
    state.blind = fit.good ? 0 : blind < 1000 ? blind : 1000;
    state.confidence *= p.decay;
    return road_of(p, state.line, state.confidence, 2);
}

}  // namespace

// One block.
extern "C" __global__ void __launch_bounds__(FIT_THREADS, 1)
    road_fit(RoadParams p, const Candidate *candidates, const unsigned long long *best, const std::uint16_t *counts,
             const std::uint32_t *sums, TrackState *state, Road *road) {
    __shared__ FitShared shared;
    const TrackState before = *state;
    const Fit fit = measure(shared, p, candidates, *best, {counts, sums}, before);
    // Every thread has read the state.
    __syncthreads();
    if (threadIdx.x == 0) {
        TrackState after = before;
        *road = track(p, after, fit);
        *state = after;
    }
}
