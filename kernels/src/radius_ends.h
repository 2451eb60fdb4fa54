// Where the interval around a notified value ends: the forms of prosem/index/radii/ba_tree_ends.py.
//
// Exact forms compute with 128 bits and round away from the value, as integers do in Python; those of doubles are IEEE
// results, operation by operation (the build turns contraction off).
#pragma once

#include <cmath>
#include <cstdint>

#include "spans.h"

namespace kernels {

enum class EndsForm { CHANGE, PERCENT, FACTOR };

template <class T>
struct RadiusEnds;

template <>
struct RadiusEnds<int64_t> {
    using Wide = __int128;
    static constexpr int64_t SMALL = int64_t{1} << 62;

    EndsForm form;
    int64_t scale;

    int64_t right(int64_t c, int64_t r) const {
        Wide end = wide_right(c, r);
        return end > c ? static_cast<int64_t>(end) : c + 1;
    }
    int64_t left(int64_t c, int64_t r) const {
        Wide end = wide_left(c, r);
        return end < c ? static_cast<int64_t>(end) : c - 1;
    }
    // Whether 64 bits hold all ends at `c` for radii up to `r`.
    bool fits(int64_t c, int64_t r) const {
        if (c <= -SMALL || c >= SMALL || r >= SMALL) return false;
        Wide right = wide_right(c, r), left = wide_left(c, r);
        return right < SMALL && left > -SMALL;
    }

   private:
    static Wide floor_of(Wide number, Wide by) { return number / by - (number % by != 0 && (number < 0) != (by < 0)); }
    static Wide ceil_of(Wide number, Wide by) { return -floor_of(-number, by); }

    Wide reach(int64_t c, int64_t r) const {
        Wide size = c < 0 ? -static_cast<Wide>(c) : c;
        return ceil_of(size * r, static_cast<Wide>(100) * scale);
    }
    Wide wide_right(int64_t c, int64_t r) const {
        switch (form) {
            case EndsForm::CHANGE: return static_cast<Wide>(c) + r;
            case EndsForm::PERCENT: return c + reach(c, r);
            default: return c > 0 ? ceil_of(static_cast<Wide>(c) * r, scale) : static_cast<Wide>(c);
        }
    }
    Wide wide_left(int64_t c, int64_t r) const {
        switch (form) {
            case EndsForm::CHANGE: return static_cast<Wide>(c) - r;
            case EndsForm::PERCENT: return c - reach(c, r);
            default: return c > 0 && r > 0 ? floor_of(static_cast<Wide>(c) * scale, r) : static_cast<Wide>(c);
        }
    }
};

template <>
struct RadiusEnds<double> {
    EndsForm form;
    int64_t scale;  // of exact forms alone

    double right(double c, double r) const {
        double end = c;
        switch (form) {
            case EndsForm::CHANGE: end = c + r; break;
            case EndsForm::PERCENT: end = c + std::fabs(c) * r / 100; break;
            case EndsForm::FACTOR: end = c > 0 ? c * r : c; break;
        }
        return end > c ? end : std::nextafter(c, HUGE_VAL);
    }
    double left(double c, double r) const {
        double end = c;
        switch (form) {
            case EndsForm::CHANGE: end = c - r; break;
            case EndsForm::PERCENT: end = c - std::fabs(c) * r / 100; break;
            case EndsForm::FACTOR: end = c > 0 ? c / r : c; break;
        }
        return end < c ? end : std::nextafter(c, -HUGE_VAL);
    }
    bool fits(double, double) const { return true; }
};

}  // namespace kernels
