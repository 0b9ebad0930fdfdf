// Small kernels by which a device, driver and build are tried (tests/cuda.rs).
#include "common.cuh"

using namespace roadloop;

// f32 in a fixed order. Contraction of any a * b + c, a division or square root that is not
// IEEE's, or flushed denormals change the bits.
extern "C" __global__ void selftest_f32(const float *a, const float *b, float *out, std::uint32_t n) {
    const std::size_t i = global_index();
    if (i >= n) return;
    const float x = a[i], y = b[i];
    const float product = x * y + x;
    const float quotient = (product - y) / (y * y + 0.7f);
    const float root = sqrtf(x * x + y * y);
    out[i] = quotient * root + (x - y * 3.1f) / (root + 1e-3f);
}

// One operation each, for denormals and infinities too.
extern "C" __global__ void selftest_f32_each(const float *a, const float *b, float *out, std::uint32_t n) {
    const std::size_t i = global_index();
    if (i >= n) return;
    const float x = a[i], y = b[i];
    out[5 * i] = x + y;
    out[5 * i + 1] = x - y;
    out[5 * i + 2] = x * y;
    out[5 * i + 3] = x / y;
    out[5 * i + 4] = sqrtf(fabsf(x));
}

// Integers: division and shift of negative numbers, wide products, counts of bits.
extern "C" __global__ void selftest_int(const std::int32_t *a, const std::int32_t *b, std::int64_t *out, std::uint32_t n) {
    const std::size_t i = global_index();
    if (i >= n) return;
    const std::int64_t x = a[i], y = b[i];
    const std::int64_t divisor = y == 0 ? 1 : y;
    std::int64_t sum = x * y;
    sum += x / divisor;
    sum += x % divisor;
    sum += a[i] >> 3;
    sum += __popc(static_cast<unsigned>(a[i] ^ b[i]));
    sum += __clz(b[i]);
    sum += x < y ? x : y;
    out[i] = sum;
}

// Prefix sums, sums and minima of each warp. The block's threads are a multiple of 32.
extern "C" __global__ void selftest_warp(const std::int32_t *in, std::int32_t *inclusive, std::int64_t *exclusive,
                                         std::int32_t *sums, std::int32_t *minima, std::uint32_t n) {
    const std::size_t i = global_index();
    const std::int32_t value = i < n ? in[i] : 0;
    const std::int32_t prefix = warp_prefix_sum(value);
    const std::int64_t wide = warp_prefix_sum_exclusive(static_cast<std::int64_t>(value));
    const std::int32_t sum = warp_sum(value);
    const std::int32_t least = warp_min(value);
    if (i >= n) return;
    inclusive[i] = prefix;
    exclusive[i] = wide;
    sums[i] = sum;
    minima[i] = least;
}

extern "C" __global__ void selftest_add(std::uint32_t *numbers, std::uint32_t n, std::uint32_t addend) {
    const std::size_t i = global_index();
    if (i < n) numbers[i] += addend;
}

// A struct by value; the host declares the same fields.
struct ScaleParams {
    std::uint32_t *numbers;
    std::uint32_t n;
    std::uint16_t factor;
    std::uint8_t shift[2];
};

__constant__ std::uint32_t selftest_offset[4];

extern "C" __global__ void selftest_scale(ScaleParams params) {
    const std::size_t i = global_index();
    if (i >= params.n) return;
    params.numbers[i] = ((params.numbers[i] * params.factor) << params.shift[0] >> params.shift[1]) + selftest_offset[i % 4];
}

// Reverses `words` numbers through dynamic shared memory, one block.
extern "C" __global__ void selftest_shared(std::uint32_t *numbers, std::uint32_t words) {
    extern __shared__ std::uint32_t shared[];
    for (std::uint32_t i = threadIdx.x; i < words; i += blockDim.x) shared[i] = numbers[i];
    __syncthreads();
    for (std::uint32_t i = threadIdx.x; i < words; i += blockDim.x) numbers[i] = shared[words - 1 - i];
}

// Writes where nothing is: loses the context.
extern "C" __global__ void selftest_fault(std::uint32_t *numbers, std::uint64_t offset) { numbers[offset] = 1; }

// How fast memory is: reads `count` fours of words, and copies them where `to` is not null. What is
// read has an effect that never happens, so that it is read.
extern "C" __global__ void __launch_bounds__(256) selftest_bandwidth(const uint4 *from, uint4 *to, std::uint64_t count) {
    constexpr int TOGETHER = 8;
    const std::uint64_t stride = static_cast<std::uint64_t>(gridDim.x) * blockDim.x;
    std::uint32_t all = 0;
    for (std::uint64_t i = global_index(); i + (TOGETHER - 1) * stride < count; i += TOGETHER * stride) {
        uint4 words[TOGETHER];
#pragma unroll
        for (int n = 0; n < TOGETHER; ++n) words[n] = from[i + n * stride];
#pragma unroll
        for (int n = 0; n < TOGETHER; ++n) {
            if (to != nullptr) to[i + n * stride] = words[n];
            all |= words[n].x ^ words[n].y ^ words[n].z ^ words[n].w;
        }
    }
    if (all == 0x12345678u) asm volatile("trap;");
}
