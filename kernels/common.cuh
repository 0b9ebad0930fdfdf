// What all kernels share. C++17 that CUDA 11.4 accepts; sm_72 is the oldest target.
//
// Results are the bytes of the CPU reference: integers where sums are reordered, f32 in the
// reference's order with + - * / sqrt alone. The build's flags (nvcc.flags) keep a * b + c from
// being contracted, and division and square root rounded as IEEE says.
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace roadloop {

constexpr int WARP = 32;
constexpr unsigned ALL_LANES = 0xffffffffu;

// "No measurement", the only code for it (frame::INVALID).
constexpr std::uint16_t INVALID = 0xffff;

// The ground line of a frame, d(row) = slope * row + offset in px (frame::Road; the host's twin is
// stage::road::cuda::Road). Written by the road kernels, read by the stixel kernels: both stay on
// the device.
struct Road {
    float slope;
    float offset;
    float horizon_row;
    float pitch_rad;
    float camera_height_m;
    float confidence;
    std::uint32_t origin;  // 0 fixed, 1 measured, 2 held, 3 assumed
};

// Order of frame::MotionState::ALL.
enum MotionState : std::uint32_t { UNKNOWN = 0, STILL = 1, SMALL_MOTION = 2, DRIVING = 3 };

// How the camera moved (frame::Motion; the host's twin is stage::device::Motion). The
// homography maps a pixel of this frame to the one before, row-major, h[8] = 1; it is the identity
// unless the state is SMALL_MOTION. Written by the egomotion kernels, read by the foreground's.
struct Motion {
    std::uint32_t state;
    std::uint16_t tracked;
    std::uint16_t inliers;
    float homography[9];
};
static_assert(sizeof(Motion) == 44, "as on the host");

// Lane of the warp; blocks are one-dimensional or have x a multiple of 32.
__device__ inline int lane_id() { return static_cast<int>(threadIdx.x % WARP); }
__device__ inline int warp_id() { return static_cast<int>(threadIdx.x / WARP); }

// Index of this thread over a one-dimensional grid; 64 bits, since images can be large.
__device__ inline std::size_t global_index() {
    return static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

template <typename T>
__host__ __device__ constexpr T div_up(T a, T b) {
    return (a + b - 1) / b;
}

// Sum of lanes 0..=own (inclusive prefix sum) in 5 shuffles. Integers only, since sums are
// reordered; they wrap. All 32 lanes take part.
template <typename T>
__device__ inline T warp_prefix_sum(T value) {
    static_assert(std::is_integral<T>::value, "the order of sums differs from the reference's");
    using Wrapping = typename std::make_unsigned<T>::type;
    const int lane = lane_id();
    Wrapping sum = static_cast<Wrapping>(value);
#pragma unroll
    for (int offset = 1; offset < WARP; offset *= 2) {
        const Wrapping below = __shfl_up_sync(ALL_LANES, sum, offset);
        if (lane >= offset) sum += below;
    }
    return static_cast<T>(sum);
}

// Sum of lanes 0..own (exclusive prefix sum).
template <typename T>
__device__ inline T warp_prefix_sum_exclusive(T value) {
    using Wrapping = typename std::make_unsigned<T>::type;
    return static_cast<T>(static_cast<Wrapping>(warp_prefix_sum(value)) - static_cast<Wrapping>(value));
}

// Sum over all lanes, in each lane. Integers only; wraps.
template <typename T>
__device__ inline T warp_sum(T value) {
    static_assert(std::is_integral<T>::value, "the order of sums differs from the reference's");
    using Wrapping = typename std::make_unsigned<T>::type;
    Wrapping sum = static_cast<Wrapping>(value);
#pragma unroll
    for (int offset = WARP / 2; offset > 0; offset /= 2) sum += __shfl_xor_sync(ALL_LANES, sum, offset);
    return static_cast<T>(sum);
}

// Smallest of all lanes, in each lane. One instruction from sm_80 on.
__device__ inline int warp_min(int value) {
#if __CUDA_ARCH__ >= 800
    return __reduce_min_sync(ALL_LANES, value);
#else
#pragma unroll
    for (int offset = WARP / 2; offset > 0; offset /= 2) {
        const int other = __shfl_xor_sync(ALL_LANES, value, offset);
        value = other < value ? other : value;
    }
    return value;
#endif
}

__device__ inline unsigned warp_min(unsigned value) {
#if __CUDA_ARCH__ >= 800
    return __reduce_min_sync(ALL_LANES, value);
#else
#pragma unroll
    for (int offset = WARP / 2; offset > 0; offset /= 2) {
        const unsigned other = __shfl_xor_sync(ALL_LANES, value, offset);
        value = other < value ? other : value;
    }
    return value;
#endif
}

}  // namespace roadloop
