// Included by radius_cells.h.

// -- blocks ------------------------------------------------------------------------------------------------
// Gives every radius of a uniform block a cell of its own.
template <class T>
void RadiusCells<T>::spread(Block& block) const {
    if (!block.is_uniform) return;
    size_t count = block.radii.size();
    block.is_uniform = false;
    block.centres.assign(count, block.tag);
    block.several.assign(count, 0);
    for (int side = 0; side < 2; ++side) {
        block.ends[side].resize(count);
        for (size_t at = 0; at < count; ++at) block.ends[side][at] = end(side, block.tag, block.radii[at]);
    }
}

// The least of some values: eight at a time, which compilers turn into vector instructions.
template <class T>
T RadiusCells<T>::least(const std::vector<T>& values) {
    constexpr size_t LANES = 8;
    const T* value = values.data();
    T best[LANES];
    std::fill(best, best + LANES, value[0]);
    size_t at = 0;
    for (; at + LANES <= values.size(); at += LANES)
        for (size_t lane = 0; lane < LANES; ++lane)
            best[lane] = value[at + lane] < best[lane] ? value[at + lane] : best[lane];
    for (; at < values.size(); ++at) best[0] = std::min(best[0], value[at]);
    return *std::min_element(best, best + LANES);
}

// Sets first radius and nearest ends of a block; makes it uniform if it can be.
template <class T>
void RadiusCells<T>::settle(size_t at) {
    Block& block = blocks_[at];
    firsts_[at] = block.radii.front();
    if (!block.is_uniform) {
        bool is_one = true;
        for (size_t cell = 0; cell < block.radii.size() && is_one; ++cell)
            is_one = !block.several[cell] && block.centres[cell] == block.centres[0];
        if (is_one) {
            block.is_uniform = true;
            block.tag = block.centres[0];
            for (auto* column : {&block.centres, &block.ends[0], &block.ends[1]}) std::vector<T>().swap(*column);
            std::vector<uint8_t>().swap(block.several);
        }
    }
    for (int side = 0; side < 2; ++side)
        nearest_[side][at] = block.is_uniform ? end(side, block.tag, block.radii.front())
                                              : least(block.ends[side]);
}

template <class T>
void RadiusCells<T>::renew_root() {
    for (int side = 0; side < 2; ++side)
        if (!blocks_.empty()) root_[side] = least(nearest_[side]);
}

template <class T>
void RadiusCells<T>::put_block(size_t at, Block block) {
    auto place = static_cast<std::ptrdiff_t>(at);
    blocks_.insert(blocks_.begin() + place, std::move(block));
    firsts_.insert(firsts_.begin() + place, T{});
    for (auto& nearest : nearest_) nearest.insert(nearest.begin() + place, T{});
    settle(at);
}

template <class T>
void RadiusCells<T>::drop_block(size_t at) {
    auto place = static_cast<std::ptrdiff_t>(at);
    blocks_.erase(blocks_.begin() + place);
    firsts_.erase(firsts_.begin() + place);
    for (auto& nearest : nearest_) nearest.erase(nearest.begin() + place);
}

template <class T>
template <class Classes>
void RadiusCells<T>::build(const std::vector<T>& radii, const std::vector<RadiusRun<T>>& runs, Classes& classes) {
    blocks_.clear();
    firsts_.clear();
    for (auto& nearest : nearest_) nearest.clear();
    size_ = radii.size();
    largest_ = radii.empty() ? T{} : radii.back();
    auto run = runs.begin();
    for (size_t first = 0; first < radii.size(); first += block_ / 2) {
        size_t stop = std::min(radii.size(), first + block_ / 2);
        Block block;
        block.radii.assign(radii.begin() + static_cast<std::ptrdiff_t>(first),
                           radii.begin() + static_cast<std::ptrdiff_t>(stop));
        while (run->high < block.radii.front()) ++run;
        if (run->high >= block.radii.back() && !run->is_several) {
            block.tag = run->centre;
        } else {
            block.tag = T{};
            spread(block);
            for (size_t cell = 0; cell < block.radii.size(); ++cell) {
                T radius = block.radii[cell];
                while (run->high < radius) ++run;
                block.centres[cell] = run->centre;
                block.several[cell] = run->is_several;
                T right, left;
                if (run->is_several) {
                    classes.near(radius, right, left);
                } else {
                    right = ends_.right(run->centre, radius);
                    left = ends_.left(run->centre, radius);
                }
                block.ends[0][cell] = right;
                block.ends[1][cell] = -left;
            }
        }
        put_block(blocks_.size(), std::move(block));
    }
    renew_root();
}

