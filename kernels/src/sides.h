// Intervals and boxes of ranges, with the ends that Python gives them.
#pragma once

#include <vector>

#include "spans.h"

namespace kernels {

// An interval of codes as cn.model.geometry has it.
struct Side {
    int64_t low, high;
    bool has_low, has_high, low_open, high_open;

    static Side up_to(int64_t high) { return {0, high, false, true, false, false}; }
    static Side from(int64_t low) { return {low, 0, true, false, false, false}; }

    bool is_empty() const {
        return has_low && has_high && (high < low || (low == high && (low_open || high_open)));
    }
    bool same_low(const Side& other) const {
        return has_low == other.has_low && (!has_low || (low == other.low && low_open == other.low_open));
    }
    bool same_high(const Side& other) const {
        return has_high == other.has_high && (!has_high || (high == other.high && high_open == other.high_open));
    }
    Side operator&(const Side& other) const {
        Side both = *this;
        if (other.has_low &&
            (!has_low || other.low > low || (other.low == low && other.low_open && !low_open))) {
            both.low = other.low;
            both.has_low = true;
            both.low_open = other.low_open;
        }
        if (other.has_high &&
            (!has_high || other.high < high || (other.high == high && other.high_open && !high_open))) {
            both.high = other.high;
            both.has_high = true;
            both.high_open = other.high_open;
        }
        return both;
    }
    // The 64-bit codes in it; false if there are none.
    bool span(Span& span) const {
        span = {has_low ? low : LOWEST, has_high ? high : HIGHEST};
        if (has_low && low_open && span.low++ == HIGHEST) return false;
        if (has_high && high_open && span.high-- == LOWEST) return false;
        return span.low <= span.high;
    }
};

// A box of the space (lo, hi).
struct RangeBox {
    Side sides[2];
};

// `box` without `hole` as disjoint boxes, as cn.model.geometry.difference gives them.
inline void difference(const RangeBox& box, const RangeBox& hole, std::vector<RangeBox>& rest) {
    RangeBox common{{box.sides[0] & hole.sides[0], box.sides[1] & hole.sides[1]}};
    if (common.sides[0].is_empty() || common.sides[1].is_empty()) {
        if (!box.sides[0].is_empty() && !box.sides[1].is_empty()) rest.push_back(box);
        return;
    }
    RangeBox left = box;
    for (int at = 0; at < 2; ++at) {
        const Side &side = box.sides[at], &inner = common.sides[at];
        Side below{side.low, inner.low, side.has_low, inner.has_low, side.low_open, !inner.low_open};
        Side above{inner.high, side.high, inner.has_high, side.has_high, !inner.high_open, side.high_open};
        if (inner.has_low && !inner.same_low(side) && !below.is_empty()) {
            rest.push_back(left);
            rest.back().sides[at] = below;
        }
        if (inner.has_high && !inner.same_high(side) && !above.is_empty()) {
            rest.push_back(left);
            rest.back().sides[at] = above;
        }
        left.sides[at] = inner;
    }
}

}  // namespace kernels
