// Questions to the A2B-tree, and its invariants: included by range_tree.h.

template <class Ref>
bool RangeTree<Ref>::peak(int64_t x, Point& found) {
    Path path;
    seek_start(x, path);
    if (!is_at(path, x)) return false;
    Node* leaf = path.leaf();
    found = {x, ys(leaf)[path.place()], refs(leaf)[path.place()]};
    return true;
}

template <class Ref>
bool RangeTree<Ref>::mar(int64_t x, int64_t y, Hull& hull) {
    Path path;
    seek_start(x, path);
    if (is_at(path, x) && ys(path.leaf())[path.place()] <= y) return false;
    hull_from(path, {y, true}, {y, true}, false, hull);
    return true;
}

// The skylines seen from x: each point lower than all before it, held by `top` and not by `floor`; points at x are not seen.
template <class Ref>
void RangeTree<Ref>::hull(int64_t x, Bound top, Bound floor, Hull& hull) {
    Path path;
    seek_start(x, path);
    hull.left.clear();
    hull.right.clear();
    int64_t bound = top.y;
    if (!top.or_equal && bound == LOWEST) {
        hull.left_end = hull.right_end = {0, false};
        return;
    }
    bound -= !top.or_equal;
    sweep(path, bound, floor, true, hull.left, hull.left_end);
    if (x == HIGHEST) {
        hull.right_end = {0, false};
        return;
    }
    seek_start(x + 1, path);
    sweep(path, bound, floor, false, hull.right, hull.right_end);
}

// The same from the path of the first tuple at x (or after x), if no other tuple at x is low enough to be seen; with
// `skips_first` the one at the path is passed over.
template <class Ref>
void RangeTree<Ref>::hull_from(Path& path, Bound top, Bound floor, bool skips_first, Hull& hull) {
    hull.left.clear();
    hull.right.clear();
    if (!top.or_equal && top.y == LOWEST) {
        hull.left_end = hull.right_end = {0, false};
        return;
    }
    int64_t bound = top.y - !top.or_equal;
    sweep(path, bound, floor, true, hull.left, hull.left_end);
    path.place() += skips_first;
    sweep(path, bound, floor, false, hull.right, hull.right_end);
}

template <class Ref>
void RangeTree<Ref>::sweep(const Path& start, int64_t bound, Bound floor, bool leftward,
                           std::vector<Point>& points, End& end) {
    end = {0, false};
    Path path = start;
    while (leftward ? previous_low(path, bound) : next_low(path, bound)) {
        Node* leaf = path.leaf();
        int at = path.place();
        int64_t x = xs(leaf)[at];
        if (leftward && (at == 0 || xs(leaf)[at - 1] == x)) {  // the lowest tuple of an x is its first
            seek_start(x, path);
            leaf = path.leaf();
            at = path.place();
        }
        int64_t y = ys(leaf)[at];
        if (floor.holds(y)) {
            end = {x, true};
            return;
        }
        points.push_back({x, y, refs(leaf)[at]});
        if (y == LOWEST) return;
        bound = y - 1;
    }
}

// Takes a path to the nearest tuple before it with y <= bound. A subtree is entered only if its minimum is low enough.
template <class Ref>
bool RangeTree<Ref>::previous_low(Path& path, int64_t bound) {
    int level = path.last;
    while (true) {
        Node* node = path.nodes[level];
        const int64_t* low = minima(node);
        int at = path.at[level] - 1;
        while (at >= 0 && low[at] > bound) --at;
        if (at < 0) {
            if (!level) return false;
            --level;
            ++visits;
            continue;
        }
        path.at[level] = at;
        if (level == path.last) return true;
        ++level;
        ++visits;
        path.nodes[level] = children(node)[at];
        path.at[level] = path.nodes[level]->count;
    }
}

// The same in the other direction; the tuple at the path itself counts.
template <class Ref>
bool RangeTree<Ref>::next_low(Path& path, int64_t bound) {
    int level = path.last, at = path.at[level];
    while (true) {
        Node* node = path.nodes[level];
        const int64_t* low = minima(node);
        while (at < node->count && low[at] > bound) ++at;
        if (at == node->count) {
            if (!level) return false;
            at = path.at[--level] + 1;
            ++visits;
            continue;
        }
        path.at[level] = at;
        if (level == path.last) return true;
        path.nodes[++level] = children(node)[at];
        ++visits;
        at = 0;
    }
}

template <class Ref>
bool RangeTree<Ref>::lowest(int64_t low, int64_t high, Point& found) {
    if (!size_ || low > high) return false;
    Path path;
    seek_start(low, path);
    if (path.place() == path.leaf()->count || xs(path.leaf())[path.place()] > high) return false;
    // The minimum over whole subtrees between the path and the first x beyond `high`, from the leaf up.
    int64_t best = HIGHEST;
    bool is_found = false;
    Node* where = nullptr;
    int where_at = 0;
    auto look = [&](Node* node, int at) {
        int64_t y = minima(node)[at];
        if (!is_found || y < best) {
            best = y;
            where = node;
            where_at = at;
            is_found = true;
        }
    };
    int level = path.last, at = path.place();
    while (true) {
        Node* node = path.nodes[level];
        ++visits;
        bool is_over = false;
        // a child is whole if the next key is not beyond: tuples below it are not after that key
        for (; at < node->count; ++at) {
            if (!node->level) {
                if (xs(node)[at] > high) {
                    is_over = true;
                    break;
                }
                look(node, at);
            } else {
                if (xs(node)[at] > high) {
                    is_over = true;
                    break;
                }
                if (at + 1 == node->count || xs(node)[at + 1] > high) break;  // perhaps not whole
                look(node, at);
            }
        }
        if (is_over) break;
        if (node->level && at < node->count) {  // go down into the last child
            path.at[level] = at;
            path.nodes[++level] = children(node)[at];
            at = 0;
            continue;
        }
        // up to the next subtree
        while (--level >= 0 && path.at[level] + 1 >= path.nodes[level]->count) {
        }
        if (level < 0) break;
        at = path.at[level] + 1;
    }
    Node* node = where;
    at = where_at;
    while (node->level) {
        node = children(node)[at];
        at = static_cast<int>(std::min_element(minima(node), minima(node) + node->count) - minima(node));
        ++visits;
    }
    found = {xs(node)[at], ys(node)[at], refs(node)[at]};
    return true;
}

