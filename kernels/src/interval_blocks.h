// Intervals (low, high, ref) in their order, with the least upper end of every block of them.
//
// No block is empty, none holds more than `block_size`; a block's first interval is not before the last one of the block
// before. A change costs O(log N + block), the interval that ends first O(N / block + block) of plain scans. 24 bytes per
// interval.
#pragma once

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "spans.h"

namespace kernels {

class IntervalBlocks {
   public:
    struct Held {
        int64_t low, high, ref;

        bool operator<(const Held& other) const {
            return std::tie(low, high, ref) < std::tie(other.low, other.high, other.ref);
        }
        bool operator==(const Held& other) const {
            return low == other.low && high == other.high && ref == other.ref;
        }
    };
    using Ends = std::pair<int64_t, int64_t>;
    static constexpr size_t NEAR = 4;  // blocks that are looked through for intervals between two codes

    explicit IntervalBlocks(size_t block_size) : block_size_(std::max<size_t>(2, block_size)) {}

    size_t size() const { return count_; }
    size_t bytes() const { return 24 * count_ + (sizeof(Block) + 24) * blocks_.size(); }
    void add(const Held& held);
    void add_many(std::vector<Held> some);
    bool remove(const Held& held);  // false: it is not there

    // Of the intervals with `after < low < before` one with the least upper end; false if there are none.
    bool first_end(std::optional<int64_t> after, std::optional<int64_t> before, Ends& found) const;
    // The intervals strictly between two codes; false if they are more than `limit`, or perhaps far apart.
    bool inside(int64_t after, int64_t before, size_t limit, std::vector<Held>& found) const;

    // Visits the intervals strictly between two codes until one is enough: whether one was.
    template <class IsEnough>
    bool any_inside(int64_t after, int64_t before, IsEnough is_enough) const {
        for (size_t at = block_behind(after); at < blocks_.size() && first_lows_[at] < before; ++at) {
            if (minima_[at] >= before) continue;
            const Block& block = blocks_[at];
            for (auto held = behind(block, after), end = not_before(block, before); held < end; ++held)
                if (held->high < before && is_enough(*held)) return true;
        }
        return false;
    }

    template <class Visit>
    void each(Visit visit) const {
        for (const Block& block : blocks_)
            for (const Held& held : block) visit(held);
    }
    void check() const;

   private:
    using Block = std::vector<Held>;

    size_t block_size_;
    size_t count_ = 0;
    std::vector<Block> blocks_;
    std::vector<int64_t> minima_, first_lows_;  // of each block: the least upper end, the first lower end

    static int64_t least_high(const Block& block);
    static Block::const_iterator behind(const Block& block, int64_t code);     // the first with low > code
    static Block::const_iterator not_before(const Block& block, int64_t code);  // the first with low >= code
    size_t block_for(const Held& held) const;
    size_t block_behind(int64_t after) const;
    size_t block_not_before(int64_t before, size_t from) const;
    void put(size_t at, size_t count, std::vector<Held> some);
};

}  // namespace kernels
