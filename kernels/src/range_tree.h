// The augmented two-tier B-tree (A2B-tree) over 64-bit codes: tuples (x, y, ref) with the minimum of y over every subtree.
//
// Both tiers are one B+-tree in the order of (x, y, hash of ref): the first tuple of an x is its lowest. Every node but the
// root holds between a quarter of `fan_out` and `fan_out` entries, all leaves are equally deep, and each entry of an
// inner node carries the minimum below it and a key that no tuple below it is less than. Everything takes O(log N), a hull
// of k points O(k log N). [ProSem thesis] 3.3.1.
//
// `Ref` says what a reference is: `Value`, `hash(value)`, `equal(one, other)`, `keep(value)`, `let_go(value)`.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

#include "spans.h"

namespace kernels {

template <class Ref>
class RangeTree {
   public:
    using Value = typename Ref::Value;
    static constexpr int FAN_OUT = 64;
    static constexpr int MAX_DEPTH = 24;

    struct Point {
        int64_t x, y;
        Value ref;
    };
    struct End {
        int64_t x;
        bool is_there;
    };
    // The skyline of each side, nearest point first, and the x of the first point at or below the floor.
    struct Hull {
        std::vector<Point> left, right;
        End left_end, right_end;
    };
    // The codes below `y`, or those not above it.
    struct Bound {
        int64_t y;
        bool or_equal;

        bool holds(int64_t code) const { return code < y || (or_equal && code == y); }
    };

    // What a change of y at one x exposes. `is_ignorable`: it affects no subscription.
    struct Exposure {
        bool is_ignorable;
        Point peak;  // the lowest at x from now on
        Hull hull;
    };

    explicit RangeTree(int fan_out = FAN_OUT) : fan_out_(fan_out), least_(std::max(2, fan_out / 4)) {
        root_ = new_node(0);
    }
    RangeTree(const RangeTree&) = delete;
    RangeTree& operator=(const RangeTree&) = delete;
    ~RangeTree() { release(root_); }

    int fan_out() const { return fan_out_; }
    int64_t size() const { return size_; }
    int64_t visits = 0;  // nodes looked at so far

    void build(std::vector<Point>& points);
    bool add(int64_t x, int64_t y, Value ref);     // false: it is there already
    bool remove(int64_t x, int64_t y, Value ref);  // false: it is not there
    bool replace(int64_t x, int64_t y, Value ref, int64_t new_y);

    // Changes y in place and tells the exposure, in one descent; false: it is not there.
    bool replace_seen(int64_t x, int64_t y, Value ref, int64_t new_y, Exposure& exposure);

    bool peak(int64_t x, Point& found);
    // Whether x has no point at or below y; then `hull` has the ends of the maximum affected range.
    bool mar(int64_t x, int64_t y, Hull& hull);
    void hull(int64_t x, Bound top, Bound floor, Hull& hull);
    // By the tree without the tuple.
    void exposure(int64_t x, int64_t y, Value ref, int64_t new_y, Exposure& exposure);
    bool lowest(int64_t low, int64_t high, Point& found);

    template <class Take>
    void each(Take&& take) const {
        each(root_, take);
    }
    size_t nbytes() const { return nbytes(root_); }
    void check() const;

   private:
    struct Node {
        int32_t count, level;  // level 0 is a leaf
    };
    struct Key {
        int64_t x, y, hash;
    };
    struct Path {
        Node* nodes[MAX_DEPTH];
        int at[MAX_DEPTH];
        int last = 0;  // index of the leaf

        Path() {}
        Path(const Path& other) : last(other.last) {
            std::copy(other.nodes, other.nodes + last + 1, nodes);
            std::copy(other.at, other.at + last + 1, at);
        }
        Path& operator=(const Path&) = delete;

        Node* leaf() const { return nodes[last]; }
        int& place() { return at[last]; }
    };

    int fan_out_, least_;
    Node* root_;
    int64_t size_ = 0;

