// Points in a box: an R-tree over the points of one topic.
//
// Every entry of an inner node carries the exact bounds and the number of the points below it. All leaves are equally
// deep. The id is a dimension of the bounds too, so that one of many points at one place is found quickly. A full node
// is cut at a gap near the middle, along the dimensions in turn; nothing is ever rebuilt, so the longest change costs
// O(log N) nodes. A search enters the nodes whose bounds the box meets; what lies within the box is not tested. A leaf is
// sorted by the first code, so that only those of its points are looked at that are in the box along this dimension.
//
// It loses against a scan where a box holds most points: then the search is the scan, with more jumps.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include "short_ranges.h"
#include "spans.h"

namespace kernels {

// What all trees of one index share. The columns of a point are its codes, then its id.
struct PointShape {
    int dimensions, leaf_size, fan_out;

    int width() const { return dimensions + 1; }
    int stride() const { return fan_out + 1; }  // an entry more, until the node is cut
    int least(int height) const { return std::max(1, (height ? fan_out : leaf_size) / 4); }
};

struct PointNode {
    int32_t count;
    int16_t height;  // 0 is a leaf
    int16_t axis;    // the dimension along which it is cut next
};

struct PointLeaf : PointNode {
    int32_t capacity;
    int64_t* columns;

    const int64_t* column(int at) const { return columns + static_cast<size_t>(at) * capacity; }
    int64_t* column(int at) { return columns + static_cast<size_t>(at) * capacity; }
};

// One allocation: children, sizes, then low and high bounds by column.
struct PointInner : PointNode {
    PointNode** children() { return reinterpret_cast<PointNode**>(this + 1); }
    PointNode* const* children() const { return reinterpret_cast<PointNode* const*>(this + 1); }
    int64_t* sizes(const PointShape& s) { return reinterpret_cast<int64_t*>(this + 1) + s.stride(); }
    const int64_t* sizes(const PointShape& s) const {
        return reinterpret_cast<const int64_t*>(this + 1) + s.stride();
    }
    int64_t* lows(const PointShape& s, int at) { return sizes(s) + (1 + at) * s.stride(); }
    const int64_t* lows(const PointShape& s, int at) const { return sizes(s) + (1 + at) * s.stride(); }
    int64_t* highs(const PointShape& s, int at) { return sizes(s) + (1 + s.width() + at) * s.stride(); }
    const int64_t* highs(const PointShape& s, int at) const {
        return sizes(s) + (1 + s.width() + at) * s.stride();
    }
};

class PointTree {
   public:
    explicit PointTree(const PointShape& shape) : shape_(&shape) {}
    PointTree(PointTree&& other) noexcept
        : shape_(other.shape_), root_(other.root_), size_(other.size_), short_(std::move(other.short_)) {
        other.root_ = nullptr;
        other.size_ = 0;
    }
    PointTree& operator=(PointTree&& other) noexcept {
        std::swap(shape_, other.shape_);
        std::swap(root_, other.root_);
        std::swap(size_, other.size_);
        std::swap(short_, other.short_);
        return *this;
    }
    ~PointTree() { release(root_); }

    int64_t size() const { return size_; }

    void insert(const int64_t* point);
    bool remove(const int64_t* point);  // whether it was there
    void build(std::vector<int64_t>& rows);  // points one after the other; they are added to those held

    bool any(const Span* spans, int64_t& visits) const { return root_ && any(root_, spans, visits); }
    // The same where the two dimensions are the ends of ranges; quicker where short ones are asked for.
    bool any_range(const Span* spans, int64_t& visits) const {
        if (!short_ && size_ >= ShortRanges::LEAST) gather_short();
        Held held = short_ ? short_->any(spans) : Held::UNKNOWN;
        return held == Held::UNKNOWN ? any(spans, visits) : held == Held::YES;
    }
    int64_t count(const Span* spans, int64_t& visits) const {
        return root_ ? count(root_, spans, visits) : 0;
    }
    // Calls take(leaf, at) for every point in the box.
    template <class Take>
    void search(const Span* spans, int64_t& visits, Take&& take) const {
        if (root_) search(root_, spans, visits, take);
    }
    template <class Take>
    void each(Take&& take) const {
        int64_t visits = 0;
        if (root_) each(root_, visits, take);
    }
    // The point at a place of the order in which `each` goes.
    void point_at(int64_t place, int64_t* point) const;
    size_t nbytes() const { return (root_ ? nbytes(root_) : 0) + (short_ ? short_->nbytes() : 0); }
    void check() const;

   private:
    using Node = PointNode;
    using Leaf = PointLeaf;
    using Inner = PointInner;

