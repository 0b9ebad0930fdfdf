// Whether the camera stands, shakes or drives: stage::egomotion states the contract, its CPU files
// are the reference. Five kernels a frame: pyramid, corners, tracks, hypotheses, and one block
// that refits and judges. Nothing leaves the device.
#include "common.cuh"
#include "homography.cuh"

using namespace roadloop;

namespace {

constexpr int PAD = 16;  // pixels around a level that repeat its border
constexpr int MAX_LEVELS = 5;
constexpr int MAX_CELLS = 1024;
constexpr int MARGIN = 4;  // of corners, in the level that they are looked for in
constexpr int REACH = 2;   // of the structure tensor
// Part of a cell that a block looks at at a time.
constexpr int PART_WIDTH = 16;
constexpr int PART_HEIGHT = 12;

constexpr int WIDTH = 8, HEIGHT = 8, AREA = WIDTH * HEIGHT;  // of a window
constexpr int EACH = AREA / WARP;                            // its pixels in a lane
constexpr int UNIT = 128;                                    // parts of a pixel
constexpr int STEPS = 6;
constexpr int CLOSE = 2;
constexpr float GREY = 16.0f;  // parts of a grey value
constexpr float LONGEST = 4.0f * UNIT;
constexpr float MAX_GAIN = 2.0f;
constexpr float LEAST_TEXTURE = 64.0f;
constexpr unsigned MASKED = 128;  // what masked pixels are taken for

constexpr int TILE = 64;
constexpr unsigned PYRAMID_THREADS = 256;
constexpr unsigned CORNER_THREADS = PART_WIDTH * PART_HEIGHT;
constexpr unsigned FOLLOW_THREADS = 128;
constexpr unsigned JUDGE_THREADS = 256;
constexpr unsigned CELLS_A_THREAD = MAX_CELLS / JUDGE_THREADS;
constexpr unsigned DRIVING_FRAMES = 2;

// The host's twins are in stage/egomotion/cuda.rs.
struct Level {
    std::uint32_t width, height, stride;
    std::uint32_t origin;  // of pixel (0, 0) in the pyramid
};

struct Rules {
    std::uint32_t still, near_to, drift, creep, sway, min_points;
    std::uint32_t lost, standing, small;  // shares in 1/1024
    std::uint32_t still_frames, hold_frames;
    float standing_mps;
};

struct EgoParams {
    Level levels[MAX_LEVELS];
    std::uint32_t count;  // of levels
    std::uint32_t kind;   // 0 grey, 1 grey of 16 bits, 2 RGB
    std::uint32_t shift;  // from 16 bits to 8
    std::uint32_t bytes;  // of a pyramid
    std::uint32_t grid_level, cell_width, cell_height, columns, rows;
    float min_texture, min_correlation;
    std::int32_t max_return;
    Rules rules;
    RansacParams ransac;
    // Both null where all pixels may be used.
    const std::uint8_t *usable;   // of the frame's pixels: 0 = never
    const std::uint8_t *allowed;  // of the grid's level: 0 = no corner
};

struct Track {
    std::uint16_t x, y;
    std::uint32_t found;  // 0 no corner, 1 a corner, 2 and where it was
    std::int32_t dx, dy;  // 1/128 px
};

// What is known from earlier frames; all zero: nothing.
struct EgoState {
    std::uint32_t state, frames, still, calm, driving, blind;
    std::int32_t creep[2];
    std::int32_t sway[8];
    std::uint32_t parity;  // which pyramid is this frame's
    std::uint32_t pad;
    unsigned long long best;  // hypothesis_key of this frame
};
static_assert(sizeof(EgoState) == 80, "the host clears so many bytes");

__device__ int lanes_sum(int v) {
#if __CUDA_ARCH__ >= 800
    return __reduce_add_sync(ALL_LANES, v);
#else
    return warp_sum(v);
#endif
}

// A level of one frame.
struct Picture {
    const std::uint8_t *pixels;  // pixel (0, 0)
    int width, height, stride;
};

__device__ Picture picture(const EgoParams &p, const std::uint8_t *pyramid, unsigned level) {
    const Level &l = p.levels[level];
    return {pyramid + l.origin, static_cast<int>(l.width), static_cast<int>(l.height), static_cast<int>(l.stride)};
}

// Stores a pixel, and the border that repeats it.
__device__ void put(std::uint8_t *pyramid, const Level &l, int x, int y, std::uint8_t v) {
    const int width = static_cast<int>(l.width), height = static_cast<int>(l.height);
    if (x >= width || y >= height) return;
    std::uint8_t *at = pyramid + l.origin + static_cast<std::ptrdiff_t>(y) * l.stride + x;
    const int left = x == 0 ? PAD : 0, right = x == width - 1 ? PAD : 0;
    const int up = y == 0 ? PAD : 0, down = y == height - 1 ? PAD : 0;
    if ((left | right | up | down) == 0) {
        *at = v;
        return;
    }
    for (int dy = -up; dy <= down; ++dy)
        for (int dx = -left; dx <= right; ++dx) at[static_cast<std::ptrdiff_t>(dy) * l.stride + dx] = v;
}

}  // namespace