// -- a change of y in place --------------------------------------------------------------------------------
template <class Ref>
void RangeTree<Ref>::exposure(int64_t x, int64_t y, Value ref, int64_t new_y, Exposure& exposure) {
    Path path;
    seek_start(x, path);
    Node* leaf = path.leaf();
    int at = path.place();
    bool has_peak = is_at(path, x);
    exposed(path, has_peak, has_peak ? Point{x, ys(leaf)[at], refs(leaf)[at]} : Point{}, {x, new_y, ref}, y,
            false, exposure);
}

// What a change from y to `now` exposes, seen from the path of the first tuple at x, where `low` is the lowest without it.
template <class Ref>
void RangeTree<Ref>::exposed(Path& path, bool has_peak, const Point& low, const Point& now, int64_t y,
                             bool skips_first, Exposure& exposure) {
    int64_t floor = std::min(y, now.y);
    exposure.is_ignorable = false;
    if (!has_peak || now.y < low.y) {
        exposure.peak = now;
        hull_from(path, {now.y, true}, {floor, true}, skips_first, exposure.hull);
    } else if (low.y <= floor) {
        exposure.is_ignorable = true;
    } else {
        exposure.peak = low;
        hull_from(path, {low.y, false}, {floor, true}, skips_first, exposure.hull);
    }
}

template <class Ref>
bool RangeTree<Ref>::replace_seen(int64_t x, int64_t y, Value ref, int64_t new_y, Exposure& exposure) {
    Path path;
    if (!locate(x, y, ref, path)) return false;
    Node* leaf = path.leaf();
    int at = path.place();
    Value held = refs(leaf)[at];
    int other = at > 0 && xs(leaf)[at - 1] == x ? at - 1 : at + 1;  // the lowest beside it, if it can be shifted
    while (other > 0 && other < at && xs(leaf)[other - 1] == x) --other;
    bool has_peak = other < leaf->count && xs(leaf)[other] == x;
    Point low = has_peak ? Point{x, ys(leaf)[other], refs(leaf)[other]} : Point{};
    int first = shift(leaf, at, new_y);
    if (first >= 0) {
        new_y < y ? lower(path, new_y) : raise(path, y);
        path.place() = first;
        exposed(path, has_peak, low, {x, new_y, held}, y, true, exposure);
        return true;
    }
    erase(path);
    this->exposure(x, y, held, new_y, exposure);
    add(x, new_y, held);
    Ref::let_go(held);  // `add` counted it again
    return true;
}

// -- invariants --------------------------------------------------------------------------------------------
template <class Ref>
void RangeTree<Ref>::check() const {
    std::vector<Point> seen;
    require(check(root_, nullptr, nullptr, seen) == size_, "the count is kept");
    for (size_t at = 1; at < seen.size(); ++at) {
        const Point &one = seen[at - 1], &other = seen[at];
        bool is_ordered = one.x != other.x   ? one.x < other.x
                          : one.y != other.y ? one.y < other.y
                                             : Ref::hash(one.ref) <= Ref::hash(other.ref);
        require(is_ordered, "tuples ascend by (x, y, hash)");
        if (one.x == other.x && one.y == other.y) require(!Ref::equal(one.ref, other.ref), "a tuple twice");
    }
}

template <class Ref>
int64_t RangeTree<Ref>::check(Node* node, const Key* low, const Key* high, std::vector<Point>& seen) const {
    require(node->count <= fan_out_, "no node is overfull");
    require(node->count >= (node != root_ ? least_ : node->level ? 2 : 0), "none is underfull");
    if (!node->level) {
        for (int at = 0; at < node->count; ++at) {
            require(!low || !is_before(node, at, *low), "tuples lie in the range of their node");
            if (high) {
                int64_t x = xs(node)[at], y = ys(node)[at], hash = Ref::hash(refs(node)[at]);
                bool is_beyond = x != high->x ? x > high->x : y != high->y ? y > high->y : hash > high->hash;
                require(!is_beyond, "tuples lie in the range of their node");
            }
            seen.push_back({xs(node)[at], ys(node)[at], refs(node)[at]});
        }
        return node->count;
    }
    int64_t count = 0;
    for (int at = 0; at < node->count; ++at) {
        Node* child = children(node)[at];
        require(child->level + 1 == node->level, "all leaves are equally deep");
        require(minima(node)[at] == least_of(child), "an entry carries the minimum below it");
        Key own{xs(node)[at], ys(node)[at], hashes(node)[at]};
        if (!at && low)
            require(own.x == low->x && own.y == low->y && own.hash == low->hash, "a first key repeats the parent's");
        Key next = at + 1 < node->count ? Key{xs(node)[at + 1], ys(node)[at + 1], hashes(node)[at + 1]} : Key{};
        count += check(child, at ? &own : low, at + 1 < node->count ? &next : high, seen);
    }
    return count;
}
