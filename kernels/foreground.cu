// The model of the foreground stage and the median after it, a thread four pixels. What is known
// of the whole frame (motion, gain) comes from foreground_frame.cu.
#include "foreground.cuh"

using namespace roadloop;
using namespace roadloop::foreground;

namespace {

constexpr unsigned MODEL_THREADS = 128;
constexpr unsigned CLEAN_THREADS = 256;
// A tile of the median.
constexpr int TILE_X = 128;
constexpr int TILE_Y = 8;

__device__ inline std::uint32_t whole(float value, float dither) {
    return __float_as_uint(value + dither + ROUND) & 0xffffu;
}

__device__ inline float held(float value, float low, float high) {
    value = value < low ? low : value;
    return value > high ? high : value;
}

// The number itself, as a float: 2^23 and it, less 2^23.
__device__ inline float number(std::uint32_t u16) { return __uint_as_float(0x4b000000u | u16) - 8388608.0f; }

__device__ inline std::uint32_t half(uint2 four, int j) {
    const std::uint32_t two = j < 2 ? four.x : four.y;
    return j % 2 == 0 ? two & 0xffffu : two >> 16;
}

__device__ inline void set_half(uint2& four, int j, std::uint32_t value) {
    std::uint32_t& two = j < 2 ? four.x : four.y;
    two = j % 2 == 0 ? __byte_perm(two, value, 0x3254) : __byte_perm(two, value, 0x5410);
}

__device__ inline uint2 four_of(const std::uint16_t* plane, std::size_t p) {
    return *reinterpret_cast<const uint2*>(plane + p);
}

__device__ inline void put_four(std::uint16_t* plane, std::size_t p, uint2 four) {
    *reinterpret_cast<uint2*>(plane + p) = four;
}

__device__ inline float difference(const FgFrame& f, float x, float mean) {
    const float d = x - mean;
    return x >= f.saturated && d < 0.0f ? 0.0f : d;
}

__device__ inline float unexplained(float d, float slack) {
    d = (d < 0.0f ? -d : d) - slack;
    return d > 0.0f ? d : 0.0f;
}

// Squared distances: of the pixel, and what of it the place does not explain.
template <int C, bool MOVED>
__device__ inline void distances(const FgFrame& f, const float* x, const float* mean, float slack, float* d, float& d2,
                                 float& apart) {
    d2 = 0.0f;
    apart = 0.0f;
#pragma unroll
    for (int c = 0; c < C; ++c) {
        d[c] = difference(f, x[c], mean[c]);
        const float levels = d[c] * (1.0f / 256.0f);
        d2 += levels * levels;
        if (MOVED) {
            const float left = unexplained(d[c], slack) * (1.0f / 256.0f);
            apart += left * left;
        }
    }
    if (!MOVED) apart = d2;
}

template <int C>
__device__ inline bool looks_shadowed(const FgParams& p, const float* x, const float* mean, float v) {
    float num = 0.0f, den = 0.0f;
#pragma unroll
    for (int c = 0; c < C; ++c) {
        const float a = x[c] * (1.0f / 256.0f), mu = mean[c] * (1.0f / 256.0f);
        num += a * mu;
        den += mu * mu;
    }
    const float a = num / (den > 0.0f ? den : 1.0f);
    float e = 0.0f;
#pragma unroll
    for (int c = 0; c < C; ++c) {
        const float q = a * (mean[c] * (1.0f / 256.0f)) - x[c] * (1.0f / 256.0f);
        e += q * q;
    }
    return den > 0.0f && num <= p.shadow_max_ratio * den && num >= p.shadow_ratio * den &&
           e < p.shadow_threshold * v * a * a;
}

// One pixel that does not match its heaviest mode as background: all modes, insertion, order.
// Returns the code. All modes are read before anything waits for one of them; modes beyond the
// pixel's are not.
template <int C, bool MOVED>
__device__ inline std::uint32_t any_pixel(const FgParams& p, const FgFrame& f, const FgModel& model, std::size_t i,
                                          std::uint32_t count, const float* x, float slack) {
    // Two numbers a register.
    std::uint32_t shape[MAX_MODES], means[MAX_MODES][(C + 1) / 2];
#pragma unroll
    for (int m = 0; m < MAX_MODES; ++m) {
        const bool there = m < static_cast<int>(count);
        const std::size_t q = static_cast<std::size_t>(m) * p.plane + i;
        const std::uint32_t weight = there ? model.weight[q] : 0u, variance = there ? model.variance[q] : 0u;
        shape[m] = weight | variance << 16;
#pragma unroll
        for (int c = 0; c < C; c += 2) {
            const std::size_t at = (static_cast<std::size_t>(m) * C + c) * p.plane + i;
            const std::uint32_t one = there ? model.mean[at] : 0u;
            const std::uint32_t other = there && c + 1 < C ? model.mean[at + p.plane] : 0u;
            means[m][c / 2] = one | other << 16;
        }
    }
    // Addresses are worked out again where they are written to: kept, they would take half of all
    // registers.
    asm volatile("" : "+l"(i));
    const auto mean_of = [&](int m, int c) {
        return c % 2 == 0 ? means[m][c / 2] & 0xffffu : means[m][c / 2] >> 16;
    };
    float w[MAX_MODES];
    float before = 0.0f, new_v = p.variance_init, new_mean[C];
    std::uint32_t kept = 0;
    int at = -1;
    bool background = false, shadow = false;
#pragma unroll
    for (int c = 0; c < C; ++c) new_mean[c] = x[c];
#pragma unroll
    for (int m = 0; m < MAX_MODES; ++m) {
        w[m] = 0.0f;
        if (m < static_cast<int>(count)) {
            const float old = number(shape[m] & 0xffffu);
            float weight = old - f.rate * old - f.prune;
            const bool ground = before < p.background_weight;
            if (at < 0 || p.shadow) {
                const float v = number(shape[m] >> 16) * (1.0f / 256.0f);
                float mean[C], d[C], d2, apart;
#pragma unroll
                for (int c = 0; c < C; ++c) mean[c] = number(mean_of(m, c));
                if (p.shadow && ground) shadow |= looks_shadowed<C>(p, x, mean, v);
                if (at < 0) {
                    distances<C, MOVED>(f, x, mean, slack, d, d2, apart);
                    background |= ground && apart < p.background * v;
                    if (apart < p.match * v) {
                        at = m;
                        weight += f.rate_weight;
                        float k = f.rate_weight / weight;
                        k = k < 1.0f ? k : 1.0f;
#pragma unroll
                        for (int c = 0; c < C; ++c) new_mean[c] = held(mean[c] + k * d[c], 0.0f, ONE);
                        new_v = held(v + k * (d2 - v), p.variance_min, p.variance_max);
                    }
                }
            }
            const bool keep = weight >= f.prune;
            kept += keep;
            w[m] = keep ? weight : 0.0f;
            before += w[m];
        }
    }
    const std::uint32_t code = background || count == 0 ? 0 : MOVING | (shadow ? SHADOW : 0);
    if (!f.learns) return code;

    const float norm = before > 0.0f ? ONE / before : 0.0f;
#pragma unroll
    for (int m = 0; m < MAX_MODES; ++m) w[m] *= norm;
    if (at < 0) {
        at = static_cast<int>(kept < p.modes - 1 ? kept : p.modes - 1);
        kept = at + 1;
#pragma unroll
        for (int m = 0; m < MAX_MODES; ++m) {
            if (m < at) w[m] *= 1.0f - f.rate;
            if (m == at) w[m] = f.rate_weight;
        }
    }
#pragma unroll
    for (int m = MAX_MODES - 1; m > 0; --m) {
        if (m == at && w[m] >= w[m - 1]) {
            const float weight = w[m];
            w[m] = w[m - 1];
            w[m - 1] = weight;
            if (m < static_cast<int>(kept)) {
                const std::size_t to = static_cast<std::size_t>(m) * p.plane + i;
                model.variance[to] = static_cast<std::uint16_t>(shape[m - 1] >> 16);
#pragma unroll
                for (int c = 0; c < C; ++c) {
                    const std::size_t mean = (static_cast<std::size_t>(m) * C + c) * p.plane + i;
                    model.mean[mean] = static_cast<std::uint16_t>(mean_of(m - 1, c));
                }
            }
            at = m - 1;
        }
    }
    if (kept == 1) w[0] = ONE;
    const std::size_t q = static_cast<std::size_t>(at) * p.plane + i;
    model.variance[q] = static_cast<std::uint16_t>(whole(new_v * 256.0f, f.dither));
#pragma unroll
    for (int c = 0; c < C; ++c) {
        model.mean[(static_cast<std::size_t>(at) * C + c) * p.plane + i] =
            static_cast<std::uint16_t>(whole(new_mean[c], f.dither));
    }
#pragma unroll
    for (int m = 0; m < MAX_MODES; ++m) {
        if (m < static_cast<int>(kept)) {
            model.weight[static_cast<std::size_t>(m) * p.plane + i] =
                static_cast<std::uint16_t>(whole(held(w[m], 0.0f, ONE), f.dither));
        }
    }
    if (kept != count) model.count[i] = static_cast<std::uint8_t>(kept);
    return code;
}

// Weights of four pixels of which those in `hits` match their heaviest mode; their rates, and
// their counts in `counts`. No order changes.
__device__ inline void weights_of_four(const FgParams& p, const FgFrame& f, const FgModel& model, std::size_t base,
                                       std::uint32_t hits, std::uint32_t most, std::uint32_t& counts, float* k) {
    // All are read before anything waits for one of them.
    uint2 weights[MAX_MODES];
#pragma unroll
    for (int m = 0; m < MAX_MODES; ++m) {
        weights[m] = make_uint2(0, 0);
        if (m < static_cast<int>(most)) {
            weights[m] = four_of(model.weight + static_cast<std::size_t>(m) * p.plane, base);
        }
    }
    float sum[4];
    std::uint32_t kept = 0;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        const float old = number(half(weights[0], j));
        const float weight = old - f.rate * old - f.prune + f.rate_weight;
        const float rate = f.rate_weight / weight;
        k[j] = rate < 1.0f ? rate : 1.0f;
        sum[j] = weight;
        kept |= 1u << (8 * j);
    }
#pragma unroll
    for (int m = 1; m < MAX_MODES; ++m) {
        if (m >= static_cast<int>(most)) continue;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const float old = number(half(weights[m], j));
            const float weight = old - f.rate * old - f.prune;
            const bool keep = m < static_cast<int>(counts >> (8 * j) & 0xff) && weight >= f.prune;
            if (keep) {
                sum[j] += weight;
                kept += 1u << (8 * j);
            }
        }
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) sum[j] = ONE / sum[j];
#pragma unroll
    for (int m = 0; m < MAX_MODES; ++m) {
        if (m >= static_cast<int>(most)) continue;
        uint2 four = weights[m];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            if (!(hits >> j & 1) || m >= static_cast<int>(counts >> (8 * j) & 0xff)) continue;
            const float old = number(half(four, j));
            float weight = old - f.rate * old - f.prune;
            if (m == 0) {
                weight = held((weight + f.rate_weight) * sum[j], 0.0f, ONE);
                if ((kept >> (8 * j) & 0xff) == 1) weight = ONE;
            } else {
                weight = weight >= f.prune ? weight * sum[j] : 0.0f;
            }
            set_half(four, j, whole(weight, f.dither));
        }
        put_four(model.weight + static_cast<std::size_t>(m) * p.plane, base, four);
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        const std::uint32_t mask = 0xffu << (8 * j);
        if (hits >> j & 1) counts = (counts & ~mask) | (kept & mask);
    }
}