// One block a tile of 64x64 px: grey and all levels.
extern "C" __global__ void __launch_bounds__(PYRAMID_THREADS)
    ego_pyramid(const EgoParams p, const std::uint8_t *image, std::uint8_t *pyramids, const EgoState *state) {
    __shared__ std::uint8_t tile[TILE * TILE * 4 / 3 + 1];
    std::uint8_t *pyramid = pyramids + static_cast<std::size_t>(state->parity) * p.bytes;
    const int x0 = blockIdx.x * TILE, y0 = blockIdx.y * TILE;
    for (int i = threadIdx.x; i < TILE * TILE; i += PYRAMID_THREADS) {
        const int x = x0 + i % TILE, y = y0 + i / TILE;
        unsigned v = 0;
        if (x < static_cast<int>(p.levels[0].width) && y < static_cast<int>(p.levels[0].height)) {
            const std::size_t at = static_cast<std::size_t>(y) * p.levels[0].width + x;
            if (p.kind == 0) {
                v = image[at];
            } else if (p.kind == 1) {
                v = reinterpret_cast<const std::uint16_t *>(image)[at] >> p.shift;
                v = v < 255 ? v : 255;
            } else {
                v = (77u * image[3 * at] + 150u * image[3 * at + 1] + 29u * image[3 * at + 2] + 128u) >> 8;
            }
            if (p.usable != nullptr && p.usable[at] == 0) v = MASKED;
            put(pyramid, p.levels[0], x, y, static_cast<std::uint8_t>(v));
        }
        tile[i] = static_cast<std::uint8_t>(v);
    }
    const std::uint8_t *finer = tile;
    for (unsigned l = 1; l < p.count; ++l) {
        __syncthreads();
        const int side = TILE >> l, wide = 2 * side;
        std::uint8_t *coarser = const_cast<std::uint8_t *>(finer) + wide * wide;
        for (int i = threadIdx.x; i < side * side; i += PYRAMID_THREADS) {
            const int x = i % side, y = i / side;
            const std::uint8_t *q = finer + 2 * y * wide + 2 * x;
            const std::uint8_t v = static_cast<std::uint8_t>((q[0] + q[1] + q[wide] + q[wide + 1] + 2) >> 2);
            coarser[i] = v;
            put(pyramid, p.levels[l], (x0 >> l) + x, (y0 >> l) + y, v);
        }
        finer = coarser;
    }
}

