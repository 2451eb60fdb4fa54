#include "point_tree.h"

namespace kernels {

namespace {
constexpr int FIRST_CAPACITY = 2;

// Where to cut entries that are sorted along a dimension: at the gap nearest to the middle. `gap(at)` says whether there
// is one before the entry `at`. 0 if there is none that leaves an eighth on each side.
template <class Gap>
int cut_at_gap(int count, Gap gap) {
    int middle = count / 2, least = std::max(1, count / 8);
    for (int away = 0; middle - away >= least || middle + away <= count - least; ++away) {
        if (middle - away >= least && gap(middle - away)) return middle - away;
        if (middle + away <= count - least && gap(middle + away)) return middle + away;
    }
    return 0;
}
}  // namespace

// -- memory ------------------------------------------------------------------------------------------------
PointLeaf* PointTree::new_leaf(int capacity, int axis) {
    auto* leaf = static_cast<Leaf*>(std::malloc(sizeof(Leaf)));
    auto* columns = static_cast<int64_t*>(std::malloc(sizeof(int64_t) * capacity * shape_->width()));
    if (!leaf || !columns) throw std::bad_alloc();
    leaf->count = 0;
    leaf->height = 0;
    leaf->axis = static_cast<int16_t>(axis);
    leaf->capacity = capacity;
    leaf->columns = columns;
    return leaf;
}

PointInner* PointTree::new_inner(int height, int axis) {
    size_t words = static_cast<size_t>(shape_->stride()) * (2 + 2 * shape_->width());
    auto* inner = static_cast<Inner*>(std::malloc(sizeof(Inner) + 8 * words));
    if (!inner) throw std::bad_alloc();
    inner->count = 0;
    inner->height = static_cast<int16_t>(height);
    inner->axis = static_cast<int16_t>(axis);
    return inner;
}

void PointTree::shed(Node* node) {
    if (!node->height) std::free(static_cast<Leaf*>(node)->columns);
    std::free(node);
}

void PointTree::release(Node* node) {
    if (!node) return;
    if (node->height) {
        auto* inner = static_cast<Inner*>(node);
        for (int at = 0; at < inner->count; ++at) release(inner->children()[at]);
    }
    shed(node);
}

size_t PointTree::nbytes(const Node* node) const {
    if (!node->height) return sizeof(Leaf) + 8u * static_cast<const Leaf*>(node)->capacity * shape_->width();
    auto* inner = static_cast<const Inner*>(node);
    size_t sum = sizeof(Inner) + 8u * shape_->stride() * (2 + 2 * shape_->width());
    for (int at = 0; at < inner->count; ++at) sum += nbytes(inner->children()[at]);
    return sum;
}

// -- sizes and bounds --------------------------------------------------------------------------------------
int64_t PointTree::size_of(const Node* node) const {
    if (!node->height) return node->count;
    auto* sizes = static_cast<const Inner*>(node)->sizes(*shape_);
    return std::accumulate(sizes, sizes + node->count, int64_t{0});
}

void PointTree::bounds(const Node* node, int64_t* lows, int64_t* highs) const {
    for (int d = 0; d < shape_->width(); ++d) {
        const int64_t *from, *upto;
        if (node->height) {
            from = static_cast<const Inner*>(node)->lows(*shape_, d);
            upto = static_cast<const Inner*>(node)->highs(*shape_, d);
        } else {
            from = upto = static_cast<const Leaf*>(node)->column(d);
        }
        int64_t low = from[0], high = upto[0];
        for (int at = 1; at < node->count; ++at) {
            low = std::min(low, from[at]);
            high = std::max(high, upto[at]);
        }
        lows[d] = low;
        highs[d] = high;
    }
}

void PointTree::refit(Inner* inner, int at) {
    int64_t lows[MAX_DIMENSIONS + 1], highs[MAX_DIMENSIONS + 1];
    const Node* child = inner->children()[at];
    bounds(child, lows, highs);
    for (int d = 0; d < shape_->width(); ++d) {
        inner->lows(*shape_, d)[at] = lows[d];
        inner->highs(*shape_, d)[at] = highs[d];
    }
    inner->sizes(*shape_)[at] = size_of(child);
}

void PointTree::drop(Inner* inner, int at) {
    int last = --inner->count;
    inner->children()[at] = inner->children()[last];
    inner->sizes(*shape_)[at] = inner->sizes(*shape_)[last];
    for (int d = 0; d < shape_->width(); ++d) {
        inner->lows(*shape_, d)[at] = inner->lows(*shape_, d)[last];
        inner->highs(*shape_, d)[at] = inner->highs(*shape_, d)[last];
    }
}

// -- insert ------------------------------------------------------------------------------------------------
void PointTree::insert(const int64_t* point) {
    Entry entry;
    std::copy(point, point + shape_->width(), entry.lows);
    std::copy(point, point + shape_->width(), entry.highs);
    insert(entry);
    ++size_;
    if (short_) short_->insert(point[0], point[1]);
    outgrow();
}

void PointTree::insert(Entry& entry) {
    if (!root_) root_ = new_leaf(FIRST_CAPACITY, 0);
    while (root_->height <= entry.height) {
        Inner* higher = new_inner(root_->height + 1, root_->axis);
        Node* below = root_;
        root_ = higher;
        place_child(higher, below);
    }
    Node* other = place(root_, entry);
    if (other) {
        Inner* higher = new_inner(root_->height + 1, root_->axis);
        place_child(higher, root_);
        place_child(higher, other);
        root_ = higher;
    }
}

// Puts an entry below a node; the other half if the node had to be cut.
PointNode* PointTree::place(Node* node, const Entry& entry) {
    if (!node->height) return place_point(static_cast<Leaf*>(node), entry.lows);
    auto* inner = static_cast<Inner*>(node);
    if (node->height == entry.height + 1) return place_child(inner, entry.node);
    int at = choose(inner, entry);
    Node* other = place(inner->children()[at], entry);
    if (other) {
        refit(inner, at);
        return place_child(inner, other);
    }
    for (int d = 0; d < shape_->width(); ++d) {
        int64_t &low = inner->lows(*shape_, d)[at], &high = inner->highs(*shape_, d)[at];
        low = std::min(low, entry.lows[d]);
        high = std::max(high, entry.highs[d]);
    }
    inner->sizes(*shape_)[at] += entry.size;
    return nullptr;
}

// Quickest where points come in the order of the first code.
void PointTree::put(Leaf* leaf, const int64_t* point) {
    if (leaf->count == leaf->capacity) {
        int more = std::min(shape_->leaf_size, leaf->capacity + std::max(2, leaf->capacity / 2));
        auto* columns = static_cast<int64_t*>(std::malloc(sizeof(int64_t) * more * shape_->width()));
        if (!columns) throw std::bad_alloc();
        for (int d = 0; d < shape_->width(); ++d)
            std::copy(leaf->column(d), leaf->column(d) + leaf->count, columns + static_cast<size_t>(d) * more);
        std::free(leaf->columns);
        leaf->columns = columns;
        leaf->capacity = more;
    }
    int64_t* codes = leaf->column(0);
    int at = leaf->count;
    if (at && codes[at - 1] > point[0]) at = static_cast<int>(std::upper_bound(codes, codes + at, point[0]) - codes);
    for (int d = 0; d < shape_->width(); ++d) {
        int64_t* column = leaf->column(d);
        std::copy_backward(column + at, column + leaf->count, column + leaf->count + 1);
        column[at] = point[d];
    }
    ++leaf->count;
}

PointNode* PointTree::place_point(Leaf* leaf, const int64_t* point) {
    if (leaf->count == shape_->leaf_size) return cut_leaf(leaf, point);
    put(leaf, point);
    return nullptr;
}

PointNode* PointTree::place_child(Inner* inner, Node* child) {
    inner->children()[inner->count] = child;
    ++inner->count;
    refit(inner, inner->count - 1);
    return inner->count > shape_->fan_out ? cut_inner(inner) : nullptr;
}

// The entry that grows least: the sum over the dimensions of growth by extent, the id's counting for little.
int PointTree::choose(const Inner* inner, const Entry& entry) const {
    double cost[256];
    int count = inner->count;
    std::fill(cost, cost + count, 0.0);
    for (int d = 0; d < shape_->width(); ++d) {
        const int64_t *lows = inner->lows(*shape_, d), *highs = inner->highs(*shape_, d);
        int64_t low = *std::min_element(lows, lows + count), high = *std::max_element(highs, highs + count);
        double extent = static_cast<double>(high) - static_cast<double>(low) + 1.0;
        double weight = (d == shape_->dimensions ? 1e-3 : 1.0) / extent;
        for (int at = 0; at < count; ++at) {
            double below = static_cast<double>(lows[at]) - static_cast<double>(entry.lows[d]);
            double above = static_cast<double>(entry.highs[d]) - static_cast<double>(highs[at]);
            cost[at] += weight * (std::max(below, 0.0) + std::max(above, 0.0));
        }
    }
    int best = 0;
    const int64_t* sizes = inner->sizes(*shape_);
    for (int at = 1; at < count; ++at)
        if (cost[at] < cost[best] || (cost[at] == cost[best] && sizes[at] < sizes[best])) best = at;
    return best;
}

PointNode* PointTree::cut_leaf(Leaf* leaf, const int64_t* point) {
    int width = shape_->width(), count = leaf->count + 1;
    std::vector<int64_t> rows(static_cast<size_t>(count) * width);
    for (int d = 0; d < width; ++d) {
        for (int at = 0; at < leaf->count; ++at) rows[at * width + d] = leaf->column(d)[at];
        rows[leaf->count * width + d] = point[d];
    }
    std::vector<int> order(count), fallback;
    int axis = leaf->axis, cut = 0;
    for (int turn = 0; turn < width && !cut; ++turn) {
        int d = turn < shape_->dimensions ? (leaf->axis + turn) % shape_->dimensions : shape_->dimensions;
        std::iota(order.begin(), order.end(), 0);
        std::sort(order.begin(), order.end(),
                  [&](int a, int b) { return rows[a * width + d] < rows[b * width + d]; });
        auto code = [&](int at) { return rows[order[at] * width + d]; };
        if (code(0) == code(count - 1)) continue;
        cut = cut_at_gap(count, [&](int at) { return code(at - 1) != code(at); });
        if (cut || fallback.empty()) axis = d;
        if (!cut && fallback.empty()) fallback = order;
    }
    if (!cut) {
        order = fallback;
        cut = count / 2;
    }
    int next = axis >= shape_->dimensions ? leaf->axis : (axis + 1) % shape_->dimensions;
    Leaf* other = new_leaf(count - cut, next);
    leaf->count = 0;
    leaf->axis = static_cast<int16_t>(next);
    for (int at = 0; at < count; ++at) put(at < cut ? leaf : other, &rows[order[at] * width]);
    return other;
}

PointNode* PointTree::cut_inner(Inner* inner) {
    int count = inner->count;
    std::vector<int> order(count), middle_order;
    int axis = inner->axis, cut = 0;
    for (int turn = 0; turn < shape_->width() && !cut; ++turn) {
        int d = turn < shape_->dimensions ? (inner->axis + turn) % shape_->dimensions : shape_->dimensions;
        const int64_t *lows = inner->lows(*shape_, d), *highs = inner->highs(*shape_, d);
        std::iota(order.begin(), order.end(), 0);
        std::sort(order.begin(), order.end(), [&](int a, int b) {
            return lows[a] != lows[b] ? lows[a] < lows[b] : highs[a] < highs[b];
        });
        std::vector<int64_t> reach(count);  // the highest end up to an entry
        for (int at = 0; at < count; ++at)
            reach[at] = std::max(highs[order[at]], at ? reach[at - 1] : LOWEST);
        cut = cut_at_gap(count, [&](int at) { return reach[at - 1] < lows[order[at]]; });
        if (cut) axis = d;
        if (!turn) middle_order = order;
    }
    if (!cut) {
        order = middle_order;
        cut = count / 2;
    }
    int next = axis >= shape_->dimensions ? inner->axis : (axis + 1) % shape_->dimensions;
    std::vector<Node*> children(inner->children(), inner->children() + count);
    Inner* other = new_inner(inner->height, next);
    inner->count = 0;
    inner->axis = static_cast<int16_t>(next);
    for (int at = 0; at < count; ++at) place_child(at < cut ? inner : other, children[order[at]]);
    return other;
}

// -- remove ------------------------------------------------------------------------------------------------
bool PointTree::remove(const int64_t* point) {
    std::vector<Node*> orphans;
    if (!root_ || !take_out(root_, point, orphans)) return false;
    --size_;
    if (short_) short_->remove(point[0], point[1]);
    outgrow();
    while (root_ && root_->height && root_->count <= 1) {
        Node* only = root_->count ? static_cast<Inner*>(root_)->children()[0] : nullptr;
        shed(root_);
        root_ = only;
    }
    if (root_ && !root_->count) {
        shed(root_);
        root_ = nullptr;
    }
    for (Node* orphan : orphans) {
        Entry entry;
        if (orphan->height) {
            auto* inner = static_cast<Inner*>(orphan);
            for (int at = 0; at < inner->count; ++at) {
                entry.node = inner->children()[at];
                entry.height = entry.node->height;
                entry.size = inner->sizes(*shape_)[at];
                for (int d = 0; d < shape_->width(); ++d) {
                    entry.lows[d] = inner->lows(*shape_, d)[at];
                    entry.highs[d] = inner->highs(*shape_, d)[at];
                }
                insert(entry);
            }
        } else {
            auto* leaf = static_cast<Leaf*>(orphan);
            for (int at = 0; at < leaf->count; ++at) {
                for (int d = 0; d < shape_->width(); ++d) entry.lows[d] = entry.highs[d] = leaf->column(d)[at];
                insert(entry);
            }
        }
        shed(orphan);
    }
    return true;
}

// Takes a point out below a node. Children that are left with too little become orphans.
bool PointTree::take_out(Node* node, const int64_t* point, std::vector<Node*>& orphans) {
    int width = shape_->width();
    if (!node->height) {
        auto* leaf = static_cast<Leaf*>(node);
        const int64_t* codes = leaf->column(0);
        int at = static_cast<int>(std::upper_bound(codes, codes + leaf->count, point[0]) - codes) - 1;
        for (; at >= 0 && codes[at] == point[0]; --at) {
            int d = width - 1;
            while (d && leaf->column(d)[at] == point[d]) --d;
            if (d) continue;
            for (; d < width; ++d) {
                int64_t* column = leaf->column(d);
                std::copy(column + at + 1, column + leaf->count, column + at);
            }
            --leaf->count;
            return true;
        }
        return false;
    }
    auto* inner = static_cast<Inner*>(node);
    for (int at = 0; at < inner->count; ++at) {
        bool is_inside = true, is_at_bound = false;
        for (int d = width - 1; d >= 0 && is_inside; --d) {
            int64_t low = inner->lows(*shape_, d)[at], high = inner->highs(*shape_, d)[at];
            is_inside = low <= point[d] && point[d] <= high;
            is_at_bound = is_at_bound || low == point[d] || high == point[d];
        }
        Node* child = inner->children()[at];
        size_t before = orphans.size();
        if (!is_inside || !take_out(child, point, orphans)) continue;
        if (!child->count) {
            shed(child);
            drop(inner, at);
        } else if (child->count < shape_->least(child->height) && inner->count > 1) {
            orphans.push_back(child);
            drop(inner, at);
        } else if (is_at_bound || orphans.size() > before) {
            refit(inner, at);
        } else {
            --inner->sizes(*shape_)[at];
        }
        return true;
    }
    return false;
}

// -- all at once -------------------------------------------------------------------------------------------
void PointTree::build(std::vector<int64_t>& rows) {
    int width = shape_->width();
    each([&](const Leaf& leaf, int at) {
        for (int d = 0; d < width; ++d) rows.push_back(leaf.column(d)[at]);
    });
    size_t count = rows.size() / width;
    release(root_);
    short_.reset();
    root_ = nullptr;
    size_ = static_cast<int64_t>(count);
    if (!count) return;
    std::vector<uint32_t> order(count);
    std::iota(order.begin(), order.end(), 0u);
    int height = 0;
    double capacity = shape_->leaf_size;
    for (double full = shape_->leaf_size * 0.75; capacity < static_cast<double>(count); ++height) {
        full *= std::max(2.0, shape_->fan_out * 0.75);
        capacity = full;
    }
    root_ = planted(rows, order.data(), order.data() + count, height, 0);
}

PointNode* PointTree::planted(const std::vector<int64_t>& rows, uint32_t* first, uint32_t* last, int height,
                              int axis) {
    if (!height) {
        Leaf* leaf = new_leaf(std::max<int>(FIRST_CAPACITY, static_cast<int>(last - first)), axis);
        size_t width = shape_->width();
        std::sort(first, last, [&](uint32_t a, uint32_t b) { return rows[a * width] < rows[b * width]; });
        for (uint32_t* at = first; at != last; ++at) put(leaf, &rows[*at * width]);
        return leaf;
    }
    double below = shape_->leaf_size * 0.75;
    for (int level = 1; level < height; ++level) below *= std::max(2.0, shape_->fan_out * 0.75);
    int parts = static_cast<int>(std::min<double>(shape_->fan_out, std::ceil((last - first) / below)));
    Inner* inner = new_inner(height, axis);
    parted(rows, first, last, std::max(1, parts), height, axis, inner);
    return inner;
}

// Cuts points into so many parts of equal size, along the dimensions in turn, each to become a child.
void PointTree::parted(const std::vector<int64_t>& rows, uint32_t* first, uint32_t* last, int parts, int height,
                       int axis, Inner* into) {
    if (parts == 1) {
        place_child(into, planted(rows, first, last, height - 1, axis));
        return;
    }
    size_t width = shape_->width();
    int dimension = axis;
    for (int turn = 0; turn < shape_->dimensions; ++turn, dimension = (dimension + 1) % shape_->dimensions) {
        int64_t code = rows[*first * width + dimension];
        if (std::any_of(first, last, [&](uint32_t at) { return rows[at * width + dimension] != code; })) break;
    }
    uint32_t* middle = first + (last - first) * (parts / 2) / parts;
    std::nth_element(first, middle, last, [&](uint32_t a, uint32_t b) {
        int64_t one = rows[a * width + dimension], other = rows[b * width + dimension];
        return one != other ? one < other : rows[a * width + width - 1] < rows[b * width + width - 1];
    });
    int next = (dimension + 1) % shape_->dimensions;
    parted(rows, first, middle, parts / 2, height, next, into);
    parted(rows, middle, last, parts - parts / 2, height, next, into);
}

// -- questions ---------------------------------------------------------------------------------------------
bool PointTree::any(const Node* node, const Span* spans, int64_t& visits) const {
    if (!node->height) {
        ++visits;
        auto* leaf = static_cast<const Leaf*>(node);
        return look(leaf, spans, [](int) { return true; });
    }
    auto* inner = static_cast<const Inner*>(node);
    Bounds bounds(*shape_, inner);
    for (int at = 0; at < inner->count; ++at) {
        int how = bounds.meeting(at, spans);
        if (how == 2 || (how == 1 && any(inner->children()[at], spans, visits))) return true;
    }
    return false;
}

// O(s) for s short ranges and the nodes they are in; none of the other nodes is visited.
void PointTree::gather_short() const {
    std::vector<ShortRanges::Range> some;
    int64_t point[MAX_DIMENSIONS + 1], step = size_ / static_cast<int64_t>(ShortRanges::SAMPLE);
    for (int64_t place = step / 2; place < size_; place += step) {
        point_at(place, point);
        some.push_back({point[0], point[1]});
    }
    short_ = std::make_unique<ShortRanges>(size_, some);
    some.clear();
    gather_short(root_, some);
    short_->build(some);
}

void PointTree::gather_short(const Node* node, std::vector<ShortRanges::Range>& found) const {
    if (!node->height) {
        auto* leaf = static_cast<const Leaf*>(node);
        for (int at = 0; at < leaf->count; ++at)
            if (short_->takes(leaf->column(0)[at], leaf->column(1)[at]))
                found.push_back({leaf->column(0)[at], leaf->column(1)[at]});
        return;
    }
    auto* inner = static_cast<const Inner*>(node);
    for (int at = 0; at < inner->count; ++at)
        if (!short_->is_beyond(inner->highs(*shape_, 0)[at], inner->lows(*shape_, 1)[at]))
            gather_short(inner->children()[at], found);
}

int64_t PointTree::count(const Node* node, const Span* spans, int64_t& visits) const {
    int64_t found = 0;
    if (!node->height) {
        ++visits;
        auto* leaf = static_cast<const Leaf*>(node);
        look(leaf, spans, [&](int) {
            ++found;
            return false;
        });
        return found;
    }
    auto* inner = static_cast<const Inner*>(node);
    Bounds bounds(*shape_, inner);
    for (int at = 0; at < inner->count; ++at) {
        int how = bounds.meeting(at, spans);
        if (how == 2)
            found += inner->sizes(*shape_)[at];
        else if (how == 1)
            found += count(inner->children()[at], spans, visits);
    }
    return found;
}

void PointTree::point_at(int64_t place, int64_t* point) const {
    const Node* node = root_;
    while (node->height) {
        auto* inner = static_cast<const Inner*>(node);
        int at = 0;
        while (place >= inner->sizes(*shape_)[at]) place -= inner->sizes(*shape_)[at++];
        node = inner->children()[at];
    }
    for (int d = 0; d < shape_->width(); ++d) point[d] = static_cast<const Leaf*>(node)->column(d)[place];
}

// -- invariants --------------------------------------------------------------------------------------------
void PointTree::check() const {
    require((root_ != nullptr) == (size_ > 0), "a tree without points has no node");
    if (!root_) return;
    require(size_of(root_) == size_, "the size is kept");
    require(!root_->height || root_->count > 1, "a root with one child is dropped");
    check(root_);
    std::vector<int64_t> rows;
    int width = shape_->width();
    each([&](const Leaf& leaf, int at) {
        for (int d = 0; d < width; ++d) rows.push_back(leaf.column(d)[at]);
    });
    std::vector<size_t> order(rows.size() / width);
    std::iota(order.begin(), order.end(), size_t{0});
    auto less = [&](size_t a, size_t b) {
        return std::lexicographical_compare(&rows[a * width], &rows[a * width] + width, &rows[b * width],
                                            &rows[b * width] + width);
    };
    std::sort(order.begin(), order.end(), less);
    for (size_t at = 1; at < order.size(); ++at) require(less(order[at - 1], order[at]), "a point twice");
    if (!short_) return;
    std::vector<ShortRanges::Range> found;
    for (size_t at = 0; at < rows.size(); at += width)
        if (short_->takes(rows[at], rows[at + 1])) found.push_back({rows[at], rows[at + 1]});
    short_->check(found);
}

void PointTree::check(const Node* node) const {
    require(node->count > 0, "no node is empty");
    if (!node->height) {
        auto* leaf = static_cast<const Leaf*>(node);
        require(leaf->count <= leaf->capacity && leaf->capacity <= std::max(FIRST_CAPACITY, shape_->leaf_size),
                "no leaf is overfull");
        require(std::is_sorted(leaf->column(0), leaf->column(0) + leaf->count), "a leaf is sorted by the first code");
        return;
    }
    auto* inner = static_cast<const Inner*>(node);
    require(inner->count <= shape_->fan_out, "no node is overfull");
    for (int at = 0; at < inner->count; ++at) {
        const Node* child = inner->children()[at];
        require(child->height + 1 == node->height, "all leaves are equally deep");
        require(inner->sizes(*shape_)[at] == size_of(child), "an entry carries the number of points below it");
        int64_t lows[MAX_DIMENSIONS + 1], highs[MAX_DIMENSIONS + 1];
        bounds(child, lows, highs);
        for (int d = 0; d < shape_->width(); ++d)
            require(inner->lows(*shape_, d)[at] == lows[d] && inner->highs(*shape_, d)[at] == highs[d],
                    "an entry carries the exact bounds below it");
        check(child);
    }
}

}  // namespace kernels
