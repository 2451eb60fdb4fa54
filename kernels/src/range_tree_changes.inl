// Changes of the A2B-tree: included by range_tree.h.

// The path to the first tuple that is not before a key; the place may be the end of a leaf.
template <class Ref>
void RangeTree<Ref>::seek(const Key& key, Path& path) {
    Node* node = root_;
    int depth = 0;
    for (; node->level; ++depth) {
        int low = 0, high = node->count;  // the last child whose key is below; the first if none is
        while (high - low > 1) {
            int middle = (low + high) / 2;
            (is_below(node, middle, key) ? low : high) = middle;
        }
        path.nodes[depth] = node;
        path.at[depth] = low;
        node = children(node)[low];
    }
    int low = 0, high = node->count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (is_before(node, middle, key))
            low = middle + 1;
        else
            high = middle;
    }
    path.nodes[depth] = node;
    path.at[depth] = low;
    path.last = depth;
    visits += depth + 1;
}

// Takes a path from the end of a leaf to the start of the next one; false if there is none.
template <class Ref>
bool RangeTree<Ref>::settle(Path& path) {
    if (path.place() < path.leaf()->count) return true;
    int level = path.last - 1;
    while (level >= 0 && path.at[level] + 1 >= path.nodes[level]->count) --level;
    if (level < 0) return false;
    ++path.at[level];
    for (; level < path.last; ++level) {
        path.nodes[level + 1] = children(path.nodes[level])[path.at[level]];
        path.at[level + 1] = 0;
    }
    ++visits;
    return true;
}

// The path to a tuple; false if it is not there. Tuples with one (x, y) and one hash stand side by side.
template <class Ref>
bool RangeTree<Ref>::locate(int64_t x, int64_t y, Value ref, Path& path) {
    Key key{x, y, Ref::hash(ref)};
    seek(key, path);
    while (settle(path)) {
        Node* leaf = path.leaf();
        int at = path.place();
        if (xs(leaf)[at] != x || ys(leaf)[at] != y) return false;
        Value held = refs(leaf)[at];
        if (Ref::equal(held, ref)) return true;
        if (Ref::hash(held) != key.hash) return false;
        ++path.place();
    }
    return false;
}

// -- entries of a node -------------------------------------------------------------------------------------
template <class Ref>
void RangeTree<Ref>::open_at(Node* node, int at) const {
    int lists = node->level ? 5 : 3, after = node->count - at;
    for (int list = 0; list < lists; ++list) {
        int64_t* from = words(node) + list * stride() + at;
        std::memmove(from + 1, from, sizeof(int64_t) * after);
    }
    ++node->count;
}

template <class Ref>
void RangeTree<Ref>::close_at(Node* node, int at) const {
    int lists = node->level ? 5 : 3, after = node->count - at - 1;
    for (int list = 0; list < lists; ++list) {
        int64_t* to = words(node) + list * stride() + at;
        std::memmove(to, to + 1, sizeof(int64_t) * after);
    }
    --node->count;
}

// Copies some entries behind those of another node of the level.
template <class Ref>
void RangeTree<Ref>::move(Node* from, int first, Node* to, int at, int count) const {
    int lists = from->level ? 5 : 3;
    for (int list = 0; list < lists; ++list)
        std::memcpy(words(to) + list * stride() + at, words(from) + list * stride() + first,
                    sizeof(int64_t) * count);
}

template <class Ref>
void RangeTree<Ref>::insert_child(Node* parent, int at, const Key& key, Node* child) const {
    open_at(parent, at);
    xs(parent)[at] = key.x;
    ys(parent)[at] = key.y;
    hashes(parent)[at] = key.hash;
    minima(parent)[at] = least_of(child);
    children(parent)[at] = child;
}

// -- minima along a path -----------------------------------------------------------------------------------
template <class Ref>
void RangeTree<Ref>::lower(Path& path, int64_t y) {
    for (int level = path.last - 1; level >= 0; --level) {
        int64_t& least = minima(path.nodes[level])[path.at[level]];
        if (least <= y) return;
        least = y;
    }
}

