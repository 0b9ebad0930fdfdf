// What the foreground's model needs to know of a whole frame: where the picture lies on the model,
// the camera's gain, and the picture as the model's grid sees it. anchor.rs, gain.rs and cpu.rs of
// stage::foreground are the reference; double precision on one thread alone.
#include "foreground.cuh"

using namespace roadloop;
using namespace roadloop::foreground;

namespace {

constexpr unsigned BEGIN_THREADS = 256;
constexpr unsigned SAMPLE_THREADS = 256;
constexpr unsigned MOVE_THREADS = 256;

__device__ inline bool within(double a, double low, double high) { return a >= low && a <= high; }

__device__ void forget(FgState& s) {
    for (int i = 0; i < 9; ++i) s.anchor[i] = i % 4 == 0 ? 1.0 : 0.0;
    s.gain = 1.0f;
    s.learnt = 0;
}

// By how much a corner moved. False where it is nowhere.
__device__ bool corner(const double* h, int k, const FgParams& p, double& dx, double& dy) {
    const double x = k % 2 != 0 ? static_cast<double>(p.width - 1) : 0.0;
    const double y = k / 2 != 0 ? static_cast<double>(p.height - 1) : 0.0;
    const double den = h[6] * x + h[7] * y + h[8];
    if (!within(den, 0.5, 2.0)) return false;
    dx = (h[0] * x + h[1] * y + h[2]) / den - x;
    dy = (h[3] * x + h[4] * y + h[5]) / den - y;
    return true;
}

__device__ bool near_enough(const double* h, const FgParams& p) {
    for (int k = 0; k < 4; ++k) {
        double dx, dy;
        if (!corner(h, k, p, dx, dy)) return false;
        dx = dx < 0.0 ? -dx : dx;
        dy = dy < 0.0 ? -dy : dy;
        if (!(dx <= 0.25 * p.width && dy <= 0.25 * p.height)) return false;
    }
    return true;
}

__device__ bool at_rest(const double* h, const FgParams& p) {
    for (int k = 0; k < 4; ++k) {
        double dx, dy;
        if (!corner(h, k, p, dx, dy)) return false;
        if (!(within(dx, -0.0625, 0.0625) && within(dy, -0.0625, 0.0625))) return false;
    }
    return true;
}

// The next frame's anchor; false where it is none.
__device__ bool follow(double* anchor, const float* motion, const FgParams& p) {
    double h[9];
    for (int r = 0; r < 3; ++r) {
        for (int c = 0; c < 3; ++c) {
            const double a = anchor[3 * r] * static_cast<double>(motion[c]);
            const double b = anchor[3 * r + 1] * static_cast<double>(motion[3 + c]);
            h[3 * r + c] = a + b + anchor[3 * r + 2] * static_cast<double>(motion[6 + c]);
        }
    }
    const double scale = h[8];
    if (!within(scale, 0.5, 2.0)) return false;
    for (int i = 0; i < 9; ++i) h[i] /= scale;
    if (!near_enough(h, p)) return false;
    for (int i = 0; i < 9; ++i) anchor[i] = h[i];
    return true;
}

// Solves the normal equations; false where little is known.
__device__ bool solve(const FgNow& now, double* x) {
    if (now.samples < MIN_SAMPLES) return false;
    double a[UNKNOWNS][UNKNOWNS + 1], least[UNKNOWNS];
    int next = 0;
    for (int i = 0; i < UNKNOWNS; ++i) {
        for (int j = i; j < UNKNOWNS; ++j) {
            const double sum = static_cast<double>(static_cast<long long>(now.products[next++]));
            a[i][j] = sum;
            a[j][i] = sum;
        }
        least[i] = 1e-3 * a[i][i];
        a[i][UNKNOWNS] = static_cast<double>(static_cast<long long>(now.right[i]));
    }
    for (int i = 0; i < UNKNOWNS; ++i) {
        if (a[i][i] <= least[i]) return false;
        for (int r = i + 1; r < UNKNOWNS; ++r) {
            const double factor = a[r][i] / a[i][i];
            for (int c = i; c <= UNKNOWNS; ++c) a[r][c] -= factor * a[i][c];
        }
    }
    for (int i = UNKNOWNS - 1; i >= 0; --i) {
        double rest = a[i][UNKNOWNS];
        for (int c = i + 1; c < UNKNOWNS; ++c) rest -= a[i][c] * x[c];
        x[i] = rest / a[i][i];
    }
    return true;
}

// The anchor moved to where the samples say; false where it is none any more.
__device__ bool aligned(double* anchor, const FgNow& now, const FgParams& p) {
    double a[UNKNOWNS];
    if (!solve(now, a)) return true;
    for (int i = 0; i < UNKNOWNS; ++i) {
        const double most = i < 2 ? 1.0 : 0.1;
        if (!within(a[i], -most, most)) return true;
    }
    const double side = p.width > p.height ? p.width : p.height;
    const double unit = static_cast<double>(UNITS) / side;
    const double ux = a[2] * unit, vx = a[3] * unit, uy = a[4] * unit, vy = a[5] * unit;
    const double cx = p.width / 2, cy = p.height / 2;
    const double step[2][3] = {{1.0 + ux, vx, a[0] - ux * cx - vx * cy}, {uy, 1.0 + vy, a[1] - uy * cx - vy * cy}};
    double h[9];
    for (int i = 0; i < 9; ++i) h[i] = anchor[i];
    for (int r = 0; r < 2; ++r) {
        for (int c = 0; c < 3; ++c) {
            const double b0 = step[r][0] * anchor[c];
            const double b1 = step[r][1] * anchor[3 + c];
            h[3 * r + c] = b0 + b1 + step[r][2] * anchor[6 + c];
        }
    }
    h[6] *= 0.9375;
    h[7] *= 0.9375;
    if (!near_enough(h, p)) return false;
    for (int i = 0; i < 9; ++i) anchor[i] = h[i];
    return true;
}

__device__ void to_picture(const double* h, float* grid) {
    const double adjugate[9] = {
        h[4] * h[8] - h[5] * h[7], h[2] * h[7] - h[1] * h[8], h[1] * h[5] - h[2] * h[4],
        h[5] * h[6] - h[3] * h[8], h[0] * h[8] - h[2] * h[6], h[2] * h[3] - h[0] * h[5],
        h[3] * h[7] - h[4] * h[6], h[1] * h[6] - h[0] * h[7], h[0] * h[4] - h[1] * h[3],
    };
    for (int i = 0; i < 9; ++i) grid[i] = static_cast<float>(adjugate[i] / adjugate[8]);
}

// What is certain once the place of the picture is.
__device__ void settle(const FgState& s, FgNow& now, const FgParams& p) {
    now.moved = at_rest(s.anchor, p) ? 0 : 1;
    to_picture(s.anchor, now.to_picture);
    for (int i = 0; i < 9; ++i) now.to_model[i] = static_cast<float>(s.anchor[i]);
    now.fresh = s.learnt == 0 ? 1 : 0;
    now.verdict = s.learnt >= p.warm_up ? MASK_VALID : MASK_WARMING_UP;
    now.measure = p.compensate != 0 && s.learnt >= GAIN_AFTER ? 1 : 0;
}

// Numbers of the frame from the gain; the model will have learnt from it.
__device__ void numbers(FgState& s, FgNow& now, const FgParams& p) {
    FgFrame f;
    float rate = s.rate;
    if (rate < 0.0f) {
        const std::uint32_t n = s.learnt >= 0x7fffffffu ? 0xffffffffu : 2 * (s.learnt + 1);
        rate = 1.0f / static_cast<float>(n < p.history ? n : p.history);
    }
    f.rate = rate;
    f.rate_weight = rate * ONE;
    f.prune = rate * p.prior * ONE;
    const float single = ONE - rate * ONE - f.prune + f.rate_weight;
    const float k = f.rate_weight / single;
    f.single_rate = k < 1.0f ? k : 1.0f;
    f.learns = rate > 0.0f ? 1 : 0;
    f.inverse_gain = 1.0f / s.gain;
    const float saturated = static_cast<float>(SATURATED) * f.inverse_gain;
    f.saturated = s.gain > 1.0f ? saturated : __int_as_float(0x7f800000);
    const std::uint32_t turn = __brev(s.learnt % 64) >> 26;
    f.dither = (static_cast<float>(turn) + 0.5f) / 64.0f - 0.5f;
    now.frame = f;
    if (f.learns != 0 && s.learnt != 0xffffffffu) s.learnt += 1;
}

// True in all threads of the block that comes last.
__device__ bool last_block(std::uint32_t* ticket) {
    __shared__ bool last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) last = atomicAdd(ticket, 1u) == gridDim.x - 1;
    __syncthreads();
    __threadfence();
    return last;
}

