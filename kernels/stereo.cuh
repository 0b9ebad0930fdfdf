// What the stereo kernels share: how a volume is laid out, and minima of packed numbers.
//
// A volume has D bytes a pixel, pixels in rows. A 32-bit word g of a pixel holds the
// disparities 2 g, 2 g + 1, D/2 + 2 g, D/2 + 2 g + 1: read as two pairs of 16-bit lanes
// (A: bytes 0 and 2, B: bytes 1 and 3), the neighbours d - 1 and d + 1 of a pair are whole
// pairs, so that only the ends of a lane's words need other lanes.
#pragma once
#include "common.cuh"

namespace roadloop {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;

constexpr u32 MAX_COST = 31;
// Of a disparity whose match lies outside the right image.
constexpr u32 OUTSIDE_COST = 12;

// Bytes chosen from (b:a) by nibbles.
__device__ inline u32 bytes_of(u32 a, u32 b, u32 selector) { return __byte_perm(a, b, selector); }

// Two numbers of 16 bits at once. From sm_90 on one instruction each.
__device__ inline u32 min_pair(u32 a, u32 b) { return __vminu2(a, b); }
__device__ inline u32 max_pair(u32 a, u32 b) { return __vmaxu2(a, b); }
__device__ inline u32 min_pair(u32 a, u32 b, u32 c) {
#if __CUDA_ARCH__ >= 900 && __CUDACC_VER_MAJOR__ >= 12
    return __vimin3_u16x2(a, b, c);
#else
    return __vminu2(__vminu2(a, b), c);
#endif
}

// How the byte of a pair lies in its 16 bits, for the arithmetic of paths.
#if __CUDA_ARCH__ >= 900 && !defined(STEREO_LOW_BYTES)
// In the high byte; the low one is noise that never carries. Unpacking then costs nothing on the
// integer pipe: B is the word itself, A a multiplication by 256.
constexpr u32 ONE = 0x01000100u, NONE = 0xffffffffu;
constexpr u32 PACK = 0x7351, SPREAD = 0x1111;
constexpr u32 LEFT_INNER = 0x3210, LEFT_END = 0x1044, RIGHT_INNER = 0x2200, RIGHT_END = 0x4422;
__device__ inline u32 pair_a(u32 word) { return word << 8; }
__device__ inline u32 pair_b(u32 word) { return word; }
__device__ inline u32 path_min(u32 a, u32 b) { return __vminu2(a, b); }
__device__ inline u32 path_add_min(u32 a, u32 add, u32 b) {
#if __CUDACC_VER_MAJOR__ >= 12
    return __viaddmin_u16x2(a, add, b);
#else
    return __vminu2(a + add, b);
#endif
}
__device__ inline u32 path_min(u32 a, u32 b, u32 c) {
#if __CUDACC_VER_MAJOR__ >= 12
    return __vimin3_u16x2(a, b, c);
#else
    return __vminu2(__vminu2(a, b), c);
#endif
}
#else
// In the low byte, the high one 0. As halves of 16-bit floats (denormals, so that their order is
// that of the whole numbers) they have a minimum in one instruction from sm_80 on.
constexpr u32 ONE = 0x00010001u, NONE = 0x000000ffu;
constexpr u32 PACK = 0x6240, SPREAD = 0x0000;
constexpr u32 LEFT_INNER = 0x5351, LEFT_END = 0x5154, RIGHT_INNER = 0x5250, RIGHT_END = 0x5452;
__device__ inline u32 pair_a(u32 word) { return word & 0x00ff00ffu; }
__device__ inline u32 pair_b(u32 word) { return bytes_of(word, 0, 0x4341); }
__device__ inline u32 path_min(u32 a, u32 b) {
#if __CUDA_ARCH__ >= 800
    u32 least;
    asm("min.f16x2 %0, %1, %2;" : "=r"(least) : "r"(a), "r"(b));
    return least;
#else
    return __vminu2(a, b);
#endif
}
__device__ inline u32 path_add_min(u32 a, u32 add, u32 b) { return path_min(a + add, b); }
__device__ inline u32 path_min(u32 a, u32 b, u32 c) { return path_min(path_min(a, b), c); }
#endif

// N words that lie together.
template <int N>
struct alignas(4 * (N < 4 ? N : 4)) Words {
    u32 word[N];
};

template <int N>
__device__ inline Words<N> load_words(const void *from) {
    return *static_cast<const Words<N> *>(from);
}

template <int N>
__device__ inline void store_words(void *to, const Words<N> &words) {
    *static_cast<Words<N> *>(to) = words;
}

}  // namespace roadloop