template <class Ref>
void RangeTree<Ref>::raise(Path& path, int64_t gone) {
    for (int level = path.last - 1; level >= 0; --level) {
        int64_t& least = minima(path.nodes[level])[path.at[level]];
        if (least != gone) return;
        int64_t now = least_of(path.nodes[level + 1]);
        if (now == gone) return;
        least = now;
    }
}

// -- add, remove, replace ----------------------------------------------------------------------------------
template <class Ref>
bool RangeTree<Ref>::add(int64_t x, int64_t y, Value ref) {
    Path path;
    seek({x, y, Ref::hash(ref)}, path);
    Node* leaf = path.leaf();
    int at = path.place();
    if (at == leaf->count || (xs(leaf)[at] == x && ys(leaf)[at] == y)) {
        Path held;
        if (locate(x, y, ref, held)) return false;
    }
    open_at(leaf, at);
    xs(leaf)[at] = x;
    ys(leaf)[at] = y;
    refs(leaf)[at] = ref;
    Ref::keep(ref);
    ++size_;
    lower(path, y);
    if (leaf->count > fan_out_) split(path);
    return true;
}

template <class Ref>
bool RangeTree<Ref>::remove(int64_t x, int64_t y, Value ref) {
    Path path;
    if (!locate(x, y, ref, path)) return false;
    Value held = refs(path.leaf())[path.place()];
    erase(path);
    Ref::let_go(held);
    return true;
}

template <class Ref>
void RangeTree<Ref>::erase(Path& path) {
    Node* leaf = path.leaf();
    int64_t y = ys(leaf)[path.place()];
    close_at(leaf, path.place());
    --size_;
    if (leaf->count >= least_ || leaf == root_)
        raise(path, y);
    else
        join(path);
}

// Gives the tuple at a place of a leaf another y, if all tuples of its x stand in the leaf and none at its ends: it is
// moved among them. The place of the first tuple of the x; -1 if that is not so, and nothing is changed.
template <class Ref>
int RangeTree<Ref>::shift(Node* leaf, int at, int64_t y) const {
    int64_t *x = xs(leaf), *heights = ys(leaf);
    Value* held = refs(leaf);
    int first = at, end = at + 1;
    while (first > 0 && x[first - 1] == x[at]) --first;
    while (end < leaf->count && x[end] == x[at]) ++end;
    if (first == 0 || end == leaf->count) return -1;
    Value ref = held[at];
    if (end - first > 1) {
        int64_t hash = Ref::hash(ref);
        auto is_before = [&](int place) {
            return heights[place] != y ? heights[place] < y : Ref::hash(held[place]) < hash;
        };
        for (; at > first && !is_before(at - 1); --at) {
            heights[at] = heights[at - 1];
            held[at] = held[at - 1];
        }
        for (; at + 1 < end && is_before(at + 1); ++at) {
            heights[at] = heights[at + 1];
            held[at] = held[at + 1];
        }
    }
    heights[at] = y;
    held[at] = ref;
    return first;
}

template <class Ref>
bool RangeTree<Ref>::replace(int64_t x, int64_t y, Value ref, int64_t new_y) {
    Path path;
    if (!locate(x, y, ref, path)) return false;
    Value held = refs(path.leaf())[path.place()];
    if (shift(path.leaf(), path.place(), new_y) >= 0) {
        new_y < y ? lower(path, new_y) : raise(path, y);
        return true;
    }
    erase(path);
    add(x, new_y, held);
    Ref::let_go(held);  // `add` counted it again
    return true;
}

// -- shape -------------------------------------------------------------------------------------------------
template <class Ref>
void RangeTree<Ref>::split(Path& path) {
    for (int level = path.last; level >= 0; --level) {
        Node* node = path.nodes[level];
        if (node->count <= fan_out_) return;
        int half = node->count / 2;
        Node* right = new_node(node->level);
        right->count = node->count - half;
        move(node, half, right, 0, right->count);
        node->count = half;
        Key key = node->level ? Key{xs(right)[0], ys(right)[0], hashes(right)[0]} : first_key(right);
        if (!level) {
            Node* root = new_node(node->level + 1);
            insert_child(root, 0, Key{xs(node)[0], ys(node)[0], 0}, node);
            insert_child(root, 1, key, right);
            root_ = root;
            return;
        }
        Node* parent = path.nodes[level - 1];
        minima(parent)[path.at[level - 1]] = least_of(node);
        insert_child(parent, path.at[level - 1] + 1, key, right);
    }
}