// One block a cell: its best corner.
extern "C" __global__ void __launch_bounds__(CORNER_THREADS)
    ego_corners(const EgoParams p, const std::uint8_t *pyramids, const EgoState *state, Track *tracks) {
    constexpr int SUM_WIDTH = PART_WIDTH + 2 * REACH, SUM_HEIGHT = PART_HEIGHT + 2 * REACH;
    constexpr int IN_WIDTH = SUM_WIDTH + 2, IN_HEIGHT = SUM_HEIGHT + 2;
    __shared__ std::int16_t in[IN_HEIGHT][IN_WIDTH];
    __shared__ int products[3][SUM_HEIGHT][SUM_WIDTH];
    __shared__ int columns[3][PART_HEIGHT][SUM_WIDTH];
    __shared__ unsigned long long warp_best[CORNER_THREADS / WARP];

    const Picture level = picture(p, pyramids + static_cast<std::size_t>(state->parity) * p.bytes, p.grid_level);
    const int thread = threadIdx.x;
    const int cell_x = (blockIdx.x % p.columns) * p.cell_width, cell_y = (blockIdx.x / p.columns) * p.cell_height;
    unsigned long long best = 0;
    for (unsigned part_y = 0; part_y < p.cell_height; part_y += PART_HEIGHT) {
        for (unsigned part_x = 0; part_x < p.cell_width; part_x += PART_WIDTH) {
            const int x0 = cell_x + part_x, y0 = cell_y + part_y;
            __syncthreads();
            for (int i = thread; i < IN_WIDTH * IN_HEIGHT; i += CORNER_THREADS) {
                const int x = x0 + i % IN_WIDTH - REACH - 1, y = y0 + i / IN_WIDTH - REACH - 1;
                const bool inside = x < level.width && y < level.height;
                in[i / IN_WIDTH][i % IN_WIDTH] =
                    inside ? level.pixels[static_cast<std::ptrdiff_t>(y) * level.stride + x] : 0;
            }
            __syncthreads();
            for (int i = thread; i < SUM_WIDTH * SUM_HEIGHT; i += CORNER_THREADS) {
                const int x = i % SUM_WIDTH, y = i / SUM_WIDTH;
                const int gx = in[y + 1][x + 2] - in[y + 1][x], gy = in[y + 2][x + 1] - in[y][x + 1];
                products[0][y][x] = gx * gx;
                products[1][y][x] = gx * gy;
                products[2][y][x] = gy * gy;
            }
            __syncthreads();
            for (int i = thread; i < 3 * PART_HEIGHT * SUM_WIDTH; i += CORNER_THREADS) {
                const int x = i % SUM_WIDTH, y = i / SUM_WIDTH % PART_HEIGHT, k = i / SUM_WIDTH / PART_HEIGHT;
                int sum = 0;
#pragma unroll
                for (int j = 0; j <= 2 * REACH; ++j) sum += products[k][y + j][x];
                columns[k][y][x] = sum;
            }
            __syncthreads();
            const int px = thread % PART_WIDTH, py = thread / PART_WIDTH;
            const int x = x0 + px, y = y0 + py;
            if (x >= MARGIN && y >= MARGIN && x < level.width - MARGIN && y < level.height - MARGIN) {
                int sums[3] = {};
#pragma unroll
                for (int k = 0; k < 3; ++k)
#pragma unroll
                    for (int j = 0; j <= 2 * REACH; ++j) sums[k] += columns[k][py][px + j];
                const float xx = static_cast<float>(sums[0]), xy = static_cast<float>(sums[1]),
                            yy = static_cast<float>(sums[2]);
                const float score = (xx * yy - xy * xy) / (xx + yy + 1.0f);
                const unsigned place = static_cast<unsigned>(y) * level.width + x;
                if (score > p.min_texture && (p.allowed == nullptr || p.allowed[place] != 0)) {
                    const unsigned long long key =
                        (static_cast<unsigned long long>(__float_as_uint(score)) << 32) | (0xffffffffu - place);
                    best = key > best ? key : best;
                }
            }
        }
    }
#pragma unroll
    for (int offset = WARP / 2; offset > 0; offset /= 2) {
        const unsigned long long other = __shfl_xor_sync(ALL_LANES, best, offset);
        best = other > best ? other : best;
    }
    if (lane_id() == 0) warp_best[warp_id()] = best;
    __syncthreads();
    if (thread != 0) return;
    for (unsigned w = 1; w < CORNER_THREADS / WARP; ++w) best = warp_best[w] > best ? warp_best[w] : best;
    Track track = {};
    if (best != 0) {
        const unsigned place = 0xffffffffu - static_cast<unsigned>(best);
        track.x = static_cast<std::uint16_t>(((place % level.width) << p.grid_level) + p.grid_level);
        track.y = static_cast<std::uint16_t>(((place / level.width) << p.grid_level) + p.grid_level);
        track.found = 1;
    }
    tracks[blockIdx.x] = track;
}