// A pixel as the model's first frame would have it.
__device__ inline float evened(float level, const FgFrame& f) {
    level *= f.inverse_gain;
    return level > ONE ? ONE : level;
}

template <typename P>
__device__ inline void load_four(const typename P::Raw* image, std::size_t base, const FgParams& p, const FgFrame& f,
                                 float (*x)[4]) {
    constexpr int C = P::C;
    std::uint32_t raw[C][4];
    if (base + 4 <= p.area) {
        if (sizeof(typename P::Raw) == 2) {
            const uint2 four = *reinterpret_cast<const uint2*>(image + base);
#pragma unroll
            for (int j = 0; j < 4; ++j) raw[0][j] = half(four, j);
        } else {
            const std::uint32_t* const words = reinterpret_cast<const std::uint32_t*>(image + base * C);
            std::uint32_t word[C];
#pragma unroll
            for (int c = 0; c < C; ++c) word[c] = words[c];
#pragma unroll
            for (int j = 0; j < 4; ++j) {
#pragma unroll
                for (int c = 0; c < C; ++c) {
                    const int byte = j * C + c;
                    raw[c][j] = word[byte / 4] >> (8 * (byte % 4)) & 0xff;
                }
            }
        }
    } else {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
#pragma unroll
            for (int c = 0; c < C; ++c) raw[c][j] = base + j < p.area ? image[(base + j) * C + c] : 0;
        }
    }
