// What the host and the stixel kernels say to each other; the same fields as in
// src/stage/stixel/cuda.rs.
#pragma once
#include "common.cuh"

namespace roadloop {
namespace stixel {

constexpr int TILE = 32;
constexpr int PITCH = TILE + 1;
constexpr int MAX_WARPS = 10;
constexpr int MAX_MODELS = 256;
// Most columns that are put in order.
constexpr int MAX_RANKED = 1024;

constexpr int IMPOSSIBLE = 0x7fffffff;
constexpr int MISSING = -1;

// frame::Class.
constexpr int GROUND = 0, OBJECT = 1, SKY = 2;

// Floats of frame::Road.
constexpr int ROAD_SLOPE = 0, ROAD_HORIZON = 2;

// What the ground kernel writes for the frame, and the next column to solve.
constexpr int FRAME_HORIZON = 0, FRAME_END = 1, FRAME_SKY = 2, FRAME_NEXT = 3;

struct alignas(16) GroundRow {
    float model_px, base, weight;
    int sky_next;
    // For an object that begins on the next row up.
    int ground, nearer, farther, standing;
};

struct Tables {
    const std::int16_t *object;
    const std::int32_t *cut;
    const std::int32_t *mantissa;
    const std::int32_t *same;
    const std::uint64_t *reciprocals;
    const std::uint32_t *short_reciprocals;
    const double *ln;
    const double *erf;
    GroundRow *rows;
    std::int32_t *frame;
    std::int32_t *lut;
    std::uint64_t *cuts;
    std::int32_t *ground_sums;
    std::int32_t *sky_sums;
    unsigned long long *path;
    std::uint64_t *row_memory;
    std::uint64_t *links;  // where they are not with the other rows
    std::uint32_t *effort;  // cycles that each column took in the frame before
    std::uint32_t *order;   // the columns as they are taken up
    std::uint64_t row_bytes;
    std::uint64_t link_bytes;
    std::uint64_t lut_rows;
    std::uint64_t unit_reciprocal;
    double focal_px, cy, baseline_m;
    double sigma_ground_px, sigma_height_m, sigma_tilt_rad;
    double ground_normaliser, sky_below_px;
    float sky_base, sky_weight;
    std::int32_t height, columns, disparities, unit, width, capacity;
    std::int32_t pixel_limit, left_border, unseen_border;
    std::int32_t invalid_as_zero, median, nearest, reference_road;
    std::int32_t steps, half_step, missing_rows;
    std::uint32_t short_unit_reciprocal;
    std::int32_t object_outlier, ground_outlier, ground_missing, sky_outlier, sky_missing, sky_missing_at_top;
    std::int32_t ground_tolerance, sky_tolerance;
    // Priors.
    std::int32_t ln_2, ln_range, ground_next, object_next, nearer_prior, farther_prior, flying, sunken, standing, on_sky;
    std::int32_t ln2, ln_unit;
    // Offsets, bytes: in shared memory, and within a column's row memory.
    std::int32_t reciprocals_at, tile_at, rows_at;
    std::int32_t sums_at, keys_at, counts_at, object_rows_at, links_at, list_at, slack_at;
    std::int32_t sms;  // multiprocessors
    std::int32_t slowest_first;
};

// ln(x / unit) in cost units, x > 0.
__device__ inline int whole_ln(const Tables &k, int x) {
    const int zeros = __clz(x);
    const unsigned i = (static_cast<unsigned>(x) << zeros << 1) >> 20;
    const int fine = (31 - zeros) * k.ln2 + __ldg(k.mantissa + i) - k.ln_unit;
    return (fine + 128) >> 8;
}

__device__ inline int spread_over(const Tables &k, int prior, int width) {
    return width <= 0 || prior == IMPOSSIBLE ? IMPOSSIBLE : prior + whole_ln(k, width);
}

}  // namespace stixel
}  // namespace roadloop
