// Changes and single questions of the k-d tree: included by box_tree.h.

// The cut nearest the middle of an axis: of this one if that is near, else of the best; false if all are at one point.
template <class Ref>
bool BoxTree<Ref>::best_cut(const Tuple* first, const Tuple* last, int axis, int& along, int64_t& cut) const {
    size_t count = static_cast<size_t>(last - first), best = 0;
    std::vector<int64_t> codes(count);
    for (int turn = 0; turn < axes_; ++turn) {
        int here = (axis + turn) % axes_;
        for (size_t at = 0; at < count; ++at) codes[at] = first[at].x[here];
        auto middle = codes.begin() + static_cast<std::ptrdiff_t>(count / 2);
        std::nth_element(codes.begin(), middle, codes.end());
        int64_t code = *middle;
        size_t below = 0, not_above = 0;
        int64_t next = HIGHEST;
        for (int64_t one : codes) {
            below += one < code;
            not_above += one <= code;
            if (one > code && one < next) next = one;
        }
        size_t smaller = std::min(below, count - below);
        if (not_above < count && std::min(not_above, count - not_above) > smaller) {
            smaller = std::min(not_above, count - not_above);
            code = next;
        }
        if (smaller > best) {
            best = smaller;
            along = here;
            cut = code;
        }
        if (5 * best >= 2 * count) break;
    }
    return best > 0;
}

template <class Ref>
typename BoxTree<Ref>::Link BoxTree<Ref>::made(Tuple* first, Tuple* last, int axis) const {
    auto node = std::make_unique<Node>();
    node->size = last - first;
    int along = 0;
    int64_t cut = 0;
    if (node->size <= bucket_ || !best_cut(first, last, axis, along, cut)) {
        node->tuples.assign(first, last);
        std::stable_sort(node->tuples.begin(), node->tuples.end(),
                         [](const Tuple& one, const Tuple& other) { return one.y < other.y; });
        if (node->size) node->least = node->tuples.front().y;
        return node;
    }
    Tuple* middle = std::partition(first, last, [&](const Tuple& tuple) { return tuple.x[along] < cut; });
    node->axis = along;
    node->cut = cut;
    node->below = made(first, middle, (along + 1) % axes_);
    node->above = made(middle, last, (along + 1) % axes_);
    node->least = std::min(node->below->least, node->above->least);
    return node;
}

template <class Ref>
void BoxTree<Ref>::rebuild(Link& link) const {
    std::vector<Tuple> tuples;
    tuples.reserve(static_cast<size_t>(link->size));
    each(*link, [&](const Tuple& tuple) { tuples.push_back(tuple); });
    link = made(tuples.data(), tuples.data() + tuples.size(), std::max(link->axis, 0));
}

// Counts a change on its path, renews the minima, and builds anew the topmost part that is out of proportion.
template <class Ref>
void BoxTree<Ref>::settle(std::vector<Link*>& path, int change) {
    Node& leaf = **path.back();
    leaf.least = leaf.tuples.empty() ? HIGHEST : leaf.tuples.front().y;
    Link* uneven = nullptr;
    for (size_t at = path.size(); at-- > 0;) {
        Node& node = **path[at];
        node.size += change;
        ++node.changes;
        bool is_due = 4 * node.changes > node.size;
        if (node.axis < 0) {
            if (node.size > bucket_ && is_due) uneven = path[at];
            continue;
        }
        node.least = std::min(node.below->least, node.above->least);
        int64_t larger = std::max(node.below->size, node.above->size);
        if (node.size <= bucket_ / 2 || (is_due && 4 * larger > 3 * node.size + bucket_)) uneven = path[at];
    }
    if (uneven) rebuild(*uneven);
}

template <class Ref>
typename std::vector<typename BoxTree<Ref>::Tuple>::iterator BoxTree<Ref>::place(Node& leaf, const Tuple& tuple) const {
    auto at = std::lower_bound(leaf.tuples.begin(), leaf.tuples.end(), tuple.y,
                               [](const Tuple& one, int64_t y) { return one.y < y; });
    for (; at != leaf.tuples.end() && at->y == tuple.y; ++at)
        if (is_same_place(at->x, tuple.x) && Ref::equal(at->ref, tuple.ref)) return at;
    return leaf.tuples.end();
}

template <class Ref>
bool BoxTree<Ref>::add(const Tuple& tuple) {
    std::vector<Link*> path{&root_};
    while ((*path.back())->axis >= 0) {
        Node& node = **path.back();
        path.push_back(tuple.x[node.axis] < node.cut ? &node.below : &node.above);
    }
    visits += static_cast<int64_t>(path.size());
    Node& leaf = **path.back();
    if (place(leaf, tuple) != leaf.tuples.end()) return false;
    auto at = std::upper_bound(leaf.tuples.begin(), leaf.tuples.end(), tuple.y,
                               [](int64_t y, const Tuple& one) { return y < one.y; });
    leaf.tuples.insert(at, tuple);
    Ref::keep(tuple.ref);
    settle(path, 1);
    return true;
}