#pragma unroll
    for (int c = 0; c < C; ++c) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            x[c][j] = evened(number(P::level(raw[c][j])), f);
        }
    }
}

// Pixels of a block that need all of their modes: four times the thread and which of its pixels, and
// from bit 9 on how many modes it has.
struct Later {
    std::uint16_t list[4 * MODEL_THREADS];
    std::uint32_t count;
};
static_assert(4 * MODEL_THREADS <= 512, "9 bits");

// Four pixels of which most match their heaviest mode. Gives those that do not, and the counts.
template <typename P, bool MOVED>
__device__ inline std::uint32_t four_pixels(const FgParams& p, const FgFrame& f, const FgModel& model,
                                   const typename P::Raw* image, const std::uint8_t* skips, bool known,
                                   const std::uint16_t* slacks, bool fresh, std::uint8_t* codes,
                                   std::size_t base, std::uint32_t& counts) {
    constexpr int C = P::C;
    counts = fresh ? 0 : *reinterpret_cast<const std::uint32_t*>(model.count + base);
    const std::uint32_t counts_before = counts;
    uint2 means[C];
    const uint2 variances = four_of(model.variance, base);
#pragma unroll
    for (int c = 0; c < C; ++c) means[c] = four_of(model.mean + static_cast<std::size_t>(c) * p.plane, base);
    float x[C][4];
    load_four<P>(image, base, p, f, x);
    std::uint32_t skip = 0;
    float slack[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    if (MOVED) {
        skip = *reinterpret_cast<const std::uint32_t*>(skips + base);
        const uint2 four = four_of(slacks, base);
#pragma unroll
        for (int j = 0; j < 4; ++j) slack[j] = number(half(four, j));
    } else {
        if (known) {
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                const bool set = base + j < p.area && skips[base + j] != 0;
                skip |= (set ? KNOWN : 0u) << (8 * j);
            }
        }
        // Of a pixel that is known too nothing is said either.
        if (p.never != nullptr) skip |= *reinterpret_cast<const std::uint32_t*>(p.never + base);
    }

    std::uint32_t hits = 0, rest = 0, code = 0, most = 1;
    float d[C][4], d2[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        const std::uint32_t count = counts >> (8 * j) & 0xff;
        const std::uint32_t held_back = skip >> (8 * j) & 0xff;
        if (base + j >= p.area) continue;
        if (held_back != 0) {
            code |= (held_back == KNOWN ? MOVING : 0u) << (8 * j);
            continue;
        }
        float mean[C], at[C], apart, difference[C];
#pragma unroll
        for (int c = 0; c < C; ++c) {
            mean[c] = number(half(means[c], j));
            at[c] = x[c][j];
        }
        distances<C, MOVED>(f, at, mean, slack[j], difference, d2[j], apart);
#pragma unroll
        for (int c = 0; c < C; ++c) d[c][j] = difference[c];
        const float v = number(half(variances, j)) * (1.0f / 256.0f);
        if (count != 0 && apart < p.match * v && apart < p.first * v) {
            hits |= 1u << j;
            most = count > most ? count : most;
        } else {
            rest |= 1u << j;
        }
    }
    if (f.learns && hits != 0) {
        float k[4] = {f.single_rate, f.single_rate, f.single_rate, f.single_rate};
        if (most > 1) {
            float rates[4];
            const std::uint32_t single = counts;
            weights_of_four(p, f, model, base, hits, most, counts, rates);
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                // A pixel's only mode has weight 1: both rates are the same number.
                k[j] = (single >> (8 * j) & 0xff) > 1 ? rates[j] : k[j];
            }
        }
        uint2 v4 = variances;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            if (!(hits >> j & 1)) continue;
#pragma unroll
            for (int c = 0; c < C; ++c) {
                const float mean = number(half(means[c], j)) + k[j] * d[c][j];
                set_half(means[c], j, whole(held(mean, 0.0f, ONE), f.dither));
            }
            const float v = number(half(variances, j)) * (1.0f / 256.0f);
            const float next = held(v + k[j] * (d2[j] - v), p.variance_min, p.variance_max);
            set_half(v4, j, whole(next * 256.0f, f.dither));
        }
        put_four(model.variance, base, v4);