namespace {

// A window: a lane has pixel (lane % 8, lane / 8) and the one 4 rows below.
struct Template {
    int grey[EACH], gx[EACH], gy[EACH];
    int xx, xy, yy, x, y, sum;
    long long variance, cx, cy;
};

__device__ Template window(const Picture &level, int x, int y) {
    Template t;
    const int column = lane_id() % WIDTH, row = lane_id() / WIDTH;
    int xx = 0, xy = 0, yy = 0, sx = 0, sy = 0, sum = 0, squares = 0, gx = 0, gy = 0;
#pragma unroll
    for (int k = 0; k < EACH; ++k) {
        const std::uint8_t *q = level.pixels +
                                static_cast<std::ptrdiff_t>(y - HEIGHT / 2 + row + k * (HEIGHT / EACH)) * level.stride +
                                (x - WIDTH / 2 + column);
        t.grey[k] = q[0];
        t.gx[k] = q[1] - q[-1];
        t.gy[k] = q[level.stride] - q[-level.stride];
        xx += t.gx[k] * t.gx[k];
        xy += t.gx[k] * t.gy[k];
        yy += t.gy[k] * t.gy[k];
        sx += t.gx[k];
        sy += t.gy[k];
        sum += t.grey[k];
        squares += t.grey[k] * t.grey[k];
        gx += t.gx[k] * t.grey[k];
        gy += t.gy[k] * t.grey[k];
    }
    t.xx = lanes_sum(xx);
    t.xy = lanes_sum(xy);
    t.yy = lanes_sum(yy);
    t.x = lanes_sum(sx);
    t.y = lanes_sum(sy);
    t.sum = lanes_sum(sum);
    const long long n = AREA;
    t.variance = n * lanes_sum(squares) - static_cast<long long>(t.sum) * t.sum;
    t.cx = n * lanes_sum(gx) - static_cast<long long>(t.x) * t.sum;
    t.cy = n * lanes_sum(gy) - static_cast<long long>(t.y) * t.sum;
    return t;
}

struct Sums {
    int sum, gx, gy, grey;
    unsigned squares;
};

__device__ Sums compare(const Template &t, const Picture &level, int x, int y, bool grey) {
    const int a = x % UNIT, b = y % UNIT;
    const int column = lane_id() % WIDTH, row = lane_id() / WIDTH;
    Sums s = {};
#pragma unroll
    for (int k = 0; k < EACH; ++k) {
        const std::uint8_t *q =
            level.pixels +
            static_cast<std::ptrdiff_t>(y / UNIT - HEIGHT / 2 + row + k * (HEIGHT / EACH)) * level.stride +
            (x / UNIT - WIDTH / 2 + column);
        const int above = ((UNIT - a) * q[0] + a * q[1] + 4) >> 3;
        const int below = ((UNIT - a) * q[level.stride] + a * q[level.stride + 1] + 4) >> 3;
        const int j = ((UNIT - b) * above + b * below + UNIT / 2) >> 7;
        s.sum += j;
        s.squares += static_cast<unsigned>(j * j);
        s.gx += t.gx[k] * j;
        s.gy += t.gy[k] * j;
        s.grey += t.grey[k] * j;
    }
    s.sum = lanes_sum(s.sum);
    // Wraps to the unsigned sum.
    s.squares = static_cast<unsigned>(lanes_sum(static_cast<int>(s.squares)));
    s.gx = lanes_sum(s.gx);
    s.gy = lanes_sum(s.gy);
    if (grey) s.grey = lanes_sum(s.grey);
    return s;
}

__device__ long long variance(const Sums &s) {
    return static_cast<long long>(AREA) * s.squares - static_cast<long long>(s.sum) * s.sum;
}

__device__ float covariance(int products, int a, const Sums &s) {
    return static_cast<float>(static_cast<long long>(AREA) * products - static_cast<long long>(a) * s.sum);
}

__device__ float gain_of(long long own_variance, long long other_variance) {
    const float own = static_cast<float>(own_variance) * (GREY * GREY), other = static_cast<float>(other_variance);
    if (own >= MAX_GAIN * MAX_GAIN * other) return MAX_GAIN;
    if (other >= MAX_GAIN * MAX_GAIN * own) return 1.0f / MAX_GAIN;
    return sqrtf(own / other);
}

__device__ int rounded(float v) {
    if (v >= LONGEST) return static_cast<int>(LONGEST);
    if (v <= -LONGEST) return -static_cast<int>(LONGEST);
    return v >= 0.0f ? static_cast<int>(v + 0.5f) : -static_cast<int>(0.5f - v);
}

__device__ bool place(const Picture &level, int x, int y, int dx, int dy, int &px, int &py) {
    px = x * UNIT + dx;
    py = y * UNIT + dy;
    return px >= 0 && py >= 0 && px <= (level.width - 1) * UNIT && py <= (level.height - 1) * UNIT;
}

// Changes the displacement only if it can be aligned.
__device__ bool align(const Template &t, const Picture &to, int x, int y, int &shift_x, int &shift_y) {
    const float xx = static_cast<float>(t.xx), xy = static_cast<float>(t.xy), yy = static_cast<float>(t.yy);
    const float determinant = xx * yy - xy * xy;
    if (determinant < LEAST_TEXTURE * (xx + yy + 1.0f)) return false;
    int dx = shift_x, dy = shift_y;
    for (int n = 0; n < STEPS; ++n) {
        int px, py;
        if (!place(to, x, y, dx, dy, px, py)) return false;
        const Sums s = compare(t, to, px, py, false);
        const float jx = covariance(s.gx, t.x, s), jy = covariance(s.gy, t.y, s);
        const float gain = gain_of(t.variance, variance(s));
        const float bx = GREY * static_cast<float>(t.cx) - gain * jx;
        const float by = GREY * static_cast<float>(t.cy) - gain * jy;
        constexpr float SCALE = (2.0f * UNIT) / (GREY * AREA);
        const int step_x = rounded((yy * bx - xy * by) / determinant * SCALE);
        const int step_y = rounded((xx * by - xy * bx) / determinant * SCALE);
        dx += step_x;
        dy += step_y;
        if (abs(step_x) <= CLOSE && abs(step_y) <= CLOSE) break;
    }
    shift_x = dx;
    shift_y = dy;
    return true;
}

}  // namespace

