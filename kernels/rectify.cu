// Raw images to the rectified camera by fixed-point maps: stage::rectify states the contract.
#include "common.cuh"

using namespace roadloop;

namespace {

// Where four raw pixels and their weights (0..=256) are, as the reference's plan has them.
struct Tap {
    std::uint16_t x, y;
    std::uint16_t a;  // to the right, or outside the raw image
    std::uint16_t b;  // down
};
constexpr std::uint16_t OUTSIDE = 0xffff;

__device__ std::uint8_t mean(const std::uint8_t *p, std::size_t dx, std::size_t dy, std::uint32_t a, std::uint32_t b) {
    const std::uint32_t upper = (256 - a) * p[0] + a * p[dx];
    const std::uint32_t lower = (256 - a) * p[dy] + a * p[dy + dx];
    return static_cast<std::uint8_t>(((256 - b) * upper + b * lower + 32768) >> 16);
}

// One pixel of CHANNELS bytes.
template <int CHANNELS>
__device__ void rectify(const Tap *taps, const std::uint8_t *raw, std::uint8_t *out, std::size_t i, std::uint32_t width,
                        std::uint32_t height) {
    const Tap tap = taps[i];
    std::uint8_t *to = out + i * CHANNELS;
    if (tap.a == OUTSIDE) {
#pragma unroll
        for (int c = 0; c < CHANNELS; ++c) to[c] = 0;
        return;
    }
    // A single column or row has no neighbour; its weight is 0.
    const std::size_t dx = width > 1 ? CHANNELS : 0;
    const std::size_t dy = height > 1 ? static_cast<std::size_t>(width) * CHANNELS : 0;
    const std::uint8_t *from = raw + (static_cast<std::size_t>(tap.y) * width + tap.x) * CHANNELS;
#pragma unroll
    for (int c = 0; c < CHANNELS; ++c) to[c] = mean(from + c, dx, dy, tap.a, tap.b);
}

}  // namespace

// A block's y chooses the image: 0 left, 1 right; their maps lie one after the other.
extern "C" __global__ void rectify_grey(const Tap *taps, const std::uint8_t *left, const std::uint8_t *right,
                                        std::uint8_t *left_out, std::uint8_t *right_out, std::uint32_t width,
                                        std::uint32_t height) {
    const std::size_t area = static_cast<std::size_t>(width) * height, i = global_index();
    if (i >= area) return;
    if (blockIdx.y == 0) {
        rectify<1>(taps, left, left_out, i, width, height);
    } else {
        rectify<1>(taps + area, right, right_out, i, width, height);
    }
}

// The left image in colour.
extern "C" __global__ void rectify_rgb(const Tap *taps, const std::uint8_t *left, std::uint8_t *out, std::uint32_t width,
                                       std::uint32_t height) {
    const std::size_t i = global_index();
    if (i < static_cast<std::size_t>(width) * height) rectify<3>(taps, left, out, i, width, height);
}

// Masked pixels say nothing, wherever their disparity comes from.
extern "C" __global__ void rectify_mask(std::uint16_t *disparity, const std::uint8_t *mask, std::uint64_t pixels) {
    const std::size_t i = global_index();
    if (i < pixels && mask[i] == 0) disparity[i] = INVALID;
}
