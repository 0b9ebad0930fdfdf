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
    // Words of a part; word PARTS step + part.
    static constexpr int STEPS = CHAIN / PARTS;
    // Words from pixel to pixel: threads side by side then hit different banks.
    static constexpr int STRIDE = CHAIN + PARTS;
    // At D = 128 the words from 32 on have every two fours of them swapped: the lanes of a pixel
    // then store to different banks.
    static constexpr int SWAPPED = D == 128 ? 4 : 0;
    __host__ __device__ static constexpr int place(int word) { return word ^ (word / 32 % 2 * SWAPPED); }
    // Pixels that are kept; the first PIXELS are there twice, so that a window can go on past the
    // end.
    static constexpr int RING = (CHAIN > PIXELS ? CHAIN : PIXELS) + 2 * PIXELS;
    // Lanes of a pixel, and their words of the volume.
    static constexpr int LANES = 256 / PIXELS;
    static constexpr int WORDS = D / 4 / LANES;
    // Right pixels whose lower half waits for the upper one.
    static constexpr int WAITING = 256;
    // Dynamic shared memory, bytes: the ring; what the threads of a tile found, for the next
    // round, padded against bank conflicts; the right pixels that wait.
    static constexpr int PADDED = PIXELS + 32 / PARTS;
    static constexpr int FOUND = PARTS * PADDED * 4;
    static constexpr int RING_END = RING * STRIDE * 4;
    static constexpr int FIRST = (RING + PIXELS) * STRIDE * 4, SECOND = FIRST + 2 * FOUND, RIGHT = SECOND + 2 * FOUND;
    static constexpr int WAITS = RIGHT + 2 * FOUND;
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

// Both halves of a part's key as sum * PLACES + word.
template <int D>
constexpr u32 PLACES = 16 * Tile<D>::PARTS;
template <int D>
__device__ inline u32 place_of(u32 key, u32 part) {
    return key * Tile<D>::PARTS + part;
}
template <int D>
__device__ inline u32 low_of(u32 key, u32 part) {
    return place_of<D>(key & 0xffff, part);
}
template <int D>
__device__ inline u32 high_of(u32 key, u32 part) {
    return place_of<D>(key >> 16, part);
}
// As sum << 16 | disparity.
template <int D>
__device__ inline u32 with_disparity(u32 place, u32 chain) {
    return place / PLACES<D> << 16 | (place % PLACES<D> + chain);
}

// Shared memory by its 32-bit address: what a thread adds to it is then computed once.
__device__ inline u32 read_shared(u32 at) {
    u32 word;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(at) : "memory");
    return word;
}
__device__ inline void write_shared(u32 at, u32 word) {
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(at), "r"(word) : "memory");
}
__device__ inline void write_shared(u32 at, const Words<4> &words) {
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(words.word[0]), "r"(words.word[1]),
                 "r"(words.word[2]), "r"(words.word[3])
                 : "memory");
}
// What the compiler is to keep in a register, and not to find anew from the thread's number: where
// registers are free.
template <int PATHS>
__device__ inline u32 kept(u32 value) {
    if (PATHS == 4) asm volatile("" : "+r"(value));
    return value;
}