// One warp a cell: where its corner was in the frame before.
extern "C" __global__ void __launch_bounds__(FOLLOW_THREADS)
    ego_follow(const EgoParams p, const std::uint8_t *pyramids, const EgoState *state, Track *tracks) {
    const unsigned cell = blockIdx.x * (FOLLOW_THREADS / WARP) + warp_id();
    if (cell >= p.columns * p.rows) return;
    const Track track = tracks[cell];
    if (track.found == 0) return;
    const std::uint8_t *now = pyramids + static_cast<std::size_t>(state->parity) * p.bytes;
    const std::uint8_t *before = pyramids + static_cast<std::size_t>(1 - state->parity) * p.bytes;
    const int x = track.x, y = track.y;
    int dx = 0, dy = 0;
    for (unsigned l = p.count - 1; l > 0; --l) {
        const Picture from = picture(p, now, l), to = picture(p, before, l);
        const int cx = min(x >> l, from.width - 1), cy = min(y >> l, from.height - 1);
        const Template t = window(from, cx, cy);
        align(t, to, cx, cy, dx, dy);
        dx *= 2;
        dy *= 2;
    }
    const Picture from = picture(p, now, 0), to = picture(p, before, 0);
    const Template t = window(from, x, y);
    int px, py;
    if (!align(t, to, x, y, dx, dy) || !place(to, x, y, dx, dy, px, py)) return;
    const Sums s = compare(t, to, px, py, true);
    const float together = covariance(s.grey, t.sum, s);
    const float limit = (p.min_correlation * p.min_correlation) *
                        (static_cast<float>(t.variance) * static_cast<float>(variance(s)));
    if (together <= 0.0f || together * together < limit) return;
    const int bx = (px + UNIT / 2) / UNIT, by = (py + UNIT / 2) / UNIT;
    int back_x = -dx, back_y = -dy;
    if (!align(window(to, bx, by), from, bx, by, back_x, back_y)) return;
    if (abs(back_x + dx) > p.max_return || abs(back_y + dy) > p.max_return) return;
    if (lane_id() == 0) tracks[cell] = {track.x, track.y, 2, dx, dy};
}

