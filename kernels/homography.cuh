// Homographies from pairs of points, as maths::homography states and its Rust computes: the same
// operations in the same order. The stages that look for one include this.
#pragma once
#include "common.cuh"

namespace roadloop {

// A point (x, y) and where it went (u, v): maths::homography::Pair.
struct alignas(16) Pair {
    float x, y, u, v;
};

struct Homography {
    double h[9];
};

// Random numbers by counter: maths::random.
__device__ inline std::uint32_t mix(std::uint32_t x) {
    x ^= x >> 16;
    x *= 0x85EBCA6Bu;
    x ^= x >> 13;
    x *= 0xC2B2AE35u;
    return x ^ (x >> 16);
}

__device__ inline std::uint32_t random_hash(std::uint32_t seed, std::uint32_t index, std::uint32_t draw) {
    const std::uint32_t a = mix(seed ^ 0x9E3779B9u);
    const std::uint32_t b = mix(a + index * 0x9E3779B1u);
    return mix(b ^ (draw * 0x85EBCA77u + 0xC2B2AE3Du));
}

// Four different numbers below n (at least 4), in the order drawn.
__device__ inline void four_of(std::uint32_t n, std::uint32_t seed, std::uint32_t index, std::uint32_t drawn[4]) {
    std::uint32_t taken[4] = {~0u, ~0u, ~0u, ~0u};  // sorted
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        std::uint32_t r = __umulhi(random_hash(seed, index, k), n - k);
        // Constant indices keep the array in registers.
        bool before = true;
        int at = 0;
#pragma unroll
        for (int i = 0; i < k; ++i) {
            before = before && r >= taken[i];
            r += before;
            at += before;
        }
#pragma unroll
        for (int i = 3; i > 0; --i)
            if (i > at) taken[i] = taken[i - 1];
#pragma unroll
        for (int i = 0; i < 4; ++i)
            if (i == at) taken[i] = r;
        drawn[k] = r;
    }
}

__device__ inline bool same_side(double a, double b, double least) {
    if (a < 0.0) {
        a = -a;
        b = -b;
    }
    return a > 0.0 && b > 0.0 && a >= least && b >= least;
}

// Homography::through.
__device__ inline bool homography_through(const Pair pairs[4], double least, Homography &out) {
    const double ox = pairs[3].x, oy = pairs[3].y, tx = pairs[3].u, ty = pairs[3].v;
    double px[3], py[3], qx[3], qy[3];
#pragma unroll
    for (int i = 0; i < 3; ++i) {
        px[i] = pairs[i].x - ox;
        py[i] = pairs[i].y - oy;
        qx[i] = pairs[i].u - tx;
        qy[i] = pairs[i].v - ty;
    }
    const double l[3] = {px[1] * py[2] - py[1] * px[2], px[2] * py[0] - py[2] * px[0], px[0] * py[1] - py[0] * px[1]};
    const double m[3] = {qx[1] * qy[2] - qy[1] * qx[2], qx[2] * qy[0] - qy[2] * qx[0], qx[0] * qy[1] - qy[0] * qx[1]};
    const double whole = (px[1] - px[0]) * (py[2] - py[0]) - (py[1] - py[0]) * (px[2] - px[0]);
    const double target = (qx[1] - qx[0]) * (qy[2] - qy[0]) - (qy[1] - qy[0]) * (qx[2] - qx[0]);
    if (!(same_side(l[0], m[0], least) && same_side(l[1], m[1], least) && same_side(l[2], m[2], least) &&
          same_side(whole, target, least)))
        return false;
    double h[9] = {};
#pragma unroll
    for (int i = 0; i < 3; ++i) {
        const int j = (i + 1) % 3, k = (i + 2) % 3;
        const double c = m[i] * (l[j] * l[k]);
        const double normal[3] = {c * (py[j] - py[k]), c * (px[k] - px[j]), c * l[i]};
#pragma unroll
        for (int n = 0; n < 3; ++n) {
            h[n] += qx[i] * normal[n];
            h[3 + n] += qy[i] * normal[n];
            h[6 + n] += normal[n];
        }
    }
    const double w = h[8];
#pragma unroll
    for (int n = 0; n < 9; ++n) h[n] /= w;
    h[2] -= h[0] * ox + h[1] * oy;
    h[5] -= h[3] * ox + h[4] * oy;
    h[8] -= h[6] * ox + h[7] * oy;
#pragma unroll
    for (int n = 0; n < 3; ++n) {
        h[n] += tx * h[6 + n];
        h[3 + n] += ty * h[6 + n];
    }
    bool finite = true;
#pragma unroll
    for (int n = 0; n < 9; ++n) {
        finite = finite && isfinite(h[n]);
        out.h[n] = h[n];
    }
    return finite;
}