template <class Ref>
bool BoxTree<Ref>::remove(const Tuple& tuple) {
    std::vector<Link*> path{&root_};
    while ((*path.back())->axis >= 0) {
        Node& node = **path.back();
        path.push_back(tuple.x[node.axis] < node.cut ? &node.below : &node.above);
    }
    visits += static_cast<int64_t>(path.size());
    Node& leaf = **path.back();
    auto at = place(leaf, tuple);
    if (at == leaf.tuples.end()) return false;
    Value held = at->ref;
    leaf.tuples.erase(at);
    settle(path, -1);
    Ref::let_go(held);
    return true;
}

// -- questions -----------------------------------------------------------------------------------------------
template <class Ref>
bool BoxTree<Ref>::lowest(const Span* box, Tuple& found) {
    const Tuple* best = nullptr;
    lowest(*root_, box, ends_of(box), best);
    if (best) found = *best;
    return best;
}

template <class Ref>
void BoxTree<Ref>::lowest(const Node& node, const Span* box, unsigned mask, const Tuple*& best) {
    if (!node.size || (best && node.least >= best->y)) return;
    ++visits;
    if (node.axis < 0) {
        for (const Tuple& tuple : node.tuples) {
            if (best && tuple.y >= best->y) return;
            if (!mask || is_inside(tuple.x, box)) {
                best = &tuple;
                return;
            }
        }
        return;
    }
    unsigned below = mask, above = mask;
    bool has_below = reaches_below(node, box, below), has_above = reaches_above(node, box, above);
    bool is_above_first = node.above->least < node.below->least;
    if (is_above_first && has_above) lowest(*node.above, box, above, best);
    if (has_below) lowest(*node.below, box, below, best);
    if (!is_above_first && has_above) lowest(*node.above, box, above, best);
}

template <class Ref>
bool BoxTree<Ref>::near(const Span* box, const Codes& point, int64_t limit, const Value* but, Tuple& found) {
    return near(*root_, box, point, limit, but, found);
}

template <class Ref>
bool BoxTree<Ref>::near(const Node& node, const Span* box, const Codes& point, int64_t limit, const Value* but,
                        Tuple& found) {
    if (!node.size || node.least > limit) return false;
    ++visits;
    if (node.axis < 0) {
        for (const Tuple& tuple : node.tuples) {
            if (tuple.y > limit) return false;
            if (!is_inside(tuple.x, box) || (but && Ref::equal(tuple.ref, *but))) continue;
            found = tuple;
            return true;
        }
        return false;
    }
    unsigned unused = 0;
    bool has_below = reaches_below(node, box, unused), has_above = reaches_above(node, box, unused);
    bool is_below_first = point[node.axis] < node.cut;
    if (is_below_first && has_below && near(*node.below, box, point, limit, but, found)) return true;
    if (has_above && near(*node.above, box, point, limit, but, found)) return true;
    return !is_below_first && has_below && near(*node.below, box, point, limit, but, found);
}

// -- invariants ----------------------------------------------------------------------------------------------
template <class Ref>
void BoxTree<Ref>::check(const Node& node, const std::array<Span, MAX_AXES>& bounds) const {
    if (node.axis < 0) {
        require(node.size == static_cast<int64_t>(node.tuples.size()), "a bucket knows its size");
        require(node.least == (node.tuples.empty() ? HIGHEST : node.tuples.front().y), "a bucket knows its minimum");
        for (size_t at = 0; at < node.tuples.size(); ++at) {
            const Tuple& tuple = node.tuples[at];
            require(!at || node.tuples[at - 1].y <= tuple.y, "a bucket is in the order of y");
            require(is_inside(tuple.x, bounds.data()), "a point is on its side of every cut");
            for (size_t other = 0; other < at; ++other)
                require(node.tuples[other].y != tuple.y || !is_same_place(node.tuples[other].x, tuple.x) ||
                            !Ref::equal(node.tuples[other].ref, tuple.ref),
                        "a tuple twice");
        }
        return;
    }
    require(node.tuples.empty(), "a branch has no tuples of its own");
    require(node.size == node.below->size + node.above->size, "a branch knows its size");
    require(node.size > bucket_ / 2, "a branch is worth a cut");
    require(node.least == std::min(node.below->least, node.above->least), "a branch knows its minimum");
    require(bounds[node.axis].low < node.cut && node.cut <= bounds[node.axis].high, "a cut lies between those above it");
    auto below = bounds, above = bounds;
    below[node.axis].high = node.cut - 1;
    above[node.axis].low = node.cut;
    check(*node.below, below);
    check(*node.above, above);
}
