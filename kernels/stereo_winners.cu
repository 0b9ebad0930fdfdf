// Sums of the paths, winners, and disparities of the right image (rules 5 to 8).
#include "stereo.cuh"

using namespace roadloop;

namespace {

// One block a row, walking along it tile by tile. First the lanes are disparities: they sum up
// the paths of the tile's pixels into keys, sum * 16 + step, two of 16 bits a word: word i has
// the disparities i and i + D/2. Then threads are pixels (PARTS of them for one, each with every
// PARTSth word): of the left image, along the words of a pixel, and of the right image, along
// the words i of the pixels k + i. So both find their least sum without a lane's talking to others.
template <int D>
struct Tile {
    static constexpr int CHAIN = D / 2;
    static constexpr int PIXELS = D == 256 ? 16 : 32;
    static constexpr int PARTS = D == 256 ? 8 : 4;
    static constexpr int STEPS = CHAIN / PARTS;
    // Words from pixel to pixel: threads side by side then hit different banks.
    static constexpr int STRIDE = CHAIN + PARTS;
    // Pixels that are kept; the first PIXELS are there twice, so that a window can go on past the
    // end. (RING + PIXELS) * STRIDE words of dynamic shared memory in all.
    static constexpr int RING = (CHAIN > PIXELS ? CHAIN : PIXELS) + 2 * PIXELS;
    // Lanes of a pixel, and their words of the volume.
    static constexpr int LANES = 256 / PIXELS;
    static constexpr int WORDS = D / 4 / LANES;
    // Right pixels whose lower half waits for the upper one.
    static constexpr int WAITING = 256;
    static_assert(STEPS <= 16 && PIXELS * PARTS == 128 && RING % PIXELS == 0, "");
};

constexpr u32 NO_SUM = 0xfff;

struct Arguments {
    const u8 *paths;
    std::uint64_t volume_len;
    const u8 *mask;
    u16 *winners;
    u8 *best;
    u16 *right;
    u32 width;
    u32 uniqueness;
    u32 left_right;
    u32 subpixel;
};

template <int D, int PATHS>
__device__ inline void winners(const Arguments &to) {
    using T = Tile<D>;
    extern __shared__ __align__(16) u32 ring[];
    __shared__ u32 best_of[2][T::PIXELS], rival_of[2][T::PIXELS];
    __shared__ u32 waiting[T::WAITING];
    const int w = static_cast<int>(to.width), thread = static_cast<int>(threadIdx.x);
    const std::size_t row = static_cast<std::size_t>(blockIdx.x) * to.width;
    const int lane = thread % T::LANES, pixel = thread / T::LANES;

    const u8 *from = to.paths + (row + pixel) * D + 4 * T::WORDS * lane;
    Words<T::WORDS> next[PATHS];
    auto load = [&](int tile) {
        const int x = tile * T::PIXELS + pixel;
        if (x >= w) return;
#pragma unroll
        for (int r = 0; r < PATHS; r++)
            next[r] = load_words<T::WORDS>(from + r * to.volume_len + static_cast<std::size_t>(tile) * (T::PIXELS * D));
    };
    load(0);
    const int own_tiles = div_up(w, T::PIXELS);
    const int tiles = to.left_right ? div_up(w - 1 + D, T::PIXELS) : own_tiles + 1;
    for (int tile = 0; tile < tiles; tile++) {
        const int x0 = tile * T::PIXELS;
        {
            const int x = x0 + pixel;
            Words<2 * T::WORDS> keys;
            if (x < w && (to.mask == nullptr || to.mask[row + x] != 0)) {
#pragma unroll
                for (int n = 0; n < T::WORDS; n++) {
                    u32 a = 0, b = 0;
#pragma unroll
                    for (int r = 0; r < PATHS; r++) {
                        a += next[r].word[n] & 0x00ff00ffu;
                        b += bytes_of(next[r].word[n], 0, 0x4341);
                    }
                    const int i = 2 * (T::WORDS * lane + n);
                    // Two words side by side are of the same step: PARTS is even.
                    const u32 step = static_cast<u32>(i / T::PARTS) * 0x00010001u;
                    keys.word[2 * n] = a * 16 + step;
                    keys.word[2 * n + 1] = b * 16 + step;
                }
            } else {
#pragma unroll
                for (int n = 0; n < 2 * T::WORDS; n++) keys.word[n] = 0xffffffffu;
            }
            const int at = x % T::RING;
            store_words(ring + at * T::STRIDE + 2 * T::WORDS * lane, keys);
            if (at < T::PIXELS) store_words(ring + (at + T::RING) * T::STRIDE + 2 * T::WORDS * lane, keys);
        }
        load(tile + 1);
        __syncthreads();

        const int part = thread % T::PARTS, which = thread % 128 / T::PARTS;
        if (thread < 128) {
            if (tile < own_tiles) {
                // The least two of each half of the words; that a neighbour of the winner is
                // among another part's words makes the second do.
                const u32 *words = ring + ((x0 + which) % T::RING) * T::STRIDE + part;
                u32 first = 0xffffffffu, second = 0xffffffffu;
#pragma unroll
                for (int s = 0; s < T::STEPS; s++) {
                    const u32 key = words[T::PARTS * s];
                    second = min_pair(second, max_pair(first, key));
                    first = min_pair(first, key);
                }
                const u32 low_d = T::PARTS * (first & 15) + part, high_d = T::PARTS * ((first >> 16) & 15) + part + T::CHAIN;
                u32 best = min((first >> 4 & NO_SUM) << 16 | low_d, (first >> 20) << 16 | high_d);
#pragma unroll
                for (int offset = T::PARTS / 2; offset > 0; offset /= 2)
                    best = min(best, __shfl_xor_sync(ALL_LANES, best, offset));
                const u32 d = best & 0xffff;
                const u32 low = (low_d + 1 - d <= 2 ? second : first) >> 4 & NO_SUM;
                const u32 high = (high_d + 1 - d <= 2 ? second : first) >> 20;
                u32 rival = min(low, high);
#pragma unroll
                for (int offset = T::PARTS / 2; offset > 0; offset /= 2)
                    rival = min(rival, __shfl_xor_sync(ALL_LANES, rival, offset));
                if (part == 0) {
                    best_of[tile % 2][which] = best;
                    rival_of[tile % 2][which] = rival;
                }
            }
        } else if (to.left_right) {
            // Right pixels whose words have just become complete.
            const int k0 = x0 - T::CHAIN + 1, k = k0 + which;
            u32 least = 0xffffffffu;
            if (k >= 0) {
#pragma unroll
                for (int piece = 0; piece < T::CHAIN; piece += T::PIXELS) {
                    // The window's start in the ring is the same for all threads.
                    const int start = (k0 + piece + T::RING) % T::RING;
                    const u32 *words = ring + (start + which + part) * T::STRIDE + piece + part;
#pragma unroll
                    for (int s = 0; s < T::PIXELS; s += T::PARTS) least = min_pair(least, words[s * (T::STRIDE + 1)]);
                }
            }
            u32 low = (least >> 4 & NO_SUM) << 16 | (T::PARTS * (least & 15) + part);
            u32 high = (least >> 20) << 16 | (T::PARTS * ((least >> 16) & 15) + part + T::CHAIN);
#pragma unroll
            for (int offset = T::PARTS / 2; offset > 0; offset /= 2) {
                low = min(low, __shfl_xor_sync(ALL_LANES, low, offset));
                high = min(high, __shfl_xor_sync(ALL_LANES, high, offset));
            }
            if (part == 0 && k >= 0) {
                // The upper half is that of the pixel CHAIN further left, whose lower half is older.
                const int other = k - T::CHAIN;
                if (other >= 0 && other < w) {
                    const u32 both = min(waiting[other % T::WAITING], high);
                    to.right[row + other] = both >> 16 == NO_SUM ? INVALID : static_cast<u16>(both);
                }
                waiting[k % T::WAITING] = low;
            }
        }
        // The winners of the tile before, by one warp.
        const int x = x0 - T::PIXELS + lane_id();
        if (tile > 0 && warp_id() == tile % 8 && lane_id() < T::PIXELS && x < w) {
            const u32 best = best_of[(tile - 1) % 2][lane_id()], rival = rival_of[(tile - 1) % 2][lane_id()];
            const u32 sum = best >> 16;
            const int d = static_cast<int>(best & 0xffff);
            u16 value = INVALID;
            if (sum != NO_SUM && d <= x && rival * (100 - to.uniqueness) >= sum * 100) {
                int sixteenths = 16 * d;
                if (to.subpixel && d > 0 && d < D - 1) {
                    const u32 *words = ring + (x % T::RING) * T::STRIDE;
                    auto sum_of = [&](int d) {
                        return static_cast<int>((words[d % T::CHAIN] >> (d < T::CHAIN ? 4 : 20)) & NO_SUM);
                    };
                    const int before = sum_of(d - 1), after = sum_of(d + 1);
                    const int q = before - 2 * static_cast<int>(sum) + after;
                    if (q > 0) {
                        const int size = static_cast<int>(static_cast<u32>(16 * abs(before - after) + q) / static_cast<u32>(2 * q));
                        sixteenths += before > after ? size : -size;
                    }
                }
                value = static_cast<u16>(16 * sixteenths);
            }
            to.winners[row + x] = value;
            to.best[row + x] = static_cast<u8>(d);
        }
    }
}

}  // namespace

// Blocks of 256, one for each row; dynamic shared memory as the host's table says.
#define WINNERS(D, PATHS)                                                                                            \
    extern "C" __global__ void __launch_bounds__(256) stereo_winners_##D##_##PATHS(Arguments to) {                   \
        winners<D, PATHS>(to);                                                                                       \
    }
WINNERS(64, 4)
WINNERS(128, 4)
WINNERS(256, 4)
WINNERS(64, 8)
WINNERS(128, 8)
WINNERS(256, 8)