// Scorer.
struct Scorer {
    float h[9];
    float limit;
};

__device__ inline Scorer scorer(const Homography &homography, float threshold_px) {
    Scorer s;
#pragma unroll
    for (int n = 0; n < 9; ++n) s.h[n] = static_cast<float>(homography.h[n]);
    s.limit = threshold_px * threshold_px;
    return s;
}

__device__ inline bool fits(const Scorer &s, const Pair &p) {
    const float w = (s.h[6] * p.x + s.h[7] * p.y) + s.h[8];
    const float dx = ((s.h[0] * p.x + s.h[1] * p.y) + s.h[2]) - w * p.u;
    const float dy = ((s.h[3] * p.x + s.h[4] * p.y) + s.h[5]) - w * p.v;
    return (dx * dx + dy * dy <= s.limit * (w * w)) && w > 0.0f;
}

struct RansacParams {
    std::uint32_t hypotheses;
    std::uint32_t seed;
    std::uint32_t progressive;
    std::uint32_t refits;
    std::uint32_t steps;
    float threshold_px;
    double min_area;
};

// Ransac::hypothesis: number t of n pairs (at least 4).
__device__ inline bool hypothesis(const RansacParams &p, const Pair *pairs, std::uint32_t n, std::uint32_t t,
                                  Homography &out) {
    std::uint32_t pool = n;
    if (p.progressive)
        pool = 4 + static_cast<std::uint32_t>(static_cast<std::uint64_t>(n - 4) * (static_cast<std::uint64_t>(t) + 1) /
                                              p.hypotheses);
    std::uint32_t drawn[4];
    four_of(pool, p.seed, t, drawn);
    const Pair sample[4] = {pairs[drawn[0]], pairs[drawn[1]], pairs[drawn[2]], pairs[drawn[3]]};
    return homography_through(sample, p.min_area, out);
}

// A hypothesis as one number: more inliers are more, then the lower t. 0 is none.
__device__ inline unsigned long long hypothesis_key(std::uint32_t inliers, std::uint32_t t) {
    return (static_cast<unsigned long long>(inliers) << 32) | (0xffffffffu - t);
}

__device__ inline float lanes_least(float v) {
#pragma unroll
    for (int offset = WARP / 2; offset > 0; offset /= 2) {
        const float other = __shfl_xor_sync(ALL_LANES, v, offset);
        v = other < v ? other : v;
    }
    return v;
}

constexpr int REFIT_SUMS = 27;