    // Something to put in: a point, or a whole node, with its bounds.
    struct Entry {
        int64_t lows[MAX_DIMENSIONS + 1], highs[MAX_DIMENSIONS + 1];
        Node* node = nullptr;
        int64_t size = 1;
        int height = -1;
    };

    const PointShape* shape_;
    Node* root_ = nullptr;
    int64_t size_ = 0;
    mutable std::unique_ptr<ShortRanges> short_;  // made when it is first asked for

    Leaf* new_leaf(int capacity, int axis);
    Inner* new_inner(int height, int axis);
    void release(Node* node);
    void shed(Node* node);  // the node itself, not its children

    void insert(Entry& entry);
    Node* place(Node* node, const Entry& entry);
    Node* place_point(Leaf* leaf, const int64_t* point);
    Node* place_child(Inner* inner, Node* child);
    Node* cut_leaf(Leaf* leaf, const int64_t* point);
    Node* cut_inner(Inner* inner);
    int choose(const Inner* inner, const Entry& entry) const;
    void refit(Inner* inner, int at);
    void drop(Inner* inner, int at);
    bool take_out(Node* node, const int64_t* point, std::vector<Node*>& orphans);
    void put(Leaf* leaf, const int64_t* point);
    int64_t size_of(const Node* node) const;
    void bounds(const Node* node, int64_t* lows, int64_t* highs) const;

    Node* planted(const std::vector<int64_t>& rows, uint32_t* first, uint32_t* last, int height, int axis);
    void parted(const std::vector<int64_t>& rows, uint32_t* first, uint32_t* last, int parts, int height,
                int axis, Inner* into);

    bool any(const Node* node, const Span* spans, int64_t& visits) const;
    void gather_short() const;
    void gather_short(const Node* node, std::vector<ShortRanges::Range>& found) const;
    void outgrow() {
        if (short_ && short_->is_outgrown(size_)) short_.reset();
    }
    int64_t count(const Node* node, const Span* spans, int64_t& visits) const;
    size_t nbytes(const Node* node) const;
    void check(const Node* node) const;

    // The bounds of an inner node's entries, as searches read them.
    struct Bounds {
        const int64_t *lows, *highs;
        int stride, dimensions;

        Bounds(const PointShape& shape, const Inner* inner)
            : lows(inner->lows(shape, 0)), highs(inner->highs(shape, 0)), stride(shape.stride()), dimensions(shape.dimensions) {}
        // 0: the box does not meet the entry, 1: it does, 2: it holds the entry
        int meeting(int at, const Span* spans) const {
            bool is_whole = true;
            for (int d = 0, place = at; d < dimensions; ++d, place += stride) {
                int64_t low = lows[place], high = highs[place];
                if (!spans[d].meets(low, high)) return 0;
                is_whole = is_whole && spans[d].covers(low, high);
            }
            return is_whole ? 2 : 1;
        }
    };
    // Calls take(at) for every point of a leaf in the box, until it says that it is enough.
    template <class Take>
    bool look(const Leaf* leaf, const Span* spans, Take&& take) const {
        const int64_t *columns = leaf->columns, *end = columns + leaf->count;
        int64_t high = spans[0].high;
        int dimensions = shape_->dimensions, capacity = leaf->capacity;
        for (const int64_t* code = std::lower_bound(columns, end, spans[0].low); code != end && *code <= high; ++code) {
            int d = 1;
            for (const int64_t* other = code + capacity; d < dimensions && spans[d].holds(*other); other += capacity) ++d;
            if (d >= dimensions && take(static_cast<int>(code - columns))) return true;
        }
        return false;
    }

    template <class Take>
    void each(const Node* node, int64_t& visits, Take&& take) const {
        if (!node->height) {
            ++visits;
            auto* leaf = static_cast<const Leaf*>(node);
            for (int at = 0; at < leaf->count; ++at) take(*leaf, at);
            return;
        }
        auto* inner = static_cast<const Inner*>(node);
        for (int at = 0; at < inner->count; ++at) each(inner->children()[at], visits, take);
    }
    template <class Take>
    void search(const Node* node, const Span* spans, int64_t& visits, Take&& take) const {
        if (!node->height) {
            ++visits;
            auto* leaf = static_cast<const Leaf*>(node);
            look(leaf, spans, [&](int at) {
                take(*leaf, at);
                return false;
            });
            return;
        }
        auto* inner = static_cast<const Inner*>(node);
        Bounds bounds(*shape_, inner);
        for (int at = 0; at < inner->count; ++at) {
            int how = bounds.meeting(at, spans);
            if (how == 1)
                search(inner->children()[at], spans, visits, take);
            else if (how == 2)
                each(inner->children()[at], visits, take);
        }
    }
};

}  // namespace kernels
