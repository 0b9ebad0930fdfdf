// Census, costs and paths of semi-global matching. src/stage/stereo/mod.rs is the contract.
#include "stereo.cuh"

using namespace roadloop;

namespace {

constexpr int CENSUS_WIDTH = 128, CENSUS_HEIGHT = 8;
constexpr int CENSUS_WORDS = CENSUS_WIDTH / 4 + 2, CENSUS_ROWS = CENSUS_HEIGHT + 6;

// a >= b for four bytes at once, in the highest bit of each; the other bits are noise.
__device__ inline u32 not_below(u32 a, u32 b) {
    const u32 difference = (a | 0x80808080u) - (b & 0x7f7f7f7fu);
    return (a & ~b) | (~(a ^ b) & difference);
}

// Four pixels from x - 4 + shift of three words from x - 4.
__device__ inline u32 shifted(const u32 *words, int shift) {
    return shift % 4 == 0 ? words[shift / 4] : __funnelshift_r(words[shift / 4], words[shift / 4 + 1], 8 * (shift % 4));
}

}  // namespace

// Words of both images (blockIdx.z: 0 left, 1 right): which bit is which pair is nobody's
// concern, so four pixels share their instructions. For the left one besides P2 - P1 of each step
// along a path, as pairs, by the predecessor: (-1, 0), (0, -1), (-1, -1), (1, -1); `maps` of them,
// `map_len` apart. Blocks of 256 for 128 x 8 pixels.
extern "C" __global__ void __launch_bounds__(256)
    stereo_census(const u8 *left, const u8 *right, u32 *left_census, u32 *right_census, const u8 *p2_of_step, u32 *p2,
                  std::uint64_t map_len, u32 width, u32 height, u32 maps, u32 p1) {
    __shared__ u32 tile[CENSUS_ROWS][CENSUS_WORDS];
    __shared__ u8 table[256];
    const u8 *image = blockIdx.z == 0 ? left : right;
    u32 *census = blockIdx.z == 0 ? left_census : right_census;
    const int w = static_cast<int>(width), h = static_cast<int>(height);
    const int x0 = static_cast<int>(blockIdx.x) * CENSUS_WIDTH, y0 = static_cast<int>(blockIdx.y) * CENSUS_HEIGHT;
    const int thread = static_cast<int>(threadIdx.x);
    table[thread] = p2_of_step[thread];
    for (int i = thread; i < CENSUS_ROWS * CENSUS_WORDS; i += 256) {
        const int x = x0 - 4 + 4 * (i % CENSUS_WORDS);
        const int y = min(max(y0 - 3 + i / CENSUS_WORDS, 0), h - 1);
        const u8 *row = image + static_cast<std::size_t>(y) * width;
        u32 word = 0;
        if (w % 4 == 0 && x >= 0 && x + 4 <= w) {
            word = *reinterpret_cast<const u32 *>(row + x);
        } else {
#pragma unroll
            for (int j = 0; j < 4; j++) word |= static_cast<u32>(row[min(max(x + j, 0), w - 1)]) << (8 * j);
        }
        tile[i / CENSUS_WORDS][i % CENSUS_WORDS] = word;
    }
    __syncthreads();
    const int column = thread % 32, row = thread / 32;
    const int x = x0 + 4 * column, y = y0 + row;
    if (x >= w || y >= h) return;
    u32 words[7][3];
#pragma unroll
    for (int k = 0; k < 7; k++)
#pragma unroll
        for (int j = 0; j < 3; j++) words[k][j] = tile[row + k][column + j];
    // Bits of four pixels, eight a plane.
    u32 planes[4] = {0, 0, 0, 0};
#pragma unroll
    for (int bit = 0; bit < 31; bit++) {
        const int k = bit / 9, m = bit % 9;
        const u32 set = not_below(shifted(words[k], m), shifted(words[6 - k], 8 - m));
        planes[bit / 8] = ((planes[bit / 8] >> 1) & 0x7f7f7f7fu) | (set & 0x80808080u);
    }
    const u32 a = bytes_of(planes[0], planes[1], 0x5140), b = bytes_of(planes[0], planes[1], 0x7362);
    const u32 c = bytes_of(planes[2], planes[3], 0x5140), d = bytes_of(planes[2], planes[3], 0x7362);
    const u32 pixel[4] = {bytes_of(a, c, 0x5410), bytes_of(a, c, 0x7632), bytes_of(b, d, 0x5410), bytes_of(b, d, 0x7632)};
    const std::size_t at = static_cast<std::size_t>(y) * width + x;
#pragma unroll
    for (int j = 0; j < 4; j++)
        if (x + j < w) census[at + j] = pixel[j];
    if (blockIdx.z != 0) return;
    const u32 own = words[3][1];
    const u32 from[4] = {shifted(words[3], 3), words[2][1], shifted(words[2], 3), shifted(words[2], 5)};
#pragma unroll
    for (int map = 0; map < 4; map++) {
        if (map >= static_cast<int>(maps)) break;
        const u32 step = __vabsdiffu4(own, from[map]);
#pragma unroll
        for (int j = 0; j < 4; j++)
            if (x + j < w) p2[map * map_len + at + j] = (table[(step >> (8 * j)) & 0xff] - p1) * ONE;
    }
}