// Samples of the grid: column and row of the n-th; false behind the last.
__device__ inline bool grid_sample(const FgParams& p, std::uint32_t step, std::size_t n, std::uint32_t& x, std::uint32_t& y) {
    const std::uint32_t first = step / 2;
    if (p.width <= first || p.height <= first) return false;
    const std::uint32_t columns = div_up(p.width - first, step), rows = div_up(p.height - first, step);
    if (n >= static_cast<std::size_t>(columns) * rows) return false;
    x = first + static_cast<std::uint32_t>(n % columns) * step;
    y = first + static_cast<std::uint32_t>(n / columns) * step;
    return true;
}

template <typename P>
__device__ void align(const FgParams& p, FgState* state, FgNow* now, const FgModel& model,
                      const typename P::Raw* image) {
    constexpr int C = P::C;
    if (now->align == 0) return;
    float grid[9];
    for (int i = 0; i < 9; ++i) grid[i] = now->to_picture[i];
    const float inverse = 1.0f / state->gain;
    long long products[PRODUCTS] = {}, right[UNKNOWNS] = {};
    std::uint32_t samples = 0, x, y;
    const std::size_t stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
    for (std::size_t n = global_index(); grid_sample(p, p.step, n, x, y); n += stride) {
        if (x == 0 || y == 0 || x + 1 == p.width || y + 1 == p.height) continue;
        const std::size_t i = static_cast<std::size_t>(y) * p.width + x;
        const std::size_t around[5] = {i + 1, i - 1, i + p.width, i - p.width, i};
        int mean[5];
        bool known = true;
#pragma unroll
        for (int k = 0; k < 5; ++k) {
            known = known && model.count[around[k]] != 0;
            mean[k] = 0;
#pragma unroll
            for (int c = 0; c < C; ++c) mean[k] += model.mean[static_cast<std::size_t>(c) * p.plane + around[k]] >> 4;
        }
        int u, v;
        if (!known || !place(grid, x, y, 0.0f, p, u, v) || masked(u, v, p)) continue;
        std::uint32_t raw[C], level = 0;
        sample<P>(image, u, v, p, raw);
        bool bright = false;
#pragma unroll
        for (int c = 0; c < C; ++c) {
            bright = bright || P::level(raw[c]) >= SATURATED;
            level += P::level(raw[c]) >> 4;
        }
        const int brighter = static_cast<int>(static_cast<float>(level) * inverse + 0.5f) - mean[4];
        if (bright || brighter > MOST_BRIGHTER * C || brighter < -MOST_BRIGHTER * C) continue;
        const int side = static_cast<int>(p.width > p.height ? p.width : p.height);
        const long long pu = (static_cast<int>(x) - static_cast<int>(p.width / 2)) * UNITS / side;
        const long long pv = (static_cast<int>(y) - static_cast<int>(p.height / 2)) * UNITS / side;
        const long long gx = mean[0] - mean[1], gy = mean[2] - mean[3];
        const long long row[UNKNOWNS] = {gx, gy, gx * pu, gx * pv, gy * pu, gy * pv};
        int next = 0;
#pragma unroll
        for (int a = 0; a < UNKNOWNS; ++a) {
#pragma unroll
            for (int b = a; b < UNKNOWNS; ++b) products[next++] += row[a] * row[b];
            right[a] += row[a] * 2 * brighter;
        }
        samples += 1;
    }
    samples = warp_sum(samples);
    if (lane_id() == 0) atomicAdd(&now->samples, samples);
#pragma unroll
    for (int k = 0; k < PRODUCTS; ++k) {
        const long long sum = warp_sum(products[k]);
        if (lane_id() == 0) atomicAdd(&now->products[k], static_cast<unsigned long long>(sum));
    }
#pragma unroll
    for (int k = 0; k < UNKNOWNS; ++k) {
        const long long sum = warp_sum(right[k]);
        if (lane_id() == 0) atomicAdd(&now->right[k], static_cast<unsigned long long>(sum));
    }
    if (last_block(&now->tickets[0]) && threadIdx.x == 0) {
        if (!aligned(state->anchor, *now, p)) forget(*state);
        settle(*state, *now, p);
    }
}