#pragma unroll
        for (int c = 0; c < C; ++c) put_four(model.mean + static_cast<std::size_t>(c) * p.plane, base, means[c]);
    }
    if (f.learns && (fresh || counts != counts_before)) {
        *reinterpret_cast<std::uint32_t*>(model.count + base) = counts;
    }
    *reinterpret_cast<std::uint32_t*>(codes + base) = code;
    return rest;
}

// The pixels of a block: those that need little by fours; the others, however they lie, side by
// side behind them.
template <typename P, bool MOVED>
__device__ inline void pixels(const FgParams& p, const FgFrame& f, const FgModel& model,
                              const typename P::Raw* image, const std::uint8_t* skips, bool known,
                              const std::uint16_t* slacks, bool fresh, std::uint8_t* codes, Later& later) {
    constexpr int C = P::C;
    const std::size_t base = 4 * global_index();
    std::uint32_t rest = 0, counts = 0;
    if (base < p.area) {
        rest = four_pixels<P, MOVED>(p, f, model, image, skips, known, slacks, fresh, codes, base, counts);
    }
    if (__any_sync(ALL_LANES, rest != 0)) {
        const std::uint32_t own = static_cast<std::uint32_t>(__popc(rest));
        const std::uint32_t before = warp_prefix_sum_exclusive(own);
        std::uint32_t at = 0;
        if (lane_id() == WARP - 1) at = atomicAdd(&later.count, before + own);
        at = __shfl_sync(ALL_LANES, at, WARP - 1) + before;
#pragma unroll
        for (std::uint32_t j = 0; j < 4; ++j) {
            if (!(rest >> j & 1)) continue;
            later.list[at++] = static_cast<std::uint16_t>((4 * threadIdx.x + j) | (counts >> (8 * j) & 0xff) << 9);
        }
    }
    __syncthreads();
    const std::uint32_t n = later.count;
    const std::size_t first = 4 * static_cast<std::size_t>(blockIdx.x) * MODEL_THREADS;
#pragma unroll 1
    for (std::uint32_t k = threadIdx.x; k < n; k += MODEL_THREADS) {
        const std::uint32_t entry = later.list[k];
        const std::size_t i = first + (entry & 511);
        float x[C];
#pragma unroll
        for (int c = 0; c < C; ++c) x[c] = evened(number(P::level(image[i * C + c])), f);
        const float slack = MOVED ? number(slacks[i]) : 0.0f;
        codes[i] = static_cast<std::uint8_t>(any_pixel<C, MOVED>(p, f, model, i, entry >> 9, x, slack));
    }
}