// The change of h0..h7 that the sums ask for.
__device__ inline bool refit_solve(const float sums[REFIT_SUMS], double step[8]) {
    double s[REFIT_SUMS];
#pragma unroll
    for (int i = 0; i < REFIT_SUMS; ++i) s[i] = sums[i];
    const double xx = s[0], xy = s[1], yy = s[2], x = s[3], y = s[4], n = s[5];
    const double c[6] = {yy * n - y * y, x * y - xy * n, xy * y - yy * x, xx * n - x * x, xy * x - xx * y, xx * yy - xy * xy};
    const double d = (xx * c[0] + xy * c[1]) + x * c[2];
    if (!(d > 1e-5 * (n * n * n))) return false;
    const auto inverse = [&](double a0, double a1, double a2, double out[3]) {
        out[0] = ((c[0] * a0 + c[1] * a1) + c[2] * a2) / d;
        out[1] = ((c[1] * a0 + c[3] * a1) + c[4] * a2) / d;
        out[2] = ((c[2] * a0 + c[4] * a1) + c[5] * a2) / d;
    };
    const auto dot = [](const double a[3], const double b[3]) { return (a[0] * b[0] + a[1] * b[1]) + a[2] * b[2]; };
    const double bu[2][3] = {{s[6], s[7], s[9]}, {s[7], s[8], s[10]}};
    const double bv[2][3] = {{s[11], s[12], s[14]}, {s[12], s[13], s[15]}};
    double au[2][3], av[2][3], iu[3], iv[3];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        inverse(bu[i][0], bu[i][1], bu[i][2], au[i]);
        inverse(bv[i][0], bv[i][1], bv[i][2], av[i]);
    }
    inverse(s[19], s[20], s[21], iu);
    inverse(s[22], s[23], s[24], iv);
    const double m0 = (s[16] - dot(bu[0], au[0])) - dot(bv[0], av[0]);
    const double m1 = (s[17] - dot(bu[0], au[1])) - dot(bv[0], av[1]);
    const double m2 = (s[18] - dot(bu[1], au[1])) - dot(bv[1], av[1]);
    const double r0 = (dot(bu[0], iu) - s[25]) + dot(bv[0], iv);
    const double r1 = (dot(bu[1], iu) - s[26]) + dot(bv[1], iv);
    const double e = m0 * m2 - m1 * m1;
    if (!(e > 1e-8 * (n * n))) return false;
    const double g0 = (m2 * r0 - m1 * r1) / e, g1 = (m0 * r1 - m1 * r0) / e;
#pragma unroll
    for (int i = 0; i < 3; ++i) {
        step[i] = (iu[i] + au[0][i] * g0) + au[1][i] * g1;
        step[3 + i] = (iv[i] + av[0][i] * g0) + av[1][i] * g1;
    }
    step[6] = g0;
    step[7] = g1;
    return true;
}

// refit: one whole warp; every lane gets the result. `inliers` has a byte for each pair.
__device__ inline bool refit(const Homography &start, const Pair *pairs, const std::uint8_t *inliers, std::uint32_t n,
                             std::uint32_t steps, Homography &out) {
    const std::uint32_t lane = lane_id();
    constexpr float MOST = 3.402823466e+38f;
    float low[4] = {MOST, MOST, MOST, MOST};
    float high[4] = {MOST, MOST, MOST, MOST};  // of the negated
    std::uint32_t count = 0;
    for (std::uint32_t i = lane; i < n; i += WARP) {
        if (!inliers[i]) continue;
        const float v[4] = {pairs[i].x, pairs[i].y, pairs[i].u, pairs[i].v};
        ++count;
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            low[k] = v[k] < low[k] ? v[k] : low[k];
            high[k] = -v[k] < high[k] ? -v[k] : high[k];
        }
    }
    count = warp_sum(count);
    if (count < 4) return false;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        low[k] = lanes_least(low[k]);
        high[k] = -lanes_least(high[k]);
    }
    float scale[2], middle[4];
#pragma unroll
    for (int f = 0; f < 2; ++f) {
        const float a = (high[2 * f] - low[2 * f]) * 0.5f, b = (high[2 * f + 1] - low[2 * f + 1]) * 0.5f;
        const float half = a > b ? a : b;
        scale[f] = 1.0f;
        while (scale[f] < half) scale[f] *= 2.0f;
        middle[2 * f] = (low[2 * f] + high[2 * f]) * 0.5f;
        middle[2 * f + 1] = (low[2 * f + 1] + high[2 * f + 1]) * 0.5f;
    }
    const double fx = middle[0], fy = middle[1], from_scale = scale[0];
    const double tx = middle[2], ty = middle[3], to_scale = scale[1];
    double h[9];
