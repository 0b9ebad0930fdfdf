// What the egomotion kernels leave on the device for the stages after them.
#pragma once
#include "common.cuh"

namespace roadloop {

// Order of frame::MotionState::ALL.
enum MotionState : std::uint32_t { UNKNOWN = 0, STILL = 1, SMALL_MOTION = 2, DRIVING = 3 };

// frame::Motion; the host's twin is stage::egomotion::cuda::Motion. The homography maps a pixel of
// this frame to the one before, row-major, h[8] = 1; the identity unless the state is SMALL_MOTION.
struct Motion {
    std::uint32_t state;
    std::uint16_t tracked;
    std::uint16_t inliers;
    float homography[9];
};
static_assert(sizeof(Motion) == 44, "as on the host");

}  // namespace roadloop