namespace {

struct Measured {
    unsigned corners, tracked, inliers, still, near_to;
    int near_x, near_y;
};

// The pairs in the order of the cells; how many. All of the block takes part.
__device__ unsigned gather(const EgoParams &p, const Track *tracks, Pair *pairs, Measured *measured) {
    __shared__ unsigned totals[JUDGE_THREADS / WARP];
    const unsigned cells = p.columns * p.rows;
    Track own[CELLS_A_THREAD];
    unsigned count = 0;
#pragma unroll
    for (unsigned k = 0; k < CELLS_A_THREAD; ++k) {
        const unsigned cell = threadIdx.x * CELLS_A_THREAD + k;
        own[k] = cell < cells ? tracks[cell] : Track{};
        count += own[k].found == 2;
    }
    const unsigned up_to = warp_prefix_sum(count);
    if (lane_id() == WARP - 1) totals[warp_id()] = up_to;
    __syncthreads();
    unsigned at = up_to - count, n = 0;
    for (int w = 0; w < static_cast<int>(JUDGE_THREADS / WARP); ++w) {
        if (w < warp_id()) at += totals[w];
        n += totals[w];
    }
    Measured m = {};
#pragma unroll
    for (unsigned k = 0; k < CELLS_A_THREAD; ++k) {
        m.corners += own[k].found != 0;
        if (own[k].found != 2) continue;
        const float x = own[k].x, y = own[k].y;
        const int dx = own[k].dx, dy = own[k].dy;
        pairs[at++] = {x, y, x + static_cast<float>(dx) / static_cast<float>(UNIT),
                       y + static_cast<float>(dy) / static_cast<float>(UNIT)};
        if (abs(dx) > 4096 || abs(dy) > 4096) continue;
        const unsigned squared = static_cast<unsigned>(dx * dx + dy * dy);
        m.still += squared <= p.rules.still;
        if (squared <= p.rules.near_to) {
            m.near_to += 1;
            m.near_x += dx;
            m.near_y += dy;
        }
    }
    if (measured != nullptr) {
        // Whole numbers: any order.
        const unsigned corners = warp_sum(m.corners), still = warp_sum(m.still), near_to = warp_sum(m.near_to);
        const int near_x = warp_sum(m.near_x), near_y = warp_sum(m.near_y);
        if (lane_id() == 0) {
            atomicAdd(&measured->corners, corners);
            atomicAdd(&measured->still, still);
            atomicAdd(&measured->near_to, near_to);
            atomicAdd(&measured->near_x, near_x);
            atomicAdd(&measured->near_y, near_y);
        }
    }
    __syncthreads();
    return n;
}

}  // namespace

// One block 32 hypotheses.
extern "C" __global__ void __launch_bounds__(JUDGE_THREADS)
    ego_hypotheses(const EgoParams p, const Track *tracks, EgoState *state) {
    constexpr unsigned WARPS = JUDGE_THREADS / WARP;
    __shared__ Pair pairs[MAX_CELLS];
    __shared__ float homographies[9][WARP];
    __shared__ unsigned counts[WARPS][WARP];
    const unsigned n = gather(p, tracks, pairs, nullptr);
    if (n < 4) return;
    const unsigned lane = lane_id(), t = blockIdx.x * WARP + lane;
    bool valid = false;
    if (warp_id() == 0) {
        Homography h = {};
        valid = t < p.ransac.hypotheses && hypothesis(p.ransac, pairs, n, t, h);
#pragma unroll
        for (int k = 0; k < 9; ++k) homographies[k][lane] = static_cast<float>(h.h[k]);
    }
    __syncthreads();
    Scorer s;
#pragma unroll
    for (int k = 0; k < 9; ++k) s.h[k] = homographies[k][lane];
    s.limit = p.ransac.threshold_px * p.ransac.threshold_px;
    unsigned count = 0;
    for (unsigned i = warp_id(); i < n; i += WARPS) count += fits(s, pairs[i]);
    counts[warp_id()][lane] = count;
    __syncthreads();
    if (warp_id() != 0) return;
    for (unsigned w = 1; w < WARPS; ++w) count += counts[w][lane];
    unsigned long long key = valid ? hypothesis_key(count, t) : 0;
#pragma unroll
    for (int offset = WARP / 2; offset > 0; offset /= 2) {
        const unsigned long long other = __shfl_xor_sync(ALL_LANES, key, offset);
        key = other > key ? other : key;
    }
    if (lane == 0 && key != 0) atomicMax(&state->best, key);
}