    int stride() const { return fan_out_ + 1; }
    int64_t* words(Node* node) const { return reinterpret_cast<int64_t*>(node + 1); }
    int64_t* xs(Node* node) const { return words(node); }
    int64_t* ys(Node* node) const { return words(node) + stride(); }
    Value* refs(Node* node) const { return reinterpret_cast<Value*>(words(node) + 2 * stride()); }
    int64_t* hashes(Node* node) const { return words(node) + 2 * stride(); }
    int64_t* minima(Node* node) const { return node->level ? words(node) + 3 * stride() : ys(node); }
    Node** children(Node* node) const { return reinterpret_cast<Node**>(words(node) + 4 * stride()); }

    Node* new_node(int level) const {
        auto* node = static_cast<Node*>(std::malloc(sizeof(Node) + 8u * stride() * (level ? 5 : 3)));
        if (!node) throw std::bad_alloc();
        node->count = 0;
        node->level = level;
        return node;
    }
    void release(Node* node) {
        for (int at = 0; at < node->count; ++at) {
            if (node->level)
                release(children(node)[at]);
            else
                Ref::let_go(refs(node)[at]);
        }
        std::free(node);
    }
    size_t nbytes(Node* node) const {
        size_t sum = sizeof(Node) + 8u * stride() * (node->level ? 5 : 3);
        for (int at = 0; node->level && at < node->count; ++at) sum += nbytes(children(node)[at]);
        return sum;
    }
    template <class Take>
    void each(Node* node, Take&& take) const {
        for (int at = 0; at < node->count; ++at) {
            if (node->level)
                each(children(node)[at], take);
            else
                take(Point{xs(node)[at], ys(node)[at], refs(node)[at]});
        }
    }
    int64_t least_of(Node* node) const {
        return *std::min_element(minima(node), minima(node) + node->count);
    }
    bool is_before(Node* leaf, int at, const Key& key) const {
        int64_t x = xs(leaf)[at], y = ys(leaf)[at];
        return x != key.x ? x < key.x : y != key.y ? y < key.y : Ref::hash(refs(leaf)[at]) < key.hash;
    }
    bool is_below(Node* inner, int at, const Key& key) const {
        int64_t x = xs(inner)[at], y = ys(inner)[at];
        return x != key.x ? x < key.x : y != key.y ? y < key.y : hashes(inner)[at] < key.hash;
    }
    void seek(const Key& key, Path& path);
    bool settle(Path& path);
    void seek_start(int64_t x, Path& path) {
        seek({x, LOWEST, LOWEST}, path);
        settle(path);
    }
    bool is_at(const Path& path, int64_t x) const {
        Node* leaf = path.leaf();
        int at = path.at[path.last];
        return at < leaf->count && xs(leaf)[at] == x;
    }
    bool locate(int64_t x, int64_t y, Value ref, Path& path);
    void open_at(Node* node, int at) const;
    void close_at(Node* node, int at) const;
    void move(Node* from, int first, Node* to, int at, int count) const;
    void insert_child(Node* parent, int at, const Key& key, Node* child) const;
    void erase(Path& path);
    int shift(Node* leaf, int at, int64_t y) const;
    void lower(Path& path, int64_t y);
    void raise(Path& path, int64_t gone);
    void split(Path& path);
    void join(Path& path);

    bool previous_low(Path& path, int64_t bound);
    bool next_low(Path& path, int64_t bound);
    void sweep(const Path& start, int64_t bound, Bound floor, bool leftward, std::vector<Point>& points,
               End& end);
    void hull_from(Path& path, Bound top, Bound floor, bool skips_first, Hull& hull);
    void exposed(Path& path, bool has_peak, const Point& low, const Point& now, int64_t y, bool skips_first,
                 Exposure& exposure);
    int64_t check(Node* node, const Key* low, const Key* high, std::vector<Point>& seen) const;
    Key first_key(Node* leaf) const { return {xs(leaf)[0], ys(leaf)[0], Ref::hash(refs(leaf)[0])}; }
};

#include "range_tree_changes.inl"
#include "range_tree_questions.inl"

}  // namespace kernels
