// The ground of a frame for the stixels: what each row costs as ground and what objects that stand
// on it cost, one thread a row, as src/stage/stixel/ground.rs.
#include "stixel.cuh"

using namespace roadloop;
using namespace roadloop::stixel;

namespace {

__device__ double table_ln(const double *table, double x) {
    const long long bits = __double_as_longlong(x);
    const int exponent = static_cast<int>((bits >> 52) & 0x7ff) - 1023;
    const int i = static_cast<int>((bits >> 42) & 1023);
    const double mantissa = __longlong_as_double((bits & ((1ll << 52) - 1)) | (1023ll << 52));
    const double c = 1.0 + (static_cast<double>(i) + 0.5) / 1024.0;
    const double r = (mantissa - c) / c;
    const double near = r - r * r * 0.5 + r * r * r / 3.0;
    return static_cast<double>(exponent) * 0.693147180559945309417232121458 + (table[i] + near);
}

__device__ double table_erf(const double *table, double x) {
    if (isnan(x)) return 0.0;
    const double steps = fabs(x) * 512.0;
    double y = 1.0;
    if (steps < 3072.0) {
        const int i = static_cast<int>(steps);
        const double part = steps - static_cast<double>(i);
        y = table[i] + (table[i + 1] - table[i]) * part;
    }
    return x < 0.0 ? -y : y;
}

__device__ double series_atan(double t) {
    for (int i = 0; i < 3; ++i) t /= 1.0 + sqrt(1.0 + t * t);
    const double q = t * t;
    double sum = 0.0;
    for (int k = 11; k >= 0; --k) {
        const double term = 1.0 / static_cast<double>(2 * k + 1);
        sum = term - q * sum;
    }
    return 8.0 * t * sum;
}

__device__ void ground_row(const Tables &k, const float *road, int v) {
    const double slope_in = road[ROAD_SLOPE], row_in = road[ROAD_HORIZON];
    const int h = k.height;
    const double bottom = static_cast<double>(h - 1);
    const bool usable = slope_in > 0.0 && isfinite(slope_in) && isfinite(row_in);
    const double slope = usable ? fmin(fmax(slope_in, 1e-6), 1e6) : 1.0;
    const double row = usable ? fmin(fmax(row_in, -1e6), 1e6) : 1e6;
    const bool reference = k.reference_road != 0;
    const double rise = reference ? bottom - ceil(row) : bottom - row;
    const int horizon = static_cast<int>(ceil(rise));
    const int end = min(max(horizon, 0), h);
    const int sky = reference ? min(max(horizon, 0) + 1, h) : end;
    if (v == 0) {
        k.frame[FRAME_HORIZON] = horizon;
        k.frame[FRAME_END] = end;
        k.frame[FRAME_SKY] = sky;
        k.frame[FRAME_NEXT] = 0;
    }

    const double f = k.focal_px;
    const double t = (k.cy - (bottom - rise)) / f;
    const double cosine = 1.0 / sqrt(1.0 + t * t);
    const double pitch = reference ? -series_atan(t) : 0.0;
    const double gain = f * slope / cosine;
    const double height_m = k.baseline_m * cosine / slope;
    const double relative = k.sigma_height_m / height_m;
    const double sigma_2 = k.sigma_ground_px * k.sigma_ground_px;
    const double range = static_cast<double>(k.disparities);

    const double below = rise - static_cast<double>(v);
    const double model = slope * below;
    const double angle = pitch + below / f;
    const double road_2 = gain * gain * (relative * relative * angle * angle + k.sigma_tilt_rad * k.sigma_tilt_rad);
    const double sigma = sqrt(sigma_2 + road_2);
    const double root = sigma * 1.41421356237309504880168872420969808;
    const double mass = fmax(0.5 * (table_erf(k.erf, (range - model) / root) - table_erf(k.erf, -model / root)), 1.0 / 128.0);
    const double base = table_ln(k.ln, mass) + table_ln(k.ln, sigma) + k.ground_normaliser;
    GroundRow out;
    out.model_px = static_cast<float>(model);
    out.base = static_cast<float>(base * 2048.0);
    out.weight = static_cast<float>(2048.0 / (2.0 * sigma * sigma));
    out.sky_next = v < horizon && v + 1 >= sky && !reference;
    const double clamped = fmin(fmax(model, 0.0), 2.0 * range);
    const int ground = static_cast<int>(floor(clamped * static_cast<double>(k.unit)));
    out.ground = out.nearer = out.farther = out.standing = 0;
    if (v + 1 < h) {
        const int high = ground + k.ground_tolerance, low = ground - k.ground_tolerance;
        const int prior = k.object_next + k.cut[v + 1];
        const int nearer = spread_over(k, k.flying, k.disparities * k.unit - high);
        const int farther = spread_over(k, k.sunken, low);
        out.ground = ground;
        out.nearer = nearer == IMPOSSIBLE ? nearer : prior + nearer;
        out.farther = farther == IMPOSSIBLE ? farther : prior + farther;
        out.standing = prior + k.standing;
    }
    k.rows[v] = out;
}

// The order in which columns are taken up: those first that took longest in the frame before, so
// that no block is at work long after the others. It goes back and forth over the multiprocessors,
// whose blocks start in this order. Times decide nothing else.
__device__ void order_columns(const Tables &k) {
    // Longest first, then the lowest column.
    __shared__ uint4 keys[MAX_RANKED / 4];
    std::uint32_t *const key = reinterpret_cast<std::uint32_t *>(keys);
    const int n = k.columns, fours = div_up(n, 4);
    for (int i = static_cast<int>(threadIdx.x); i < 4 * fours; i += static_cast<int>(blockDim.x)) {
        const std::uint32_t effort = i < n ? min(k.effort[i] >> 4, (1u << 22) - 1) : 0;
        key[i] = i < n ? effort * MAX_RANKED + static_cast<std::uint32_t>(MAX_RANKED - 1 - i) : 0;
    }
    __syncthreads();
    for (int u = static_cast<int>(global_index()); u < n; u += static_cast<int>(gridDim.x * blockDim.x)) {
        const std::uint32_t own = key[u];
        int rank = 0;
#pragma unroll 4
        for (int i = 0; i < fours; ++i) {
            const uint4 four = keys[i];
            rank += (four.x > own) + (four.y > own) + (four.z > own) + (four.w > own);
        }
        const int turn = rank / k.sms, first = turn * k.sms, last = min(first + k.sms, n) - 1;
        k.order[turn % 2 == 0 ? rank : first + last - rank] = static_cast<std::uint32_t>(u);
    }
}

}  // namespace

// `road`: the floats of a frame::Road, in their order.
extern "C" __global__ void stixel_ground(Tables k, const float *road, std::uint64_t *out) {
    const std::size_t v = global_index();
    if (v == 0) out[0] = 0;
    if (k.slowest_first) order_columns(k);
    if (v < static_cast<std::size_t>(k.height)) ground_row(k, road, static_cast<int>(v));
}