namespace {

__device__ bool half_of(unsigned part, unsigned of) { return 2 * part >= of; }

__device__ bool share(unsigned part, unsigned of, unsigned least) { return 1024 * part >= least * of; }

__device__ int leak(int sum, int add) { return sum - sum / 16 + add; }

__device__ bool within(int v, unsigned limit) { return static_cast<unsigned>(abs(v)) <= limit; }

__device__ int sway_units(float px) {
    constexpr float LIMIT = 64.0f * UNIT;
    const float v = px * static_cast<float>(UNIT);
    if (v >= LIMIT) return static_cast<int>(LIMIT);
    return v >= -LIMIT ? static_cast<int>(v) : -static_cast<int>(LIMIT);
}

enum Evidence { BLIND, LOST, STANDS, SMALL, SHAKY, CROWDED, DRIVES };

// Memory::judge.
__device__ Evidence judge(EgoState &s, const Measured &m, const int sway[8], const Rules &rules, bool &calm) {
    calm = false;
    if (m.corners < rules.min_points) return BLIND;
    if (m.tracked < rules.min_points || !share(m.tracked, m.corners, rules.lost)) return LOST;
    const int near_to = m.near_to > 1 ? static_cast<int>(m.near_to) : 1;
    const int mean_x = 16 * m.near_x / near_to, mean_y = 16 * m.near_y / near_to;
    s.creep[0] = leak(s.creep[0], mean_x);
    s.creep[1] = leak(s.creep[1], mean_y);
    int wandered = 0;
    const bool half_fits = half_of(m.inliers, m.tracked);
    for (int i = 0; i < 8; i += 2) {
        if (half_fits) {
            s.sway[i] = leak(s.sway[i], sway[i]);
            s.sway[i + 1] = leak(s.sway[i + 1], sway[i + 1]);
        }
        wandered += !(within(s.sway[i], rules.sway) && within(s.sway[i + 1], rules.sway));
    }
    calm = within(mean_x, 16 * rules.drift) && within(mean_y, 16 * rules.drift);
    const unsigned still = s.state == STILL ? m.near_to : m.still;
    if (half_of(still, m.tracked) && within(s.creep[0], 16 * rules.creep) && within(s.creep[1], 16 * rules.creep))
        return STANDS;
    if (share(m.inliers, m.tracked, rules.small)) return SMALL;
    if (share(m.still, m.tracked, rules.standing)) return CROWDED;
    return half_fits && wandered < 2 ? SHAKY : DRIVES;
}

// Memory::standing.
__device__ unsigned standing(const EgoState &s, Evidence evidence, const Rules &rules) {
    if (evidence == LOST) return UNKNOWN;
    if (evidence == SMALL || evidence == SHAKY) return SMALL_MOTION;
    if (s.state != SMALL_MOTION) return STILL;
    return evidence == STANDS && s.still >= rules.still_frames ? STILL : SMALL_MOTION;
}

// Memory::seen.
__device__ unsigned seen(const EgoState &s, Evidence evidence, const Rules &rules) {
    if (evidence == BLIND) return s.blind > rules.hold_frames ? static_cast<unsigned>(UNKNOWN) : s.state;
    if (evidence == LOST) return s.state == DRIVING ? DRIVING : UNKNOWN;
    if (s.state == UNKNOWN) {
        if (evidence == STANDS || evidence == CROWDED) return STILL;
        return evidence == SMALL ? SMALL_MOTION : DRIVING;
    }
    if (evidence == DRIVES) return s.driving < DRIVING_FRAMES ? s.state : static_cast<unsigned>(DRIVING);
    if (evidence == CROWDED) return s.state;
    if (s.state == STILL && evidence == STANDS) return STILL;
    if (s.state == DRIVING && s.calm < rules.still_frames) return DRIVING;
    if (evidence == STANDS && s.still >= rules.still_frames) return STILL;
    return SMALL_MOTION;
}

__device__ void count_if(std::uint32_t &n, bool yes) {
    n = yes ? (n + 1 < (1u << 16) ? n + 1 : 1u << 16) : 0;
}

// Memory::advance, after the first frame; whether the homography is to be given.
__device__ bool advance(EgoState &s, const Measured &m, const int sway[8], float speed, const Rules &rules) {
    bool calm;
    const Evidence evidence = judge(s, m, sway, rules, calm);
    count_if(s.still, evidence == STANDS);
    count_if(s.calm, evidence == STANDS || evidence == SMALL || evidence == SHAKY);
    count_if(s.driving, evidence == DRIVES);
    count_if(s.blind, evidence == BLIND);
    if (speed > rules.standing_mps || speed < -rules.standing_mps)
        s.state = DRIVING;
    else
        s.state = isnan(speed) ? seen(s, evidence, rules) : standing(s, evidence, rules);
    const bool moved = evidence == SMALL || evidence == SHAKY ||
                       (evidence == STANDS && !calm && half_of(m.inliers, m.tracked));
    return s.state == SMALL_MOTION && moved;
}

}  // namespace

