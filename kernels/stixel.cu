// Stixels: the ground of a frame, then one block a column: reduction, prefix sums, the dynamic
// programme in tiles of 32 rows, backtrack and confidences (src/stage/stixel has the model).
//
// A tile of 32 rows is prepared by all warps but the first, while the first works on the tile
// below: the prefix sums of object costs of its rows (P1), all that its rows need to know of each
// other (P2), the cuts far below that may still win (P3), these cuts (P4). Then all warps look at
// the cuts of the tile below (P5), and the first does the serial part (P6): row by row, a lane
// for each row T of the tile.
//
// What is impossible has a cost of INF, far above every other; sums of three of them fit.
#include <climits>

#include "stixel.cuh"

using namespace roadloop;
using namespace roadloop::stixel;

namespace {

// ---- The ground of a frame, as ground.rs.

__device__ double table_ln(const double *table, double x) {
    const long long bits = __double_as_longlong(x);
    const int exponent = static_cast<int>((bits >> 52) & 0x7ff) - 1023;
    const int i = static_cast<int>((bits >> 42) & 1023);
    const double mantissa = __longlong_as_double((bits & ((1ll << 52) - 1)) | (1023ll << 52));
    const double c = 1.0 + (static_cast<double>(i) + 0.5) / 1024.0;
    const double r = (mantissa - c) / c;
    const double near = r - r * r * 0.5 + r * r * r / 3.0;
    return static_cast<double>(exponent) * 0.693147180559945309417232121458 + (table[i] + near);
}

__device__ double table_erf(const double *table, double x) {
    if (isnan(x)) return 0.0;
    const double steps = fabs(x) * 512.0;
    double y = 1.0;
    if (steps < 3072.0) {
        const int i = static_cast<int>(steps);
        const double part = steps - static_cast<double>(i);
        y = table[i] + (table[i + 1] - table[i]) * part;
    }
    return x < 0.0 ? -y : y;
}

__device__ double series_atan(double t) {
    for (int i = 0; i < 3; ++i) t /= 1.0 + sqrt(1.0 + t * t);
    const double q = t * t;
    double sum = 0.0;
    for (int k = 11; k >= 0; --k) {
        const double term = 1.0 / static_cast<double>(2 * k + 1);
        sum = term - q * sum;
    }
    return 8.0 * t * sum;
}

// ln(x / unit) in cost units, x > 0.
__device__ int whole_ln(const Tables &k, int x) {
    const int zeros = __clz(x);
    const unsigned i = (static_cast<unsigned>(x) << zeros << 1) >> 20;
    const int fine = (31 - zeros) * k.ln2 + __ldg(k.mantissa + i) - k.ln_unit;
    return (fine + 128) >> 8;
}

__device__ int spread_over(const Tables &k, int prior, int width) {
    return width <= 0 || prior == IMPOSSIBLE ? IMPOSSIBLE : prior + whole_ln(k, width);
}

__device__ void ground_row(const Tables &k, const float *road, int v) {
    const double slope_in = road[ROAD_SLOPE], row_in = road[ROAD_HORIZON];
    const int h = k.height;
    const double bottom = static_cast<double>(h - 1);
    const bool usable = slope_in > 0.0 && isfinite(slope_in) && isfinite(row_in);
    const double slope = usable ? fmin(fmax(slope_in, 1e-6), 1e6) : 1.0;
    const double row = usable ? fmin(fmax(row_in, -1e6), 1e6) : 1e6;
    const bool reference = k.reference_road != 0;
    const double rise = reference ? bottom - ceil(row) : bottom - row;
    const int horizon = static_cast<int>(ceil(rise));
    const int end = min(max(horizon, 0), h);
    const int sky = reference ? min(max(horizon, 0) + 1, h) : end;
    if (v == 0) {
        k.frame[FRAME_HORIZON] = horizon;
        k.frame[FRAME_END] = end;
        k.frame[FRAME_SKY] = sky;
        k.frame[FRAME_NEXT] = 0;
    }

    const double f = k.focal_px;
    const double t = (k.cy - (bottom - rise)) / f;
    const double cosine = 1.0 / sqrt(1.0 + t * t);
    const double pitch = reference ? -series_atan(t) : 0.0;
    const double gain = f * slope / cosine;
    const double height_m = k.baseline_m * cosine / slope;
    const double relative = k.sigma_height_m / height_m;
    const double sigma_2 = k.sigma_ground_px * k.sigma_ground_px;
    const double range = static_cast<double>(k.disparities);

    const double below = rise - static_cast<double>(v);
    const double model = slope * below;
    const double angle = pitch + below / f;
    const double road_2 = gain * gain * (relative * relative * angle * angle + k.sigma_tilt_rad * k.sigma_tilt_rad);
    const double sigma = sqrt(sigma_2 + road_2);
    const double root = sigma * 1.41421356237309504880168872420969808;
    const double mass = fmax(0.5 * (table_erf(k.erf, (range - model) / root) - table_erf(k.erf, -model / root)), 1.0 / 128.0);
    const double base = table_ln(k.ln, mass) + table_ln(k.ln, sigma) + k.ground_normaliser;
    GroundRow out;
    out.model_px = static_cast<float>(model);
    out.base = static_cast<float>(base * 2048.0);
    out.weight = static_cast<float>(2048.0 / (2.0 * sigma * sigma));
    out.sky_next = v < horizon && v + 1 >= sky && !reference;
    const double clamped = fmin(fmax(model, 0.0), 2.0 * range);
    const int ground = static_cast<int>(floor(clamped * static_cast<double>(k.unit)));
    out.ground = out.nearer = out.farther = out.standing = 0;
    if (v + 1 < h) {
        const int high = ground + k.ground_tolerance, low = ground - k.ground_tolerance;
        const int prior = k.object_next + k.cut[v + 1];
        const int nearer = spread_over(k, k.flying, k.disparities * k.unit - high);
        const int farther = spread_over(k, k.sunken, low);
        out.ground = ground;
        out.nearer = nearer == IMPOSSIBLE ? nearer : prior + nearer;
        out.farther = farther == IMPOSSIBLE ? farther : prior + farther;
        out.standing = prior + k.standing;
    }
    k.rows[v] = out;
}

// ---- Pixels to measurements, as reduce.rs.

// The k-th smallest (from 0) of the pixels by bisection: any width, no memory.
__device__ int kth(const std::uint16_t *pixels, int n, bool as_zero, int limit, int k) {
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

__device__ int reduce_row(const Tables &k, const std::uint16_t *pixels, int blind) {
    const int width = k.width, limit = k.pixel_limit;
    const bool as_zero = k.invalid_as_zero != 0;
    int count = 0;
    unsigned sum = 0;
    for (int first = blind; first < width; first += 8) {
        int d[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) d[i] = first + i < width ? __ldg(pixels + first + i) : -1;
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            if (d[i] < 0) continue;
            if (d[i] == INVALID) {
                count += as_zero;
            } else {
                sum += min(d[i], limit);
                ++count;
            }
        }
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

__device__ int gauss_cost(float px, float model, float base, float weight, int outlier) {
    const float e = px - model;
    const float g = base + e * e * weight;
    return g < static_cast<float>(outlier) ? static_cast<int>(floorf(g + 0.5f)) : outlier;
}

// ---- The programme.

__device__ int warp_max(int value) {
#if __CUDA_ARCH__ >= 800
    return __reduce_max_sync(ALL_LANES, value);
#else
#pragma unroll
    for (int offset = WARP / 2; offset > 0; offset /= 2) value = max(value, __shfl_xor_sync(ALL_LANES, value, offset));
    return value;
#endif
}

__device__ long long warp_max(long long value) {
#pragma unroll
    for (int offset = WARP / 2; offset > 0; offset /= 2) value = max(value, __shfl_xor_sync(ALL_LANES, value, offset));
    return value;
}

// Cuts whose loads are under way together in a warp.
constexpr int AT_ONCE = 3;

template <bool TALL>
struct Types {
    using Cost = int;
    using Sum = std::uint32_t;
    using Count = std::uint16_t;
    using Link = std::uint16_t;
    static constexpr Cost INF = 1 << 29;
    static constexpr int LINK_BITS = 14;
};

template <>
struct Types<true> {
    using Cost = long long;
    using Sum = unsigned long long;
    using Count = std::uint32_t;
    using Link = std::uint32_t;
    static constexpr Cost INF = 1ll << 40;
    static constexpr int LINK_BITS = 16;
};

// All that is fixed about an object that begins on one row.
template <typename Cost, typename Sum>
struct alignas(16) Cut {
    int ground;
    int high, low;
    unsigned count;
    Cost ground_nearer, ground_farther, ground_standing;
    Cost object_nearer, object_farther, object_same;
    Cost sky;
    Sum sum;
};

// What one row of a tile brings to the serial part; impossible ways carry INF.
template <typename Cost>
struct alignas(16) Step {
    Cost ground_begin, ground_end, sky_from_object, sky_from_ground;
    Cost sky_end, object_next, sky_next;
    int ground;
    Cost nearer, farther, standing, unused;
};

template <typename T>
__device__ T load_whole(const T *from) {
    T out;
    const int4 *source = reinterpret_cast<const int4 *>(from);
    int4 *to = reinterpret_cast<int4 *>(&out);
#pragma unroll
    for (unsigned i = 0; i < sizeof(T) / 16; ++i) to[i] = source[i];
    return out;
}

// Pairs of rows B <= T of a tile lie in a triangle, at pair_row(B) + T.
constexpr int PAIRS = TILE * (TILE + 1) / 2;
__device__ constexpr int pair_row(int b) { return TILE * b - b * (b - 1) / 2 - b; }

// What the serial part needs of a tile.
template <bool TALL>
struct Prepared {
    using T = Types<TALL>;
    Step<typename T::Cost> steps[TILE];
    typename T::Cost object[PAIRS];  // cost of the rows B..=T as an object
    int mean[PAIRS];
    int logs[PAIRS];  // what an object after this one costs: farther << 16 | nearer
};

template <bool TALL>
struct Shared {
    using T = Types<TALL>;
    Prepared<TALL> prepared[2];
    // Best objects of each warp, but in [0] those that all warps start from; sums of warps first.
    typename T::Cost found[MAX_WARPS][TILE];
    int from[MAX_WARPS - 1][TILE];
    typename T::Cost bound[TILE];
    int top, largest, column, listed;
    int guess[2];  // winner of the last row of the tiles below, by parity
    int path_length;
};

// Waits for the warps that prepare tiles.
__device__ void helpers_meet(int threads) {
    __syncwarp();
    asm volatile("bar.sync 1, %0;" ::"r"(threads) : "memory");
}

// For measurements and tests only, by -D: cycles of each part behind the output (the bench shows
// them with STIXEL_PROFILE set), and delays that let either side of a tile run late.
#ifdef STIXEL_SLOW_SERIAL
#define SLOW_SERIAL __nanosleep(20000);
#else
#define SLOW_SERIAL
#endif
#ifdef STIXEL_SLOW_HELPERS
#define SLOW_HELPERS __nanosleep(7000 * (warp % 3));
#else
#define SLOW_HELPERS
#endif
#ifdef STIXEL_SLOW_CUTS
#define SLOW_CUTS __nanosleep(20000 * (warp % 3));
#else
#define SLOW_CUTS
#endif
#ifdef STIXEL_PROFILE
#define STAMP(n)                                                                                         \
    {                                                                                                    \
        const long long now = clock64();                                                                 \
        if (lane == 0 && warp < 2)                                                                       \
            atomicAdd(reinterpret_cast<unsigned long long *>(profile) + 16 * warp + (n), now - last);    \
        last = clock64();                                                                                \
    }
#else
#define STAMP(n)
#endif

template <bool TALL>
struct Column {
    using T = Types<TALL>;
    using Cost = typename T::Cost;
    using Sum = typename T::Sum;
    using Record = Cut<Cost, Sum>;

    const Tables &k;
    Shared<TALL> &s;
    // In shared memory.
    int *tile;        // [model][33]: prefix sums before the rows t0..=t0 + 32
    const std::uint32_t *reciprocals;
    const int2 *same;  // separation and cost of the same depth, by whole disparity
    // In shared memory, or of this block in global memory where the image is tall.
    Sum *sums;
    Cost *keys;
    typename T::Count *counts;
    std::uint16_t *object_rows;
    typename T::Link *links;
    std::uint16_t *list;
    Cost *slack;
    // Of this block in global memory.
    int *lut;
    Record *cuts;
    int *ground, *sky, *least;
    unsigned long long *path;
    int tid, warp;
    // Of this column.
    int edge, unseen, models;

    static __device__ Cost widen(int cost) { return cost == IMPOSSIBLE ? T::INF : static_cast<Cost>(cost); }

    __device__ int mean(Sum sum, unsigned n) const {
        unsigned q;
        if constexpr (TALL) {
            const unsigned long long r = __ldg(k.reciprocals + n);
            q = static_cast<unsigned>((__umul64hi(sum, r) << 1) | ((sum * r) >> 63));
        } else {
            q = __umulhi(sum, reciprocals[n]);
            // Too small by 1 at most. No rows: 0 > 2^32 - 1.
            if (sum - q * n > n - 1) ++q;
        }
        return n == 0 ? unseen : static_cast<int>(q);
    }

    __device__ int whole(unsigned x) const {
        if constexpr (TALL) return static_cast<int>((x * k.unit_reciprocal) >> 40);
        return static_cast<int>(__umulhi(x, k.short_unit_reciprocal));
    }

    __device__ int model(int mean) const { return min(whole(static_cast<unsigned>(mean + k.half_step)), k.disparities - 1); }

    // The two logarithms that an object above one of this mean needs. Where there is none no
    // mean asks for it.
    __device__ int logs(int mean) const {
        const int separation = same[whole(mean)].x;
        const int high = k.disparities * k.unit - mean - separation, low = mean - separation;
        const int nearer = k.nearer_prior + whole_ln(k, max(high, 1)), farther = k.farther_prior + whole_ln(k, max(low, 1));
        return (farther << 16) | (nearer & 0xffff);
    }

    __device__ void transitions(const Record &c, int m, Cost &g, Cost &o, Cost &sky_cost) const {
        const int off = m - c.ground;
        g = off > k.ground_tolerance ? c.ground_nearer : off < -k.ground_tolerance ? c.ground_farther : c.ground_standing;
        o = m > c.high ? c.object_nearer : m < c.low ? c.object_farther : c.object_same;
        sky_cost = m > k.sky_tolerance ? c.sky : T::INF;
    }

    // Cost of the best path whose last stixel is an object on the rows b..=T, T by the lane.
    __device__ Cost candidate(int b, Sum sum, unsigned count, int lane) const {
        const Record c = load_whole(cuts + b);
        const int m = mean(sum - c.sum, count - c.count);
        const int n = model(m);
        const int below = lut[static_cast<std::size_t>(b) * models + n];
        Cost g, o, sk;
        transitions(c, m, g, o, sk);
        return min(min(g, o), sk) + (tile[n * PITCH + lane + 1] - below);
    }

    __device__ void measure(const std::uint16_t *disparity, std::size_t stride, int u);
    __device__ void build_tile(int t0);
    __device__ void pair_rows(Prepared<TALL> &to, int t0);
    __device__ void step_row(Prepared<TALL> &to, int t);
    __device__ void list_cuts(int t0, int tiles, Cost limit);
    template <int N>
    __device__ bool best_of(const int (&cuts_from)[N], Sum sum, unsigned count, Cost &cost, int &from) const;
    template <int N>
    __device__ void try_cuts(const int (&cuts_from)[N], Sum sum, unsigned count, Cost best_row, bool inside, Cost &cost, int &from,
                             Cost &limit);
    __device__ void backtrack(std::uint64_t *out, int u);
};

// Measurements and all prefix sums over the column's rows.
template <bool TALL>
__device__ void Column<TALL>::measure(const std::uint16_t *disparity, std::size_t stride, int u) {
    const int h = k.height, threads = blockDim.x, lane = lane_id();
    const int centre = u * k.width + k.width / 2;
    edge = centre >= k.unseen_border || k.invalid_as_zero ? k.disparities : min(centre + 1, k.disparities);
    unseen = edge < k.disparities ? edge * k.unit : 0;
    if (tid == 0) {
        s.top = -1;
        s.largest = unseen;
    }
    __syncthreads();
    int *measured = reinterpret_cast<int *>(keys);
    const int blind = k.invalid_as_zero ? 0 : min(max(k.left_border - u * k.width, 0), k.width);
    int top = -1, largest = 0;
    for (int v = tid; v < h; v += threads) {
        const std::uint16_t *pixels = disparity + static_cast<std::size_t>(h - 1 - v) * stride + static_cast<std::size_t>(u) * k.width;
        const int d = reduce_row(k, pixels, blind);
        measured[v] = d;
        if (d != MISSING) {
            top = v;
            largest = max(largest, d);
        }
    }
    top = warp_max(top);
    largest = warp_max(largest);
    if (lane == 0) {
        atomicMax(&s.top, top);
        atomicMax(&s.largest, largest);
    }
    __syncthreads();
    models = min((model(s.largest) + 16) / 16 * 16, k.disparities);
    const int end = k.frame[FRAME_END], sky_row = k.frame[FRAME_SKY];
    const int above = s.top < 0 ? h : s.top + 1;
    const int clear = above > sky_row ? above : h;
    if (tid == 0) {
        sums[0] = 0;
        counts[0] = 0;
        ground[0] = sky[0] = least[0] = 0;
    }
    const float unit = static_cast<float>(k.unit);
    Sum *total_sum = reinterpret_cast<Sum *>(&s.found[0][0]);
    int *totals = &s.from[0][0];
    Sum sum_before = 0;
    int before[4] = {0, 0, 0, 0};
    for (int first = 0; first < h; first += threads) {
        const int v = first + tid;
        Sum sum = 0;
        int part[4] = {0, 0, 0, 0};  // count, ground, sky, least
        if (v < h) {
            const int d = measured[v];
            const GroundRow g = k.rows[v];
            int row;
            if (d == MISSING) {
                row = k.missing_rows + edge;
                const bool not_seen = edge < k.disparities && g.model_px >= static_cast<float>(edge);
                part[1] = not_seen ? 0 : k.ground_missing;
                part[2] = v >= clear ? k.sky_missing_at_top : k.sky_missing;
            } else {
                row = (d * k.steps + k.half_step) / k.unit;
                sum = static_cast<Sum>(d);
                part[0] = 1;
                const float px = static_cast<float>(d) / unit;
                if (v < end) part[1] = gauss_cost(px, g.model_px, g.base, g.weight, k.ground_outlier);
                if (v >= sky_row) part[2] = gauss_cost(px, 0.0f, k.sky_base, k.sky_weight, k.sky_outlier);
            }
            object_rows[v] = static_cast<std::uint16_t>(row);
            part[3] = __ldg(k.object_least + row);
        }
        sum = warp_prefix_sum(sum);
#pragma unroll
        for (int i = 0; i < 4; ++i) part[i] = warp_prefix_sum(part[i]);
        if (lane == WARP - 1) {
            total_sum[warp] = sum;
#pragma unroll
            for (int i = 0; i < 4; ++i) totals[i * MAX_WARPS + warp] = part[i];
        }
        __syncthreads();
        sum += sum_before;
#pragma unroll
        for (int i = 0; i < 4; ++i) part[i] += before[i];
        for (int w = 0; w < threads / WARP; ++w) {
            sum_before += total_sum[w];
            if (w < warp) sum += total_sum[w];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                before[i] += totals[i * MAX_WARPS + w];
                if (w < warp) part[i] += totals[i * MAX_WARPS + w];
            }
        }
        if (v < h) {
            sums[v + 1] = sum;
            counts[v + 1] = static_cast<typename T::Count>(part[0]);
            ground[v + 1] = part[1];
            sky[v + 1] = part[2];
            least[v + 1] = part[3];
        }
        __syncthreads();
    }
    if (tid == 0) keys[0] = T::INF;
}

// P1. The prefix sums before the rows t0..=t0 + 32, two models a thread, 16 rows each.
template <bool TALL>
__device__ void Column<TALL>::build_tile(int t0) {
    constexpr int GROUPS = 2, ROWS = TILE / GROUPS;
    const int h = k.height, helper = tid - WARP, helpers = blockDim.x - WARP, group_threads = helpers / GROUPS;
    const int group = helper / group_threads, pairs = models / 2;
    const bool last = t0 + TILE >= h;
    for (int first = 0; first < pairs; first += group_threads) {
        const int p = first + helper % group_threads;
        const bool on = p < pairs;
        std::uint32_t costs[ROWS];
        int2 base = {0, 0}, sum = {0, 0};
        int *left = tile + 2 * p * PITCH, *right = left + PITCH;
        if (on) {
#pragma unroll
            for (int r = 0; r < ROWS; ++r) {
                const int t = t0 + group * ROWS + r;
                costs[r] = 0;
                if (t < h) {
                    const std::size_t at = static_cast<std::size_t>(object_rows[t]) * k.disparities + 2 * p;
                    costs[r] = __ldg(reinterpret_cast<const std::uint32_t *>(k.object + at));
                }
            }
            if (t0 > 0) base = {left[TILE], right[TILE]};
#pragma unroll
            for (int r = 0; r < ROWS; ++r) {
                sum.x += static_cast<std::int16_t>(costs[r] & 0xffff);
                sum.y += static_cast<std::int32_t>(costs[r]) >> 16;
            }
        }
        // The lower rows' sum goes to the upper rows' thread where these write next.
        helpers_meet(helpers);
        if (on && group == 0) {
            left[ROWS] = base.x + sum.x;
            right[ROWS] = base.y + sum.y;
        }
        helpers_meet(helpers);
        if (!on) continue;
        if (group == 1) base = {left[ROWS], right[ROWS]};
        int2 *row = reinterpret_cast<int2 *>(lut + static_cast<std::size_t>(t0 + group * ROWS) * models) + p;
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            if (group == 0 || r > 0) {
                left[group * ROWS + r] = base.x;
                right[group * ROWS + r] = base.y;
            }
            *row = base;
            row += pairs;
            base.x += static_cast<std::int16_t>(costs[r] & 0xffff);
            base.y += static_cast<std::int32_t>(costs[r]) >> 16;
        }
        if (group == GROUPS - 1) {
            left[TILE] = base.x;
            right[TILE] = base.y;
            if (last) *row = base;
        }
    }
}

// P2. Means, object costs and logarithms of the rows B..=T of the tile. A pass does the rows x and
// 32 - x: together they have 32 pairs.
template <bool TALL>
__device__ void Column<TALL>::pair_rows(Prepared<TALL> &to, int t0) {
    constexpr int PASSES = TILE / 2 + 1;
    const int lane = lane_id(), helpers = blockDim.x / WARP - 1, h = k.height;
    struct Pair {
        int at, mean, logs;
        Cost cost;
    };
    const auto pair = [&](int x) {
        const bool upper = lane >= x;
        const int b = upper ? x : TILE - x, t = upper ? lane : TILE - x + lane;
        const int first = min(t0 + b, h), last = min(t0 + t + 1, h);
        Pair out;
        out.at = pair_row(b) + t;
        out.mean = mean(sums[last] - sums[first], static_cast<unsigned>(counts[last]) - counts[first]);
        const int *row = tile + model(out.mean) * PITCH;
        out.cost = t0 + t < h ? row[t + 1] - row[b] : T::INF;
        out.logs = logs(out.mean);
        return out;
    };
    const auto keep = [&](const Pair &p) {
        to.mean[p.at] = p.mean;
        to.object[p.at] = p.cost;
        to.logs[p.at] = p.logs;
    };
    // The first warp has more to do besides.
    for (int x = helpers - warp; x < PASSES; x += 2 * helpers) {
        const bool two = x + helpers < PASSES;
        const Pair first = pair(x), second = pair(two ? x + helpers : x);
        // The last pass has its rows twice.
        if (x < PASSES - 1 || lane >= x) keep(first);
        if (two && (x + helpers < PASSES - 1 || lane >= x + helpers)) keep(second);
    }
}

// P2. What the row of this lane brings to the serial part.
template <bool TALL>
__device__ void Column<TALL>::step_row(Prepared<TALL> &to, int t) {
    const int lane = lane_id(), h = k.height;
    Step<Cost> step;
    step.ground_begin = step.ground_end = step.sky_from_object = step.sky_from_ground = step.sky_end = T::INF;
    step.object_next = step.sky_next = step.nearer = step.farther = step.standing = T::INF;
    step.ground = 0;
    step.unused = 0;
    if (t < h) {
        const int end = k.frame[FRAME_END], sky_row = k.frame[FRAME_SKY], horizon = k.frame[FRAME_HORIZON];
        const int cut = __ldg(k.cut + t);
        if (t < end) {
            if (t > 0) step.ground_begin = k.ground_next + cut - ground[t];
            step.ground_end = ground[t + 1];
        }
        step.sky_end = sky[t + 1];
        if (t > 0) {
            const GroundRow g = k.rows[t - 1];
            if (t >= sky_row) {
                step.sky_from_object = cut - sky[t] + k.ln_2;
                if (g.sky_next) step.sky_from_ground = cut - sky[t];
            }
            step.object_next = (t - 1 < horizon ? k.object_next : k.ln_2) + cut;
            step.sky_next = k.on_sky + cut;
            step.ground = g.ground;
            step.nearer = widen(g.nearer);
            step.farther = widen(g.farther);
            step.standing = g.standing;
        }
    }
    to.steps[lane] = step;
}

// P3. The cuts below the tile that may win one of its rows, nearest tiles first.
template <bool TALL>
__device__ void Column<TALL>::list_cuts(int t0, int tiles, Cost limit) {
    const int lane = lane_id(), helpers = blockDim.x / WARP - 1;
    const int here = least[t0];
    for (int j = tiles - warp; j >= 0; j -= helpers) {
        // The least that one model costs on all rows between the two tiles.
        const int *row = lut + static_cast<std::size_t>(j + 1) * TILE * models;
        int span = INT_MAX;
        for (int n = lane; n < models; n += WARP) span = min(span, tile[n * PITCH] - row[n]);
        span = warp_min(span);
        const Cost slack_here = static_cast<Cost>(here - least[(j + 1) * TILE]) - span;
        const bool live = keys[j * TILE + lane] <= limit + slack_here;
        const unsigned mask = __ballot_sync(ALL_LANES, live);
        int at = 0;
        if (lane == 0) {
            slack[j] = slack_here;
            if (mask) at = atomicAdd(&s.listed, __popc(mask));
        }
        at = __shfl_sync(ALL_LANES, at, 0);
        if (live) list[at + __popc(mask & ((1u << lane) - 1))] = static_cast<std::uint16_t>(j * TILE + lane);
    }
}

// Some cuts for the rows T of the lanes; equal cost: the lowest cut wins. Whether one was better.
template <bool TALL>
template <int N>
__device__ bool Column<TALL>::best_of(const int (&cuts_from)[N], Sum sum, unsigned count, Cost &cost, int &from) const {
    const int lane = lane_id();
    Cost found[N];
#pragma unroll
    for (int i = 0; i < N; ++i) found[i] = candidate(cuts_from[i], sum, count, lane);
    bool better = false;
#pragma unroll
    for (int i = 0; i < N; ++i) {
        if (found[i] < cost || (found[i] == cost && cuts_from[i] < from)) {
            cost = found[i];
            from = cuts_from[i];
            better = true;
        }
    }
    return better;
}

// The same, and the bound that all warps share.
template <bool TALL>
template <int N>
__device__ void Column<TALL>::try_cuts(const int (&cuts_from)[N], Sum sum, unsigned count, Cost best_row, bool inside, Cost &cost,
                                       int &from, Cost &limit) {
    if (__any_sync(ALL_LANES, best_of(cuts_from, sum, count, cost, from))) {
        const Cost others = atomicMin(&s.bound[lane_id()], cost);
        limit = warp_max(inside ? min(others, cost) - best_row : -T::INF);
    }
}

// Writes the column's list from the path, top to bottom: one thread a stixel.
template <bool TALL>
__device__ void Column<TALL>::backtrack(std::uint64_t *out, int u) {
    const int total = s.path_length, capacity = k.capacity, h = k.height;
    const int skip = max(total - capacity, 0);
    if (tid == 0) {
        reinterpret_cast<std::uint16_t *>(out + 1)[u] = static_cast<std::uint16_t>(total - skip);
        if (skip > 0) atomicAdd(reinterpret_cast<unsigned *>(out), 1u);
    }
    std::uint64_t *items = out + 1 + (k.columns + 3) / 4 + static_cast<std::size_t>(u) * capacity;
    const int end_row = k.frame[FRAME_END], sky_row = k.frame[FRAME_SKY];
    for (int i = skip + tid; i < total; i += blockDim.x) {
        const unsigned long long piece = path[i];
        const int kind = static_cast<int>(piece >> 60);
        const int from = static_cast<int>(piece & 0xfffff), to = static_cast<int>((piece >> 20) & 0xfffff);
        const unsigned long long sum = sums[to] - sums[from];
        const unsigned long long count = counts[to] - counts[from];
        const unsigned long long n = count * (k.unit / 256);
        unsigned long long disparity = INVALID;
        if (n > 0) disparity = min((2 * sum + n) / (2 * n), static_cast<unsigned long long>(INVALID - 1));
        const double below = (k.sky_below_px * static_cast<double>(count)) * static_cast<double>(k.unit);
        const int written = kind == OBJECT && static_cast<double>(sum) < below ? SKY : kind;

        const int m = model(mean(static_cast<Sum>(sum), static_cast<unsigned>(count)));
        const long long object = lut[static_cast<std::size_t>(to) * models + m] - lut[static_cast<std::size_t>(from) * models + m];
        const int end = min(max(end_row, from), to), begin = min(max(sky_row, from), to);
        const int sky_from = max(begin, end);
        long long own = object, other;
        if (kind == OBJECT) {
            other = static_cast<long long>(ground[end] - ground[from]) + (sky[to] - sky[sky_from]) +
                    static_cast<long long>(max(begin - end, 0)) * k.object_outlier;
        } else {
            const int *prefix = kind == GROUND ? ground : sky;
            own = prefix[to] - prefix[from];
            other = object;
        }
        const long long margin = max(other - own, 0ll);
        long long confidence = 255 * margin * static_cast<long long>(count) / ((margin + 8 * 2048) * (to - from));
        int top = h - to;
        if (skip > 0 && i == skip) {
            top = 0;
            confidence = 0;
        }
        items[i - skip] = static_cast<std::uint64_t>(top) | static_cast<std::uint64_t>(h - 1 - from) << 16 | disparity << 32 |
                          static_cast<std::uint64_t>(written) << 48 | static_cast<std::uint64_t>(confidence & 0xff) << 56;
    }
}

template <bool TALL>
__device__ void solve_columns(const Tables &k, const std::uint16_t *disparity, std::size_t stride, std::uint64_t *out) {
    using T = Types<TALL>;
    using Cost = typename T::Cost;
    using Sum = typename T::Sum;
    constexpr Cost INF = T::INF;
    __shared__ Shared<TALL> s;
    extern __shared__ int4 dynamic[];
    char *const memory = reinterpret_cast<char *>(dynamic);
    // Blocks of one multiprocessor have their serial warps on different schedulers.
    const int tid = static_cast<int>((threadIdx.x + blockIdx.x / k.sms % 4 * WARP) % blockDim.x);
    const int h = k.height, lane = lane_id(), warp = tid / WARP, warps = blockDim.x / WARP;
    const std::size_t slot = blockIdx.x;

    int2 *same = reinterpret_cast<int2 *>(memory);
    std::uint32_t *reciprocals = reinterpret_cast<std::uint32_t *>(memory + k.reciprocals_at);
    char *rows = TALL ? reinterpret_cast<char *>(k.row_memory) + slot * k.row_bytes : memory + k.rows_at;
    Column<TALL> c{k,
                   s,
                   reinterpret_cast<int *>(memory + k.tile_at),
                   reciprocals,
                   same,
                   reinterpret_cast<Sum *>(rows + k.sums_at),
                   reinterpret_cast<Cost *>(rows + k.keys_at),
                   reinterpret_cast<typename T::Count *>(rows + k.counts_at),
                   reinterpret_cast<std::uint16_t *>(rows + k.object_rows_at),
                   reinterpret_cast<typename T::Link *>(rows + k.links_at),
                   reinterpret_cast<std::uint16_t *>(rows + k.list_at),
                   reinterpret_cast<Cost *>(rows + k.slack_at),
                   k.lut + slot * k.lut_rows * k.disparities,
                   reinterpret_cast<Cut<Cost, Sum> *>(k.cuts) + slot * h,
                   k.ground_sums + slot * (h + 1),
                   k.sky_sums + slot * (h + 1),
                   k.least_sums + slot * (h + 1),
                   k.path + slot * h,
                   tid,
                   warp,
                   0,
                   0,
                   0};
#ifdef STIXEL_PROFILE
    std::uint64_t *profile = out + 1 + (k.columns + 3) / 4 + static_cast<std::size_t>(k.columns) * k.capacity;
    long long last = clock64();
#endif
    if (!TALL) {
        for (int i = tid; i <= h; i += blockDim.x) reciprocals[i] = k.short_reciprocals[i];
    }
    for (int i = tid; i < k.disparities; i += blockDim.x) same[i] = make_int2(k.same[2 * i], k.same[2 * i + 1]);

    for (int u = blockIdx.x; u < k.columns;) {
        c.measure(disparity, stride, u);
        STAMP(0)
        const int horizon = k.frame[FRAME_HORIZON];
        // The serial part's state, in the first warp: the best of the row below by class, what
        // objects after its best object cost, and the best beginnings of ground and sky.
        Cost g = INF, o = INF, sk = INF;
        int high = 0, low = 0, logs = 0;
        Cost alike = INF;
        Cost ground_run = INF, sky_run = INF;
        unsigned ground_link = 0, sky_link = 0;
        if (k.frame[FRAME_END] > 0) ground_run = k.ln_2 + k.cut[0];
        if (k.frame[FRAME_SKY] == 0 && !k.reference_road) sky_run = k.cut[0];
        const int tiles = div_up(h, TILE);
        // Best objects so far of the tile in preparation, T by the lane.
        Cost cost = INF;
        int from = INT_MAX;

        for (int done = -1; done < tiles; ++done) {
            const int next = done + 1;
            if (warp > 0 && next < tiles) {
                const int t0 = next * TILE, t = t0 + lane, to = min(t + 1, h);
                Prepared<TALL> &prepared = s.prepared[next & 1];
                c.build_tile(t0);
                const int guess = next >= 2 ? s.guess[next & 1] : 0;
                const Sum sum = c.sums[to];
                const unsigned count = c.counts[to];
                const Cost best_row = c.least[to];
                helpers_meet(blockDim.x - WARP);
                STAMP(1)

                from = INT_MAX;
                if (warp == 1) {
                    // An object on all rows, and the winner of a row below.
                    cost = k.cut[0] + (t <= horizon ? k.ln_2 : 0) + k.ln_range + c.tile[c.model(c.mean(sum, count)) * PITCH + lane + 1];
                    from = 0;
                    if (guess > 0) {
                        const Cost there = c.candidate(guess, sum, count, lane);
                        if (there < cost) {
                            cost = there;
                            from = guess;
                        }
                    }
                    s.found[0][lane] = cost;
                    s.bound[lane] = cost;
                    if (lane == 0) s.listed = 0;
                }
                if (warp == 2) c.step_row(prepared, t);
                c.pair_rows(prepared, t0);
                STAMP(2)
                helpers_meet(blockDim.x - WARP);
                STAMP(3)

                // The tile below is not solved yet.
                cost = s.found[0][lane];
                Cost limit = warp_max(t < h ? cost - best_row : -INF);
                SLOW_HELPERS
                c.list_cuts(t0, done, limit);
                helpers_meet(blockDim.x - WARP);
                STAMP(4)
#ifdef STIXEL_PROFILE
                if (warp == 1 && lane == 0) atomicAdd(reinterpret_cast<unsigned long long *>(profile) + 31, s.listed);
#endif

                const int listed = s.listed, helpers = warps - 1;
                for (int i = warp - 1; i < listed; i += AT_ONCE * helpers) {
                    int some[AT_ONCE];
                    bool live = false;
#pragma unroll
                    for (int n = 0; n < AT_ONCE; ++n) {
                        some[n] = c.list[i + n * helpers < listed ? i + n * helpers : i];
                        live |= c.keys[some[n]] <= limit + c.slack[some[n] / TILE];
                    }
                    if (live) c.try_cuts(some, sum, count, best_row, t < h, cost, from, limit);
#ifdef STIXEL_PROFILE
                    if (live && lane == 0) atomicAdd(reinterpret_cast<unsigned long long *>(profile) + 30, AT_ONCE);
#endif
                }
                STAMP(5)
            }

            if (warp == 0 && done >= 0) {
                const int t0 = done * TILE, t = t0 + lane, to = min(t + 1, h);
                const Prepared<TALL> &prepared = s.prepared[done & 1];
                const Sum sum = c.sums[to];
                const unsigned count = c.counts[to];
                for (int w = 1; w < warps; ++w) {
                    const Cost there = s.found[w][lane];
                    const int b = s.from[w - 1][lane];
                    if (there < cost || (there == cost && b < from)) {
                        cost = there;
                        from = b;
                    }
                }
                Cost row_ground = INF, row_sky = INF;
                int own_high, own_low, own_logs;
                Cost own_alike;
                {
                    const int m = c.mean(sum - c.sums[from], count - c.counts[from]);
                    const int2 near = same[c.whole(m)];
                    own_high = m + near.x;
                    own_low = m - near.x;
                    own_alike = c.widen(near.y);
                    own_logs = c.logs(m);
                }
                unsigned own_ground_link = 0, own_sky_link = 0;
                STAMP(6)
                SLOW_SERIAL
                Step<Cost> step = load_whole(&prepared.steps[0]);
                int m = prepared.mean[lane], both = prepared.logs[lane];
                Cost object = prepared.object[lane];
                int2 near = same[c.whole(m)];
#pragma unroll 4
                for (int i = 0; i < TILE; ++i) {
                    // What the next row needs, while this one is computed.
                    const int after = min(i + 1, TILE - 1), at = pair_row(after) + lane;
                    const Step<Cost> next_step = load_whole(&prepared.steps[after]);
                    const int next_m = prepared.mean[at], next_both = prepared.logs[at];
                    const Cost next_object = prepared.object[at];
                    const int2 next_near = same[c.whole(next_m)];
                    const unsigned row = t0 + i;
                    // An object on this row and up to that of the lane.
                    const int off = m - step.ground;
                    const Cost on_ground =
                        off > k.ground_tolerance ? step.nearer : off < -k.ground_tolerance ? step.farther : step.standing;
                    const Cost object_here = lane >= i ? object : INF;
                    const Cost on_sky = m > k.sky_tolerance ? step.sky_next : INF;
                    const Cost nearer = static_cast<std::int16_t>(logs & 0xffff), farther = logs >> 16;
                    const Cost on_object = m > high ? nearer : m < low ? farther : alike;
                    const Cost there = min(min(g + on_ground, sk + on_sky), o + step.object_next + on_object) + object_here;
                    const bool better = there < cost;

                    // Ground and sky that begin on this row, and the best up to it.
                    const Cost ground_begin = min(g, o) + step.ground_begin;
                    if (ground_begin < ground_run) {
                        ground_run = ground_begin;
                        ground_link = row | (g < o ? GROUND : OBJECT) << T::LINK_BITS;
                    }
                    const Cost after_object = high + low < 2 * k.sky_tolerance ? INF : o + step.sky_from_object;
                    const Cost after_ground = g + step.sky_from_ground;
                    const Cost sky_begin = min(after_object, after_ground);
                    if (sky_begin < sky_run) {
                        sky_run = sky_begin;
                        sky_link = row | (after_ground < after_object ? GROUND : OBJECT) << T::LINK_BITS;
                    }
                    g = min(ground_run + step.ground_end, INF);
                    sk = min(sky_run + step.sky_end, INF);
                    if (lane == i) {
                        row_ground = g;
                        row_sky = sk;
                        own_ground_link = ground_link;
                        own_sky_link = sky_link;
                    }

                    cost = min(cost, there);
                    if (better) {
                        from = row;
                        own_high = m + near.x;
                        own_low = m - near.x;
                        own_alike = c.widen(near.y);
                        own_logs = both;
                    }
                    o = __shfl_sync(ALL_LANES, cost, i);
                    high = __shfl_sync(ALL_LANES, own_high, i);
                    low = __shfl_sync(ALL_LANES, own_low, i);
                    logs = __shfl_sync(ALL_LANES, own_logs, i);
                    alike = __shfl_sync(ALL_LANES, own_alike, i);
                    step = next_step;
                    m = next_m;
                    both = next_both;
                    object = next_object;
                    near = next_near;
                }

                STAMP(7)
                // The cut above the row of each lane.
                const int b = t + 1;
                if (b < h) {
                    const GroundRow below = k.rows[t];
                    const int prior = k.cut[b];
                    const Cost next = cost + (t < horizon ? k.object_next : k.ln_2) + prior;
                    Cut<Cost, Sum> cut;
                    cut.ground = below.ground;
                    cut.high = own_high;
                    cut.low = own_low;
                    cut.count = count;
                    cut.sum = sum;
                    cut.ground_nearer = min(row_ground + c.widen(below.nearer), INF);
                    cut.ground_farther = min(row_ground + c.widen(below.farther), INF);
                    cut.ground_standing = min(row_ground + below.standing, INF);
                    cut.object_nearer = next + static_cast<std::int16_t>(own_logs & 0xffff);
                    cut.object_farther = next + (own_logs >> 16);
                    cut.object_same = min(next + own_alike, INF);
                    cut.sky = min(row_sky + k.on_sky + prior, INF);
                    const Cost on_ground = min(min(cut.ground_nearer, cut.ground_farther), cut.ground_standing);
                    const Cost on_object = min(min(cut.object_nearer, cut.object_farther), cut.object_same);
                    c.keys[b] = min(min(on_ground, on_object), cut.sky) - c.least[b];
                    c.cuts[b] = cut;
                }
                __syncwarp();
                if (t < h) {
                    unsigned previous = OBJECT;
                    if (from > 0) {
                        const Cut<Cost, Sum> cut = load_whole(c.cuts + from);
                        Cost on_ground, on_object, on_sky;
                        c.transitions(cut, (own_high + own_low) / 2, on_ground, on_object, on_sky);
                        previous = on_sky < min(on_ground, on_object) ? SKY : on_ground < on_object ? GROUND : OBJECT;
                    }
                    c.links[GROUND * h + t] = static_cast<typename T::Link>(own_ground_link);
                    c.links[OBJECT * h + t] = static_cast<typename T::Link>(from | previous << T::LINK_BITS);
                    c.links[SKY * h + t] = static_cast<typename T::Link>(own_sky_link);
                }
                if (lane == TILE - 1) s.guess[done & 1] = from;
                if (t0 + TILE >= h) {
                    const int last = h - 1 - t0;
                    const Cost end_ground = __shfl_sync(ALL_LANES, row_ground, last);
                    const Cost end_object = __shfl_sync(ALL_LANES, cost, last);
                    const Cost end_sky = __shfl_sync(ALL_LANES, row_sky, last);
                    __syncwarp();
                    if (lane == 0) {
                        int kind = end_sky < min(end_ground, end_object) ? SKY : end_object < end_ground ? OBJECT : GROUND;
                        int to_row = h, n = 0;
                        while (to_row > 0) {
                            const unsigned link = c.links[kind * h + to_row - 1];
                            const int first = static_cast<int>(link & ((1u << T::LINK_BITS) - 1));
                            c.path[n++] = static_cast<unsigned long long>(first) | static_cast<unsigned long long>(to_row) << 20 |
                                          static_cast<unsigned long long>(kind) << 60;
                            kind = static_cast<int>(link >> T::LINK_BITS);
                            to_row = first;
                        }
                        s.path_length = n;
                    }
                }
            }
            STAMP(8)
            __syncwarp();
            __syncthreads();
            STAMP(9)

            // P5. The cuts of the tile just solved, for the next.
            if (next < tiles) {
                const int t = next * TILE + lane, to = min(t + 1, h);
                if (warp == 0) {
                    cost = INF;
                    from = INT_MAX;
                }
                if (next > 0) {
                    SLOW_CUTS
                    const Sum sum = c.sums[to];
                    const unsigned count = c.counts[to];
                    const Cost best_row = c.least[to];
                    // All warps must see the same cuts alive, since they share them out by rank: the
                    // bound of P4, below which no warp's cost is, stays as it is until all are done.
                    const Cost limit = warp_max(t < h ? s.bound[lane] - best_row : -INF);
                    const bool live = c.keys[done * TILE + lane] <= limit;
                    const unsigned all = __ballot_sync(ALL_LANES, live);
                    const int rank = __popc(all & ((1u << lane) - 1));
                    unsigned mine = __ballot_sync(ALL_LANES, live && rank % warps == warp);
                    while (mine) {
                        int some[AT_ONCE];
#pragma unroll
                        for (int n = 0; n < AT_ONCE; ++n) {
                            some[n] = mine ? next * TILE - 1 - __clz(mine) : some[0];
                            if (mine) mine ^= 1u << (some[n] - done * TILE);
                        }
                        c.best_of(some, sum, count, cost, from);
                    }
                }
                if (warp > 0) {
                    s.found[warp][lane] = cost;
                    s.from[warp - 1][lane] = from;
                }
                STAMP(10)
                __syncwarp();
                __syncthreads();
                STAMP(11)
            }
        }
        c.backtrack(out, u);
        STAMP(12)
        if (tid == 0) s.column = static_cast<int>(gridDim.x) + atomicAdd(k.frame + FRAME_NEXT, 1);
        __syncthreads();
        u = s.column;
    }
}

}  // namespace

// `road`: the floats of a frame::Road, in their order.
extern "C" __global__ void stixel_ground(Tables k, const float *road, std::uint64_t *out) {
    const std::size_t v = global_index();
    if (v == 0) out[0] = 0;
    if (v < static_cast<std::size_t>(k.height)) ground_row(k, road, static_cast<int>(v));
}

extern "C" __global__ void __launch_bounds__(320, 2)
    stixel_columns(Tables k, const std::uint16_t *disparity, std::uint64_t stride, std::uint64_t *out) {
    solve_columns<false>(k, disparity, stride, out);
}

// Where 32-bit costs or sums, or shared memory, do not reach.
extern "C" __global__ void __launch_bounds__(320, 1)
    stixel_columns_tall(Tables k, const std::uint16_t *disparity, std::uint64_t stride, std::uint64_t *out) {
    solve_columns<true>(k, disparity, stride, out);
}