namespace {

// Pixels of a row that a block of 128 threads takes.
constexpr int COST_PIXELS = 256, COST_THREADS = 128;

#if __CUDA_ARCH__ >= 800
// The bit of a census word that is always 0, for it holds 31.
constexpr int FREE_BIT = 24;

// The volume of costs by matrix products: the differing bits of two words a and b are the sum over
// their bits of a_i (1 - 2 b_i), and b's number of bits. So rows are left words as bytes 0 and 1,
// columns are right words as bytes 1 and -1, and the free bit's place has 1 and b's number of bits.
// A right word outside the image has zeros and OUTSIDE_COST; a masked left word has zeros, and its
// product begins with MAX_COST.
//
// A warp takes every second pixel (so that whole words come out) of 128, 16 pixels x 8 right
// words a product: of row r and column n the disparity is 2 (r + K) + n, K multiples of 4. Columns
// of the disparities from D/2 up belong to the same rows' other halves of words.
template <int D>
__device__ inline void costs(const u32 *left, const u32 *right, const u8 *mask, u8 *volume, u32 width) {
    constexpr int CHAIN = D / 2, GROUPS = CHAIN / 8 + 4, SPANS = D == 256 ? 1 : 2;
    constexpr int COLUMNS = GROUPS + CHAIN / 8 + 4 * (SPANS - 1);
    // Words of a pixel in `staged`: no two lanes then meet in a bank.
    constexpr int PITCH = D / 4 + 3;
    // For each right pixel the two words of each of the four lanes that share a column.
    __shared__ __align__(16) u32 columns[(COST_PIXELS + D + 2) * 8];
    __shared__ u32 staged[COST_THREADS / 32][16 * PITCH];
    // Left words with the free bit; 0 outside and where masked.
    __shared__ u32 lefts[COST_PIXELS];
    const int w = static_cast<int>(width), x0 = static_cast<int>(blockIdx.x) * COST_PIXELS;
    const std::size_t start = static_cast<std::size_t>(blockIdx.y) * width;
    const int first_column = x0 - D, thread = static_cast<int>(threadIdx.x);
    // All that is read, before any of it is needed.
    constexpr int RIGHTS = COST_PIXELS + D + 2, LEFT_ROUNDS = COST_PIXELS / COST_THREADS;
    constexpr int ROUNDS = (RIGHTS + COST_THREADS - 1) / COST_THREADS;
    u32 rights[ROUNDS], left_words[LEFT_ROUNDS];
#pragma unroll
    for (int n = 0; n < ROUNDS; n++) {
        const int x = first_column + n * COST_THREADS + thread;
        rights[n] = x >= 0 && x < w ? right[start + x] : 0;
    }
#pragma unroll
    for (int n = 0; n < LEFT_ROUNDS; n++) {
        const int x = x0 + n * COST_THREADS + thread;
        const bool used = x < w && (mask == nullptr || mask[start + x] != 0);
        left_words[n] = used ? left[start + x] | 1u << FREE_BIT : 0;
    }
#pragma unroll
    for (int n = 0; n < LEFT_ROUNDS; n++) lefts[n * COST_THREADS + thread] = left_words[n];
#pragma unroll
    for (int n = 0; n < ROUNDS; n++) {
        const int i = n * COST_THREADS + thread, x = first_column + i;
        if (i >= RIGHTS) break;
        const bool inside = x >= 0 && x < w;
        const u32 word = rights[n];
        const u32 bits = inside ? static_cast<u32>(__popc(word)) : OUTSIDE_COST;
        Words<4> four[2];
#pragma unroll
        for (int t = 0; t < 8; t++) {
            const u32 bytes = inside ? (word >> t & 0x01010101u) * 254 + 0x01010101u : 0;
            four[t % 4 / 2].word[t % 2 * 2 + t / 4] = t == FREE_BIT % 8 ? (bytes & 0x00ffffffu) | bits << 24 : bytes;
        }
        // Every two fours of pixels have their halves the other way round: pixels side by side
        // then store to different banks.
        store_words(columns + 8 * i + (i & 4), four[0]);
        store_words(columns + 8 * i + (4 - (i & 4)), four[1]);
    }
    __syncthreads();
    const int lane = lane_id(), g = lane / 4, t = lane % 4, odd = warp_id() % 2;
    // The column of lane group g, whose number's bit 2 says how its halves lie.
    const u32 *own_column = columns + (odd - g) * 8 + (2 * t ^ ((odd - g) & 4));
    u32 *own = staged[warp_id()];
    u32 *words = own + g * (PITCH + 1) + t;
    for (int begin = warp_id() / 2 * 32 * SPANS; begin < COST_PIXELS; begin += 64 * SPANS) {
        if (x0 + begin >= w) return;
        // Column i * 8 + n is the right pixel begin + odd + 32 SPANS - (i * 8 + n).
        Words<2> column[COLUMNS];
#pragma unroll
        for (int i = 0; i < COLUMNS; i++)
            column[i] = load_words<2>(own_column + (D + begin + 32 * SPANS - 8 * i) * 8);
#pragma unroll
        for (int span = 0; span < SPANS; span++) {
            const int x_first = x0 + begin + 32 * span + odd;
            u32 rows[4];
            int least[2];
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const u32 word = lefts[begin + 32 * span + odd + 2 * g + 16 * half];
                rows[half] = word >> t & 0x01010101u;
                rows[half + 2] = word >> (t + 4) & 0x01010101u;
                least[half] = word == 0 ? static_cast<int>(MAX_COST) : 0;
            }
#pragma unroll
            for (int group = 0; group < GROUPS; group++) {
                u32 c[2][4];
#pragma unroll
                for (int high = 0; high < 2; high++) {
                    const Words<2> &of = column[4 * (SPANS - 1 - span) + group + high * (CHAIN / 8)];
                    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, "
                        "%10, %11, %11};"
                        : "=r"(c[high][0]), "=r"(c[high][1]), "=r"(c[high][2]), "=r"(c[high][3])
                        : "r"(rows[0]), "r"(rows[1]), "r"(rows[2]), "r"(rows[3]), "r"(of.word[0]), "r"(of.word[1]),
                          "r"(least[0]), "r"(least[1]));
                }
                // The word of row g, and that of row g + 8.
                constexpr int ALL_WORDS = CHAIN / 2;
                const int k = 4 * group - 16;
#pragma unroll
                for (int half = 0; half < 2; half++) {
                    const u32 word = (c[1][2 * half + 1] * 256 + c[1][2 * half]) * 65536 + (c[0][2 * half + 1] * 256 + c[0][2 * half]);
                    const int from = k + 8 * half, to = from + 10;
                    const bool all = from >= 0 && to < ALL_WORDS, none = to < 0 || from >= ALL_WORDS;
                    if (!none && (all || static_cast<unsigned>(g + t + from) < ALL_WORDS))
                        words[8 * half * (PITCH + 1) + k] = word;
                }
            }
            __syncwarp();
            // To the volume, whole pixels.
            constexpr int PIECES = D / 16;
#pragma unroll
            for (int i = 0; i < PIECES / 2; i++) {
                const int row = (32 * i + lane) / PIECES, piece = lane % PIECES;
                const int x = x_first + 2 * row;
                Words<4> out;
#pragma unroll
                for (int n = 0; n < 4; n++) out.word[n] = own[row * PITCH + 4 * piece + n];
                if (x < w) store_words(volume + (start + x) * D + 16 * piece, out);
            }
            __syncwarp();
        }
    }
}
#else
// The volume of costs: a thread has 16 disparities of 4 pixels side by side.
template <int D>
__device__ inline void costs(const u32 *left, const u32 *right, const u8 *mask, u8 *volume, u32 width) {
    constexpr int LANES = D / 16, PIXELS = 4, TILE = COST_THREADS / LANES * PIXELS, CHAIN = D / 2;
    __shared__ u32 row[COST_PIXELS + D];
    const int w = static_cast<int>(width), x0 = static_cast<int>(blockIdx.x) * COST_PIXELS;
    const std::size_t start = static_cast<std::size_t>(blockIdx.y) * width;
    for (int i = static_cast<int>(threadIdx.x); i < COST_PIXELS + D; i += COST_THREADS) {
        const int x = x0 - D + i;
        row[i] = x >= 0 && x < w ? right[start + x] : 0;
    }
    __syncthreads();
    const int lane = static_cast<int>(threadIdx.x) % LANES;
    for (int tile = 0; tile < COST_PIXELS; tile += TILE) {
        const int local = tile + static_cast<int>(threadIdx.x) / LANES * PIXELS;
        // Right words of disparities d from 8 lane + 7 at the first pixel to 8 lane at the last.
        const int first = D + local - 8 * lane - 7;
        constexpr int N = PIXELS + 7;
        u32 low[N], high[N];
#pragma unroll
        for (int i = 0; i < N; i++) {
            low[i] = row[first + i];
            high[i] = row[first + i - CHAIN];
        }
#pragma unroll
        for (int p = 0; p < PIXELS; p++) {
            const int x = x0 + local + p;
            if (x >= w) return;
            const u32 own = left[start + x];
            Words<4> out;
#pragma unroll
            for (int n = 0; n < 4; n++) {
                const int i = p + 7 - 2 * n, d = 8 * lane + 2 * n;
                u32 c[4] = {static_cast<u32>(__popc(own ^ low[i])), static_cast<u32>(__popc(own ^ low[i - 1])),
                            static_cast<u32>(__popc(own ^ high[i])), static_cast<u32>(__popc(own ^ high[i - 1]))};
                if (x0 < D) {
                    c[0] = d > x ? OUTSIDE_COST : c[0];
                    c[1] = d + 1 > x ? OUTSIDE_COST : c[1];
                    c[2] = d + CHAIN > x ? OUTSIDE_COST : c[2];
                    c[3] = d + CHAIN + 1 > x ? OUTSIDE_COST : c[3];
                }
                out.word[n] = (c[3] * 256 + c[2]) * 65536 + (c[1] * 256 + c[0]);
            }
            if (mask != nullptr && mask[start + x] == 0)
#pragma unroll
                for (int n = 0; n < 4; n++) out.word[n] = MAX_COST * 0x01010101u;
            store_words(volume + (start + x) * D + 16 * lane, out);
        }
    }
}
#endif

}  // namespace