// The gain from the bins: by the threads of one block; all get it.
__device__ float gain_of(const std::uint32_t (*bins)[BINS], float before) {
    __shared__ std::uint32_t sums[SAMPLE_THREADS / WARP];
    __shared__ int median;
    constexpr int OWN = BINS / static_cast<int>(SAMPLE_THREADS);
    std::uint32_t count[OWN], own = 0;
#pragma unroll
    for (int k = 0; k < OWN; ++k) {
        count[k] = *const_cast<volatile const std::uint32_t*>(&bins[0][threadIdx.x * OWN + k]);
        own += count[k];
    }
    const std::uint32_t up_to = warp_prefix_sum(own);
    if (lane_id() == WARP - 1) sums[warp_id()] = up_to;
    if (threadIdx.x == 0) median = 0;
    __syncthreads();
    std::uint32_t below = up_to - own, total = 0;
    for (int k = 0; k < static_cast<int>(SAMPLE_THREADS) / WARP; ++k) {
        if (k < warp_id()) below += sums[k];
        total += sums[k];
    }
    if (total < MIN_SAMPLES) return before;
#pragma unroll
    for (int k = 0; k < OWN; ++k) {
        if (2 * below < total && 2 * (below + count[k]) >= total) median = threadIdx.x * OWN + k;
        below += count[k];
    }
    __syncthreads();
    if (median + REACH >= BINS - 1) return before;
    unsigned long long sum[3] = {};
    for (int b = median > REACH ? median - REACH : 0; b <= median + REACH; ++b) {
        for (int k = 0; k < 3; ++k) sum[k] += *const_cast<volatile const std::uint32_t*>(&bins[k][b]);
    }
    if (5 * sum[0] < total || sum[1] == 0 || sum[2] == 0) return before;
    const float gain = static_cast<float>(sum[1]) / static_cast<float>(sum[2]);
    float change = gain - before;
    change = change < 0.0f ? -change : change;
    return change > DEAD_BAND * before ? gain : before;
}

