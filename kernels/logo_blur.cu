// Levels of the octaves (rules 1 and 2 of the contract): a tile of 64x32 pixels a block, both
// directions of the blur in one kernel.
//
// Down the columns the sums stay below 2^23 and are taken in f32, twice as fast as whole numbers:
// 2^23 + sum is exact, and its low bits are the sum. Along the rows they need 32 bits.
#include "logo.cuh"

using namespace roadloop;
using namespace roadloop::logo;

namespace {

constexpr int TILE_W = 64, TILE_H = 32, THREADS = 256;
constexpr int MAX_RADIUS = 16;
constexpr float MAGIC = 8388608.0f;

// One level from another.
struct Job {
    std::uint32_t octave, level;
    std::uint32_t source;  // 0: the level before; 1: every second pixel of the octave before; 2: the image
    std::uint32_t radius;  // one of the kernel's; weights beyond the blur's own are 0
    std::uint32_t reserved[2];
    float weights[MAX_RADIUS + 1];
    std::uint32_t whole_weights[MAX_RADIUS + 1];
};

__device__ int reflect_often(int i, int n) {
    if (n <= 1) return 0;
    const int period = 2 * (n - 1);
    i %= period;
    if (i < 0) i += period;
    return min(i, period - i);
}

// Once is enough in an image larger than the blur's radius; what lies farther out is not used, but
// is read inside the image.
__device__ int reflect(int i, int n) {
    i = abs(i);
    return max(min(i, 2 * (n - 1) - i), 0);
}

// What is blurred: every `step`-th pixel of a level, or the image.
struct Source {
    const std::uint16_t *level;
    const std::uint8_t *image;
    int pitch;
    int step;

