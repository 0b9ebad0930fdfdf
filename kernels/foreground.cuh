// What the foreground kernels share: stage::foreground states the contract, its files are the
// reference. Host twins of the structs are in stage/foreground/cuda.rs.
#pragma once
#include "common.cuh"

namespace roadloop {
namespace foreground {

constexpr int MAX_MODES = 5;
constexpr float ONE = 65535.0f;
constexpr float ROUND = 12582912.0f;
constexpr std::uint32_t GAIN_AFTER = 2;

constexpr std::uint32_t MOVING = 1;
constexpr std::uint32_t SHADOW = 2;
constexpr std::uint8_t SKIP = 1;
constexpr std::uint8_t KNOWN = 2;

constexpr int BINS = 1024;
constexpr int REACH = 3;
constexpr std::uint32_t MIN_SAMPLES = 64;
constexpr std::uint32_t MIN_WEIGHT = 39321;
constexpr std::uint32_t MIN_LEVEL = 16 * 256;
constexpr std::uint32_t SATURATED = 250 * 256;
constexpr float DEAD_BAND = 0.005f;

constexpr int PARTS = 8;
constexpr int OFFSET = 16 * PARTS;
constexpr float BEYOND = 8.0f;
constexpr int SLACK = 8;
constexpr int MOST_BRIGHTER = 24 * 16;
constexpr int UNITS = 64;
constexpr int UNKNOWNS = 6;
constexpr int PRODUCTS = UNKNOWNS * (UNKNOWNS + 1) / 2;

// frame::ForegroundState, in its order.
enum Verdict : std::uint32_t { MASK_WARMING_UP, MASK_VALID, MASK_DRIVING, MASK_MOTION_UNKNOWN, MASK_SKIPPED };

struct FgParams {
    std::uint32_t width, height, area;
    std::uint32_t plane;  // pixels of a plane, a multiple of 4
    std::uint32_t step;   // from one sample of the drift to the next
    std::uint32_t modes, history, warm_up, shadow, compensate;
    float match, background, first, background_weight;
    float variance_init, variance_min, variance_max;
    float shadow_ratio, shadow_max_ratio, shadow_threshold;
    float prior;
    std::uint32_t gain_step;
    const std::uint8_t* never;  // SKIP for pixels of the picture that are never to be used; may be null
};

// What lasts from frame to frame, besides the model.
struct FgState {
    double anchor[9];
    float gain;
    std::uint32_t learnt;
    float rate;  // below 0: automatic
    std::uint32_t pad;
};

// What holds for all pixels of a frame.
struct FgFrame {
    std::uint32_t learns;
    float rate, rate_weight, prune, single_rate, dither, inverse_gain, saturated;
};

// The frame at work; its sums are 0 when it begins.
struct FgNow {
    std::uint32_t action;  // whether the model sees this frame
    std::uint32_t verdict;
    std::uint32_t fresh;   // the model knows nothing
    std::uint32_t moved;
    std::uint32_t align;
    std::uint32_t measure;
    std::uint32_t tickets[2];
    float to_picture[9];
    float to_model[9];
    FgFrame frame;
    std::uint32_t samples;
    std::uint32_t pad;
    unsigned long long products[PRODUCTS];
    unsigned long long right[UNKNOWNS];
    std::uint32_t bins[3][BINS];
};
static_assert(sizeof(FgState) == 88 && sizeof(FgNow) == 12648, "as on the host");

// The model's planes: of counts one, of weights and variances one a mode, of means one a mode and
// channel, plane after plane.
struct FgModel {
    std::uint8_t* count;
    std::uint16_t* weight;
    std::uint16_t* variance;
    std::uint16_t* mean;
};

// --- where the picture lies on the model -------------------------------------------------------

// The place of a grid's pixel, in 1/PARTS px. False: farther than `beyond` px outside.
__device__ inline bool place(const float* g, std::uint32_t px, std::uint32_t py, float beyond, const FgParams& p,
                             int& u, int& v) {
    const float x = static_cast<float>(px), y = static_cast<float>(py);
    const float den = g[6] * x + g[7] * y + g[8];
    const float fu = (g[0] * x + g[1] * y + g[2]) / den;
    const float fv = (g[3] * x + g[4] * y + g[5]) / den;
    const bool inside = fu >= -0.5f - beyond && fu < static_cast<float>(p.width) - 0.5f + beyond &&
                        fv >= -0.5f - beyond && fv < static_cast<float>(p.height) - 0.5f + beyond;
    if (!inside) return false;
    u = static_cast<int>(fu * PARTS + (OFFSET + 0.5f)) - OFFSET;
    v = static_cast<int>(fv * PARTS + (OFFSET + 0.5f)) - OFFSET;
    return true;
}

__device__ inline int clamped(int p, int n) { return p < 0 ? 0 : (p < n ? p : n - 1); }

// Index of the pixel nearest to a place. The shift rounds down, as Euclid's division does.
__device__ inline std::size_t nearest(int u, int v, const FgParams& p) {
    const int x = clamped((u + PARTS / 2) >> 3, static_cast<int>(p.width));
    const int y = clamped((v + PARTS / 2) >> 3, static_cast<int>(p.height));
    return static_cast<std::size_t>(y) * p.width + x;
}
static_assert(PARTS == 8, "the shifts");

// --- pixels -------------------------------------------------------------------------------------

struct Grey8 {
    static constexpr int C = 1;
    using Raw = std::uint8_t;
    __device__ static std::uint32_t level(std::uint32_t raw) { return raw << 8; }
};
struct Grey16 {
    static constexpr int C = 1;
    using Raw = std::uint16_t;
    __device__ static std::uint32_t level(std::uint32_t raw) { return raw; }
};
struct Rgb8 {
    static constexpr int C = 3;
    using Raw = std::uint8_t;
    __device__ static std::uint32_t level(std::uint32_t raw) { return raw << 8; }
};

// A pixel of the picture where the model's lies, between four of its own.
template <typename P>
__device__ inline void sample(const typename P::Raw* image, int u, int v, const FgParams& p, std::uint32_t* raw) {
    const int w = static_cast<int>(p.width), h = static_cast<int>(p.height);
    const int x0 = clamped(u >> 3, w), x1 = clamped((u >> 3) + 1, w);
    const int y0 = clamped(v >> 3, h), y1 = clamped((v >> 3) + 1, h);
    const std::uint32_t a = u & 7, b = v & 7;
    const std::size_t top = static_cast<std::size_t>(y0) * w, bottom = static_cast<std::size_t>(y1) * w;
#pragma unroll
    for (int c = 0; c < P::C; ++c) {
        const std::uint32_t sum = (8 - a) * (8 - b) * image[(top + x0) * P::C + c] +
                                  a * (8 - b) * image[(top + x1) * P::C + c] +
                                  (8 - a) * b * image[(bottom + x0) * P::C + c] +
                                  a * b * image[(bottom + x1) * P::C + c];
        raw[c] = (sum + 32) >> 6;
    }
}

// Whether one of the pixels that `sample` reads is never to be used.
__device__ inline bool masked(int u, int v, const FgParams& p) {
    if (p.never == nullptr) return false;
    const int w = static_cast<int>(p.width), h = static_cast<int>(p.height);
    const int x0 = clamped(u >> 3, w), x1 = clamped((u >> 3) + 1, w);
    const std::size_t top = static_cast<std::size_t>(clamped(v >> 3, h)) * w;
    const std::size_t bottom = static_cast<std::size_t>(clamped((v >> 3) + 1, h)) * w;
    return (p.never[top + x0] | p.never[top + x1] | p.never[bottom + x0] | p.never[bottom + x1]) != 0;
}

}  // namespace foreground
}  // namespace roadloop
