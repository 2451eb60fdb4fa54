// A B+-tree of sums by x: prosem/index/ranges/sum_tree.py.
//
// Totals have 128 bits: 2^63 contributions of 64 bits each cannot overflow them. A change and a question take O(log N).
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "spans.h"

namespace kernels {

__extension__ typedef __int128 Total;

struct Sums {
    int64_t rows = 0, values = 0;
    Total total = 0;

    Sums& operator+=(const Sums& more) {
        rows += more.rows;
        values += more.values;
        total += more.total;
        return *this;
    }
    Sums operator-(const Sums& less) const { return {rows - less.rows, values - less.values, total - less.total}; }
    bool operator==(const Sums& other) const {
        return rows == other.rows && values == other.values && total == other.total;
    }
};

class SumTree {
   public:
    static constexpr int FAN_OUT = 64;
    struct Entry {
        int64_t x;
        Sums sums;
    };

    explicit SumTree(int fan_out = FAN_OUT)
        : fan_out_(static_cast<size_t>(fan_out)), least_(std::max<size_t>(2, fan_out_ / 4)), root_(new Node) {}

    int fan_out() const { return static_cast<int>(fan_out_); }
    int64_t size() const { return count_; }
    int64_t visits = 0;  // nodes looked at so far

    // Holds exactly these contributions; false, and nothing changes, if an x has values and no rows.
    bool build(std::vector<Entry> entries) {
        std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.x < b.x; });
        std::vector<Entry> level;
        for (size_t at = 0; at < entries.size();) {
            Entry one = entries[at++];
            while (at < entries.size() && entries[at].x == one.x) one.sums += entries[at++].sums;
            if (one.sums.rows)
                level.push_back(one);
            else if (!(one.sums == Sums{}))
                return false;
        }
        count_ = static_cast<int64_t>(level.size());
        std::vector<Owned> below;
        while (level.size() > fan_out_) {
            size_t parts = (4 * level.size() + 3 * fan_out_ - 1) / (3 * fan_out_);  // nodes three quarters full
            std::vector<Entry> above;
            std::vector<Owned> nodes;
            for (size_t part = 0; part < parts; ++part) {
                size_t first = level.size() * part / parts, end = level.size() * (part + 1) / parts;
                nodes.push_back(node_of(level, below, first, end));
                above.push_back({nodes.back()->entries[0].x, nodes.back()->sum(0, end - first)});
            }
            level.swap(above);
            below.swap(nodes);
        }
        root_ = node_of(level, below, 0, level.size());
        return true;
    }

    // What x would be left with after a change, and whether that may be: an x without rows has no values and no sum.
    struct Left {
        Sums sums;
        bool is_possible;
    };
    // Adds a contribution, negative to take one out. An x without rows is forgotten.
    Left change(int64_t x, const Sums& more) {
        path_.clear();
        Node* node = root_.get();
        while (!node->children.empty()) {
            size_t at = child(*node, x);
            path_.push_back({node, at});
            node = node->children[at].get();
        }
        visits += static_cast<int64_t>(path_.size()) + 1;
        size_t at = place(*node, x, false);
        bool is_found = at < node->entries.size() && node->entries[at].x == x;
        Sums left = is_found ? node->entries[at].sums : Sums{};
        left += more;
        if (left.rows <= 0 && !(left == Sums{})) return {left, false};
        if (!left.rows && !is_found) return {left, true};
        for (auto& [inner, place] : path_) inner->entries[place].sums += more;
        if (!left.rows) {
            node->entries.erase(node->entries.begin() + static_cast<ptrdiff_t>(at));
            --count_;
            if (node->entries.size() < least_) join(node);
        } else if (is_found) {
            node->entries[at].sums = left;
        } else {
            node->entries.insert(node->entries.begin() + static_cast<ptrdiff_t>(at), Entry{x, more});
            ++count_;
            if (node->entries.size() > fan_out_) split(node);
        }
        return {left, true};
    }

    // The sums over `low <= x <= high`.
    Sums total(int64_t low, int64_t high) {
        if (high < low) return {};
        return low == LOWEST ? before(high, true) : before(high, true) - before(low, false);
    }

    template <class Visit>
    void each(Visit&& visit) const {
        each(*root_, visit);
    }

    size_t nbytes() const { return sizeof(*this) + nbytes(*root_); }

    void check() const {
        int64_t count = 0;
        int depth = -1;
        check(*root_, LOWEST, HIGHEST, 0, depth, count);
        require(count == count_, "the count is kept");
    }

   private:
    struct Node;
    using Owned = std::unique_ptr<Node>;
    // In a leaf entries are the distinct x and there are no children. In an inner node each child has an entry, with
    // `entries[i].x <= x < entries[i + 1].x` below it; the first x bounds nothing.
    struct Node {
        std::vector<Entry> entries;
        std::vector<Owned> children;

        Sums sum(size_t first, size_t end) const {
            Sums found;
            for (size_t at = first; at < end; ++at) found += entries[at].sums;
            return found;
        }
    };
    struct Step {
        Node* node;
        size_t at;
    };

    size_t fan_out_, least_;
    Owned root_;
    int64_t count_ = 0;
    std::vector<Step> path_;

    static Owned node_of(std::vector<Entry>& level, std::vector<Owned>& below, size_t first, size_t end) {
        Owned node(new Node);
        auto from = static_cast<ptrdiff_t>(first), to = static_cast<ptrdiff_t>(end);
        node->entries.assign(level.begin() + from, level.begin() + to);
        if (!below.empty())
            node->children.assign(std::make_move_iterator(below.begin() + from), std::make_move_iterator(below.begin() + to));
        return node;
    }
    // The first entry of a node that is not below x, or past it.
    static size_t place(const Node& node, int64_t x, bool is_past, size_t first = 0) {
        auto from = node.entries.begin() + static_cast<ptrdiff_t>(first);
        auto found = std::partition_point(from, node.entries.end(),
                                          [&](const Entry& one) { return is_past ? one.x <= x : one.x < x; });
        return static_cast<size_t>(found - node.entries.begin());
    }
    static size_t child(const Node& node, int64_t x) { return place(node, x, true, 1) - 1; }

    // The sums of all x below one, and of itself if it is to be counted.
    Sums before(int64_t x, bool or_equal) {
        Sums found;
        const Node* node = root_.get();
        for (;; ++visits) {
            bool is_leaf = node->children.empty();
            size_t at = is_leaf ? place(*node, x, or_equal) : child(*node, x);
            found += node->sum(0, at);
            if (is_leaf) break;
            node = node->children[at].get();
        }
        ++visits;
        return found;
    }

    // Keeps the first half of a node; the other half becomes a new one.
    static Owned cut(Node& node) {
        Owned right(new Node);
        auto half = static_cast<ptrdiff_t>(node.entries.size() / 2);
        right->entries.assign(node.entries.begin() + half, node.entries.end());
        node.entries.erase(node.entries.begin() + half, node.entries.end());
        if (!node.children.empty()) {
            right->children.assign(std::make_move_iterator(node.children.begin() + half),
                                   std::make_move_iterator(node.children.end()));
            node.children.erase(node.children.begin() + half, node.children.end());
        }
        return right;
    }
    // Puts a node behind the one at a place of its parent, whose sums it had till now.
    static void put_behind(Node& parent, size_t at, Owned right) {
        Node& left = *parent.children[at];
        parent.entries[at].sums = left.sum(0, left.entries.size());
        Entry entry{right->entries[0].x, right->sum(0, right->entries.size())};
        auto behind = static_cast<ptrdiff_t>(at) + 1;
        parent.entries.insert(parent.entries.begin() + behind, entry);
        parent.children.insert(parent.children.begin() + behind, std::move(right));
    }
    // Halves the overfull nodes of the path, from a leaf up.
    void split(Node* node) {
        while (node->entries.size() > fan_out_) {
            Owned right = cut(*node);
            if (path_.empty()) {
                Owned root(new Node);
                root->entries.push_back({node->entries[0].x, {}});
                root->children.push_back(std::move(root_));
                root_ = std::move(root);
                put_behind(*root_, 0, std::move(right));
                return;
            }
            auto [parent, at] = path_.back();
            path_.pop_back();
            put_behind(*parent, at, std::move(right));
            node = parent;
        }
    }
    // Refills the underfull nodes of the path from a neighbour, from a leaf up.
    void join(Node* node) {
        while (!path_.empty() && node->entries.size() < least_) {
            auto [parent, place] = path_.back();
            path_.pop_back();
            size_t at = std::max<size_t>(place, 1);
            Node& left = *parent->children[at - 1];
            Owned right = std::move(parent->children[at]);
            if (!right->children.empty()) right->entries[0].x = parent->entries[at].x;  // it bounds nothing until it is inside
            left.entries.insert(left.entries.end(), right->entries.begin(), right->entries.end());
            left.children.insert(left.children.end(), std::make_move_iterator(right->children.begin()),
                                 std::make_move_iterator(right->children.end()));
            parent->entries.erase(parent->entries.begin() + static_cast<ptrdiff_t>(at));
            parent->children.erase(parent->children.begin() + static_cast<ptrdiff_t>(at));
            if (left.entries.size() > fan_out_)
                put_behind(*parent, at - 1, cut(left));
            else
                parent->entries[at - 1].sums = left.sum(0, left.entries.size());
            node = parent;
        }
        if (root_->children.size() == 1) {
            Owned only = std::move(root_->children[0]);
            root_ = std::move(only);
        }
    }

    template <class Visit>
    static void each(const Node& node, Visit& visit) {
        for (const Owned& one : node.children) each(*one, visit);
        if (node.children.empty())
            for (const Entry& one : node.entries) visit(one);
    }
    static size_t nbytes(const Node& node) {
        size_t sum = sizeof(Node) + node.entries.capacity() * sizeof(Entry) + node.children.capacity() * sizeof(Owned);
        for (const Owned& one : node.children) sum += nbytes(*one);
        return sum;
    }
    // Keys of the node are from `low` to `high`, both included.
    void check(const Node& node, int64_t low, int64_t high, int level, int& depth, int64_t& count) const {
        size_t size = node.entries.size();
        bool is_inner = !node.children.empty(), is_root = &node == root_.get();
        require(!is_inner || node.children.size() == size, "a node has a child per entry, or none");
        require(size <= fan_out_, "no node is overfull");
        require(size >= (is_root ? is_inner ? 2 : 0 : least_), "none is underfull");
        for (size_t at = is_inner ? 1 : 0; at < size; ++at) {
            int64_t x = node.entries[at].x;
            require(low <= x && x <= high, "keys lie in the range of their node");
            require(at <= (is_inner ? 1 : 0) || node.entries[at - 1].x < x, "keys ascend strictly");
        }
        if (!is_inner) {
            require(depth < 0 || depth == level, "all leaves are equally deep");
            depth = level;
            count += static_cast<int64_t>(size);
            for (const Entry& one : node.entries) {
                require(one.sums.rows > 0, "an x without rows is forgotten");
                require(0 <= one.sums.values && one.sums.values <= one.sums.rows, "rows have values");
                require(one.sums.values || !one.sums.total, "no values, no sum");
            }
            return;
        }
        for (size_t at = 0; at < size; ++at) {
            const Node& below = *node.children[at];
            require(node.entries[at].sums == below.sum(0, below.entries.size()), "an entry carries the sums below it");
            check(below, at ? node.entries[at].x : low, at + 1 < size ? node.entries[at + 1].x - 1 : high, level + 1,
                  depth, count);
        }
    }
};

}  // namespace kernels
