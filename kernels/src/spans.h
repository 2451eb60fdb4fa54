// Codes and closed spans of them. Nothing here or in the trees knows of Python.
#pragma once

#include <cstdint>
#include <limits>
#include <stdexcept>

namespace kernels {

constexpr int64_t LOWEST = std::numeric_limits<int64_t>::min();
constexpr int64_t HIGHEST = std::numeric_limits<int64_t>::max();
constexpr int MAX_DIMENSIONS = 32;

struct Span {
    int64_t low, high;

    // One comparison: an unsigned distance beyond `high - low` is a code outside.
    bool holds(int64_t code) const {
        return static_cast<uint64_t>(code) - static_cast<uint64_t>(low) <=
               static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
    }
    bool meets(int64_t first, int64_t last) const { return first <= high && last >= low; }
    bool covers(int64_t first, int64_t last) const { return low <= first && last <= high; }
};

// An invariant that does not hold; AssertionError in Python.
struct Broken : std::logic_error {
    using std::logic_error::logic_error;
};

inline void require(bool holds, const char* invariant) {
    if (!holds) throw Broken(invariant);
}

}  // namespace kernels