// -- events ------------------------------------------------------------------------------------------------
template <class T>
template <class Classes>
void RadiusCells<T>::fire(T d, bool rising, Classes& classes, FiredRanges<T>& fired, RadiusJournal<T>* journal) {
    int side = rising ? 0 : 1;
    T x = rising ? d : -d;
    size_t after = 0;  // the block after one that fired to its last radius
    bool is_open = false;
    auto tell = [&](T low, T high, bool joins) {
        if (joins)
            fired.highs.back() = high;
        else {
            fired.lows.push_back(low);
            fired.highs.push_back(high);
        }
    };
    bool is_changed = false;
    for (size_t at = 0; at < blocks_.size(); ++at) {
        if (nearest_[side][at] > x) continue;
        ++visits;
        is_changed = true;
        Block& block = blocks_[at];
        size_t count = block.radii.size();
        bool joins = is_open && after == at;
        is_open = false;
        if (block.is_uniform) {  // its beginning fires
            size_t low = 0, high = count;
            while (low < high) {
                size_t middle = (low + high) / 2;
                if (end(side, block.tag, block.radii[middle]) <= x)
                    low = middle + 1;
                else
                    high = middle;
            }
            tell(block.radii[0], block.radii[low - 1], joins);
            if (journal) journal->runs.push_back({block.radii[0], block.radii[low - 1], block.tag, false});
            if (low == count) {
                block.tag = d;
                is_open = true;
            } else {
                spread(block);
                for (size_t cell = 0; cell < low; ++cell) {
                    block.centres[cell] = d;
                    for (int each = 0; each < 2; ++each) block.ends[each][cell] = end(each, d, block.radii[cell]);
                }
            }
        } else {
            size_t next = joins ? 0 : count;  // the cell after one that fired
            size_t noted = count;             // the cell after the last one in the journal
            for (size_t cell = 0; cell < count; ++cell) {
                if (block.ends[side][cell] > x) continue;
                T radius = block.radii[cell];
                if (journal) {
                    auto& runs = journal->runs;
                    bool is_several = block.several[cell];
                    if (noted == cell && !is_several && !runs.back().is_several && runs.back().centre == block.centres[cell])
                        runs.back().high = radius;
                    else
                        runs.push_back({radius, radius, block.centres[cell], is_several});
                    noted = cell + 1;
                }
                bool is_whole = true;
                if (block.several[cell]) {
                    bool is_single = true;
                    is_whole = classes.event(radius, d, is_single);
                    if (!is_single) {
                        T right, left;
                        classes.near(radius, right, left);
                        block.ends[0][cell] = right;
                        block.ends[1][cell] = -left;
                    } else {
                        block.several[cell] = 0;
                    }
                }
                if (!block.several[cell]) {
                    block.centres[cell] = d;
                    for (int each = 0; each < 2; ++each) block.ends[each][cell] = end(each, d, radius);
                }
                if (!is_whole) continue;
                tell(radius, radius, cell == next);
                next = cell + 1;
            }
            is_open = next == count && !fired.highs.empty() && fired.highs.back() == block.radii.back();
        }
        after = at + 1;
        settle(at);
    }
    if (is_changed)
        renew_root();
    else if (!blocks_.empty())
        root_[side] = least(nearest_[side]);
}

template <class T>
void RadiusCells<T>::recentre(T d, RadiusJournal<T>* journal) {
    if (journal) {
        auto before = runs();
        journal->runs.insert(journal->runs.end(), before.begin(), before.end());
    }
    for (size_t at = 0; at < blocks_.size(); ++at) {
        blocks_[at].is_uniform = true;
        blocks_[at].tag = d;
        for (auto* column : {&blocks_[at].centres, &blocks_[at].ends[0], &blocks_[at].ends[1]}) column->clear();
        blocks_[at].several.clear();
        settle(at);
    }
    renew_root();
}