template <typename P>
__device__ void measure(const FgParams& p, FgState* state, FgNow* now, const FgModel& model,
                        const typename P::Raw* image, const std::uint8_t* known) {
    constexpr int C = P::C;
    if (now->action == 0) return;
    if (now->measure == 0) {
        if (global_index() == 0) numbers(*state, *now, p);
        return;
    }
    __shared__ std::uint32_t bins[3][BINS];
    for (int i = threadIdx.x; i < 3 * BINS; i += SAMPLE_THREADS) bins[i / BINS][i % BINS] = 0;
    __syncthreads();
    const bool moved = now->moved != 0;
    float grid[9];
    for (int i = 0; i < 9; ++i) grid[i] = now->to_picture[i];
    std::uint32_t x, y;
    const std::size_t stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
    for (std::size_t n = global_index(); grid_sample(p, p.gain_step, n, x, y); n += stride) {
        const std::size_t i = static_cast<std::size_t>(y) * p.width + x;
        std::uint32_t raw[C];
        if (moved) {
            int u, v;
            if (!place(grid, x, y, 0.0f, p, u, v) || masked(u, v, p)) continue;
            if (known != nullptr && known[nearest(u, v, p)] != 0) continue;
            sample<P>(image, u, v, p, raw);
        } else {
            if (known != nullptr && known[i] != 0) continue;
            if (p.never != nullptr && p.never[i] != 0) continue;
#pragma unroll
            for (int c = 0; c < C; ++c) raw[c] = image[i * C + c];
        }
        if (model.count[i] == 0 || model.weight[i] < MIN_WEIGHT) continue;
        std::uint32_t mean = 0, level = 0;
        bool bright = false;
#pragma unroll
        for (int c = 0; c < C; ++c) {
            mean += model.mean[static_cast<std::size_t>(c) * p.plane + i];
            level += P::level(raw[c]);
            bright = bright || P::level(raw[c]) >= SATURATED;
        }
        if (bright || mean < MIN_LEVEL * C) continue;
        const std::uint32_t ratio = (level * 256 + mean / 2) / mean;
        const std::uint32_t bin = ratio < BINS ? ratio : BINS - 1;
        atomicAdd(&bins[0][bin], 1u);
        atomicAdd(&bins[1][bin], (level + 8) >> 4);
        atomicAdd(&bins[2][bin], (mean + 8) >> 4);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < BINS; i += SAMPLE_THREADS) {
        if (bins[0][i] == 0) continue;
        for (int k = 0; k < 3; ++k) atomicAdd(&now->bins[k][i], bins[k][i]);
    }
    if (!last_block(&now->tickets[1])) return;
    const float gain = gain_of(now->bins, state->gain);
    __syncthreads();
    if (threadIdx.x == 0) {
        state->gain = gain;
        numbers(*state, *now, p);
    }
}