#pragma unroll
    for (int row = 0; row < 3; ++row) {
        const double a = start.h[3 * row], b = start.h[3 * row + 1], c = start.h[3 * row + 2];
        h[3 * row] = a * from_scale;
        h[3 * row + 1] = b * from_scale;
        h[3 * row + 2] = (a * fx + b * fy) + c;
    }
#pragma unroll
    for (int k = 0; k < 3; ++k) {
        h[k] = (h[k] - tx * h[6 + k]) / to_scale;
        h[3 + k] = (h[3 + k] - ty * h[6 + k]) / to_scale;
    }
    const double scale_of_all = h[8];
    if (!(scale_of_all > 0.0)) return false;
#pragma unroll
    for (int k = 0; k < 9; ++k) h[k] /= scale_of_all;

    for (std::uint32_t step_number = 0; step_number < steps; ++step_number) {
        float r[9];
#pragma unroll
        for (int k = 0; k < 9; ++k) r[k] = static_cast<float>(h[k]);
        float s[REFIT_SUMS] = {};
        for (std::uint32_t i = lane; i < n; i += WARP) {
            if (!inliers[i]) continue;
            const Pair p = pairs[i];
            const float x = (p.x - middle[0]) / scale[0], y = (p.y - middle[1]) / scale[0];
            const float u = (p.u - middle[2]) / scale[1], v = (p.v - middle[3]) / scale[1];
            const float w = 1.0f / ((r[6] * x + r[7] * y) + 1.0f);
            const float pu = ((r[0] * x + r[1] * y) + r[2]) * w;
            const float pv = ((r[3] * x + r[4] * y) + r[5]) * w;
            const float ru = (u - pu) * w, rv = (v - pv) * w;
            const float ww = w * w;
            const float wx = ww * x, wy = ww * y;
            const float xx = wx * x, xy = wx * y, yy = wy * y;
            const float rest = pu * pu + pv * pv;
            const float q = pu * ru + pv * rv;
            s[0] += xx;
            s[1] += xy;
            s[2] += yy;
            s[3] += wx;
            s[4] += wy;
            s[5] += ww;
            s[6] += pu * xx;
            s[7] += pu * xy;
            s[8] += pu * yy;
            s[9] += pu * wx;
            s[10] += pu * wy;
            s[11] += pv * xx;
            s[12] += pv * xy;
            s[13] += pv * yy;
            s[14] += pv * wx;
            s[15] += pv * wy;
            s[16] += rest * xx;
            s[17] += rest * xy;
            s[18] += rest * yy;
            s[19] += ru * x;
            s[20] += ru * y;
            s[21] += ru;
            s[22] += rv * x;
            s[23] += rv * y;
            s[24] += rv;
            s[25] += q * x;
            s[26] += q * y;
        }
        // In halves: what lane 0 has in the end is the reference's sum.
#pragma unroll
        for (int offset = WARP / 2; offset > 0; offset /= 2) {
#pragma unroll
            for (int k = 0; k < REFIT_SUMS; ++k) s[k] += __shfl_down_sync(ALL_LANES, s[k], offset);
        }
        double step[8] = {};
        bool solved = false;
        if (lane == 0) solved = refit_solve(s, step);
        if (!__shfl_sync(ALL_LANES, static_cast<int>(solved), 0)) return false;
#pragma unroll
        for (int k = 0; k < 8; ++k) h[k] += __shfl_sync(ALL_LANES, step[k], 0);
    }
#pragma unroll
    for (int k = 0; k < 3; ++k) {
        h[k] = h[k] * to_scale + tx * h[6 + k];
        h[3 + k] = h[3 + k] * to_scale + ty * h[6 + k];
    }
    bool finite = true;
#pragma unroll
    for (int row = 0; row < 3; ++row) {
        const double a = h[3 * row] / from_scale, b = h[3 * row + 1] / from_scale;
        h[3 * row] = a;
        h[3 * row + 1] = b;
        h[3 * row + 2] -= a * fx + b * fy;
    }
#pragma unroll
    for (int k = 0; k < 9; ++k) {
        finite = finite && isfinite(h[k]);
        out.h[k] = h[k];
    }
    return finite;
}

}  // namespace roadloop
