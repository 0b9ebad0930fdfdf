// What a forest reads of an image, and its features: stage::forest has the contract, and
// stage/forest/feature the same functions for the CPU. Whole numbers throughout.
#pragma once
#include "common.cuh"

namespace roadloop {
namespace forest {

constexpr int UNANSWERED = 0x7fffffff;  // feature::INVALID
constexpr int LARGEST = UNANSWERED - 1;
constexpr int MAX_HALF = 127;

// feature::region and feature::rgbd.
enum Kind : int { DIFFERENCE = 0, SINGLE = 1, ROW = 2, DEPTHS = 3 };

// The same fields as in src/stage/forest/cuda.rs.
struct Params {
    int width, height;
    int grid_width, grid_height, step;
    int tables;  // of colours; one where all channels are alike
    int trees, classes;
    int sum, shrink;                     // options of regions
    int reference, background;           // options of depth
    int bias;                            // of all channels but the first
    int blank, void_without_depth;       // the value of void
};

// An image's tables. A sum table has (width + 1) x (height + 1) entries.
struct Planes {
    const std::uint32_t *sums;  // table after table
    const std::uint16_t *depth;
    const std::uint32_t *depth_sums;
    const std::uint32_t *depth_counts;
};

struct alignas(16) Split {
    std::int16_t x1, y1, x2, y2;
    std::uint8_t w1, h1, w2, h2;
    std::uint8_t c1, c2, kind, unused;
    std::int32_t tau;
    std::uint32_t left, right;
    std::uint32_t unused_too;
};
static_assert(sizeof(Split) == 32, "as on the host");

// Set where a place is a leaf.
constexpr std::uint32_t AT_LEAF = 1u << 31;

struct Region {
    int left, right, top, bottom;
    __device__ unsigned area() const { return static_cast<unsigned>((right - left) * (bottom - top)); }
};

__device__ inline bool region_at(const Params &p, int x, int y, int w, int h, Region &out) {
    int l = x - w, r = x + w, u = y - h, d = y + h;
    if (p.shrink) {
        l = max(l, -1);
        r = min(r, p.width - 1);
        u = max(u, -1);
        d = min(d, p.height - 1);
        if (l >= r || u >= d) return false;
    } else if (l < 0 || r >= p.width || u < 0 || d >= p.height) {
        return false;
    }
    out = {l + 1, r + 1, u + 1, d + 1};
    return true;
}

__device__ inline std::uint32_t corners(const Params &p, const std::uint32_t *table, const Region &r) {
    const std::size_t stride = static_cast<std::size_t>(p.width) + 1;
    const std::uint32_t *const top = table + r.top * stride, *const bottom = table + r.bottom * stride;
    return bottom[r.right] - top[r.right] - bottom[r.left] + top[r.left];
}

__device__ inline std::uint32_t sum_of(const Params &p, const Planes &planes, int channel, const Region &r) {
    const std::size_t table = (static_cast<std::size_t>(p.width) + 1) * (static_cast<std::size_t>(p.height) + 1);
    return corners(p, planes.sums + (p.tables > 1 ? channel : 0) * table, r);
}

__device__ inline int bias_of(const Params &p, int channel) { return channel > 0 ? p.bias : 0; }

// floor(256 sum / n): the remainder is below 2^16.
__device__ inline int mean(std::uint32_t sum, std::uint32_t n) {
    const std::uint32_t whole = sum / n;
    return static_cast<int>(256 * whole + 256 * (sum - whole * n) / n);
}

__device__ inline int saturated(long long v) {
    return static_cast<int>(min(max(v, static_cast<long long>(-LARGEST)), static_cast<long long>(LARGEST)));
}

__device__ inline long long unbiased(std::uint32_t sum, int bias, unsigned n) {
    return static_cast<long long>(sum) - static_cast<long long>(bias) * static_cast<long long>(n);
}

__device__ inline int single(const Params &p, const Planes &planes, int c, const Region &r) {
    const std::uint32_t sum = sum_of(p, planes, c, r);
    const int bias = bias_of(p, c);
    return p.sum ? saturated(unbiased(sum, bias, r.area())) : mean(sum, r.area()) - 256 * bias;
}

__device__ inline int difference(const Params &p, const Planes &planes, int c1, const Region &one, int c2, const Region &two) {
    const std::uint32_t s1 = sum_of(p, planes, c1, one), s2 = sum_of(p, planes, c2, two);
    const int b1 = bias_of(p, c1), b2 = bias_of(p, c2);
    if (p.sum) return saturated(unbiased(s1, b1, one.area()) - unbiased(s2, b2, two.area()));
    return (mean(s1, one.area()) - 256 * b1) - (mean(s2, two.area()) - 256 * b2);
}

__device__ inline int row_of(const Params &p, int y) { return ((2 * y + 1) << 15) / p.height; }

// feature::Region.
struct RegionFeature {
    static __device__ int response(const Params &p, const Planes &planes, const Split &q, int x, int y) {
        if (q.kind == ROW) return row_of(p, y);
        Region one, two;
        if (!region_at(p, x + q.x1, y + q.y1, q.w1, q.h1, one)) return UNANSWERED;
        if (q.kind == SINGLE) return single(p, planes, q.c1, one);
        if (!region_at(p, x + q.x2, y + q.y2, q.w2, q.h2, two)) return UNANSWERED;
        return difference(p, planes, q.c1, one, q.c2, two);
    }
};

// feature::Rgbd.
struct RgbdFeature {
    static __device__ int response(const Params &p, const Planes &planes, const Split &q, int x, int y) {
        if (q.kind == ROW) return row_of(p, y);
        const int z = planes.depth[static_cast<std::size_t>(y) * p.width + x];
        if (z == 0) return UNANSWERED;
        const auto scaled = [&](int v) { return v * p.reference / z; };
        const auto half = [&](int v) { return min(max(scaled(v), 1), MAX_HALF); };
        Region one, two;
        if (!region_at(p, x + scaled(q.x1), y + scaled(q.y1), half(q.w1), half(q.h1), one)) return UNANSWERED;
        if (q.kind == SINGLE) return single(p, planes, q.c1, one);
        if (!region_at(p, x + scaled(q.x2), y + scaled(q.y2), half(q.w2), half(q.h2), two)) return UNANSWERED;
        if (q.kind != DEPTHS) return difference(p, planes, q.c1, one, q.c2, two);
        const std::uint32_t n1 = corners(p, planes.depth_counts, one), n2 = corners(p, planes.depth_counts, two);
        if (n1 == 0 || n2 == 0) return UNANSWERED;
        return mean(corners(p, planes.depth_sums, one), n1) - mean(corners(p, planes.depth_sums, two), n2);
    }
};

// feature::DepthDifference.
struct DepthFeature {
    static __device__ int response(const Params &p, const Planes &planes, const Split &q, int x, int y) {
        const int z = planes.depth[static_cast<std::size_t>(y) * p.width + x];
        if (z == 0) return UNANSWERED;
        const auto scaled = [&](int a) {
            const int size = (2 * abs(a) * p.reference + z) / (2 * z);
            return a < 0 ? -size : size;
        };
        const auto at = [&](int dx, int dy) {
            const int u = x + scaled(dx), v = y + scaled(dy);
            const bool inside = u >= 0 && u < p.width && v >= 0 && v < p.height;
            const int depth = inside ? planes.depth[static_cast<std::size_t>(v) * p.width + u] : 0;
            return depth == 0 ? p.background : depth;
        };
        return min(max(at(q.x1, q.y1) - at(q.x2, q.y2), -32768), 32767);
    }
};

}  // namespace forest
}  // namespace roadloop
