#include "filter_partition.h"

namespace kernels {

namespace {
constexpr size_t CUTS = 31;  // cuts between cells at most, so 32 cells and one for NULL
}

// -- bit vectors -------------------------------------------------------------------------------------------
void BitTree::put(size_t position, const Member& member) {
    size_t chunk = position / CHUNK, word = position / 64 % WORDS;
    uint64_t bit = uint64_t{1} << position % 64;
    if (words_.size() < (chunk + 1) * cells() * WORDS) words_.resize((chunk + 1) * cells() * WORDS);
    size_t first = cell_of(member.low), stop = cell_of(~member.above) + 1;
    if (member.low == HIGHEST && member.above == HIGHEST) stop = first;  // no code at all
    auto set = [&](size_t cell) {
        words_[(chunk * cells() + cell) * WORDS + word] |= bit;
        ++counts_[cell];
    };
    for (size_t cell = first; cell < stop; ++cell) set(cell);
    if (!member.refuses) set(cuts_.size() + 1);
}

void BitTree::clear(size_t position) {
    size_t chunk = position / CHUNK, word = position / 64 % WORDS;
    uint64_t bit = uint64_t{1} << position % 64;
    if (words_.size() < (chunk + 1) * cells() * WORDS) return;
    for (size_t cell = 0; cell < cells(); ++cell) {
        uint64_t& here = words_[(chunk * cells() + cell) * WORDS + word];
        counts_[cell] -= (here & bit) != 0;
        here &= ~bit;
    }
}

void BitTree::check(const std::vector<Member>& members) const {
    require(std::is_sorted(cuts_.begin(), cuts_.end()), "cuts ascend");
    require(std::adjacent_find(cuts_.begin(), cuts_.end()) == cuts_.end(), "cuts ascend strictly");
    BitTree fresh(cuts_);
    for (size_t position = 0; position < members.size(); ++position) fresh.put(position, members[position]);
    require(fresh.counts_ == counts_, "counts are those of the members");
    size_t used = std::min(fresh.words_.size(), words_.size());
    require(std::equal(words_.begin(), words_.begin() + static_cast<std::ptrdiff_t>(used), fresh.words_.begin()),
            "bits are those of the members");
    auto is_zero = [](uint64_t word) { return !word; };
    require(std::all_of(words_.begin() + static_cast<std::ptrdiff_t>(used), words_.end(), is_zero),
            "there are no bits behind the members");
}

std::vector<int64_t> quantiles(const std::vector<Member>& members) {
    std::vector<int64_t> ends;
    for (const Member& member : members) {
        if (member.low != LOWEST && member.low != HIGHEST) ends.push_back(member.low);
        if (member.above != LOWEST && member.above != HIGHEST) ends.push_back(-member.above);  // one beyond the greatest
    }
    std::sort(ends.begin(), ends.end());
    std::vector<int64_t> cuts = ends;
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    if (cuts.size() <= CUTS) return cuts;
    cuts.clear();
    for (size_t at = 1; at <= CUTS; ++at) cuts.push_back(ends[(ends.size() - 1) * at / (CUTS + 1)]);
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    return cuts;
}

// -- members -----------------------------------------------------------------------------------------------
std::vector<Member> FilterPartition::column_of(const FilterRows& rows, int column, size_t count, size_t step) const {
    std::vector<Member> found;
    for (size_t position = 0; position < count; position += step) found.push_back(member(rows, position, column));
    return found;
}

size_t FilterPartition::append(int32_t slot) {
    members_.push_back(slot);
    return members_.size() - 1;
}

// Sets the vectors of all positions from `start` on.
void FilterPartition::settle(const FilterRows& rows, size_t start) {
    if (!has_trees_ && members_.size() < limits_.many) return;
    changes_ += members_.size() - start;
    stop_renewal();
    if (!has_trees_ || changes_ >= members_.size()) {
        trees_.clear();
        has_trees_ = true;
        changes_ = 0;
    }
    for (int column = 0; column < rows.columns; ++column) {
        auto tree = trees_.find(column);
        if (tree == trees_.end())
            plant(rows, column);
        else
            for (size_t position = start; position < members_.size(); ++position)
                tree->second.put(position, member(rows, position, column));
    }
}

// A tree for a column, unless no member constrains it.
void FilterPartition::plant(const FilterRows& rows, int column) {
    std::vector<Member> all = column_of(rows, column, members_.size());
    if (std::all_of(all.begin(), all.end(), [](const Member& one) { return one.is_free(); })) return;
    size_t step = std::max<size_t>(1, members_.size() / limits_.sample);
    BitTree& tree = trees_.emplace(column, BitTree(quantiles(column_of(rows, column, all.size(), step)))).first->second;
    for (size_t position = 0; position < all.size(); ++position) tree.put(position, all[position]);
}

size_t FilterPartition::add(int32_t slot, const FilterRows& rows) {
    size_t position = append(slot);
    if (!has_trees_) {
        settle(rows, position);
        return position;
    }
    for (int column = 0; column < rows.columns; ++column) {
        Member here = member(rows, position, column);
        auto tree = trees_.find(column);
        if (tree != trees_.end())
            tree->second.put(position, here);
        else if (!here.is_free())
            plant(rows, column);
    }
    renew(rows);
    return position;
}

// Lets a member have other bounds in a column; its row is already written.
void FilterPartition::change(size_t position, int column, const FilterRows& rows) {
    if (!has_trees_) return;
    auto tree = trees_.find(column);
    if (tree == trees_.end()) {
        plant(rows, column);
        return;
    }
    Member here = member(rows, position, column);
    tree->second.clear(position);
    tree->second.put(position, here);
    if (BitTree* other = renewed_at(position, column)) {
        other->clear(position);
        other->put(position, here);
    }
    renew(rows);
}

// Takes out a position; the slot that is there now, if another has come in its place.
std::optional<int32_t> FilterPartition::remove(size_t position, const FilterRows& rows) {
    size_t last = members_.size() - 1;
    int32_t moved = members_[last];
    members_.pop_back();
    bool is_moved = position != last;
    if (is_moved) members_[position] = moved;
    if (has_trees_) {
        for (auto& [column, tree] : trees_) {
            tree.clear(last);
            if (!is_moved) continue;
            tree.clear(position);
            tree.put(position, member(rows, position, column));
        }
        if (renewed_ && position < filled_) {
            renewed_->clear(position);
            if (is_moved) renewed_->put(position, member(rows, position, renewed_column_));
        }
        if (members_.size() < limits_.many / 4) {
            trees_.clear();
            has_trees_ = false;
            changes_ = 0;
            stop_renewal();
        } else {
            renew(rows);
        }
    }
    return is_moved ? std::optional<int32_t>(moved) : std::nullopt;
}

void FilterPartition::stop_renewal() {
    is_renewing_ = false;
    renewed_.reset();
    pending_.clear();
}

// One step towards new cuts, when they are due.
void FilterPartition::renew(const FilterRows& rows) {
    ++changes_;
    if (!is_renewing_) {
        if (changes_ < std::max(limits_.renew, members_.size())) return;
        for (const auto& [column, tree] : trees_) pending_.push_back(column);
        is_renewing_ = true;
        changes_ = 0;
        return;
    }
    if (!renewed_) {
        if (pending_.empty()) {
            is_renewing_ = false;
            return;
        }
        renewed_column_ = pending_.back();
        pending_.pop_back();
        filled_ = 0;
        size_t step = std::max<size_t>(1, members_.size() / limits_.sample);
        renewed_.emplace(quantiles(column_of(rows, renewed_column_, members_.size(), step)));
    }
    size_t stop = std::min(members_.size(), filled_ + BitTree::CHUNK);
    for (size_t position = filled_; position < stop; ++position)
        renewed_->put(position, member(rows, position, renewed_column_));
    filled_ = stop;
    if (filled_ >= members_.size()) {
        trees_.insert_or_assign(renewed_column_, std::move(*renewed_));
        renewed_.reset();
    }
}

// -- matching ----------------------------------------------------------------------------------------------
bool FilterPartition::cells_of(const FilterQuestion& question, std::vector<Cell>& cells) const {
    auto size = static_cast<int64_t>(members_.size());
    for (const auto& [column, tree] : trees_) {
        size_t cell = tree.cell(question.codes[static_cast<size_t>(column)]);
        int64_t count = tree.count(cell);
        if (!count) return false;
        if (count < size) cells.push_back({count, &tree, cell});
    }
    std::sort(cells.begin(), cells.end(), [](const Cell& a, const Cell& b) { return a.count < b.count; });
    return true;
}

void FilterPartition::match(const std::vector<const FilterQuestion*>& questions, const FilterRows& rows,
                            std::vector<int32_t>& found, int64_t& verified) const {
    std::vector<const FilterQuestion*> asked;
    std::vector<std::vector<Cell>> all;
    bool is_whole = false;  // whether every member is a candidate
    for (const FilterQuestion* question : questions) {
        std::vector<Cell> cells;
        if (!cells_of(*question, cells)) continue;
        asked.push_back(question);
        is_whole = is_whole || cells.empty();
        all.push_back(std::move(cells));
    }
    auto verify = [&](int32_t slot) {
        ++verified;
        for (const FilterQuestion* question : asked)
            if (question->is_held(rows, slot)) {
                found.push_back(slot);
                return;
            }
    };
    if (asked.empty()) return;
    if (is_whole) {
        for (int32_t slot : members_) verify(slot);
        return;
    }
    size_t chunks = (members_.size() + BitTree::CHUNK - 1) / BitTree::CHUNK;
    for (const auto& cells : all)  // where each chunk of each vector begins is asked of memory at once
        for (const Cell& one : cells)
            for (size_t chunk = 0; chunk < chunks; ++chunk) __builtin_prefetch(one.tree->vector(chunk, one.cell));
    std::vector<int32_t> candidates;
    for (size_t chunk = 0; chunk < chunks; ++chunk) {
        uint64_t either[BitTree::WORDS] = {};
        for (const auto& cells : all) {
            uint64_t common[BitTree::WORDS];
            const uint64_t* first = cells[0].tree->vector(chunk, cells[0].cell);
            std::copy(first, first + BitTree::WORDS, common);
            for (size_t at = 1; at < cells.size(); ++at) {
                const uint64_t* more = cells[at].tree->vector(chunk, cells[at].cell);
                for (size_t word = 0; word < BitTree::WORDS; ++word) common[word] &= more[word];
            }
            for (size_t word = 0; word < BitTree::WORDS; ++word) either[word] |= common[word];
        }
        for (size_t word = 0; word < BitTree::WORDS; ++word)
            for (uint64_t bits = either[word]; bits; bits &= bits - 1) {
                auto bit = static_cast<size_t>(__builtin_ctzll(bits));
                candidates.push_back(members_[chunk * BitTree::CHUNK + word * 64 + bit]);
                __builtin_prefetch(rows.row(candidates.back()));
            }
    }
    for (int32_t slot : candidates) verify(slot);
}

size_t FilterPartition::nbytes() const {
    size_t sum = sizeof(*this) + 4 * members_.capacity();
    for (const auto& [column, tree] : trees_) sum += tree.nbytes();
    return sum + (renewed_ ? renewed_->nbytes() : 0);
}

void FilterPartition::check(const FilterRows& rows) const {
    require(!members_.empty(), "a partition has members");
    std::vector<int32_t> sorted = members_;
    std::sort(sorted.begin(), sorted.end());
    require(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end(), "a slot is a member once");
    if (!has_trees_) {
        require(trees_.empty() && !is_renewing_, "a small partition has no trees");
        return;
    }
    for (int column = 0; column < rows.columns; ++column) {
        std::vector<Member> all = column_of(rows, column, members_.size());
        auto tree = trees_.find(column);
        if (tree != trees_.end())
            tree->second.check(all);
        else
            for (const Member& one : all) require(one.is_free(), "a column without a tree is not constrained");
    }
    if (renewed_) {
        require(filled_ < members_.size(), "a renewal is not finished");
        renewed_->check(column_of(rows, renewed_column_, filled_));
    }
}

}  // namespace kernels