template <class T>
template <class Classes>
bool RadiusCells<T>::put_back(Block& block, const RadiusRun<T>& run, Classes& classes) const {
    size_t low = place_in(block, run.low);
    size_t high = static_cast<size_t>(std::upper_bound(block.radii.begin(), block.radii.end(), run.high) - block.radii.begin());
    if (low == high) return false;
    if (block.is_uniform && !run.is_several && (block.tag == run.centre || high - low == block.radii.size())) {
        block.tag = run.centre;
        return true;
    }
    spread(block);
    for (size_t cell = low; cell < high; ++cell) {
        T right, left, radius = block.radii[cell];
        if (run.is_several) {
            classes.near(radius, right, left);
        } else {
            right = ends_.right(run.centre, radius);
            left = ends_.left(run.centre, radius);
        }
        block.centres[cell] = run.centre;
        block.several[cell] = run.is_several;
        block.ends[0][cell] = right;
        block.ends[1][cell] = -left;
    }
    return true;
}

template <class T>
template <class Classes>
void RadiusCells<T>::rewind(const RadiusJournal<T>& journal, Classes& classes) {
    std::vector<uint8_t> is_touched(blocks_.size(), 0);
    for (auto run = journal.runs.rbegin(); run != journal.runs.rend(); ++run)
        for (size_t at = block_of(run->low); at < blocks_.size() && firsts_[at] <= run->high; ++at)
            if (put_back(blocks_[at], *run, classes)) is_touched[at] = 1;
    for (size_t at = 0; at < blocks_.size(); ++at)
        if (is_touched[at]) settle(at);
    renew_root();
}

// -- single radii ------------------------------------------------------------------------------------------
template <class T>
bool RadiusCells<T>::centre(T radius, T& centre) const {
    const Block& block = blocks_[block_of(radius)];
    size_t cell = place_in(block, radius);
    centre = block.is_uniform ? block.tag : block.centres[cell];
    return block.is_uniform || !block.several[cell];
}

template <class T>
void RadiusCells<T>::set(T radius, T centre, bool is_several, T right, T minus_left) {
    size_t at = block_of(radius);
    Block& block = blocks_[at];
    if (block.is_uniform && !is_several && block.tag == centre) return;
    spread(block);
    size_t cell = place_in(block, radius);
    block.centres[cell] = centre;
    block.several[cell] = is_several;
    block.ends[0][cell] = right;
    block.ends[1][cell] = minus_left;
    settle(at);
    root_[0] = std::min(root_[0], nearest_[0][at]);
    root_[1] = std::min(root_[1], nearest_[1][at]);
}

template <class T>
void RadiusCells<T>::insert(T radius, T centre) {
    largest_ = size_ ? std::max(largest_, radius) : radius;
    ++size_;
    if (blocks_.empty()) {
        Block block;
        block.radii = {radius};
        block.tag = centre;
        put_block(0, std::move(block));
        renew_root();
        return;
    }
    size_t at = block_of(radius);
    Block& block = blocks_[at];
    size_t cell = place_in(block, radius);
    auto place = static_cast<std::ptrdiff_t>(cell);
    if (!block.is_uniform || block.tag != centre) {
        spread(block);
        block.centres.insert(block.centres.begin() + place, centre);
        block.several.insert(block.several.begin() + place, 0);
        for (int side = 0; side < 2; ++side)
            block.ends[side].insert(block.ends[side].begin() + place, end(side, centre, radius));
    }
    block.radii.insert(block.radii.begin() + place, radius);
    if (block.radii.size() > block_) {
        size_t half = block.radii.size() / 2;
        Block other;
        other.is_uniform = block.is_uniform;
        other.tag = block.tag;
        auto cut = [&](auto& from, auto& to) {
            if (from.empty()) return;
            to.assign(from.begin() + static_cast<std::ptrdiff_t>(half), from.end());
            from.resize(half);
        };
        cut(block.radii, other.radii);
        cut(block.centres, other.centres);
        cut(block.several, other.several);
        for (int side = 0; side < 2; ++side) cut(block.ends[side], other.ends[side]);
        put_block(at + 1, std::move(other));
    }
    settle(at);
    for (int side = 0; side < 2; ++side) root_[side] = std::min(root_[side], end(side, centre, radius));
}