// One block: the homography, the state, and the next frame's turn.
extern "C" __global__ void __launch_bounds__(JUDGE_THREADS)
    ego_judge(const EgoParams p, const Track *tracks, const float *speed, EgoState *state, Motion *motion) {
    __shared__ Pair pairs[MAX_CELLS];
    __shared__ std::uint8_t inliers[MAX_CELLS];
    __shared__ Measured measured;
    __shared__ Homography best, next;
    __shared__ unsigned best_count, next_count;
    __shared__ bool refitted;
    const unsigned thread = threadIdx.x;
    if (thread == 0) measured = {};
    __syncthreads();
    const unsigned n = gather(p, tracks, pairs, &measured);
    const unsigned long long key = state->best;
    const bool first = state->frames == 0;
    const bool found = key != 0 && !first;
    if (found) {
        if (warp_id() == 0) {
            Homography h;
            hypothesis(p.ransac, pairs, n, 0xffffffffu - static_cast<unsigned>(key), h);
            if (thread == 0) {
                best = h;
                best_count = static_cast<unsigned>(key >> 32);
            }
        }
        for (unsigned round = 0; round < p.ransac.refits; ++round) {
            __syncthreads();
            const Scorer old = scorer(best, p.ransac.threshold_px);
            for (unsigned i = thread; i < n; i += JUDGE_THREADS) inliers[i] = fits(old, pairs[i]);
            if (thread == 0) next_count = 0;
            __syncthreads();
            if (warp_id() == 0) {
                Homography h;
                const bool done = refit(best, pairs, inliers, n, p.ransac.steps, h);
                if (thread == 0) {
                    refitted = done;
                    next = h;
                }
            }
            __syncthreads();
            if (!refitted) break;
            const Scorer now = scorer(next, p.ransac.threshold_px);
            unsigned count = 0;
            for (unsigned i = thread; i < n; i += JUDGE_THREADS) count += fits(now, pairs[i]);
            count = warp_sum(count);
            if (lane_id() == 0) atomicAdd(&next_count, count);
            __syncthreads();
            if (next_count < best_count) break;
            __syncthreads();
            if (thread == 0) {
                best = next;
                best_count = next_count;
            }
        }
    }
    __syncthreads();
    if (thread != 0) return;

    Motion out = {UNKNOWN, 0, 0, {1.0f, 0.0f, 0.0f, 0.0f, 1.0f, 0.0f, 0.0f, 0.0f, 1.0f}};
    EgoState s = *state;
    if (first) {
        s.frames = 1;
    } else {
        Measured m = measured;
        m.tracked = n;
        m.inliers = 0;
        int sway[8] = {};
        float h[9] = {};
        bool good = false;
        if (found) {
            const double w = best.h[8];
            good = w > 0.0;
            for (int k = 0; k < 9; ++k) {
                const double v = best.h[k] / w;
                good = good && isfinite(v);
                h[k] = static_cast<float>(v);
            }
            if (good) {
                m.inliers = best_count;
                for (int i = 0; i < 4; ++i) {
                    const float x = static_cast<float>(p.levels[0].width * (1 + 2 * (i % 2))) * 0.25f;
                    const float y = static_cast<float>(p.levels[0].height * (1 + 2 * (i / 2))) * 0.25f;
                    const float scale = (h[6] * x + h[7] * y) + h[8];
                    sway[2 * i] = sway_units(((h[0] * x + h[1] * y) + h[2]) / scale - x);
                    sway[2 * i + 1] = sway_units(((h[3] * x + h[4] * y) + h[5]) / scale - y);
                }
            }
        }
        const float known = speed == nullptr ? __int_as_float(0x7fc00000) : *speed;
        const bool moved = advance(s, m, sway, known, p.rules);
        out.state = s.state;
        out.tracked = static_cast<std::uint16_t>(m.tracked);
        out.inliers = static_cast<std::uint16_t>(m.inliers);
        if (moved && good)
            for (int k = 0; k < 9; ++k) out.homography[k] = h[k];
    }
    s.best = 0;
    s.parity ^= 1;
    *state = s;
    *motion = out;
}
