// Range MIN with several range attributes: the regions of an event, by the rule of prosem/types/extreme/boxes.py.
//
// The ranges around a point are parted by the tuples of its skyline. A direction is lo1, hi1, lo2, … (0, 1, 2, …); a step is
// the rank of a code in it, outward from the point. A cell holds the ranges that take at least so many steps in every
// direction, and fewer than so many others. Cells are the ranges of the rule in Python; their order may differ.
#pragma once

#include <algorithm>
#include <map>
#include <vector>

#include "box_tree.h"

namespace kernels {

constexpr int MAX_WAYS = 2 * MAX_AXES;

struct FieldCell {
    std::array<int32_t, MAX_WAYS> inner{}, outer{};
};

// The steps, one in a direction, that a range must take to hold a tuple.
struct FieldReach {
    int count = 0;
    std::array<std::pair<int, int32_t>, MAX_AXES> steps;

    void add(int way, int32_t rank) { steps[static_cast<size_t>(count++)] = {way, rank}; }
    const std::pair<int, int32_t>* begin() const { return steps.data(); }
    const std::pair<int, int32_t>* end() const { return steps.data() + count; }
};

template <class Ref>
class BoxField {
   public:
    using Tree = BoxTree<Ref>;
    using Tuple = typename Tree::Tuple;
    using Cell = FieldCell;
    using Reach = FieldReach;
    using Cells = std::vector<Cell>;
    struct Part {
        const Tuple* tuple;  // null: no tuple is left
        Cells cells;
    };
    // One end of a box; it is missing where nothing ends it.
    struct End {
        int64_t code;
        bool is_there;
    };

    // `aside`: ranges that also hold this point are no matter of this field, whatever else it leaves open.
    BoxField(Tree& tree, const Codes& x, int64_t y, int64_t limit, int64_t most_exposed, const Codes* aside)
        : axes_(tree.axes()), ways_(2 * axes_), seen_(tree.skyline(x, y, ways_ * limit, most_exposed)) {
        std::stable_sort(seen_.high.begin(), seen_.high.end(),
                         [](const Tuple& one, const Tuple& other) { return one.y < other.y; });
        std::vector<const Codes*> points;
        for (const Tuple& one : seen_.low) points.push_back(&one.x);
        for (const Tuple& one : seen_.high) points.push_back(&one.x);
        if (aside) points.push_back(aside);
        codes_.resize(static_cast<size_t>(ways_));
        for (int way = 0; way < ways_; ++way) {
            auto& codes = codes_[static_cast<size_t>(way)];
            int64_t centre = x[way / 2];
            for (const Codes* point : points) {
                int64_t code = (*point)[way / 2];
                if (way & 1 ? code > centre : code < centre) codes.push_back(way & 1 ? code : ~code);
            }
            std::sort(codes.begin(), codes.end());
            codes.erase(std::unique(codes.begin(), codes.end()), codes.end());
            codes.insert(codes.begin(), way & 1 ? centre : ~centre);
        }
        std::vector<Reach> reaches;
        for (const Codes* point : points) reaches.push_back(reach_of(*point, x));
        if (aside) {
            has_aside_ = true;
            aside_ = reaches.back();
            reaches.pop_back();
        }
        auto cut = reaches.begin() + static_cast<std::ptrdiff_t>(seen_.low.size());
        low_.assign(reaches.begin(), cut);
        high_.assign(cut, reaches.end());
    }

    int ways() const { return ways_; }
    End near(const Cell& cell, int way) const { return end(way, cell.inner[static_cast<size_t>(way)]); }
    End far(const Cell& cell, int way) const { return end(way, cell.outer[static_cast<size_t>(way)]); }

    // The ranges that reach none of the low tuples, in cells; and what was not looked at for the limit. Halves a cell in
    // the direction in which most of its tuples are, at the median of them.
    void clean(int64_t limit, Cells& cells, Cells& rest) const {
        struct Todo {
            Cell cell;
            std::vector<Reach> low;
        };
        std::vector<Todo> todo(1);
        for (int way = 0; way < ways_; ++way)
            todo[0].cell.outer[static_cast<size_t>(way)] = static_cast<int32_t>(codes_[static_cast<size_t>(way)].size());
        todo[0].low = low_;
        std::vector<std::vector<int32_t>> steps(static_cast<size_t>(ways_));
        while (!todo.empty() && static_cast<int64_t>(cells.size() + todo.size()) <= limit) {
            Todo one = std::move(todo.back());
            todo.pop_back();
            if (!shrink(one.cell, one.low)) continue;
            if (one.low.empty()) {
                cells.push_back(one.cell);
                continue;
            }
            for (auto& some : steps) some.clear();
            for (const Reach& reach : one.low)
                for (auto [way, rank] : reach) steps[static_cast<size_t>(way)].push_back(rank);
            size_t most = 0;
            for (size_t way = 1; way < steps.size(); ++way)
                if (steps[way].size() > steps[most].size()) most = way;
            auto middle = steps[most].begin() + static_cast<std::ptrdiff_t>(steps[most].size() / 2);
            std::nth_element(steps[most].begin(), middle, steps[most].end());
            Todo beyond = one;
            beyond.cell.inner[most] = *middle;
            one.cell.outer[most] = *middle;
            todo.push_back(std::move(beyond));
            todo.push_back(std::move(one));
        }
        for (const Todo& one : todo) rest.push_back(one.cell);
        if (!seen_.is_complete) {
            rest.insert(rest.begin(), cells.begin(), cells.end());
            cells.clear();
        }
        if (has_aside_) {
            Cells parts;
            for (const Cell& cell : rest) without_aside(cell, parts);
            rest.swap(parts);
        }
        merge(cells);
        merge(rest);
    }

