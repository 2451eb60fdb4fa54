// Conjunctions that are stored at one place, with bit vectors of the members that admit a cell of codes: the partition of
// cn/match/partition.py with the SV trees of cn/match/sv_tree.py.
//
// Members are positions without gaps. A vector is a superset at the two cells in which a member's ends lie, so candidates
// are verified against their rows. As many changes as there are members renew the cuts, a chunk of one tree at a time, so
// no change waits for a rebuild.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "spans.h"

namespace kernels {

// The rows of all conjunctions, by slot: (low, ~high) for each column, and a bit for each column that refuses NULL.
struct FilterRows {
    const int64_t* bounds;
    const uint64_t* refuses;
    size_t slots;
    int columns;

    const int64_t* row(int32_t slot) const { return bounds + static_cast<size_t>(slot) * 2 * columns; }
};

// What a member is in one column.
struct Member {
    int64_t low, above;
    bool refuses;

    bool is_free() const { return !refuses && low == LOWEST && above == LOWEST; }
};

// An attribute vector by column: codes (none for NULL), what bounds must not exceed, NULLs as bits.
struct FilterQuestion {
    std::vector<std::optional<int64_t>> codes;
    std::vector<int64_t> limits;
    uint64_t nulls;

    bool is_held(const FilterRows& rows, int32_t slot) const {
        if (rows.refuses[slot] & nulls) return false;
        const int64_t* row = rows.row(slot);
        for (size_t at = 0; at < limits.size(); ++at)
            if (row[at] > limits[at]) return false;
        return true;
    }
};

class BitTree {
   public:
    static constexpr size_t WORDS = 64, CHUNK = 64 * WORDS;

    explicit BitTree(std::vector<int64_t> cuts) : cuts_(std::move(cuts)), counts_(cuts_.size() + 2) {}

    size_t cells() const { return cuts_.size() + 2; }
    size_t cell(const std::optional<int64_t>& code) const {
        return code ? cell_of(*code) : cuts_.size() + 1;
    }
    int64_t count(size_t cell) const { return counts_[cell]; }
    const uint64_t* vector(size_t chunk, size_t cell) const { return &words_[(chunk * cells() + cell) * WORDS]; }

    void put(size_t position, const Member& member);
    void clear(size_t position);
    size_t nbytes() const { return 8 * (words_.size() + counts_.size() + cuts_.size()); }
    void check(const std::vector<Member>& members) const;

   private:
    std::vector<int64_t> cuts_;
    std::vector<int64_t> counts_;
    std::vector<uint64_t> words_;  // chunk by chunk, cell by cell

    size_t cell_of(int64_t code) const {
        return static_cast<size_t>(std::upper_bound(cuts_.begin(), cuts_.end(), code) - cuts_.begin());
    }
};

// Cuts for members with these ends: every end if they are few, otherwise as many ends between any two.
std::vector<int64_t> quantiles(const std::vector<Member>& members);

class FilterPartition {
   public:
    struct Limits {
        size_t many, renew, sample;  // see cn/match/partition.py
    };

    explicit FilterPartition(Limits limits) : limits_(limits) {}

    size_t size() const { return members_.size(); }
    const std::vector<int32_t>& members() const { return members_; }
    bool is_renewing() const { return is_renewing_; }

    size_t append(int32_t slot);
    void settle(const FilterRows& rows, size_t start);
    size_t add(int32_t slot, const FilterRows& rows);
    void change(size_t position, int column, const FilterRows& rows);
    std::optional<int32_t> remove(size_t position, const FilterRows& rows);

    // Adds the slots that hold one of some vectors, each once, and counts those that were verified. A row before and after
    // an event is mostly held by the same filters: these are verified once.
    void match(const std::vector<const FilterQuestion*>& questions, const FilterRows& rows, std::vector<int32_t>& found,
               int64_t& verified) const;
    size_t nbytes() const;
    void check(const FilterRows& rows) const;

   private:
    Limits limits_;
    std::vector<int32_t> members_;
    bool has_trees_ = false, is_renewing_ = false;
    std::map<int, BitTree> trees_;  // of the columns that some member constrains
    size_t changes_ = 0;
    // A tree with new cuts, filled a chunk at each change until it takes the place of the old one.
    std::vector<int> pending_;
    int renewed_column_ = -1;
    size_t filled_ = 0;  // positions below are in the new tree; always fewer than there are members
    std::optional<BitTree> renewed_;

    // The cells in which a vector lies, of the trees that leave members out, the most selective first.
    struct Cell {
        int64_t count;
        const BitTree* tree;
        size_t cell;
    };
    // False if no member holds the vector.
    bool cells_of(const FilterQuestion& question, std::vector<Cell>& cells) const;

    Member member(const FilterRows& rows, size_t position, int column) const {
        const int64_t* row = rows.row(members_[position]);
        bool refuses = column < 64 && (rows.refuses[members_[position]] >> column & 1);
        return {row[2 * column], row[2 * column + 1], refuses};
    }
    std::vector<Member> column_of(const FilterRows& rows, int column, size_t count, size_t step = 1) const;
    void plant(const FilterRows& rows, int column);
    void renew(const FilterRows& rows);
    void stop_renewal();
    BitTree* renewed_at(size_t position, int column) {
        return renewed_ && renewed_column_ == column && position < filled_ ? &*renewed_ : nullptr;
    }
};

}  // namespace kernels