// Where AHEAD the tile after the next is already asked for, up to the second-level cache: on few
// multiprocessors too few loads are under way otherwise.
template <int D, int PATHS, bool AHEAD>
__device__ inline void winners(const Arguments &to) {
    using T = Tile<D>;
    constexpr u32 PIXELS = T::PIXELS, PARTS = T::PARTS, CHAIN = T::CHAIN, RING = T::RING, STRIDE = T::STRIDE;
    constexpr u32 LANES = T::LANES, WORDS = T::WORDS, PADDED = T::PADDED, FOUND = T::FOUND;
    // Bytes from a tile to the next, and of the whole ring.
    constexpr u32 TILE_BYTES = PIXELS * STRIDE * 4, RING_END = T::RING_END;
    extern __shared__ __align__(16) u32 shared_words[];
    const u32 ring = kept<PATHS>(static_cast<u32>(__cvta_generic_to_shared(shared_words)));
    const u32 w = to.width, thread = threadIdx.x;
    const std::size_t row = static_cast<std::size_t>(blockIdx.x) * w;
    const u32 lane = thread % LANES, pixel = kept<PATHS>(thread / LANES);
    const u32 own_step = kept<PATHS>(2 * WORDS * lane / PARTS * 0x00010001u);
    // Where this lane's words go, four at a time.
    u32 own_words[WORDS / 2];
#pragma unroll
    for (u32 n = 0; n < WORDS / 2; n++)
        own_words[n] = kept<PATHS>(ring + (pixel * STRIDE + T::place(2 * WORDS * lane + 4 * n)) * 4);

    const u8 *from = to.paths + (row + pixel) * D + 4 * WORDS * lane;
    Words<WORDS> next[PATHS];
    auto load = [&](u32 x) {
        if (x < w) {
            const u8 *path = from;
            const bool ahead = AHEAD && 4 * WORDS * lane % 128 == 0 && x + PIXELS < w;
#pragma unroll
            for (int r = 0; r < PATHS; r++) {
                next[r] = load_words<WORDS>(path);
                if (ahead) asm volatile("prefetch.global.L2 [%0];" ::"l"(__cvta_generic_to_global(path + PIXELS * D)));
                path += to.volume_len;
            }
        }
        from += PIXELS * D;
    };
    load(pixel);
    // Of a search.
    const bool left_side = thread < 128;
    const u32 which = thread % 128 / PARTS, part = thread % PARTS;
    const u32 slot = kept<PATHS>(ring + T::FIRST + (left_side ? 0 : 4 * FOUND) + (part * PADDED + which) * 4);
    const u32 window = kept<PATHS>(ring + ((left_side ? which : which + part) * STRIDE + part) * 4);

    const u32 own_tiles = div_up(w, PIXELS);
    const u32 tiles = to.left_right ? div_up(w - 1 + D, PIXELS) : own_tiles;
    // Where the tile begins in the ring, in bytes.
    u32 base = 0;
    // Each round: keys of a tile, its least, and what the round before found.
    for (u32 tile = 0; tile <= tiles; tile++) {
        const u32 x0 = tile * PIXELS, parity = tile % 2 * FOUND, last_parity = FOUND - parity;
        if (tile < tiles) {
            const u32 x = x0 + pixel;
            Words<4> keys[WORDS / 2];
#pragma unroll
            for (u32 n = 0; n < WORDS; n++) {
                // The whole word's sum is A + 256 B, and A alone fits.
                u32 all = 0, b = 0;
#pragma unroll
                for (int r = 0; r < PATHS; r++) {
                    all += next[r].word[n];
                    b += bytes_of(next[r].word[n], 0, 0x4341);
                }
                // Two words side by side are of the same step: PARTS is even.
                const u32 step = own_step + 2 * n / PARTS * 0x00010001u;
                keys[n / 2].word[2 * n & 3] = all * 16 + step - b * 4096;
                keys[n / 2].word[(2 * n & 3) + 1] = b * 16 + step;
            }
            if (x >= w || (to.mask != nullptr && to.mask[row + x] == 0)) {
#pragma unroll
                for (u32 n = 0; n < 2 * WORDS; n++) keys[n / 4].word[n % 4] = 0xffffffffu;
            }
#pragma unroll
            for (u32 n = 0; n < WORDS / 2; n++) write_shared(own_words[n] + base, keys[n]);
            if (base < PIXELS * STRIDE * 4)
#pragma unroll
                for (u32 n = 0; n < WORDS / 2; n++) write_shared(own_words[n] + base + RING_END, keys[n]);
            load(x + PIXELS);
        }
        __syncthreads();

        if (left_side) {
            if (tile < own_tiles) {
                // The least two of each half of the words. Of the winner and its two neighbours
                // at most one is in a half: that the second is known makes up for it.
                u32 first = 0xffffffffu, second = 0xffffffffu;
                auto take = [&](u32 one, u32 other) {
                    const u32 lower = min_pair(one, other);
                    second = min_pair(second, max_pair(one, other), max_pair(first, lower));
                    first = min_pair(first, lower);
                };
                const u32 words = window + base;
#pragma unroll
                for (u32 s = 0; s < T::STEPS; s += 2)
                    take(read_shared(words + T::place(PARTS * s) * 4), read_shared(words + T::place(PARTS * (s + 1)) * 4));
                write_shared(slot + parity, first);
                write_shared(slot + parity + 2 * FOUND, second);
            }
        } else if (to.left_right && tile < tiles) {
            // Right pixels k whose words have just become complete, from k = x0 - CHAIN + 1 on.
            // (What is found for a k < 0 is not looked at.)
            u32 least = 0xffffffffu;
#pragma unroll
            for (u32 piece = 0; piece < CHAIN; piece += PIXELS) {
                // Where the window starts in the ring is the same for all threads.
                u32 start = base + (1 + RING - CHAIN + piece) * STRIDE * 4;
                if (start >= RING_END) start -= RING_END;
                auto at = [&](u32 i) { return read_shared(window + start + (i * STRIDE + T::place(piece + i)) * 4); };
#pragma unroll
                for (u32 i = 0; i < PIXELS; i += 2 * PARTS) least = min_pair(least, at(i), at(i + PARTS));
            }
            write_shared(slot + parity, least);
        }
        // The tile before, in the ring.
        const u32 last_base = base >= TILE_BYTES ? base - TILE_BYTES : RING_END - TILE_BYTES;
        base = base + TILE_BYTES < RING_END ? base + TILE_BYTES : 0;
        if (tile == 0 || lane_id() >= static_cast<int>(PIXELS)) continue;
        const u32 local = lane_id();
        if (warp_id() == static_cast<int>(tile % 8)) {
            // The winners of the tile before.
            const u32 x = x0 - PIXELS + local;
            if (x >= w) continue;
            const u32 found = ring + T::FIRST + last_parity + 4 * local;
            u32 first[PARTS], low[PARTS], high[PARTS], least_low = 0xffffffffu, least_high = 0xffffffffu;
#pragma unroll
            for (u32 p = 0; p < PARTS; p++) {
                first[p] = read_shared(found + 4 * p * PADDED);
                low[p] = low_of<D>(first[p], p);
                high[p] = high_of<D>(first[p], p);
                least_low = min(least_low, low[p]);
                least_high = min(least_high, high[p]);
            }
            const u32 best = min(with_disparity<D>(least_low, 0), with_disparity<D>(least_high, CHAIN));
            const u32 sum = best >> 16, d = best & 0xffff;
            u32 rival = NO_SUM;
#pragma unroll
            for (u32 p = 0; p < PARTS; p++) {
                const u32 second = read_shared(found + 2 * FOUND + 4 * p * PADDED);
                const u32 low_d = low[p] % PLACES<D>, high_d = high[p] % PLACES<D> + CHAIN;
                rival = min(rival, (low_d + 1 - d <= 2 ? second : first[p]) >> 4 & NO_SUM);
                rival = min(rival, (high_d + 1 - d <= 2 ? second : first[p]) >> 20);
            }
            u16 value = INVALID;
            if (sum != NO_SUM && d <= x && rival * (100 - to.uniqueness) >= sum * 100) {
                int sixteenths = static_cast<int>(16 * d);
                if (to.subpixel && d > 0 && d < D - 1) {
                    const u32 words = ring + last_base + local * STRIDE * 4;
                    auto sum_of = [&](u32 d) {
                        return static_cast<int>(read_shared(words + T::place(d % CHAIN) * 4) >> (d < CHAIN ? 4 : 20) & NO_SUM);
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
        } else if (to.left_right && warp_id() == static_cast<int>((tile + 4) % 8)) {
            // The right pixels of the tile before.
            const u32 x = x0 - PIXELS + local;
            if (x + 1 < CHAIN) continue;
            const u32 k = x + 1 - CHAIN;
            const u32 found = ring + T::RIGHT + last_parity + 4 * local;
            u32 low = 0xffffffffu, high = 0xffffffffu;
#pragma unroll
            for (u32 p = 0; p < PARTS; p++) {
                const u32 least = read_shared(found + 4 * p * PADDED);
                low = min(low, low_of<D>(least, p));
                high = min(high, high_of<D>(least, p));
            }
            const u32 waits = ring + T::WAITS;
            // The upper half is that of the pixel CHAIN further left, whose lower half is older.
            if (k >= CHAIN && k - CHAIN < w) {
                const u32 both = min(read_shared(waits + (k - CHAIN) % T::WAITING * 4), with_disparity<D>(high, CHAIN));
                to.right[row + k - CHAIN] = both >> 16 == NO_SUM ? INVALID : static_cast<u16>(both);
            }
            write_shared(waits + k % T::WAITING * 4, with_disparity<D>(low, 0));
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
#define WINNERS_OF(NAME, AHEAD, D, PATHS, BLOCKS)                                                                    \
    extern "C" __global__ void __launch_bounds__(256, BLOCKS) stereo_winners_##NAME##D##_##PATHS(Arguments to) {     \
        winners<D, PATHS, AHEAD>(to);                                                                                \
    }
#define WINNERS(D, PATHS, BLOCKS)                                                                                    \
    WINNERS_OF(, false, D, PATHS, BLOCKS)                                                                            \
    WINNERS_OF(ahead_, true, D, PATHS, BLOCKS)
WINNERS(64, 4, 4)
WINNERS(128, 4, 4)
WINNERS(256, 4, 2)
WINNERS(64, 8, 4)
WINNERS(128, 8, 4)
WINNERS(256, 8, 2)