    // Clean cells by the lowest tuple that their ranges hold; false if that takes more than `limit`.
    bool part(const Cells& region, int64_t limit, std::vector<Part>& parts) const {
        if (!seen_.has_high) return false;
        std::map<int, Cells> found;
        std::vector<std::pair<Cell, size_t>> todo;
        for (const Cell& cell : region) todo.push_back({cell, 0});
        int64_t room = 4 * limit;  // what is cut through here is mostly mended by merging
        while (!todo.empty()) {
            if (room < static_cast<int64_t>(todo.size())) return false;
            --room;
            auto [cell, first] = todo.back();
            todo.pop_back();
            int at = -1;
            for (size_t number = first; number < high_.size(); ++number) {
                if (!is_reached(cell, high_[number])) continue;
                Cells beside;
                cut(cell, high_[number], beside);
                for (const Cell& other : beside) todo.push_back({other, number + 1});
                at = static_cast<int>(number);
                break;
            }
            found[at].push_back(cell);
        }
        int64_t count = 0;
        for (auto& [at, cells] : found) {
            merge(cells);
            count += static_cast<int64_t>(cells.size());
            parts.push_back({at < 0 ? nullptr : &seen_.high[static_cast<size_t>(at)], std::move(cells)});
        }
        return count <= limit;
    }

   private:
    int axes_, ways_;
    typename Tree::Skyline seen_;
    std::vector<std::vector<int64_t>> codes_;  // of each direction, outward; those of lower ends complemented
    std::vector<Reach> low_, high_;
    bool has_aside_ = false;
    Reach aside_;

    End end(int way, int32_t rank) const {
        const auto& codes = codes_[static_cast<size_t>(way)];
        if (static_cast<size_t>(rank) >= codes.size()) return {0, false};
        int64_t code = codes[static_cast<size_t>(rank)];
        return {way & 1 ? code : ~code, true};
    }

    Reach reach_of(const Codes& point, const Codes& x) const {
        Reach reach;
        for (int axis = 0; axis < axes_; ++axis) {
            if (point[axis] == x[axis]) continue;
            int way = 2 * axis + (x[axis] < point[axis]);
            const auto& codes = codes_[static_cast<size_t>(way)];
            int64_t code = way & 1 ? point[axis] : ~point[axis];
            reach.add(way, static_cast<int32_t>(std::lower_bound(codes.begin(), codes.end(), code) - codes.begin()));
        }
        return reach;
    }

    // A cell without what is known at once: a tuple that is one direction away ends it there. `low` becomes the reaches
    // that still matter; false if all of its ranges hold a tuple.
    static bool shrink(Cell& cell, std::vector<Reach>& low) {
        for (bool is_ended = true; is_ended;) {
            is_ended = false;
            size_t kept = 0;
            for (const Reach& reach : low) {
                Reach left;
                bool is_beyond = false;
                for (auto [way, rank] : reach) {
                    if (rank >= cell.outer[static_cast<size_t>(way)]) {
                        is_beyond = true;
                        break;
                    }
                    if (rank > cell.inner[static_cast<size_t>(way)]) left.add(way, rank);
                }
                if (is_beyond) continue;
                if (!left.count) return false;
                if (left.count == 1) {
                    cell.outer[static_cast<size_t>(left.steps[0].first)] = left.steps[0].second;
                    is_ended = true;
                } else {
                    low[kept++] = left;
                }
            }
            low.resize(kept);
        }
        return true;
    }

    static bool is_reached(const Cell& cell, const Reach& reach) {
        for (auto [way, rank] : reach)
            if (rank >= cell.outer[static_cast<size_t>(way)]) return false;
        return true;
    }
    // Parts a cell: those whose ranges do not reach a tuple; the cell becomes the one whose ranges do.
    static void cut(Cell& cell, const Reach& reach, Cells& beside) {
        for (auto [way, rank] : reach) {
            auto at = static_cast<size_t>(way);
            if (rank <= cell.inner[at]) continue;
            beside.push_back(cell);
            beside.back().outer[at] = rank;
            cell.inner[at] = rank;
        }
    }
    void without_aside(Cell cell, Cells& parts) const {
        if (is_reached(cell, aside_))
            cut(cell, aside_, parts);
        else
            parts.push_back(cell);
    }

    // The same ranges in fewer cells: those that differ in one direction only and meet there are one.
    void merge(Cells& cells) const {
        int way = 0, idle = 0;
        while (idle < ways_ && cells.size() > 1) {
            auto at = static_cast<size_t>(way);
            auto compare = [&](const Cell& one, const Cell& other) {
                for (size_t each = 0; each < static_cast<size_t>(ways_); ++each) {
                    if (each == at) continue;
                    if (one.inner[each] != other.inner[each]) return one.inner[each] < other.inner[each] ? -1 : 1;
                    if (one.outer[each] != other.outer[each]) return one.outer[each] < other.outer[each] ? -1 : 1;
                }
                return 0;
            };
            std::sort(cells.begin(), cells.end(), [&](const Cell& one, const Cell& other) {
                int order = compare(one, other);
                return order ? order < 0 : one.inner[at] < other.inner[at];
            });
            size_t kept = 0;
            for (size_t next = 1; next < cells.size(); ++next) {
                if (!compare(cells[kept], cells[next]) && cells[kept].outer[at] == cells[next].inner[at])
                    cells[kept].outer[at] = cells[next].outer[at];
                else
                    cells[++kept] = cells[next];
            }
            idle = kept + 1 == cells.size() ? idle + 1 : 1;
            cells.resize(kept + 1);
            way = (way + 1) % ways_;
        }
    }
};

}  // namespace kernels
