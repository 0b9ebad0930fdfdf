// What the kernels of the logo stage's features share: where octaves lie and how large they are.
// The contract is that of src/stage/logo/features/mod.rs.
#pragma once
#include "common.cuh"

namespace roadloop {
namespace logo {

constexpr int MAX_OCTAVES = 12;
constexpr int BORDER = 5;
constexpr int MAX_STEPS = 5;
constexpr int ANGLES = 1024;
constexpr int WINDOW = 24;

// The part of the image that features are looked for in (host: [u32; 4]).
struct Region {
    std::uint32_t x, y, width, height;
};

// Where levels lie; sizes are those of the region, which may be smaller than what there is room for.
struct Geometry {
    std::uint64_t offset[MAX_OCTAVES];  // of an octave's level 0, pixels
    std::uint64_t plane[MAX_OCTAVES];   // from one level to the next
    std::uint32_t pitch[MAX_OCTAVES];   // from one row to the next, a multiple of 64
    std::uint32_t octaves;              // there is room for
    std::uint32_t upsample;
    std::uint32_t intervals;
    std::uint32_t image_pitch;
};

struct Extent {
    int width, height;
};

// Size of octave 0.
__device__ inline Extent first_octave(const Geometry &g, const Region &r) {
    const int w = static_cast<int>(r.width), h = static_cast<int>(r.height);
    if (w == 0 || h == 0) return {0, 0};
    return g.upsample ? Extent{2 * w - 1, 2 * h - 1} : Extent{w, h};
}

// The next octave's size; nothing where it would be too small.
__device__ inline Extent next_octave(Extent e) {
    const Extent next{(e.width + 1) / 2, (e.height + 1) / 2};
    return min(next.width, next.height) < 16 ? Extent{0, 0} : next;
}

__device__ inline Extent octave_size(const Geometry &g, const Region &r, int octave) {
    Extent e = first_octave(g, r);
    for (int i = 0; i < octave; ++i) e = next_octave(e);
    return e;
}

// Pixel distance of an octave, px.
__device__ inline float octave_step(const Geometry &g, int octave) {
    float step = g.upsample ? 0.5f : 1.0f;
    for (int i = 0; i < octave; ++i) step *= 2.0f;
    return step;
}

// A pixel of a layer.
struct Place {
    int octave, layer, x, y;
    Extent size;
};

// Position in the order (octave, layer, y, x) of the first pixel of an octave.
__device__ inline std::uint32_t octave_position(const Geometry &g, const Region &r, int octave) {
    std::uint32_t first = 0;
    Extent e = first_octave(g, r);
    for (int i = 0; i < octave; ++i) {
        first += static_cast<std::uint32_t>(e.width) * static_cast<std::uint32_t>(e.height) * g.intervals;
        e = next_octave(e);
    }
    return first;
}

__device__ inline Place place_of(const Geometry &g, const Region &r, std::uint32_t position) {
    Extent e = first_octave(g, r);
    int octave = 0;
    for (;; ++octave) {
        const std::uint32_t n =
            static_cast<std::uint32_t>(e.width) * static_cast<std::uint32_t>(e.height) * g.intervals;
        if (position < n) break;
        position -= n;
        e = next_octave(e);
    }
    const std::uint32_t area = static_cast<std::uint32_t>(e.width) * static_cast<std::uint32_t>(e.height);
    const std::uint32_t layer = position / area, at = position % area;
    const std::uint32_t y = at / static_cast<std::uint32_t>(e.width);
    const std::uint32_t x = at % static_cast<std::uint32_t>(e.width);
    return {octave, static_cast<int>(layer) + 1, static_cast<int>(x), static_cast<int>(y), e};
}

// A point between the pixels; offsets in x, y and layer, value in 1/64 grey.
struct Point {
    float x, y, layer;
    float value;
};

enum class Step { accepted, moved, rejected };

// One Newton step at a pixel; `moved` changes x, y and layer. As extrema::refine.
__device__ inline Step newton(const std::uint16_t *levels, std::size_t plane, int pitch, int &x, int &y, int &layer,
                              float least, float edge, Point &point) {
    const std::uint16_t *at = levels + static_cast<std::size_t>(layer - 1) * plane +
                              static_cast<std::size_t>(y) * static_cast<std::size_t>(pitch) + x;
    // d[l][j][i]: differences of layer - 1 + l at (x - 1 + i, y - 1 + j).
    int d[3][3][3];
#pragma unroll
    for (int j = 0; j < 3; ++j) {
#pragma unroll
        for (int i = 0; i < 3; ++i) {
            const std::uint16_t *pixel = at + (j - 1) * pitch + (i - 1);
            int below = pixel[0];
#pragma unroll
            for (int l = 0; l < 3; ++l) {
                const int above = pixel[static_cast<std::size_t>(l + 1) * plane];
                d[l][j][i] = above - below;
                below = above;
            }
        }
    }
    using Long = long long;
    const int v = d[1][1][1];
    const Long gx = d[1][1][2] - d[1][1][0], gy = d[1][2][1] - d[1][0][1], gs = d[2][1][1] - d[0][1][1];
    const Long xx = 4 * (d[1][1][2] + d[1][1][0] - 2 * v);
    const Long yy = 4 * (d[1][2][1] + d[1][0][1] - 2 * v);
    const Long ss = 4 * (d[2][1][1] + d[0][1][1] - 2 * v);
    const Long xy = d[1][2][2] - d[1][2][0] - d[1][0][2] + d[1][0][0];
    const Long xs = d[2][1][2] - d[2][1][0] - d[0][1][2] + d[0][1][0];
    const Long ys = d[2][2][1] - d[2][0][1] - d[0][2][1] + d[0][0][1];
    const Long cxx = yy * ss - ys * ys, cyy = xx * ss - xs * xs, css = xx * yy - xy * xy;
    const Long cxy = xs * ys - xy * ss, cxs = xy * ys - yy * xs, cys = xy * xs - xx * ys;
    const Long determinant = xx * cxx + xy * cxy + xs * cxs;
    if (determinant == 0) return Step::rejected;
    const float whole = static_cast<float>(determinant);
    point.x = static_cast<float>(-2 * (cxx * gx + cxy * gy + cxs * gs)) / whole;
    point.y = static_cast<float>(-2 * (cxy * gx + cyy * gy + cys * gs)) / whole;
    point.layer = static_cast<float>(-2 * (cxs * gx + cys * gy + css * gs)) / whole;
    const auto step = [](float o) { return (o > 0.5f ? 1 : 0) - (o < -0.5f ? 1 : 0); };
    const int dx = step(point.x), dy = step(point.y), dl = step(point.layer);
    if (dx == 0 && dy == 0 && dl == 0) {
        const float along = static_cast<float>(gx) * point.x + static_cast<float>(gy) * point.y;
        point.value = static_cast<float>(v) + (along + static_cast<float>(gs) * point.layer) * 0.25f;
        const float trace = static_cast<float>(xx + yy);
        const float bound = (edge + 1.0f) * (edge + 1.0f);
        const bool bad = fabsf(point.value) < least || css <= 0 ||
                         trace * trace * edge >= bound * static_cast<float>(css);
        return bad ? Step::rejected : Step::accepted;
    }
    x += dx;
    y += dy;
    layer += dl;
    return Step::moved;
}

// What a frame's kernels count (host: `Counts`).
struct Counts {
    std::uint32_t found, kept, oriented, count;
    std::uint32_t candidates, reserved[3];
};

}  // namespace logo
}  // namespace roadloop