    // Pixel (x, y), inside it.
    __device__ unsigned operator()(int x, int y) const {
        return level[static_cast<std::size_t>(step * y) * pitch + step * x];
    }
    // Of the image, at half the pixel distance where `step` is 2.
    __device__ unsigned grey(int x, int y) const {
        if (step == 1) return static_cast<unsigned>(image[static_cast<std::size_t>(y) * pitch + x]) << 6;
        const std::uint8_t *above = image + static_cast<std::size_t>(y / 2) * pitch;
        const std::uint8_t *below = image + static_cast<std::size_t>((y + 1) / 2) * pitch;
        const int left = x / 2, right = (x + 1) / 2;
        return static_cast<unsigned>(above[left] + above[right] + below[left] + below[right]) << 4;
    }
};

// Weights stand in the kernel's parameters, at addresses known to the compiler: operands of their own.
template <int R>
__device__ void blur_tile(const Job &job, const Source &source, Extent size, int x0, int y0, int pitch,
                          std::uint16_t *out, std::uint16_t *copy, std::uint32_t *shared) {
    // Four pixels are loaded at once.
    constexpr int RE = (R + 3) / 4 * 4;
    constexpr int QUADS = (TILE_W + 2 * RE) / 4, PAIRS = 2 * QUADS, ROWS = TILE_H + 2 * R;
    constexpr int LOADS = (QUADS * ROWS + THREADS - 1) / THREADS;
    constexpr int SUMS = (TILE_W + 2 * RE) | 1;
    std::uint32_t *tile = shared, *sums = shared + PAIRS * ROWS;
    const int left = x0 - RE, top = y0 - R;
    const bool inside = left >= 0 && top >= 0 && left + 2 * PAIRS <= size.width && top + ROWS <= size.height;
    // All loads of a thread before the first store: they wait for memory together.
    uint2 quads[LOADS];
    const bool tiny = size.width <= R || size.height <= R;
    if (source.level == nullptr || tiny) {
#pragma unroll 1
        for (int i = static_cast<int>(threadIdx.x); i < QUADS * ROWS; i += THREADS) {
            const int x = left + 4 * (i % QUADS), j = top + i / QUADS;
            const int y = tiny ? reflect_often(j, size.height) : reflect(j, size.height);
            unsigned v[4];
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const int u = tiny ? reflect_often(x + e, size.width) : reflect(x + e, size.width);
                v[e] = source.level == nullptr ? source.grey(u, y) : source(u, y);
            }
            *reinterpret_cast<uint2 *>(tile + 2 * i) = {v[0] | v[1] << 16, v[2] | v[3] << 16};
        }
    } else {
        if (inside && source.step == 1) {
#pragma unroll
            for (int l = 0; l < LOADS; ++l) {
                const int i = static_cast<int>(threadIdx.x) + l * THREADS;
                const int x = left + 4 * (i % QUADS), y = top + i / QUADS;
                if (i < QUADS * ROWS)
                    quads[l] = *reinterpret_cast<const uint2 *>(source.level + static_cast<std::size_t>(y) * pitch + x);
            }
        } else {
#pragma unroll
            for (int l = 0; l < LOADS; ++l) {
                const int i = static_cast<int>(threadIdx.x) + l * THREADS;
                const int x = left + 4 * (i % QUADS), y = reflect(top + i / QUADS, size.height);
                if (i < QUADS * ROWS) {
                    unsigned v[4];
#pragma unroll
                    for (int e = 0; e < 4; ++e) v[e] = source(reflect(x + e, size.width), y);
                    quads[l] = {v[0] | v[1] << 16, v[2] | v[3] << 16};
                }
            }
        }
#pragma unroll
        for (int l = 0; l < LOADS; ++l) {
            const int i = static_cast<int>(threadIdx.x) + l * THREADS;
            if (i < QUADS * ROWS) *reinterpret_cast<uint2 *>(tile + 2 * i) = quads[l];
        }
    }
    __syncthreads();
    if (copy != nullptr) {
        for (int i = static_cast<int>(threadIdx.x); i < TILE_W / 2 * TILE_H; i += THREADS) {
            const int p = i % (TILE_W / 2), j = i / (TILE_W / 2);
            if (y0 + j < size.height)
                *reinterpret_cast<std::uint32_t *>(copy + static_cast<std::size_t>(y0 + j) * pitch + x0 + 2 * p) =
                    tile[(R + j) * PAIRS + RE / 2 + p];
        }
    }
    constexpr int RUN = 8;
    static_assert(PAIRS * (TILE_H / RUN) <= THREADS, "a thread a run of pixels down two columns");
    if (static_cast<int>(threadIdx.x) < PAIRS * (TILE_H / RUN)) {
        const int p = static_cast<int>(threadIdx.x) % PAIRS, first = static_cast<int>(threadIdx.x) / PAIRS * RUN;
        float low[RUN], high[RUN];
#pragma unroll
        for (int o = 0; o < RUN; ++o) low[o] = high[o] = MAGIC;
#pragma unroll
        for (int j = 0; j < RUN + 2 * R; ++j) {
            const std::uint32_t v = tile[(first + j) * PAIRS + p];
            const float a = __uint_as_float((v & 0xffffu) | 0x4b000000u) - MAGIC;
            const float b = __uint_as_float(v >> 16 | 0x4b000000u) - MAGIC;
#pragma unroll
            for (int o = 0; o < RUN; ++o) {
                const int k = j - o - R;
                if (k >= -R && k <= R) {
                    // Exact, so that rounding once or twice is the same.
                    low[o] = __fmaf_rn(job.weights[k < 0 ? -k : k], a, low[o]);
                    high[o] = __fmaf_rn(job.weights[k < 0 ? -k : k], b, high[o]);
                }
            }
        }
#pragma unroll
        for (int o = 0; o < RUN; ++o) {
            sums[(first + o) * SUMS + 2 * p] = __float_as_uint(low[o]) & 0x7fffffu;
            sums[(first + o) * SUMS + 2 * p + 1] = __float_as_uint(high[o]) & 0x7fffffu;
        }
    }
    __syncthreads();
    // A lane a row, 8 pixels each.
    constexpr int ALONG = TILE_W / (THREADS / WARP);
    const int row = lane_id(), start = warp_id() * ALONG;
    std::uint32_t acc[ALONG];
#pragma unroll
    for (int o = 0; o < ALONG; ++o) acc[o] = 1u << 17;
#pragma unroll
    for (int j = 0; j < ALONG + 2 * R; ++j) {
        const std::uint32_t v = sums[row * SUMS + RE - R + start + j];
#pragma unroll
        for (int o = 0; o < ALONG; ++o) {
            const int k = j - o - R;
            if (k >= -R && k <= R) acc[o] += job.whole_weights[k < 0 ? -k : k] * v;
        }
    }
    if (y0 + row >= size.height) return;
    static_assert(ALONG == 8, "16 bytes");
    const auto pair = [&acc](int i) { return (acc[2 * i] >> 18) | (acc[2 * i + 1] >> 18) << 16; };
    // Rows have room for whole tiles.
    *reinterpret_cast<uint4 *>(out + static_cast<std::size_t>(y0 + row) * pitch + x0 + start) = {pair(0), pair(1),
                                                                                             pair(2), pair(3)};
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS, 4)
    logo_blur(Geometry g, Job job, const Region *region, const std::uint8_t *image, std::uint16_t *levels) {
    extern __shared__ std::uint32_t shared[];
    const Region r = *region;
    const int octave = static_cast<int>(job.octave);
    const Extent size = octave_size(g, r, octave);
    const int x0 = static_cast<int>(blockIdx.x) * TILE_W, y0 = static_cast<int>(blockIdx.y) * TILE_H;
    if (x0 >= size.width || y0 >= size.height) return;
    const int pitch = static_cast<int>(g.pitch[octave]);
    std::uint16_t *own = levels + g.offset[octave];
    std::uint16_t *out = own + job.level * g.plane[octave], *copy = nullptr;
    Source source{out - g.plane[octave], nullptr, pitch, 1};
    if (job.source == 1) {
        source = {levels + g.offset[octave - 1] + g.intervals * g.plane[octave - 1], nullptr,
                  static_cast<int>(g.pitch[octave - 1]), 2};
        copy = own;
    } else if (job.source == 2) {
        source = {nullptr, image + static_cast<std::size_t>(r.y) * g.image_pitch + r.x,
                  static_cast<int>(g.image_pitch), g.upsample ? 2 : 1};
    }
    switch (job.radius) {
        case 2: blur_tile<2>(job, source, size, x0, y0, pitch, out, copy, shared); break;
        case 3: blur_tile<3>(job, source, size, x0, y0, pitch, out, copy, shared); break;
        case 4: blur_tile<4>(job, source, size, x0, y0, pitch, out, copy, shared); break;
        case 5: blur_tile<5>(job, source, size, x0, y0, pitch, out, copy, shared); break;
        case 6: blur_tile<6>(job, source, size, x0, y0, pitch, out, copy, shared); break;
        case 8: blur_tile<8>(job, source, size, x0, y0, pitch, out, copy, shared); break;
        case 10: blur_tile<10>(job, source, size, x0, y0, pitch, out, copy, shared); break;
        case 13: blur_tile<13>(job, source, size, x0, y0, pitch, out, copy, shared); break;
        default: blur_tile<16>(job, source, size, x0, y0, pitch, out, copy, shared); break;
    }
}