template <class T>
void RadiusCells<T>::erase(T radius) {
    size_t at = block_of(radius);
    Block& block = blocks_[at];
    auto place = static_cast<std::ptrdiff_t>(place_in(block, radius));
    --size_;
    block.radii.erase(block.radii.begin() + place);
    if (!block.is_uniform) {
        block.centres.erase(block.centres.begin() + place);
        block.several.erase(block.several.begin() + place);
        for (auto& ends : block.ends) ends.erase(ends.begin() + place);
    }
    if (block.radii.empty()) {
        drop_block(at);
        return;
    }
    settle(at);
    if (block.radii.size() >= block_ / 8 || blocks_.size() < 2) return;
    size_t left = at ? at - 1 : 0;
    if (blocks_[left].radii.size() + blocks_[left + 1].radii.size() > block_ / 2) return;
    Block &one = blocks_[left], &other = blocks_[left + 1];
    spread(one);
    spread(other);
    auto join = [](auto& to, auto& from) { to.insert(to.end(), from.begin(), from.end()); };
    join(one.radii, other.radii);
    join(one.centres, other.centres);
    join(one.several, other.several);
    for (int side = 0; side < 2; ++side) join(one.ends[side], other.ends[side]);
    drop_block(left + 1);
    settle(left);
}

template <class T>
std::vector<RadiusRun<T>> RadiusCells<T>::runs() const {
    std::vector<RadiusRun<T>> found;
    auto add = [&](T low, T high, T centre, bool is_several) {
        if (!found.empty() && !is_several && !found.back().is_several && found.back().centre == centre)
            found.back().high = high;
        else
            found.push_back({low, high, centre, is_several});
    };
    for (const Block& block : blocks_) {
        if (block.is_uniform)
            add(block.radii.front(), block.radii.back(), block.tag, false);
        else
            for (size_t cell = 0; cell < block.radii.size(); ++cell)
                add(block.radii[cell], block.radii[cell], block.centres[cell], block.several[cell]);
    }
    return found;
}

// -- invariants --------------------------------------------------------------------------------------------
template <class T>
template <class Classes>
void RadiusCells<T>::check(Classes& classes) const {
    size_t count = 0;
    for (size_t at = 0; at < blocks_.size(); ++at) {
        const Block& block = blocks_[at];
        size_t size = block.radii.size();
        count += size;
        require(size > 0 && size <= block_, "no block is empty or too long");
        require(firsts_[at] == block.radii.front(), "the first radius of each block is known");
        require(!at || blocks_[at - 1].radii.back() < block.radii.front(), "blocks ascend");
        for (size_t cell = 1; cell < size; ++cell)
            require(block.radii[cell - 1] < block.radii[cell], "radii ascend strictly");
        require(block.radii.back() <= largest_, "no radius is larger than the largest");
        if (block.is_uniform) {
            for (int side = 0; side < 2; ++side)
                require(nearest_[side][at] == end(side, block.tag, block.radii.front()), "nearest ends are kept");
        } else {
            require(block.centres.size() == size && block.several.size() == size && block.ends[0].size() == size &&
                        block.ends[1].size() == size,
                    "one cell in every column");
            for (size_t cell = 0; cell < size; ++cell) {
                T right = ends_.right(block.centres[cell], block.radii[cell]);
                T left = ends_.left(block.centres[cell], block.radii[cell]);
                if (block.several[cell]) classes.near(block.radii[cell], right, left);
                require(block.ends[0][cell] == right && block.ends[1][cell] == -left, "ends are those of the centres");
            }
            for (int side = 0; side < 2; ++side)
                require(nearest_[side][at] == *std::min_element(block.ends[side].begin(), block.ends[side].end()),
                        "nearest ends are kept");
        }
        for (int side = 0; side < 2; ++side) require(root_[side] <= nearest_[side][at], "no end is nearer than the root");
    }
    require(count == size_, "the count is kept");
}