template <typename P>
__device__ inline void model_step(const FgParams& p, const FgNow* now, const FgModel& model,
                                  const typename P::Raw* image, const typename P::Raw* sampled,
                                  const std::uint8_t* skip, const std::uint16_t* slack, const std::uint8_t* known,
                                  std::uint8_t* codes) {
    if (now->action == 0) return;
    __shared__ Later later;
    if (threadIdx.x == 0) later.count = 0;
    __syncthreads();
    const FgFrame f = now->frame;
    const bool fresh = now->fresh != 0;
    if (now->moved != 0) {
        pixels<P, true>(p, f, model, sampled, skip, false, slack, fresh, codes, later);
    } else {
        pixels<P, false>(p, f, model, image, known, known != nullptr, slack, fresh, codes, later);
    }
}

}  // namespace

#define MODEL_KERNEL(NAME, PIXEL, BLOCKS)                                                                                 \
    extern "C" __global__ void __launch_bounds__(MODEL_THREADS, BLOCKS)                                                 \
        NAME(FgParams p, const FgNow* now, FgModel model, const PIXEL::Raw* image, const PIXEL::Raw* sampled,     \
             const std::uint8_t* skip, const std::uint16_t* slack, const std::uint8_t* known,                     \
             std::uint8_t* codes) {                                                                               \
        model_step<PIXEL>(p, now, model, image, sampled, skip, slack, known, codes);                              \
    }

MODEL_KERNEL(foreground_model_grey8, Grey8, 6)
MODEL_KERNEL(foreground_model_grey16, Grey16, 6)
MODEL_KERNEL(foreground_model_rgb8, Rgb8, 5)

