// From the links of a solved column to its list of stixels, as src/stage/stixel/backtrack.rs.
#pragma once
#include "stixel_column.cuh"

namespace roadloop {
namespace stixel {

// The best path, top to bottom, from the class in which it ends; one thread. What an object stands
// on is worked out here: few of all objects are on the path.
template <bool TALL>
__device__ void Column<TALL>::walk(int kind) {
    const int h = k.height;
    const typename T::Link *const links = this->links();
    unsigned long long *const path = this->path();
    int to = h, n = 0;
    while (to > 0) {
        const unsigned link = links[kind * h + to - 1];
        const int first = static_cast<int>(link & ((1u << T::LINK_BITS) - 1));
        path[n++] = static_cast<unsigned long long>(first) | static_cast<unsigned long long>(to) << 20 |
                    static_cast<unsigned long long>(kind) << 60;
        if (kind == OBJECT && first > 0) {
            const Record cut = load_whole(cuts + first);
            Cost on_ground, on_object, on_sky;
            transitions(cut, mean_of(first, to), on_ground, on_object, on_sky);
            kind = on_sky < min(on_ground, on_object) ? SKY : on_ground < on_object ? GROUND : OBJECT;
        } else {
            kind = static_cast<int>(link >> T::LINK_BITS);
        }
        to = first;
    }
    s.path_length = n;
}

// Writes the column's list from the path, top to bottom: one thread a stixel.
template <bool TALL>
__device__ void Column<TALL>::backtrack(std::uint64_t *out, int u) {
    const int total = s.path_length, capacity = k.capacity, h = k.height;
    const int skip = max(total - capacity, 0);
    if (tid == 0) {
        reinterpret_cast<std::uint16_t *>(out + 1)[u] = static_cast<std::uint16_t>(total - skip);
        if (skip > 0) atomicAdd(reinterpret_cast<unsigned *>(out), 1u);
    }
    std::uint64_t *items = out + 1 + (k.columns + 3) / 4 + static_cast<std::size_t>(u) * capacity;
    const int *const ground = this->ground(), *const sky = this->sky();
    const unsigned long long *const path = this->path();
    const int end_row = s.ground_end, sky_row = s.sky_begin;
    for (int i = skip + tid; i < total; i += blockDim.x) {
        const unsigned long long piece = path[i];
        const int kind = static_cast<int>(piece >> 60);
        const int from = static_cast<int>(piece & 0xfffff), to = static_cast<int>((piece >> 20) & 0xfffff);
        const Sum doubled = sums[to] - sums[from];
        const unsigned long long sum = doubled >> DOUBLED;
        const unsigned long long count = counts[to] - counts[from];
        const unsigned long long n = count * (k.unit / 256);
        unsigned long long disparity = INVALID;
        if (n > 0) disparity = min((2 * sum + n) / (2 * n), static_cast<unsigned long long>(INVALID - 1));
        const double below = (k.sky_below_px * static_cast<double>(count)) * static_cast<double>(k.unit);
        const int written = kind == OBJECT && static_cast<double>(sum) < below ? SKY : kind;

        const int m = model(mean(doubled, static_cast<unsigned>(count)));
        const long long object = lut[static_cast<std::size_t>(to) * models + m] - lut[static_cast<std::size_t>(from) * models + m];
        const int end = min(max(end_row, from), to), begin = min(max(sky_row, from), to);
        const int sky_from = max(begin, end);
        long long own = object, other;
        if (kind == OBJECT) {
            other = static_cast<long long>(ground[end] - ground[from]) + (sky[to] - sky[sky_from]) +
                    static_cast<long long>(max(begin - end, 0)) * k.object_outlier;
        } else {
            const int *prefix = kind == GROUND ? ground : sky;
            own = prefix[to] - prefix[from];
            other = object;
        }
        const long long margin = max(other - own, 0ll);
        long long confidence = 255 * margin * static_cast<long long>(count) / ((margin + 8 * 2048) * (to - from));
        int top = h - to;
        if (skip > 0 && i == skip) {
            top = 0;
            confidence = 0;
        }
        items[i - skip] = static_cast<std::uint64_t>(top) | static_cast<std::uint64_t>(h - 1 - from) << 16 | disparity << 32 |
                          static_cast<std::uint64_t>(written) << 48 | static_cast<std::uint64_t>(confidence & 0xff) << 56;
    }
}

}  // namespace stixel
}  // namespace roadloop
