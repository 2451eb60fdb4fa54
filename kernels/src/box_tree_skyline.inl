// The skyline of a point in several dimensions, as prosem/index/boxes/kd_tree_skyline.py finds it: included by box_tree.h.

// The tuples that no other one hides: one between them and the origin that is as low, or at the floor. Any range around
// the origin with a tuple at or below the floor has one of `low`; any other range with a tuple has one of its lowest in
// `high`. Stops once `low` has more than `most_low`, and leaves `high` out if it has more than `most_high` (-1: always).
// Branches are walked from the origin outward, so what hides a subtree is known before it is reached.
template <class Ref>
typename BoxTree<Ref>::Skyline BoxTree<Ref>::skyline(const Codes& origin, int64_t floor, int64_t most_low,
                                                      int64_t most_high) {
    struct Part {
        const Node* node;
        int side, clear;  // the sides of the origin it is on, and which of them it is clear of
        Codes corner;     // its nearest codes there
    };
    const int whole = (1 << axes_) - 1;
    Orthants orthants(static_cast<size_t>(whole) + 1);
    int64_t lows = 0, highs = 0, top = most_high >= 0 ? HIGHEST : floor;  // higher tuples are not looked for
    bool has_high = most_high >= 0, is_complete = true;
    Codes anywhere;
    anywhere.fill(HIGHEST);
    std::vector<Part> todo{{root_.get(), 0, 0, anywhere}};
    while (!todo.empty() && is_complete) {
        Part part = todo.back();
        todo.pop_back();
        const Node& node = *part.node;
        if (!node.size || node.least > top) continue;
        if (part.clear == whole &&
            is_hidden(orthants[static_cast<size_t>(part.side)], std::max(node.least, floor), part.corner))
            continue;
        ++visits;
        if (node.axis < 0) {
            const char* first = reinterpret_cast<const char*>(node.tuples.data());  // asked of memory at once
            for (size_t at = 0; at < node.tuples.size() * sizeof(Tuple); at += 64) __builtin_prefetch(first + at);
            int missing = whole ^ part.clear, axis = 0;
            bool is_one = missing && !(missing & (missing - 1));
            while (is_one && !(missing >> axis & 1)) ++axis;
            Span open = is_one ? window(orthants, node, part.side, missing, part.corner, floor) : Span{LOWEST, HIGHEST};
            if (open.low > open.high) continue;
            for (const Tuple& tuple : node.tuples) {
                if (tuple.y > top) break;
                if (is_one && !open.holds(tuple.x[axis])) continue;
                int64_t hidden = 0;
                if (!show(orthants, origin, tuple, floor, hidden)) continue;
                (tuple.y <= floor ? lows : highs) += 1 - hidden;
                if (!is_same_place(tuple.x, origin)) continue;
                if (tuple.y <= floor) return {{tuple}, {}, true, most_high >= 0};  // hides all others
                top = std::min(top, tuple.y);
            }
            if (highs > most_high) {
                has_high = false;
                top = std::min(top, floor);
            }
            if (lows > most_low) is_complete = false;
            continue;
        }
        int bit = 1 << node.axis;
        Part near = part, far = part;
        if (part.clear & bit) {
            bool is_up = part.side & bit;
            near.node = is_up ? node.below.get() : node.above.get();
            far.node = is_up ? node.above.get() : node.below.get();
            far.corner[node.axis] = is_up ? node.cut : ~(node.cut - 1);
        } else if (origin[node.axis] < node.cut) {
            near.node = node.below.get();
            far = {node.above.get(), part.side | bit, part.clear | bit, part.corner};
            far.corner[node.axis] = node.cut;
        } else {
            near.node = node.above.get();
            far = {node.below.get(), part.side, part.clear | bit, part.corner};
            far.corner[node.axis] = ~(node.cut - 1);
        }
        __builtin_prefetch(far.node);  // a tree of 100,000 tuples is larger than caches
        __builtin_prefetch(near.node);
        todo.push_back(far);
        todo.push_back(near);
    }
    Skyline found{{}, {}, is_complete, has_high};
    std::vector<const Tuple*> all;
    for (const auto& orthant : orthants)
        for (const Seen& seen : orthant) all.push_back(&seen.tuple);
    // one that is on several sides counts once
    std::sort(all.begin(), all.end(), [&](const Tuple* one, const Tuple* other) {
        return std::lexicographical_compare(one->x.begin(), one->x.begin() + axes_, other->x.begin(),
                                            other->x.begin() + axes_);
    });
    all.erase(std::unique(all.begin(), all.end(),
                          [&](const Tuple* one, const Tuple* other) { return is_same_place(one->x, other->x); }),
              all.end());
    for (const Tuple* one : all) {
        if (one->y <= floor)
            found.low.push_back(*one);
        else if (has_high)
            found.high.push_back(*one);
    }
    return found;
}

// What is open on the one axis on which a bucket lies across the origin: what is seen already before it leaves only a
// window there, most often an empty one.
template <class Ref>
Span BoxTree<Ref>::window(const Orthants& orthants, const Node& leaf, int side, int missing, const Codes& corner,
                          int64_t floor) const {
    Span open{LOWEST, HIGHEST};
    int64_t height = std::max(leaf.least, floor);
    int axis = 0;
    while (!(missing >> axis & 1)) ++axis;
    auto hides = [&](const Seen& seen) { return seen.height <= height && is_within(seen.outward, corner); };
    for (const Seen& seen : orthants[static_cast<size_t>(side)]) {
        if (!hides(seen) || seen.tuple.x[axis] < open.low) continue;
        if (seen.tuple.x[axis] == HIGHEST) return {HIGHEST, LOWEST};
        open.low = seen.tuple.x[axis] + 1;
    }
    for (const Seen& seen : orthants[static_cast<size_t>(side | missing)]) {
        if (!hides(seen) || seen.tuple.x[axis] > open.high) continue;
        if (seen.tuple.x[axis] == LOWEST) return {HIGHEST, LOWEST};
        open.high = seen.tuple.x[axis] - 1;
    }
    return open;
}

// Takes a tuple into the skyline, and counts those it hides in turn; false if it is hidden itself.
template <class Ref>
bool BoxTree<Ref>::show(Orthants& orthants, const Codes& origin, const Tuple& tuple, int64_t floor,
                        int64_t& hidden) const {
    int64_t height = std::max(tuple.y, floor);
    int base = 0, both = 0;
    for (int axis = 0; axis < axes_; ++axis) {
        if (tuple.x[axis] == origin[axis])
            both |= 1 << axis;  // on both sides
        else if (origin[axis] < tuple.x[axis])
            base |= 1 << axis;
    }
    if (is_hidden(orthants[static_cast<size_t>(base)], height, outward_of(tuple.x, base))) return false;
    std::vector<Codes> gone;
    for (int some = both;; some = (some - 1) & both) {  // all subsets
        int side = base | some;
        Codes outward = outward_of(tuple.x, side);
        auto& orthant = orthants[static_cast<size_t>(side)];
        auto last = std::remove_if(orthant.begin(), orthant.end(), [&](const Seen& seen) {
            if (height > seen.height || !is_within(outward, seen.outward)) return false;
            bool is_known = std::any_of(gone.begin(), gone.end(),
                                        [&](const Codes& x) { return is_same_place(x, seen.tuple.x); });
            if (!is_known) gone.push_back(seen.tuple.x);
            return true;
        });
        orthant.erase(last, orthant.end());
        orthant.push_back({height, outward, tuple});
        if (!some) break;
    }
    hidden = static_cast<int64_t>(gone.size());
    return true;
}
