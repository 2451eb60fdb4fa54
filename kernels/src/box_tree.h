// Tuples (point, y, ref) with several range attributes in a k-d tree: the lowest in a box, and the skyline of a point.
//
// A branch cuts one axis: codes below the cut are in the one subtree, the others in the other. Every node carries the
// minimum of y and the number of tuples below it; buckets are in the order of y. A subtree is built anew when one side of it
// has more than three quarters of the tuples and a quarter of them came or went since it was built, so a change takes
// O(log² N) amortised, with a pause of O(N log N) when that is the root. Tuples at one point cannot be cut: their bucket may
// be longer. A box takes O(N^(1-1/d)) nodes at worst.
//
// `Ref` is as in range_tree.h.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "spans.h"

namespace kernels {

constexpr int MAX_AXES = 8;
using Codes = std::array<int64_t, MAX_AXES>;

template <class Ref>
class BoxTree {
   public:
    using Value = typename Ref::Value;
    struct Tuple {
        int64_t y;
        Codes x;
        Value ref;
    };
    // What is seen from a point: tuples at or below the floor, and those above it.
    struct Skyline {
        std::vector<Tuple> low, high;
        bool is_complete;  // whether `low` has all of them
        bool has_high;     // whether `high` is known: they are not too many
    };

    BoxTree(int axes, int bucket) : axes_(axes), bucket_(bucket), root_(std::make_unique<Node>()) {}
    BoxTree(const BoxTree&) = delete;
    ~BoxTree() {
        each([](const Tuple& tuple) { Ref::let_go(tuple.ref); });
    }

    int axes() const { return axes_; }
    int bucket() const { return bucket_; }
    int64_t size() const { return root_->size; }
    int64_t visits = 0;  // nodes looked at so far

    void build(std::vector<Tuple> tuples) {
        each([](const Tuple& tuple) { Ref::let_go(tuple.ref); });
        for (const Tuple& tuple : tuples) Ref::keep(tuple.ref);
        root_ = made(tuples.data(), tuples.data() + tuples.size(), 0);
    }
    bool add(const Tuple& tuple);     // false: it is there already
    bool remove(const Tuple& tuple);  // false: it is not there

    bool lowest(const Span* box, Tuple& found);
    // Some tuple in the box that `limit` is not below, with another reference than `but` (null: any), near the point.
    bool near(const Span* box, const Codes& point, int64_t limit, const Value* but, Tuple& found);
    Skyline skyline(const Codes& origin, int64_t floor, int64_t most_low, int64_t most_high);

    template <class Take>
    void each(Take&& take) const {
        each(*root_, take);
    }
    void check() const {
        std::array<Span, MAX_AXES> whole;
        whole.fill({LOWEST, HIGHEST});
        check(*root_, whole);
    }

   private:
    struct Node {
        int axis = -1;  // -1: a bucket
        int64_t cut = 0, least = HIGHEST, size = 0, changes = 0;
        std::unique_ptr<Node> below, above;
        std::vector<Tuple> tuples;
    };
    using Link = std::unique_ptr<Node>;
    struct Seen {
        int64_t height;  // y, or the floor if that is higher
        Codes outward;   // the codes in the order of their distance from the origin, on this side of it
        Tuple tuple;
    };
    using Orthants = std::vector<std::vector<Seen>>;

    int axes_, bucket_;
    Link root_;

    bool is_same_place(const Codes& one, const Codes& other) const {
        return std::equal(one.begin(), one.begin() + axes_, other.begin());
    }
    bool is_within(const Codes& inner, const Codes& outer) const {
        for (int axis = 0; axis < axes_; ++axis)
            if (inner[axis] > outer[axis]) return false;
        return true;
    }
    bool is_inside(const Codes& x, const Span* box) const {
        for (int axis = 0; axis < axes_; ++axis)
            if (!box[axis].holds(x[axis])) return false;
        return true;
    }
    Link made(Tuple* first, Tuple* last, int axis) const;
    bool best_cut(const Tuple* first, const Tuple* last, int axis, int& along, int64_t& cut) const;
    void rebuild(Link& link) const;
    void settle(std::vector<Link*>& path, int change);
    typename std::vector<Tuple>::iterator place(Node& leaf, const Tuple& tuple) const;

    unsigned ends_of(const Span* box) const {
        unsigned mask = 0;
        for (int axis = 0; axis < axes_; ++axis)
            mask |= (unsigned{box[axis].low != LOWEST} << 2 * axis) | (unsigned{box[axis].high != HIGHEST} << (2 * axis + 1));
        return mask;
    }
    // What is left to look at on each side of a cut; false if the box does not reach there.
    static bool reaches_below(const Node& node, const Span* box, unsigned& mask) {
        if (box[node.axis].high >= node.cut - 1) mask &= ~(2u << 2 * node.axis);
        return box[node.axis].low < node.cut;
    }
    static bool reaches_above(const Node& node, const Span* box, unsigned& mask) {
        if (box[node.axis].low <= node.cut) mask &= ~(1u << 2 * node.axis);
        return box[node.axis].high >= node.cut;
    }
    void lowest(const Node& node, const Span* box, unsigned mask, const Tuple*& best);
    bool near(const Node& node, const Span* box, const Codes& point, int64_t limit, const Value* but, Tuple& found);

    bool is_hidden(const std::vector<Seen>& orthant, int64_t height, const Codes& outward) const {
        for (const Seen& seen : orthant)
            if (seen.height <= height && is_within(seen.outward, outward)) return true;
        return false;
    }
    Codes outward_of(const Codes& x, int side) const {
        Codes turned{};
        for (int axis = 0; axis < axes_; ++axis) turned[axis] = side >> axis & 1 ? x[axis] : ~x[axis];
        return turned;
    }
    bool show(Orthants& orthants, const Codes& origin, const Tuple& tuple, int64_t floor, int64_t& hidden) const;
    Span window(const Orthants& orthants, const Node& leaf, int side, int missing, const Codes& corner,
                int64_t floor) const;

    template <class Take>
    static void each(const Node& node, Take&& take) {
        if (node.axis >= 0) {
            each(*node.below, take);
            each(*node.above, take);
        }
        for (const Tuple& tuple : node.tuples) take(tuple);
    }
    void check(const Node& node, const std::array<Span, MAX_AXES>& bounds) const;
};

#include "box_tree.inl"
#include "box_tree_skyline.inl"

}  // namespace kernels
