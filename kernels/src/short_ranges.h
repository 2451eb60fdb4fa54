// The shortest of some ranges (lo, hi), in the order of lo: whether a small box holds one.
//
// An event of a range minimum asks for boxes around its x whose longest range is short, and few subscriptions are: on the
// workload of [ProSem thesis] table 3.1, 95 % of the boxes have room only for ranges that belong to the shortest 6 % of a
// million. These fit the processor's cache, where the tree of all points does not. A search is two binary searches and a
// look at the ranges that begin in the box.
//
// It gives up, and the tree is asked, where a box has room for longer ranges, or many begin in it. It loses where boxes are
// wide: then it has looked for nothing.
#pragma once

#include <algorithm>
#include <vector>

#include "spans.h"

namespace kernels {

enum class Held { NO, YES, UNKNOWN };

class ShortRanges {
   public:
    static constexpr int64_t LEAST = 1024;  // points of a tree that is worth it
    static constexpr size_t SAMPLE = 1024;  // points by which the limit is chosen
    struct Range {
        int64_t low, high;

        bool operator<(const Range& other) const {
            return low != other.low ? low < other.low : high < other.high;
        }
        bool operator==(const Range& other) const { return low == other.low && high == other.high; }
    };

    // For so many points, of which these are some in any order. A sixteenth of them shall be held.
    ShortRanges(int64_t population, std::vector<Range>& sample) : population_(population) {
        std::vector<uint64_t> lengths;
        for (const Range& one : sample)
            if (one.low <= one.high) lengths.push_back(length(one.low, one.high));
        if (lengths.empty()) return;
        auto place = lengths.begin() + static_cast<std::ptrdiff_t>(lengths.size() / 16);
        std::nth_element(lengths.begin(), place, lengths.end());
        limit_ = *place;
    }
    // All ranges that it takes, in any order.
    void build(std::vector<Range>& ranges) {
        std::sort(ranges.begin(), ranges.end());
        count_ = ranges.size();
        blocks_.clear();
        firsts_.clear();
        for (size_t at = 0; at < count_; at += FULL / 2) {
            blocks_.emplace_back(ranges.begin() + at, ranges.begin() + std::min(count_, at + FULL / 2));
            firsts_.push_back(blocks_.back().front().low);
        }
    }

    bool takes(int64_t low, int64_t high) const { return low <= high && length(low, high) < limit_; }
    // Whether all ranges from `low` on, up to ends from `high` on, are too long.
    bool is_beyond(int64_t low, int64_t high) const { return low <= high && length(low, high) >= limit_; }
    // Whether the points have become so many, few or short that another limit is due: not before a share of them changed.
    bool is_outgrown(int64_t population) const {
        return population > 2 * population_ || 2 * population < population_ ||
               static_cast<int64_t>(count_) > std::max(LEAST, population_) / 4;
    }

    void insert(int64_t low, int64_t high) {
        if (!takes(low, high)) return;
        Range range{low, high};
        ++count_;
        if (blocks_.empty()) {
            blocks_.push_back({range});
            firsts_.push_back(low);
            return;
        }
        size_t at = block_of(range);
        auto& block = blocks_[at];
        block.insert(std::upper_bound(block.begin(), block.end(), range), range);
        firsts_[at] = block.front().low;
        if (block.size() < FULL) return;
        std::vector<Range> upper(block.begin() + FULL / 2, block.end());
        block.resize(FULL / 2);
        firsts_.insert(firsts_.begin() + static_cast<std::ptrdiff_t>(at) + 1, upper.front().low);
        blocks_.insert(blocks_.begin() + static_cast<std::ptrdiff_t>(at) + 1, std::move(upper));
    }
    // One that is there, if it takes it.
    void remove(int64_t low, int64_t high) {
        if (!takes(low, high)) return;
        Range range{low, high};
        size_t at = block_of(range);
        auto& block = blocks_[at];
        auto place = std::lower_bound(block.begin(), block.end(), range);
        require(place != block.end() && *place == range, "every short range is held");
        --count_;
        block.erase(place);
        if (!block.empty()) {
            firsts_[at] = block.front().low;
        } else {
            blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(at));
            firsts_.erase(firsts_.begin() + static_cast<std::ptrdiff_t>(at));
        }
    }

    Held any(const Span* spans) const {
        const Span &lows = spans[0], &highs = spans[1];
        if (lows.high > highs.low || length(lows.low, highs.high) >= limit_) return Held::UNKNOWN;
        size_t at = lower(firsts_.data(), firsts_.size(), lows.low, [](int64_t first) { return first; });
        at -= at > 0;  // a block may begin before the box
        int left = MOST_SEEN;
        for (bool is_first = true; at < blocks_.size(); ++at, is_first = false) {
            const auto& block = blocks_[at];
            const Range *one = block.data(), *end = one + block.size();
            if (is_first) one += lower(one, block.size(), lows.low, [](const Range& range) { return range.low; });
            for (; one != end; ++one) {
                if (one->low > lows.high) return Held::NO;
                if (highs.holds(one->high)) return Held::YES;
                if (!--left) return Held::UNKNOWN;
            }
        }
        return Held::NO;
    }

    size_t nbytes() const {
        size_t sum = sizeof(*this) + firsts_.capacity() * sizeof(int64_t) + blocks_.capacity() * sizeof(blocks_[0]);
        for (const auto& block : blocks_) sum += block.capacity() * sizeof(Range);
        return sum;
    }
    // `ranges`: all that it takes, in any order.
    void check(std::vector<Range>& ranges) const {
        std::sort(ranges.begin(), ranges.end());
        std::vector<Range> all;
        require(blocks_.size() == firsts_.size(), "a block has its first range");
        for (size_t at = 0; at < blocks_.size(); ++at) {
            require(!blocks_[at].empty() && blocks_[at].size() < FULL, "no block is empty or overfull");
            require(blocks_[at].front().low == firsts_[at], "a block has its first range");
            all.insert(all.end(), blocks_[at].begin(), blocks_[at].end());
        }
        require(all == ranges && all.size() == count_, "the short ranges are held in order");
    }

   private:
    static constexpr size_t FULL = 256;
    static constexpr int MOST_SEEN = 256;

    int64_t population_;
    uint64_t limit_ = 0;  // all shorter ranges are held
    size_t count_ = 0;
    std::vector<int64_t> firsts_;  // where the blocks begin
    std::vector<std::vector<Range>> blocks_;

    // Of a range with low <= high.
    static uint64_t length(int64_t low, int64_t high) {
        return static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
    }
    // How many are below a code, without a branch that the processor would have to guess.
    template <class One, class Code>
    static size_t lower(const One* all, size_t count, int64_t code, Code code_of) {
        const One* first = all;
        while (count > 1) {
            size_t half = count / 2;
            first += code_of(first[half - 1]) < code ? half : 0;
            count -= half;
        }
        return static_cast<size_t>(first - all) + (count && code_of(*first) < code);
    }
    // Where a range is, or belongs: the last block that begins at or before it.
    size_t block_of(const Range& range) const {
        auto place = std::upper_bound(blocks_.begin(), blocks_.end(), range,
                                      [](const Range& one, const auto& block) { return one < block.front(); });
        return static_cast<size_t>(place - blocks_.begin()) - (place != blocks_.begin());
    }
};

}  // namespace kernels
