// Levels of the octaves (rules 1 and 2 of the contract), both directions of the blur in one kernel: a
// block has 32 rows of 64 pixels, of which the blur's radius at either side belongs to its neighbours.
// A warp has a row, and a lane two pixels of it, so that addresses are worked out once a row.
//
// Down the columns the sums stay below 2^23 and are taken in f32, twice as fast as whole numbers:
// 2^23 + sum is exact, and its low bits are the sum. Along the rows they need 32 bits.
#include "logo.cuh"

using namespace roadloop;
using namespace roadloop::logo;

namespace {

constexpr int REGION_W = 64, TILE_H = 32, WARPS = 4, THREADS = WARPS * WARP;
constexpr int MAX_RADIUS = 16;
constexpr float MAGIC = 8388608.0f;
// Sums of a row: even columns, then odd ones. Rows begin where four times eight lanes, a row every
// four and 8 columns each, meet no bank twice (host: `BLUR_SUMS` words in all).
__device__ inline int row_of_sums(int row) { return row * (REGION_W + 1) + row / 4 * 12; }

// One level from another.
struct Job {
    std::uint32_t octave, level;
    std::uint32_t source;  // 0: the level before; 1: every second pixel of the octave before; 2: the image
    std::uint32_t radius;  // one of the kernel's; weights beyond the blur's own are 0
    std::uint32_t reserved[2];
    float weights[MAX_RADIUS + 1];
    std::uint32_t whole_weights[MAX_RADIUS + 1];
};

// Columns of the region at either side that are the neighbours' (host: `Job::margin`).
__host__ __device__ constexpr int margin(int radius) { return (radius + 3) / 4 * 4; }

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

__device__ inline float number(std::uint32_t u16) { return __uint_as_float(u16 | 0x4b000000u) - MAGIC; }

// Weights stand in the kernel's parameters, at addresses known to the compiler: operands of their own.
template <int R>
__device__ void blur_tile(const Job &job, const Source &source, Extent size, int x0, int y0, int pitch,
                          std::uint16_t *out, std::uint16_t *copy, float2 *tile, std::uint32_t *sums) {
    constexpr int RE = margin(R), WIDTH = REGION_W - 2 * RE, ROWS = TILE_H + 2 * R;
    constexpr int OWN = (ROWS + WARPS - 1) / WARPS;
    const int lane = lane_id(), warp = warp_id();
    const int x = x0 - RE + 2 * lane, top = y0 - R + warp;
    const bool inside = x0 >= RE && x0 - RE + REGION_W <= size.width;
    const bool copied = copy != nullptr && x >= x0 && x < x0 + WIDTH && x < pitch;
    const auto keep = [&](int j, std::uint32_t two) {
        tile[j * WARP + lane] = make_float2(number(two & 0xffffu), number(two >> 16));
        const int y = y0 + j - R;
        if (copied && j >= R && j < R + TILE_H && y < size.height) {
            *reinterpret_cast<std::uint32_t *>(copy + static_cast<std::size_t>(y) * pitch + x) = two;
        }
    };
    const bool tiny = size.width <= R || size.height <= R;
    if (tiny || (source.level == nullptr && source.step == 2)) {
        const int left = reflect_often(x, size.width), right = reflect_often(x + 1, size.width);
#pragma unroll 1
        for (int j = warp; j < ROWS; j += WARPS) {
            const int y = reflect_often(y0 - R + j, size.height);
            keep(j, source.level == nullptr ? source.grey(left, y) | source.grey(right, y) << 16
                                            : source(left, y) | source(right, y) << 16);
        }
    } else {
        // All loads of a thread before the first store: they wait for memory together.
        std::uint32_t two[OWN];
        if (source.level == nullptr) {
            const int left = reflect(x, size.width), right = reflect(x + 1, size.width);
#pragma unroll
            for (int i = 0; i < OWN; ++i) {
                const std::uint8_t *const row =
                    source.image + static_cast<std::size_t>(reflect(top + i * WARPS, size.height)) * source.pitch;
                two[i] = static_cast<std::uint32_t>(row[left]) << 6 | static_cast<std::uint32_t>(row[right]) << 22;
            }
        } else if (inside && source.step == 1) {
#pragma unroll
            for (int i = 0; i < OWN; ++i) {
                const std::size_t y = static_cast<std::size_t>(reflect(top + i * WARPS, size.height));
                two[i] = *reinterpret_cast<const std::uint32_t *>(source.level + y * source.pitch + x);
            }
        } else {
            const int left = reflect(x, size.width), right = reflect(x + 1, size.width);
#pragma unroll
            for (int i = 0; i < OWN; ++i) {
                const int y = reflect(top + i * WARPS, size.height);
                two[i] = source(left, y) | source(right, y) << 16;
            }
        }
#pragma unroll
        for (int i = 0; i < OWN; ++i) {
            const int j = warp + i * WARPS;
            if (OWN * WARPS == ROWS || j < ROWS) keep(j, two[i]);
        }
    }
    __syncthreads();
    constexpr int RUN = TILE_H / WARPS;
    {
        float even[RUN], odd[RUN];
#pragma unroll
        for (int o = 0; o < RUN; ++o) even[o] = odd[o] = MAGIC;
        const float2 *const first = tile + warp * RUN * WARP + lane;
#pragma unroll
        for (int j = 0; j < RUN + 2 * R; ++j) {
            const float2 v = first[j * WARP];
#pragma unroll
            for (int o = 0; o < RUN; ++o) {
                const int k = j - o - R;
                if (k >= -R && k <= R) {
                    // Exact, so that rounding once or twice is the same.
                    even[o] = __fmaf_rn(job.weights[k < 0 ? -k : k], v.x, even[o]);
                    odd[o] = __fmaf_rn(job.weights[k < 0 ? -k : k], v.y, odd[o]);
                }
            }
        }
#pragma unroll
        for (int o = 0; o < RUN; ++o) {
            std::uint32_t *const to = sums + row_of_sums(warp * RUN + o) + lane;
            to[0] = __float_as_uint(even[o]) & 0x7fffffu;
            to[WARP] = __float_as_uint(odd[o]) & 0x7fffffu;
        }
    }
    __syncthreads();
    // Four lanes a row, 8 pixels each, so that 64 bytes of a row are written at once.
    constexpr int ALONG = 8, SIDES = (WIDTH / ALONG + 3) / 4, UNITS = TILE_H / 8 * SIDES;
#pragma unroll 1
    for (int unit = warp; unit < UNITS; unit += WARPS) {
        const int row = unit / SIDES * 8 + lane / 4, start = (unit % SIDES * 4 + lane % 4) * ALONG;
        if (start >= WIDTH) continue;
        std::uint32_t acc[ALONG];
#pragma unroll
        for (int o = 0; o < ALONG; ++o) acc[o] = 1u << 17;
        const std::uint32_t *const from = sums + row_of_sums(row) + start / 2;
#pragma unroll
        for (int j = 0; j < ALONG + 2 * R; ++j) {
            const int column = RE - R + j;
            const std::uint32_t v = from[column % 2 * WARP + column / 2];
#pragma unroll
            for (int o = 0; o < ALONG; ++o) {
                const int k = j - o - R;
                if (k >= -R && k <= R) acc[o] += job.whole_weights[k < 0 ? -k : k] * v;
            }
        }
        if (y0 + row >= size.height || x0 + start >= pitch) continue;
        const auto pair = [&acc](int i) { return (acc[2 * i] >> 18) | (acc[2 * i + 1] >> 18) << 16; };
        // Rows have room for whole runs.
        *reinterpret_cast<uint4 *>(out + static_cast<std::size_t>(y0 + row) * pitch + x0 + start) = {
            pair(0), pair(1), pair(2), pair(3)};
    }
}

// Radii up to 8, or beyond: those take more registers than the others should have to.
template <bool WIDE>
__device__ void blur(const Geometry &g, const Job &job, const Region *region, const std::uint8_t *image,
                     std::uint16_t *levels) {
    // As many rows as the radius needs, and behind them the sums.
    extern __shared__ float2 tile[];
    std::uint32_t *const sums = reinterpret_cast<std::uint32_t *>(tile + (TILE_H + 2 * job.radius) * WARP);
    const Region r = *region;
    const int octave = static_cast<int>(job.octave);
    const Extent size = octave_size(g, r, octave);
    const int width = REGION_W - 2 * margin(static_cast<int>(job.radius));
    const int x0 = static_cast<int>(blockIdx.x) * width, y0 = static_cast<int>(blockIdx.y) * TILE_H;
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
    if (WIDE) {
        switch (job.radius) {
            case 10: blur_tile<10>(job, source, size, x0, y0, pitch, out, copy, tile, sums); break;
            case 13: blur_tile<13>(job, source, size, x0, y0, pitch, out, copy, tile, sums); break;
            default: blur_tile<16>(job, source, size, x0, y0, pitch, out, copy, tile, sums); break;
        }
        return;
    }
    switch (job.radius) {
        case 2: blur_tile<2>(job, source, size, x0, y0, pitch, out, copy, tile, sums); break;
        case 3: blur_tile<3>(job, source, size, x0, y0, pitch, out, copy, tile, sums); break;
        case 4: blur_tile<4>(job, source, size, x0, y0, pitch, out, copy, tile, sums); break;
        case 5: blur_tile<5>(job, source, size, x0, y0, pitch, out, copy, tile, sums); break;
        case 6: blur_tile<6>(job, source, size, x0, y0, pitch, out, copy, tile, sums); break;
        default: blur_tile<8>(job, source, size, x0, y0, pitch, out, copy, tile, sums); break;
    }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS, 8)
    logo_blur(Geometry g, Job job, const Region *region, const std::uint8_t *image, std::uint16_t *levels) {
    blur<false>(g, job, region, image, levels);
}

extern "C" __global__ void __launch_bounds__(THREADS, 5)
    logo_blur_wide(Geometry g, Job job, const Region *region, const std::uint8_t *image, std::uint16_t *levels) {
    blur<true>(g, job, region, image, levels);
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