// Blocks of 128 for 256 pixels of a row. The mask may be null.
#define COSTS(D)                                                                                                     \
    extern "C" __global__ void __launch_bounds__(COST_THREADS, D == 256 ? 2 : D == 128 ? 6 : 5)                      \
        stereo_costs_##D(const u32 *left, const u32 *right, const u8 *mask, u8 *volume, u32 width) {                 \
        costs<D>(left, right, mask, volume, width);                                                                  \
    }
COSTS(64)
COSTS(128)
COSTS(256)

namespace {

constexpr int PATH_THREADS = 64;

// How a path meets the image's borders.
//   STRAIGHT  it lies in it from end to end
//   WRAPS     a diagonal that leaves it comes back at the other side as a new path
//   SLANTED   a diagonal of its own from border to border; those of a warp come and go one after
//             the other
enum Kind { STRAIGHT, WRAPS, SLANTED };

// Where a path goes. Chains along columns and diagonals start on one row, one a column; a slanted
// one may begin and end outside.
struct Route {
    const u8 *cost;
    u8 *out;
    // P2 - P1 of the step to pixel 0; each pixel's is as far from it as the pixel.
    const u32 *p2;
    // First pixel and its column.
    std::ptrdiff_t start;
    int x;
    int dx;
    // From one pixel to the next.
    std::ptrdiff_t step;
    int pixels;
    int width;
    // SLANTED: the first of its pixels that is in the image, and the first that no longer is.
    int enters, leaves;
    bool writes;
};

// The least of the pairs of four words.
__device__ inline u32 least_of(const u32 *a, const u32 *b) {
    return path_min(path_min(a[0], b[0], a[1]), path_min(b[1], a[2], b[2]), path_min(a[3], b[3]));
}

// The least of the LANES lanes that have one path, each lane's own halves included.
template <int LANES>
__device__ inline u32 least_of_lanes(u32 least) {
    least = path_min(least, bytes_of(least, least, 0x1032));
    int offset = 1;
    // Four at a time: the latency of one exchange.
#pragma unroll
    for (; offset * 4 <= LANES; offset *= 4) {
        const u32 a = __shfl_xor_sync(ALL_LANES, least, offset, LANES);
        const u32 b = __shfl_xor_sync(ALL_LANES, least, 2 * offset, LANES);
        const u32 c = __shfl_xor_sync(ALL_LANES, least, 3 * offset, LANES);
        least = path_min(path_min(least, a, b), c);
    }
    if (offset < LANES) least = path_min(least, __shfl_xor_sync(ALL_LANES, least, offset, LANES));
    return least;
}

// One path. D / 4 / N lanes have N words each. BATCH pixels are read at once, one batch ahead of
// what is worked on: batches, because a warp can't wait for many loads one by one. (Through
// shared memory, copied ahead, it is no faster on many multiprocessors and much slower on few.)
template <int D, int N, int BATCH, Kind KIND>
__device__ inline void run(const Route &route, u32 p1) {
    constexpr int LANES = D / 4 / N;
    const int lane = lane_id() % LANES;
    const int left_lane = (lane + LANES - 1) % LANES, right_lane = (lane + 1) % LANES;
    const u32 left_bytes = lane == 0 ? LEFT_END : LEFT_INNER, right_bytes = lane == LANES - 1 ? RIGHT_END : RIGHT_INNER;
    const u32 penalty = p1 * ONE;
    // 1, which the compiler doesn't know: so it multiplies and adds, on a pipe that is idle.
    const u32 one = blockDim.y;

    struct Batch {
        Words<N> cost[BATCH];
        u32 limit[BATCH];
    };
    // SLANTED: when the first of the warp's paths is in the image, all, not all, and none.
    int i = 0, all = 0, some = route.pixels, none = route.pixels;
    if (KIND == SLANTED) {
        i = warp_min(route.enters);
        all = -warp_min(-route.enters);
        some = warp_min(route.leaves);
        none = -warp_min(-route.leaves);
    }
    const std::ptrdiff_t start = route.start + (KIND == SLANTED ? i * route.step : 0);
    const u8 *cost = route.cost + start * D + 4 * N * lane;
    const u32 *p2 = route.p2 + start;
    u8 *out = route.out + start * D + 4 * N * lane;
    const std::ptrdiff_t stride = route.step * D;
    int x_read = route.x, x = route.x;
    // The column of the next pixel; whether the path ends at the border before it.
    auto turns = [&](int &column) {
        column += route.dx;
        const bool wrapped = static_cast<unsigned>(column) >= static_cast<unsigned>(route.width);
        if (wrapped) column = column < 0 ? route.width - 1 : 0;
        return wrapped;
    };
    const std::ptrdiff_t back = static_cast<std::ptrdiff_t>(route.dx) * route.width;
    auto read_one = [&](Words<N> &words, u32 &limit) {
        words = load_words<N>(cost);
        limit = *p2;
        cost += stride;
        p2 += route.step;
        if (KIND == WRAPS && turns(x_read)) {
            cost -= back * D;
            p2 -= back;
        }
    };
    auto read = [&](Batch &batch) {
#pragma unroll
        for (int i = 0; i < BATCH; i++) read_one(batch.cost[i], batch.limit[i]);
    };

    Words<N> path;
#pragma unroll
    for (int i = 0; i < N; i++) path.word[i] = 0;

    auto advance = [&](const Words<N> &costs, u32 limit, bool writes) {
        u32 a[N], b[N];
#pragma unroll
        for (int i = 0; i < N; i++) {
            a[i] = pair_a(path.word[i]);
            b[i] = pair_b(path.word[i]);
        }
        const u32 from_left = bytes_of(__shfl_sync(ALL_LANES, path.word[N - 1], left_lane, LANES), NONE, left_bytes);
        const u32 from_right = bytes_of(__shfl_sync(ALL_LANES, path.word[0], right_lane, LANES), NONE, right_bytes);
        u32 least = least_of(a, b);
#pragma unroll
        for (int i = 4; i < N; i += 4) least = path_min(least, least_of(a + i, b + i));
        least = least_of_lanes<LANES>(least);
        // min(beside + P1, least + P2) = min(beside, least + P2 - P1) + P1
        const u32 beside_limit = least + limit;
        const u32 least_of_each = bytes_of(least, 0, SPREAD);
#pragma unroll
        for (int i = 0; i < N; i++) {
            const u32 below = i > 0 ? b[i > 0 ? i - 1 : 0] : from_left;
            const u32 above = i < N - 1 ? a[i < N - 1 ? i + 1 : 0] : from_right;
            const u32 m_a = path_add_min(path_min(below, b[i], beside_limit), penalty, a[i]);
            const u32 m_b = path_add_min(path_min(a[i], above, beside_limit), penalty, b[i]);
            // Each byte stays a byte, so the word's sum is the bytes' sums.
            path.word[i] = (costs.word[i] - least_of_each * one) * one + bytes_of(m_a, m_b, PACK);
        }
        if (writes) store_words(out, path);
        out += stride;
        if (KIND == WRAPS && turns(x)) {
            out -= back * D;
#pragma unroll
            for (int i = 0; i < N; i++) path.word[i] = 0;
        }
    };
    auto work = [&](const Batch &batch) {
#pragma unroll
        for (int i = 0; i < BATCH; i++) advance(batch.cost[i], batch.limit[i], route.writes);
    };

    // Where some paths are in the image and others not.
    auto slant = [&](int end) {
        for (; i < end; i++) {
            const bool inside = i >= route.enters && i < route.leaves;
            Words<N> costs;
            u32 limit = 0;
#pragma unroll
            for (int n = 0; n < N; n++) costs.word[n] = 0;
            if (inside) {
                costs = load_words<N>(cost);
                limit = *p2;
            }
            cost += stride;
            p2 += route.step;
            advance(costs, limit, inside && route.writes);
#pragma unroll
            for (int n = 0; n < N; n++) path.word[n] = inside ? path.word[n] : 0;
        }
    };
    if (KIND == SLANTED) slant(min(all, none));

    int left = some - i;
    if (KIND == SLANTED) i = max(i, some);
    if (left >= 2 * BATCH) {
        Batch first, second;
        read(first);
        for (bool more = true; more; left -= 2 * BATCH) {
            more = left >= 4 * BATCH;
            read(second);
            work(first);
            if (more) read(first);
            work(second);
        }
    }
    for (; left > 0; left--) {
        Words<N> costs;
        u32 limit;
        read_one(costs, limit);
        advance(costs, limit, route.writes);
    }
    if (KIND == SLANTED) slant(none);
}

// All directions in one launch, the rows first since they take longest: `row_blocks` blocks for
// each of the two directions along rows, `column_blocks` for each of the two along columns, then
// `diagonal_blocks` for each of the others. Volume r
// of `paths` (`volume_len` bytes apart) is that of Params::directions()[r]. `p2` is the first map,
// `map_len` from the next; there is room for a row and two pixels before and behind each.
template <int D, int N, int BATCH, Kind DIAGONALS>
__device__ inline void paths(const u8 *cost, u8 *out, std::uint64_t volume_len, const u32 *p2, std::uint64_t map_len,
                             u32 width, u32 height, u32 p1, u32 row_blocks, u32 column_blocks, u32 diagonal_blocks) {
    constexpr int LANES = D / 4 / N;
    const int w = static_cast<int>(width), h = static_cast<int>(height);
    const int per_block = static_cast<int>(blockDim.x) / LANES, in_block = static_cast<int>(threadIdx.x) / LANES;
    Route route;
    route.cost = cost;
    route.width = w;
    if (blockIdx.x < 2 * row_blocks) {
        const bool against = blockIdx.x >= row_blocks;
        const int chain = static_cast<int>(blockIdx.x % row_blocks) * per_block + in_block;
        const int y = min(chain, h - 1);
        route.out = out + (against ? volume_len : 0);
        route.x = against ? w - 1 : 0;
        route.start = static_cast<std::ptrdiff_t>(y) * w + route.x;
        route.p2 = p2 + (against ? 1 : 0);
        route.pixels = w;
        route.dx = 0;
        route.writes = chain < h;
        if (against) {
            route.step = -1;
            run<D, N, BATCH, STRAIGHT>(route, p1);
        } else {
            route.step = 1;
            run<D, N, BATCH, STRAIGHT>(route, p1);
        }
        return;
    }
    u32 block = blockIdx.x - 2 * row_blocks;
    const bool slanted = block >= 2 * column_blocks;
    if (slanted) block -= 2 * column_blocks;
    const u32 blocks = slanted ? diagonal_blocks : column_blocks;
    const int direction = (slanted ? 4 : 2) + static_cast<int>(block / blocks);
    const int chain = static_cast<int>(block % blocks) * per_block + in_block;
    // (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1)
    const int dy = direction == 3 || direction >= 6 ? -1 : 1;
    const int dx = direction < 4 ? 0 : direction % 2 == 0 ? 1 : -1;
    // The map of the predecessor above; against it, the step's P2 is the predecessor's own.
    const int map = direction < 4 ? 1 : dx == dy ? 2 : 3;
    // Slanted paths begin at the columns from 1 - h on, or up to w + h - 2.
    const int chains = slanted && DIAGONALS == SLANTED ? w + h - 1 : w;
    const int column = min(chain, chains - 1) - (DIAGONALS == SLANTED && dx > 0 ? h - 1 : 0);
    route.x = column;
    route.step = static_cast<std::ptrdiff_t>(dy) * w + dx;
    route.start = (dy > 0 ? 0 : static_cast<std::ptrdiff_t>(h - 1) * w) + column;
    route.enters = max(dx > 0 ? -column : column - w + 1, 0);
    route.leaves = min(dx > 0 ? w - column : column + 1, h);
    route.out = out + direction * volume_len;
    route.p2 = p2 + map * map_len - (dy > 0 ? 0 : route.step);
    route.dx = dx;
    route.pixels = h;
    route.writes = chain < chains;
    if (!slanted)
        run<D, N, BATCH, STRAIGHT>(route, p1);
    else
        run<D, N, BATCH, DIAGONALS>(route, p1);
}

}  // namespace

// Blocks of 64. Which is fastest depends on how many multiprocessors there are: long batches hide
// more latency, short ones leave registers for more warps; diagonals that wrap are fewer and of one
// length, slanted ones take fewer instructions.
#define PATHS(D, N, BATCH, DIAGONALS)                                                                                \
    extern "C" __global__ void __launch_bounds__(PATH_THREADS)                                                       \
        stereo_paths_##D##_##N##_##BATCH(const u8 *cost, u8 *out, std::uint64_t volume_len, const u32 *p2,           \
                                         std::uint64_t map_len, u32 width, u32 height, u32 p1, u32 row_blocks,       \
                                         u32 column_blocks, u32 diagonal_blocks) {                                   \
        paths<D, N, BATCH, DIAGONALS>(cost, out, volume_len, p2, map_len, width, height, p1, row_blocks,             \
                                      column_blocks, diagonal_blocks);                                               \
    }
PATHS(64, 4, 8, WRAPS)
PATHS(64, 4, 2, SLANTED)
PATHS(128, 4, 8, WRAPS)
PATHS(128, 4, 2, SLANTED)
PATHS(256, 4, 8, WRAPS)
PATHS(256, 4, 2, SLANTED)
