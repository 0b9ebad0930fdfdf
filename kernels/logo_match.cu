// Nearest and second nearest descriptors by Hamming distance (features::matcher): a warp has two
// queries in registers, its lanes go through the train descriptors; several lists in one launch.
#include "logo.cuh"

using namespace roadloop;

namespace {

constexpr int QUERIES = 2, WARPS = 4;
constexpr unsigned INDEX_BITS = 23, NONE = 0xffffffffu;

struct Match {
    std::uint32_t train, distance, second, second_distance;
};

constexpr int MOST = 8;

// What the queries are compared with, a list a row of blocks (host: `Lists`).
struct Lists {
    const uint4 *train[MOST];
    const std::uint32_t *count[MOST];
    const std::uint32_t *groups[MOST];
    Match *out[MOST];
};

// Best, its group, and best of any other group, as keys distance << 23 | index.
struct Pair {
    unsigned best, group, second;
};

__device__ void full_add(unsigned a, unsigned b, unsigned c, unsigned &sum, unsigned &carry) {
    sum = a ^ b ^ c;
    carry = (a & b) | (c & (a ^ b));
}

// Bits that differ: 7 words are added up by columns first, since bit counts are slow.
__device__ unsigned distance(const unsigned (&q)[8], const uint4 &low, const uint4 &high) {
    const unsigned x[8] = {q[0] ^ low.x,  q[1] ^ low.y,  q[2] ^ low.z,  q[3] ^ low.w,
                           q[4] ^ high.x, q[5] ^ high.y, q[6] ^ high.z, q[7] ^ high.w};
    unsigned s1, c1, s2, c2, ones, c3, twos, fours;
    full_add(x[0], x[1], x[2], s1, c1);
    full_add(x[3], x[4], x[5], s2, c2);
    full_add(s1, s2, x[6], ones, c3);
    full_add(c1, c2, c3, twos, fours);
    return static_cast<unsigned>(__popc(ones) + __popc(x[7]) + 2 * __popc(twos) + 4 * __popc(fours));
}

__device__ Pair merge(const Pair &a, const Pair &b) {
    const bool first = a.best <= b.best;
    const Pair near = first ? a : b, far = first ? b : a;
    const unsigned rival = far.group == near.group ? far.second : far.best;
    return {near.best, near.group, min(near.second, rival)};
}

}  // namespace

// `query_count` and the lists' counts lie on the device, so that no host stands between describing and
// matching; `groups` may be null: each train descriptor is a group of its own. A distance over 256
// says that there is none.
extern "C" __global__ void __launch_bounds__(WARPS * WARP)
    logo_match(const uint4 *query, const std::uint32_t *query_count, Lists lists, std::uint32_t room) {
    const std::uint32_t queries = min(*query_count, room);
    const std::uint32_t first = (blockIdx.x * WARPS + static_cast<std::uint32_t>(warp_id())) * QUERIES;
    if (first >= queries) return;
    const uint4 *const train = lists.train[blockIdx.y];
    const std::uint32_t *const groups = lists.groups[blockIdx.y];
    Match *const out = lists.out[blockIdx.y];
    const std::uint32_t n = *lists.count[blockIdx.y];
    unsigned q[QUERIES][8];
    Pair pair[QUERIES];
#pragma unroll
    for (int i = 0; i < QUERIES; ++i) {
        const std::size_t at = min(first + i, queries - 1);
        const uint4 low = query[2 * at], high = query[2 * at + 1];
        q[i][0] = low.x, q[i][1] = low.y, q[i][2] = low.z, q[i][3] = low.w;
        q[i][4] = high.x, q[i][5] = high.y, q[i][6] = high.z, q[i][7] = high.w;
        pair[i] = {NONE, NONE, NONE};
    }
#pragma unroll 2
    for (std::uint32_t t = static_cast<std::uint32_t>(lane_id()); t < n; t += WARP) {
        const uint4 low = train[2 * static_cast<std::size_t>(t)], high = train[2 * static_cast<std::size_t>(t) + 1];
        const unsigned group = groups == nullptr ? t : groups[t];
#pragma unroll
        for (int i = 0; i < QUERIES; ++i) {
            const unsigned key = distance(q[i], low, high) << INDEX_BITS | t;
            const bool nearer = key < pair[i].best, same = group == pair[i].group;
            const unsigned rival = nearer ? pair[i].best : key;
            pair[i].second = same ? pair[i].second : min(pair[i].second, rival);
            pair[i].group = nearer ? group : pair[i].group;
            pair[i].best = min(pair[i].best, key);
        }
    }
#pragma unroll
    for (int i = 0; i < QUERIES; ++i) {
#pragma unroll
        for (int o = WARP / 2; o > 0; o /= 2) {
            const Pair other{__shfl_xor_sync(ALL_LANES, pair[i].best, o), __shfl_xor_sync(ALL_LANES, pair[i].group, o),
                             __shfl_xor_sync(ALL_LANES, pair[i].second, o)};
            pair[i] = merge(pair[i], other);
        }
        if (lane_id() == 0 && first + i < queries) {
            constexpr unsigned INDEX = (1u << INDEX_BITS) - 1u;
            out[first + i] = {pair[i].best & INDEX, pair[i].best >> INDEX_BITS, pair[i].second & INDEX,
                              pair[i].second >> INDEX_BITS};
        }
    }
}