namespace {

// Four bytes of a row of words from `shift` bytes on before the middle word; -2..2.
__device__ inline std::uint32_t shifted(std::uint32_t left, std::uint32_t middle, std::uint32_t right, int shift) {
    if (shift < 0) return __funnelshift_r(left, middle, 32 + 8 * shift);
    return shift == 0 ? middle : __funnelshift_r(middle, right, 8 * shift);
}

template <int R>
__device__ inline void clean(const FgParams& p, const FgNow* now, const std::uint8_t* codes,
                             const std::uint8_t* moved_codes, const std::uint8_t* known, std::uint8_t* mask,
                             std::uint32_t* verdict) {
    constexpr int ROW = TILE_X + 8;  // 4 before the tile, 4 behind: whole words
    constexpr int SIDE = 2 * R + 1;
    __shared__ std::uint32_t tile[TILE_Y + 2 * R][ROW / 4];
    __shared__ std::uint32_t sums[TILE_Y][ROW / 4];
    const int x0 = blockIdx.x * TILE_X, y0 = blockIdx.y * TILE_Y;
    const int w = static_cast<int>(p.width), h = static_cast<int>(p.height);
    if (blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0) *verdict = now->verdict;
    const int column = threadIdx.x % (TILE_X / 4), row = threadIdx.x / (TILE_X / 4);
    const int x = x0 + 4 * column, y = y0 + row;
    const std::size_t out = static_cast<std::size_t>(y) * w + x;
    std::uint32_t result = 0;
    if (now->verdict == MASK_VALID) {
        const std::uint8_t* const from = now->moved != 0 ? moved_codes : codes;
        std::uint8_t* const bytes = reinterpret_cast<std::uint8_t*>(tile);
        // Four at a time where they are whole words of the picture.
        const bool words = w % 4 == 0 && x0 >= 4 && x0 + TILE_X + 4 <= w;
        for (int i = threadIdx.x; words && i < (TILE_Y + 2 * R) * (ROW / 4); i += CLEAN_THREADS) {
            const int ty = clamped(y0 - R + i / (ROW / 4), h);
            const std::size_t at = static_cast<std::size_t>(ty) * w + (x0 - 4 + 4 * (i % (ROW / 4)));
            const std::uint32_t four = *reinterpret_cast<const std::uint32_t*>(from + at);
            tile[i / (ROW / 4)][i % (ROW / 4)] = (four & 0x01010101u) | (four & 0x02020202u) << 3;
        }
        for (int i = threadIdx.x; !words && i < (TILE_Y + 2 * R) * ROW; i += CLEAN_THREADS) {
            const int tx = clamped(x0 - 4 + i % ROW, w), ty = clamped(y0 - R + i / ROW, h);
            const std::uint8_t code = from[static_cast<std::size_t>(ty) * w + tx];
            bytes[i] = (code & 1) | (code & 2) << 3;
        }
        __syncthreads();
        for (int i = threadIdx.x; i < TILE_Y * (ROW / 4); i += CLEAN_THREADS) {
            std::uint32_t sum = 0;
#pragma unroll
            for (int k = 0; k < SIDE; ++k) sum += tile[i / (ROW / 4) + k][i % (ROW / 4)];
            sums[i / (ROW / 4)][i % (ROW / 4)] = sum;
        }
        __syncthreads();
        const std::uint32_t left = sums[row][column], middle = sums[row][column + 1], right = sums[row][column + 2];
        std::uint32_t moving = 0, shadows = 0;
#pragma unroll
        for (int k = -R; k <= R; ++k) {
            const std::uint32_t four = shifted(left, middle, right, k);
            moving += four & 0x0f0f0f0fu;
            shadows += four >> 4 & 0x0f0f0f0fu;
        }
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const std::uint32_t n = moving >> (8 * j) & 0xff, s = shadows >> (8 * j) & 0xff;
            const std::uint32_t code = 2 * n <= SIDE * SIDE ? 0u : (5 * s >= 4 * n ? 127u : 255u);
            result |= code << (8 * j);
        }
        if (known != nullptr && y < h) {
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                if (x + j < w && known[out + j] != 0) result |= 0xffu << (8 * j);
            }
        }
        if (p.never != nullptr && y < h) {
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                if (x + j < w && p.never[out + j] != 0) result &= ~(0xffu << (8 * j));
            }
        }
    }
    if (y >= h || x >= w) return;
    if (w % 4 == 0) {
        *reinterpret_cast<std::uint32_t*>(mask + out) = result;
    } else {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            if (x + j < w) mask[out + j] = static_cast<std::uint8_t>(result >> (8 * j));
        }
    }
}

}  // namespace

#define CLEAN_KERNEL(NAME, R)                                                                                  \
    extern "C" __global__ void __launch_bounds__(CLEAN_THREADS)                                                \
        NAME(FgParams p, const FgNow* now, const std::uint8_t* codes, const std::uint8_t* moved_codes,         \
             const std::uint8_t* known, std::uint8_t* mask, std::uint32_t* verdict) {                          \
        clean<R>(p, now, codes, moved_codes, known, mask, verdict);                                            \
    }

CLEAN_KERNEL(foreground_clean_1, 0)
CLEAN_KERNEL(foreground_clean_3, 1)
CLEAN_KERNEL(foreground_clean_5, 2)
