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
    u32 left_right_max;
    u32 subpixel;
    u32 reserved;
};

// The least of the halves of `parts` keys, as sum << 16 | disparity.
template <int D>
__device__ inline u32 low_of(u32 key, u32 part) {
    return (key >> 4 & NO_SUM) << 16 | (Tile<D>::PARTS * (key & 15) + part);
}
template <int D>
__device__ inline u32 high_of(u32 key, u32 part) {
    return (key >> 20) << 16 | (Tile<D>::PARTS * (key >> 16 & 15) + part + Tile<D>::CHAIN);
}

template <int D, int PATHS>
__device__ inline void winners(const Arguments &to) {
    using T = Tile<D>;
    constexpr u32 PIXELS = T::PIXELS, PARTS = T::PARTS, CHAIN = T::CHAIN, RING = T::RING, STRIDE = T::STRIDE;
    // What the threads of a tile found, for the next round; padded against bank conflicts.
    constexpr u32 PADDED = PIXELS + 32 / PARTS;
    extern __shared__ __align__(16) u32 ring[];
    __shared__ u32 first_of[2][PARTS * PADDED], second_of[2][PARTS * PADDED], right_of[2][PARTS * PADDED];
    __shared__ u32 waiting[T::WAITING];
    const u32 w = to.width, thread = threadIdx.x;
    const std::size_t row = static_cast<std::size_t>(blockIdx.x) * w;
    const u32 lane = thread % T::LANES, pixel = thread / T::LANES;

    const u8 *from = to.paths + (row + pixel) * D + 4 * T::WORDS * lane;
    Words<T::WORDS> next[PATHS];
    auto load = [&](u32 tile) {
        if (tile * PIXELS + pixel >= w) return;
#pragma unroll
        for (int r = 0; r < PATHS; r++)
            next[r] = load_words<T::WORDS>(from + r * to.volume_len + static_cast<std::size_t>(tile) * (PIXELS * D));
    };
    load(0);
    const u32 own_tiles = div_up(w, PIXELS);
    const u32 tiles = to.left_right ? div_up(w - 1 + D, PIXELS) : own_tiles;
    // Each round: keys of a tile, its least, and what the round before found.
    for (u32 tile = 0; tile <= tiles; tile++) {
        const u32 x0 = tile * PIXELS;
        if (tile < tiles) {
            const u32 x = x0 + pixel;
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
                    // Two words side by side are of the same step: PARTS is even.
                    const u32 step = 2 * (T::WORDS * lane + n) / PARTS * 0x00010001u;
                    keys.word[2 * n] = a * 16 + step;
                    keys.word[2 * n + 1] = b * 16 + step;
                }
            } else {
#pragma unroll
                for (int n = 0; n < 2 * T::WORDS; n++) keys.word[n] = 0xffffffffu;
            }
            const u32 at = x % RING;
            u32 *words = ring + at * STRIDE + 2 * T::WORDS * lane;
            store_words(words, keys);
            if (at < PIXELS) store_words(words + RING * STRIDE, keys);
            load(tile + 1);
        }
        __syncthreads();

        const u32 part = thread % PARTS, which = thread % 128 / PARTS;
        const u32 slot = part * PADDED + which;
        if (thread < 128) {
            if (tile < own_tiles) {
                // The least two of each half of the words. Of the winner and its two neighbours
                // at most one is in a half: that the second is known makes up for it.
                const u32 *words = ring + ((x0 + which) % RING) * STRIDE + part;
                u32 first = 0xffffffffu, second = 0xffffffffu;
#pragma unroll
                for (int s = 0; s < T::STEPS; s += 2) {
                    const u32 one = words[PARTS * s], other = words[PARTS * (s + 1)];
                    const u32 lower = min_pair(one, other);
                    second = min_pair(second, max_pair(one, other), max_pair(first, lower));
                    first = min_pair(first, lower);
                }
                first_of[tile % 2][slot] = first;
                second_of[tile % 2][slot] = second;
            }
        } else if (to.left_right && tile < tiles) {
            // Right pixels k whose words have just become complete, from k = x0 - CHAIN + 1 on.
            u32 least = 0xffffffffu;
            if (x0 + which + 1 >= CHAIN) {
#pragma unroll
                for (u32 piece = 0; piece < CHAIN; piece += PIXELS) {
                    // Where the window starts in the ring is the same for all threads.
                    const u32 start = (x0 + 1 + RING - CHAIN + piece) % RING;
                    const u32 *words = ring + (start + which + part) * STRIDE + piece + part;
#pragma unroll
                    for (u32 s = 0; s < PIXELS; s += 2 * PARTS)
                        least = min_pair(least, words[s * (STRIDE + 1)], words[(s + PARTS) * (STRIDE + 1)]);
                }
            }
            right_of[tile % 2][slot] = least;
        }
        if (tile == 0 || lane_id() >= static_cast<int>(PIXELS)) continue;
        const u32 local = lane_id(), *found;
        if (warp_id() == static_cast<int>(tile % 8)) {
            // The winners of the tile before.
            const u32 x = x0 - PIXELS + local;
            if (x >= w) continue;
            found = first_of[(tile - 1) % 2] + local;
            u32 best = 0xffffffffu;
#pragma unroll
            for (u32 p = 0; p < PARTS; p++)
                best = min(best, min(low_of<D>(found[p * PADDED], p), high_of<D>(found[p * PADDED], p)));
            const u32 sum = best >> 16, d = best & 0xffff;
            u32 rival = NO_SUM;
#pragma unroll
            for (u32 p = 0; p < PARTS; p++) {
                const u32 first = found[p * PADDED], second = second_of[(tile - 1) % 2][p * PADDED + local];
                const u32 low_d = PARTS * (first & 15) + p, high_d = PARTS * (first >> 16 & 15) + p + CHAIN;
                rival = min(rival, (low_d + 1 - d <= 2 ? second : first) >> 4 & NO_SUM);
                rival = min(rival, (high_d + 1 - d <= 2 ? second : first) >> 20);
            }
            u16 value = INVALID;
            if (sum != NO_SUM && d <= x && rival * (100 - to.uniqueness) >= sum * 100) {
                int sixteenths = static_cast<int>(16 * d);
                if (to.subpixel && d > 0 && d < D - 1) {
                    const u32 *words = ring + (x % RING) * STRIDE;
                    auto sum_of = [&](u32 d) { return static_cast<int>(words[d % CHAIN] >> (d < CHAIN ? 4 : 20) & NO_SUM); };
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
        } else if (to.left_right && warp_id() == static_cast<int>((tile + 4) % 8)) {
            // The right pixels of the tile before.
            const u32 x = x0 - PIXELS + local;
            if (x + 1 < CHAIN) continue;
            const u32 k = x + 1 - CHAIN;
            found = right_of[(tile - 1) % 2] + local;
            u32 low = 0xffffffffu, high = 0xffffffffu;
#pragma unroll
            for (u32 p = 0; p < PARTS; p++) {
                low = min(low, low_of<D>(found[p * PADDED], p));
                high = min(high, high_of<D>(found[p * PADDED], p));
            }
            // The upper half is that of the pixel CHAIN further left, whose lower half is older.
            if (k >= CHAIN && k - CHAIN < w) {
                const u32 both = min(waiting[(k - CHAIN) % T::WAITING], high);
                to.right[row + k - CHAIN] = both >> 16 == NO_SUM ? INVALID : static_cast<u16>(both);
            }
            waiting[k % T::WAITING] = low;
        }
    }
    if (!to.left_right) return;
    // The left-right check: the whole row of both images is there.
    __syncthreads();
    for (u32 x = thread; x < w; x += 256) {
        if (to.winners[row + x] == INVALID) continue;
        const u32 d = to.best[row + x], other = to.right[row + x - d];
        if (other == INVALID || (other > d ? other - d : d - other) > to.left_right_max) to.winners[row + x] = INVALID;
    }
}

}  // namespace

// Blocks of 256, one for each row; dynamic shared memory as the host's table says. BLOCKS of them
// on a multiprocessor, so that some work while others wait at their barrier.
#define WINNERS(D, PATHS, BLOCKS)                                                                                    \
    extern "C" __global__ void __launch_bounds__(256, BLOCKS) stereo_winners_##D##_##PATHS(Arguments to) {           \
        winners<D, PATHS>(to);                                                                                       \
    }
WINNERS(64, 4, 4)
WINNERS(128, 4, 4)
WINNERS(256, 4, 2)
WINNERS(64, 8, 4)
WINNERS(128, 8, 4)
WINNERS(256, 8, 2)