namespace {

constexpr int FEW_TILE = 32, FEW_THREADS = 1024, MOST_REACH = 16, MOST_LEVELS = 5;
constexpr int FEW_SIDE = FEW_TILE + 2 * MOST_REACH;

// Several levels of a small octave, each from the one before (host: `Few`).
struct Few {
    std::uint32_t octave;
    std::uint32_t first;  // the level that they start from; 0: it is taken from the octave before
    std::uint32_t count;
    std::uint32_t reach;  // of all blurs together, at most MOST_REACH
    std::uint32_t radius[MOST_LEVELS];
    std::uint32_t reserved;
    std::uint32_t weights[MOST_LEVELS][MAX_RADIUS + 1];
};

}  // namespace

// A block a tile of 32x32 pixels and what its levels need around it: a blur that goes on beyond the
// image as the image mirrored there gives a level that is mirrored there too, so that neighbours'
// tiles are not waited for. Where launches take longer than their work this is one in place of three.
extern "C" __global__ void __launch_bounds__(FEW_THREADS)
    logo_blur_few(Geometry g, Few few, const Region *region, std::uint16_t *levels) {
    __shared__ std::uint16_t tile[FEW_SIDE * FEW_SIDE];
    __shared__ std::uint32_t sums[FEW_SIDE * FEW_SIDE];
    const int octave = static_cast<int>(few.octave);
    const Extent size = octave_size(g, *region, octave);
    const int x0 = static_cast<int>(blockIdx.x) * FEW_TILE, y0 = static_cast<int>(blockIdx.y) * FEW_TILE;
    if (x0 >= size.width || y0 >= size.height) return;
    const int reach = static_cast<int>(few.reach), side = FEW_TILE + 2 * reach;
    const int pitch = static_cast<int>(g.pitch[octave]);
    std::uint16_t *const own = levels + g.offset[octave];
    const auto is_own = [=](int i, int j) {
        return i >= reach && i < reach + FEW_TILE && j >= reach && j < reach + FEW_TILE &&
               x0 + i - reach < size.width && y0 + j - reach < size.height;
    };
    const auto place = [=](int i, int j) {
        return static_cast<std::size_t>(y0 + j - reach) * pitch + static_cast<std::size_t>(x0 + i - reach);
    };
    const std::uint16_t *source = own + few.first * g.plane[octave];
    int source_pitch = pitch, step = 1;
    if (few.first == 0) {
        source = levels + g.offset[octave - 1] + g.intervals * g.plane[octave - 1];
        source_pitch = static_cast<int>(g.pitch[octave - 1]);
        step = 2;
    }
    // All loads of a thread before the first store: they wait for memory together.
    constexpr int LOADS = FEW_SIDE * FEW_SIDE / FEW_THREADS;
    const bool tiny = size.width <= reach || size.height <= reach;
    std::uint16_t grey[LOADS];
#pragma unroll
    for (int l = 0; l < LOADS; ++l) {
        const int n = static_cast<int>(threadIdx.x) + l * FEW_THREADS;
        if (n >= side * side) continue;
        int x = x0 + n % side - reach, y = y0 + n / side - reach;
        x = tiny ? reflect_often(x, size.width) : reflect(x, size.width);
        y = tiny ? reflect_often(y, size.height) : reflect(y, size.height);
        grey[l] = source[static_cast<std::size_t>(step * y) * source_pitch + step * x];
    }
#pragma unroll
    for (int l = 0; l < LOADS; ++l) {
        const int n = static_cast<int>(threadIdx.x) + l * FEW_THREADS;
        if (n >= side * side) continue;
        tile[n] = grey[l];
        if (few.first == 0 && is_own(n % side, n / side)) own[place(n % side, n / side)] = grey[l];
    }
    // Pixels from `margin` on are those of the level.
    int margin = 0;
    for (std::uint32_t n = 0; n < few.count; ++n) {
        const int radius = static_cast<int>(few.radius[n]);
        const std::uint32_t *const weights = few.weights[n];
        const int inner = margin + radius;
        __syncthreads();
        for (int j = inner + warp_id(); j < side - inner; j += FEW_THREADS / WARP) {
            for (int i = margin + lane_id(); i < side - margin; i += WARP) {
                const std::uint16_t *const at = tile + j * side + i;
                std::uint32_t sum = weights[0] * at[0];
#pragma unroll 4
                for (int k = 1; k <= radius; ++k) {
                    sum += weights[k] * (static_cast<std::uint32_t>(at[-k * side]) + at[k * side]);
                }
                sums[j * side + i] = sum;
            }
        }
        __syncthreads();
        std::uint16_t *const out = own + (few.first + 1 + n) * g.plane[octave];
        for (int j = inner + warp_id(); j < side - inner; j += FEW_THREADS / WARP) {
            for (int i = inner + lane_id(); i < side - inner; i += WARP) {
                const std::uint32_t *const at = sums + j * side + i;
                std::uint32_t sum = (1u << 17) + weights[0] * at[0];
#pragma unroll 4
                for (int k = 1; k <= radius; ++k) sum += weights[k] * (at[-k] + at[k]);
                const std::uint16_t grey = static_cast<std::uint16_t>(sum >> 18);
                tile[j * side + i] = grey;
                if (is_own(i, j)) out[place(i, j)] = grey;
            }
        }
        margin = inner;
    }
}