// The picture as the model's grid sees it, where it lies elsewhere: pixels, which of them are not
// to be learnt from, and how much each may be wrong for its place.
template <typename P>
__device__ void move(const FgParams& p, const FgNow* now, const FgModel& model, const typename P::Raw* image,
                     const std::uint8_t* known, typename P::Raw* sampled, std::uint8_t* skip, std::uint16_t* slack) {
    constexpr int C = P::C;
    if (now->action == 0 || now->moved == 0) return;
    float grid[9];
    for (int k = 0; k < 9; ++k) grid[k] = now->to_picture[k];
    const std::size_t stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
    for (std::size_t i = global_index(); i < p.area; i += stride) {
        const std::uint32_t at = static_cast<std::uint32_t>(i);
        const std::uint32_t y = at / p.width, x = at - y * p.width;
        int u, v;
        if (!place(grid, x, y, 0.0f, p, u, v) || masked(u, v, p)) {
            skip[i] = SKIP;
            continue;
        }
        skip[i] = known != nullptr && known[nearest(u, v, p)] != 0 ? KNOWN : 0;
        std::uint32_t raw[C];
        sample<P>(image, u, v, p, raw);
#pragma unroll
        for (int c = 0; c < C; ++c) sampled[i * C + c] = static_cast<typename P::Raw>(raw[c]);
        const std::size_t around[5] = {i, x > 0 ? i - 1 : i, x + 1 < p.width ? i + 1 : i, y > 0 ? i - p.width : i,
                                       y + 1 < p.height ? i + p.width : i};
        std::uint32_t most = 0;
#pragma unroll
        for (int c = 0; c < C; ++c) {
            std::uint32_t low = 0xffff, high = 0;
#pragma unroll
            for (int k = 0; k < 5; ++k) {
                if (model.count[around[k]] == 0) continue;
                const std::uint32_t mean = model.mean[static_cast<std::size_t>(c) * p.plane + around[k]];
                low = mean < low ? mean : low;
                high = mean > high ? mean : high;
            }
            const std::uint32_t contrast = high > low ? high - low : 0;
            most = contrast > most ? contrast : most;
        }
        slack[i] = static_cast<std::uint16_t>(most / SLACK);
    }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(BEGIN_THREADS)
    foreground_begin(FgParams p, FgState* state, FgNow* now, const Motion* motion) {
    std::uint32_t* const bins = &now->bins[0][0];
    for (int i = threadIdx.x; i < 3 * BINS; i += BEGIN_THREADS) bins[i] = 0;
    if (threadIdx.x < PRODUCTS) now->products[threadIdx.x] = 0;
    if (threadIdx.x < UNKNOWNS) now->right[threadIdx.x] = 0;
    if (threadIdx.x != 0) return;
    now->samples = 0;
    now->tickets[0] = 0;
    now->tickets[1] = 0;
    now->action = 1;
    now->align = 0;
    now->moved = 0;
    const std::uint32_t kind = motion->state;
    if (kind == DRIVING) {
        forget(*state);
        now->action = 0;
        now->verdict = MASK_DRIVING;
        return;
    }
    if (kind != STILL && kind != SMALL_MOTION && state->learnt > 0) {
        now->action = 0;
        now->verdict = MASK_MOTION_UNKNOWN;
        return;
    }
    if (kind == SMALL_MOTION && state->learnt > 0) {
        if (!follow(state->anchor, motion->homography, p)) forget(*state);
        now->align = state->learnt >= GAIN_AFTER ? 1 : 0;
    }
    settle(*state, *now, p);
}

// For a frame that the model does not see: the camera's motion is kept for later.
extern "C" __global__ void __launch_bounds__(WARP)
    foreground_skip(FgParams p, FgState* state, std::uint32_t* verdict, const Motion* motion) {
    if (threadIdx.x != 0) return;
    if (motion->state == DRIVING) forget(*state);
    if (motion->state == SMALL_MOTION && state->learnt > 0 && !follow(state->anchor, motion->homography, p)) {
        forget(*state);
    }
    *verdict = MASK_SKIPPED;
}

#define FRAME_KERNELS(KIND, PIXEL)                                                                                \
    extern "C" __global__ void __launch_bounds__(SAMPLE_THREADS) foreground_align_##KIND(                         \
        FgParams p, FgState* state, FgNow* now, FgModel model, const PIXEL::Raw* image) {                         \
        align<PIXEL>(p, state, now, model, image);                                                                \
    }                                                                                                             \
    extern "C" __global__ void __launch_bounds__(SAMPLE_THREADS) foreground_gain_##KIND(                          \
        FgParams p, FgState* state, FgNow* now, FgModel model, const PIXEL::Raw* image, const std::uint8_t* known) { \
        measure<PIXEL>(p, state, now, model, image, known);                                                       \
    }                                                                                                             \
    extern "C" __global__ void __launch_bounds__(MOVE_THREADS) foreground_move_##KIND(                            \
        FgParams p, const FgNow* now, FgModel model, const PIXEL::Raw* image, const std::uint8_t* known,          \
        PIXEL::Raw* sampled, std::uint8_t* skip, std::uint16_t* slack) {                                          \
        move<PIXEL>(p, now, model, image, known, sampled, skip, slack);                                           \
    }

FRAME_KERNELS(grey8, Grey8)
FRAME_KERNELS(grey16, Grey16)
FRAME_KERNELS(rgb8, Rgb8)

// Each pixel of a moved picture has the code of the model's pixel nearest to it.
extern "C" __global__ void __launch_bounds__(MOVE_THREADS)
    foreground_codes(FgParams p, const FgNow* now, const std::uint8_t* codes, std::uint8_t* moved_codes) {
    if (now->action == 0 || now->moved == 0) return;
    float grid[9];
    for (int k = 0; k < 9; ++k) grid[k] = now->to_model[k];
    const std::size_t stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
    for (std::size_t i = global_index(); i < p.area; i += stride) {
        const std::uint32_t at = static_cast<std::uint32_t>(i);
        const std::uint32_t y = at / p.width, x = at - y * p.width;
        int u, v;
        const bool seen = place(grid, x, y, BEYOND, p, u, v);
        moved_codes[i] = seen ? codes[nearest(u, v, p)] : 0;
    }
}
