// What training needs on the device besides a forest's features (forest.cuh): the generator of
// candidates (stage::forest::random), their parameters (stage::forest::feature) and n log2 n in
// whole numbers (training::gain). The same numbers as there, bit for bit.
#pragma once
#include "forest.cuh"

namespace roadloop {
namespace training {

using forest::LARGEST;
using forest::Split;
using forest::UNANSWERED;

// A feature's options and the streams of a tree; the same fields as in src/training/cuda/kernels.rs.
struct Options {
    std::uint32_t tree;           // with the seed in it
    std::uint32_t purpose_seed;   // of the fourth word
    std::uint32_t papers_mapping; // Mapping::Padenti
    std::int32_t channels, offset, half;
    std::int32_t depth_share, row_share, single_share;
    std::int32_t one_offset;
    std::int32_t differences[2], singles[2], depths[2];  // ranges of uniform thresholds
    std::int32_t sum, shrink, reference, background, bias;
};

// Places of an image's tables, from the first word of all of them; `raw` in what was copied.
struct View {
    std::uint64_t sums;        // 32-bit words
    std::uint64_t depth_sums;  // 32-bit words
    std::uint64_t depth;       // 16-bit words
    std::uint64_t raw;         // 16-bit words
    std::int32_t width, height;
};
static_assert(sizeof(View) == 40, "as on the host");

// A node of the slice.
struct Place {
    std::uint64_t base;          // cells of a candidate in the nodes before; of kept responses, pixels there
    std::uint32_t heap;          // its number in the full tree
    std::uint32_t classes;       // that it has
    std::uint32_t first_class;   // of its own in the lists of totals, weights and winners
    std::uint32_t pixels;        // that it has
};
static_assert(sizeof(Place) == 24, "as on the host");

// The first half of a Split.
struct alignas(16) Theta {
    std::int16_t x1, y1, x2, y2;
    std::uint8_t w1, h1, w2, h2;
    std::uint8_t c1, c2, kind, unused;
};
static_assert(sizeof(Theta) == 16, "as in a Split");

// No candidate, no rank, no child.
constexpr std::uint32_t NONE = 0xffffffffu;
// Thresholds that are compared one by one; more are searched by halves. As on the host.
constexpr std::uint32_t FEW = 64;

enum Purpose : std::uint32_t { FEATURE = 0, THRESHOLDS = 1 };

// MD5 of the 16 bytes that four words are, in place.
__device__ inline void md5(std::uint32_t (&state)[4]) {
    constexpr std::uint32_t SINES[64] = {
        0xD76AA478, 0xE8C7B756, 0x242070DB, 0xC1BDCEEE, 0xF57C0FAF, 0x4787C62A, 0xA8304613, 0xFD469501,
        0x698098D8, 0x8B44F7AF, 0xFFFF5BB1, 0x895CD7BE, 0x6B901122, 0xFD987193, 0xA679438E, 0x49B40821,
        0xF61E2562, 0xC040B340, 0x265E5A51, 0xE9B6C7AA, 0xD62F105D, 0x02441453, 0xD8A1E681, 0xE7D3FBC8,
        0x21E1CDE6, 0xC33707D6, 0xF4D50D87, 0x455A14ED, 0xA9E3E905, 0xFCEFA3F8, 0x676F02D9, 0x8D2A4C8A,
        0xFFFA3942, 0x8771F681, 0x6D9D6122, 0xFDE5380C, 0xA4BEEA44, 0x4BDECFA9, 0xF6BB4B60, 0xBEBFBC70,
        0x289B7EC6, 0xEAA127FA, 0xD4EF3085, 0x04881D05, 0xD9D4D039, 0xE6DB99E5, 0x1FA27CF8, 0xC4AC5665,
        0xF4292244, 0x432AFF97, 0xAB9423A7, 0xFC93A039, 0x655B59C3, 0x8F0CCC92, 0xFFEFF47D, 0x85845DD1,
        0x6FA87E4F, 0xFE2CE6E0, 0xA3014314, 0x4E0811A1, 0xF7537E82, 0xBD3AF235, 0x2AD7D2BB, 0xEB86D391,
    };
    constexpr int SHIFTS[4][4] = {{7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};
    const std::uint32_t block[16] = {state[0], state[1], state[2], state[3], 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 128, 0};
    std::uint32_t a = 0x67452301, b = 0xEFCDAB89, c = 0x98BADCFE, d = 0x10325476;
#pragma unroll
    for (int i = 0; i < 64; ++i) {
        std::uint32_t mix;
        int word;
        if (i < 16) {
            mix = (b & c) | (~b & d);
            word = i;
        } else if (i < 32) {
            mix = (d & b) | (~d & c);
            word = (5 * i + 1) % 16;
        } else if (i < 48) {
            mix = b ^ c ^ d;
            word = (3 * i + 5) % 16;
        } else {
            mix = c ^ (b | ~d);
            word = 7 * i % 16;
        }
        const std::uint32_t sum = a + mix + SINES[i] + block[word];
        const int shift = SHIFTS[i / 16][i % 4];
        a = d;
        d = c;
        c = b;
        b += (sum << shift) | (sum >> (32 - shift));
    }
    state[0] = 0x67452301 + a;
    state[1] = 0xEFCDAB89 + b;
    state[2] = 0x98BADCFE + c;
    state[3] = 0x10325476 + d;
}

// forest::Words.
struct Words {
    std::uint32_t state[4];
    int used;
    bool papers;

    __device__ Words(const Options &o, Purpose purpose, std::uint32_t node, std::uint32_t candidate)
        : state{o.tree, node, candidate, static_cast<std::uint32_t>(purpose) ^ o.purpose_seed}, used(4), papers(o.papers_mapping != 0) {}

    __device__ std::uint32_t word() {
        if (used == 4) {
            md5(state);
            used = 0;
        }
        const std::uint32_t low = used == 0 ? state[0] : state[1], high = used == 2 ? state[2] : state[3];
        const std::uint32_t value = used < 2 ? low : high;
        ++used;
        return value;
    }

    __device__ std::uint32_t below(std::uint32_t n) {
        return static_cast<std::uint32_t>((static_cast<std::uint64_t>(word()) * n) >> 32);
    }

    __device__ std::int32_t within(std::int32_t low, std::int32_t high) {
        const std::int64_t range = static_cast<std::int64_t>(high) - low;
        if (papers) {
            const float u = static_cast<float>(word()) / 4294967296.0f;
            const std::int64_t at = low + static_cast<std::int64_t>(u * static_cast<float>(range));
            return static_cast<std::int32_t>(at < high ? at : high);
        }
        // At most 2^32 times a word: below 2^64.
        const std::uint64_t span = range < 0 ? 1 : static_cast<std::uint64_t>(range) + 1;
        return static_cast<std::int32_t>(low + static_cast<std::int64_t>((word() * span) >> 32));
    }
};

// Their order in the stream is the contract.
__device__ inline Theta draw_regions(Words &words, const Options &o) {
    Theta q = {};
    q.x1 = static_cast<std::int16_t>(words.within(-o.offset, o.offset));
    q.y1 = static_cast<std::int16_t>(words.within(-o.offset, o.offset));
    q.w1 = static_cast<std::uint8_t>(words.within(1, o.half));
    q.h1 = static_cast<std::uint8_t>(words.within(1, o.half));
    q.c1 = static_cast<std::uint8_t>(words.below(static_cast<std::uint32_t>(o.channels)));
    q.x2 = static_cast<std::int16_t>(words.within(-o.offset, o.offset));
    q.y2 = static_cast<std::int16_t>(words.within(-o.offset, o.offset));
    q.w2 = static_cast<std::uint8_t>(words.within(1, o.half));
    q.h2 = static_cast<std::uint8_t>(words.within(1, o.half));
    q.c2 = static_cast<std::uint8_t>(words.below(static_cast<std::uint32_t>(o.channels)));
    return q;
}

struct Range {
    std::int32_t low, high;
};

struct RegionFeature : forest::RegionFeature {
    static __device__ Theta draw(Words &words, const Options &o) {
        Theta q = draw_regions(words, o);
        const int at = static_cast<int>(words.below(256));
        q.kind = at < o.row_share ? forest::ROW : at < o.row_share + o.single_share ? forest::SINGLE : forest::DIFFERENCE;
        return q;
    }
    static __device__ Range range(const Theta &q, const Options &o) {
        if (q.kind == forest::ROW) return {0, 65535};
        if (q.kind == forest::SINGLE) return {o.singles[0], o.singles[1]};
        return {o.differences[0], o.differences[1]};
    }
};

struct RgbdFeature : forest::RgbdFeature {
    static __device__ Theta draw(Words &words, const Options &o) {
        Theta q = draw_regions(words, o);
        const int at = static_cast<int>(words.below(256));
        const int row = o.depth_share + o.row_share;
        q.kind = at < o.depth_share          ? forest::DEPTHS
                 : at < row                  ? forest::ROW
                 : at < row + o.single_share ? forest::SINGLE
                                             : forest::DIFFERENCE;
        return q;
    }
    static __device__ Range range(const Theta &q, const Options &o) {
        if (q.kind == forest::DEPTHS) return {o.depths[0], o.depths[1]};
        return RegionFeature::range(q, o);
    }
};

struct DepthFeature : forest::DepthFeature {
    static __device__ Theta draw(Words &words, const Options &o) {
        Theta q = {};
        if (!o.one_offset) {
            q.x1 = static_cast<std::int16_t>(words.within(-o.offset, o.offset));
            q.y1 = static_cast<std::int16_t>(words.within(-o.offset, o.offset));
        }
        q.x2 = static_cast<std::int16_t>(words.within(-o.offset, o.offset));
        q.y2 = static_cast<std::int16_t>(words.within(-o.offset, o.offset));
        return q;
    }
    static __device__ Range range(const Theta &, const Options &o) { return {o.depths[0], o.depths[1]}; }
};

// A candidate's parameters as a feature takes them.
__device__ inline Split question(const Theta *thetas, std::size_t at) {
    Split q = {};
    *reinterpret_cast<int4 *>(&q) = __ldg(reinterpret_cast<const int4 *>(thetas + at));
    return q;
}

template <typename Feature>
__device__ inline int response(const Options &o, const std::uint32_t *planes, const View *views, std::uint32_t view, const Split &q,
                               std::uint32_t xy) {
    const View v = views[view];
    forest::Params p = {};
    p.width = v.width;
    p.height = v.height;
    p.tables = o.channels;
    p.sum = o.sum;
    p.shrink = o.shrink;
    p.reference = o.reference;
    p.background = o.background;
    p.bias = o.bias;
    const std::size_t table = (static_cast<std::size_t>(v.width) + 1) * (static_cast<std::size_t>(v.height) + 1);
    const forest::Planes tables = {planes + v.sums, reinterpret_cast<const std::uint16_t *>(planes) + v.depth, planes + v.depth_sums,
                                   planes + v.depth_sums + table};
    return Feature::response(p, tables, q, static_cast<int>(xy & 0xffff), static_cast<int>(xy >> 16));
}

// How many of the rising thresholds are below a response.
__device__ inline std::uint32_t bin_of(const std::int32_t *taus, std::size_t step, std::uint32_t n, int response) {
    if (n <= FEW) {
        std::uint32_t below = 0;
#pragma unroll 4
        for (std::uint32_t t = 0; t < n; ++t) below += taus[t * step] < response;
        return below;
    }
    std::uint32_t low = 0, high = n;
    while (low < high) {
        const std::uint32_t middle = (low + high) / 2;
        if (taus[middle * step] < response) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

// A node's best candidate; the same fields as in src/training/cuda/kernels.rs.
struct Result {
    std::int64_t gain;
    std::uint32_t candidate;  // all ones: none
    std::int32_t tau;
    std::uint32_t theta[4];
};
static_assert(sizeof(Result) == 32, "as on the host");

__device__ inline bool precedes(std::int64_t gain, std::uint32_t f, std::int64_t than, std::uint32_t other) {
    if (f == NONE || other == NONE) return f != NONE;
    return gain > than || (gain == than && f < other);
}

// training::gain::Xlog.
struct Xlog {
    const std::int64_t *small;  // 65536 entries
    const std::uint32_t *log;   // 32768 entries
    std::uint32_t bits;

    __device__ __forceinline__ std::int64_t large(std::uint64_t n) const {
        const int zeros = __clzll(static_cast<long long>(n));
        const std::uint64_t mantissa = n << zeros, rest = (mantissa >> 16) & 0xffffffffu;
        const std::uint32_t i = static_cast<std::uint32_t>(mantissa >> 48) & 32767u;
        const std::uint64_t low = log[i], high = i == 32767u ? std::uint64_t{1} << 32 : log[i + 1];
        const std::uint64_t log2 = (static_cast<std::uint64_t>(63 - zeros) << 32) + low + (((high - low) * rest) >> 32);
        // Below 2^84, by 0 to 22 bits down to 63.
        const std::uint64_t product = n * log2, above = __umul64hi(n, log2);
        const std::uint32_t shift = 32 - bits;
        return static_cast<std::int64_t>(shift == 0 ? product : (product >> shift) | (above << (64 - shift)));
    }

    __device__ __forceinline__ std::int64_t of(std::uint64_t n) const { return n < 65536 ? __ldg(small + n) : large(n); }
};

}  // namespace training
}  // namespace roadloop