// Refills the underfull nodes of a path from a neighbour, from the leaf up; sets the minima on it.
template <class Ref>
void RangeTree<Ref>::join(Path& path) {
    for (int level = path.last - 1; level >= 0; --level) {
        Node *parent = path.nodes[level], *node = path.nodes[level + 1];
        int at = path.at[level];
        if (node->count >= least_) {
            minima(parent)[at] = least_of(node);
            continue;
        }
        at = std::max(at, 1);
        Node *left = children(parent)[at - 1], *right = children(parent)[at];
        int both = left->count + right->count;
        if (both <= fan_out_) {
            move(right, 0, left, left->count, right->count);
            left->count = both;
            std::free(right);
            close_at(parent, at);
        } else {  // share out evenly
            int half = both / 2;
            if (left->count < half) {
                int more = half - left->count;
                move(right, 0, left, left->count, more);
                int lists = right->level ? 5 : 3;
                for (int list = 0; list < lists; ++list) {
                    int64_t* to = words(right) + list * stride();
                    std::memmove(to, to + more, sizeof(int64_t) * (right->count - more));
                }
            } else {
                int more = left->count - half, lists = right->level ? 5 : 3;
                for (int list = 0; list < lists; ++list) {
                    int64_t* from = words(right) + list * stride();
                    std::memmove(from + more, from, sizeof(int64_t) * right->count);
                }
                move(left, half, right, 0, more);
            }
            left->count = half;
            right->count = both - half;
            Key key = right->level ? Key{xs(right)[0], ys(right)[0], hashes(right)[0]} : first_key(right);
            xs(parent)[at] = key.x;
            ys(parent)[at] = key.y;
            hashes(parent)[at] = key.hash;
            minima(parent)[at] = least_of(right);
        }
        minima(parent)[at - 1] = least_of(left);
    }
    while (root_->level && root_->count == 1) {
        Node* only = children(root_)[0];
        std::free(root_);
        root_ = only;
    }
}

template <class Ref>
void RangeTree<Ref>::build(std::vector<Point>& points) {
    std::sort(points.begin(), points.end(), [](const Point& a, const Point& b) {
        if (a.x != b.x) return a.x < b.x;
        return a.y != b.y ? a.y < b.y : Ref::hash(a.ref) < Ref::hash(b.ref);
    });
    for (const Point& point : points) Ref::keep(point.ref);
    release(root_);
    size_ = static_cast<int64_t>(points.size());
    std::vector<Node*> level;
    size_t full = std::max<size_t>(1, fan_out_ * 7 / 8);
    size_t parts = points.size() <= static_cast<size_t>(fan_out_) ? 1 : (points.size() + full - 1) / full;
    for (size_t part = 0; part < parts; ++part) {
        size_t first = points.size() * part / parts, end = points.size() * (part + 1) / parts;
        Node* leaf = new_node(0);
        for (size_t at = first; at < end; ++at, ++leaf->count) {
            xs(leaf)[leaf->count] = points[at].x;
            ys(leaf)[leaf->count] = points[at].y;
            refs(leaf)[leaf->count] = points[at].ref;
        }
        level.push_back(leaf);
    }
    while (level.size() > 1) {
        std::vector<Node*> above;
        parts = level.size() <= static_cast<size_t>(fan_out_) ? 1 : (level.size() + full - 1) / full;
        for (size_t part = 0; part < parts; ++part) {
            size_t first = level.size() * part / parts, end = level.size() * (part + 1) / parts;
            Node* inner = new_node(level[0]->level + 1);
            for (size_t at = first; at < end; ++at) {
                Node* child = level[at];
                Key key = child->level ? Key{xs(child)[0], ys(child)[0], hashes(child)[0]} : first_key(child);
                insert_child(inner, inner->count, key, child);
            }
            above.push_back(inner);
        }
        level.swap(above);
    }
    root_ = level[0];
}
