// Included by radius_epochs.h.

// Its runs have neither gaps nor ends yet.
template <class T, class Order>
void RadiusEpochs<T, Order>::begin(Epoch epoch) {
    std::vector<Run> runs;
    for (const Run& run : epoch.runs) {
        if (!runs.empty() && runs.back().centre == run.centre) {
            runs.back().high = run.high;
            continue;
        }
        runs.push_back(run);
        add(runs.back());
    }
    epoch.runs = std::move(runs);
    epochs_.emplace_back(std::move(epoch));
}

// -- events ------------------------------------------------------------------------------------------------
template <class T, class Order>
void RadiusEpochs<T, Order>::event(T d, Pieces& pieces) {
    bool rising = d > value;
    int side = rising ? 0 : 1;
    T x = rising ? d : -d;
    std::vector<std::pair<size_t, size_t>> fired;  // an epoch, and where its runs begin
    std::vector<Run> after;
    if (d != value)
        for (size_t at = 0; at < epochs_.size(); ++at) {
            if (epochs_[at].nearest[side] > x) continue;
            if (fired.empty()) {
                fired.reserve(epochs_.size() - at);
                pieces.reserve(16);
            }
            fired.emplace_back(at, after.size());
            fire(*epochs_[at], at ? epochs_[at - 1].stop + 1 : 0, d, side, after, pieces);
        }
    value = d;
    const Run* end = after.data() + after.size();
    for (auto one = fired.rbegin(); one != fired.rend(); ++one) {
        size_t at = one->first;
        const Run* begin = after.data() + one->second;
        visits += static_cast<int64_t>(epochs_[at]->runs.size());
        epochs_[at].renew(begin, end);
        end = begin;
    }
    for (auto one = fired.rbegin(); one != fired.rend(); ++one) {
        size_t at = one->first;
        if (at + 1 < epochs_.size() && are_alike(*epochs_[at], *epochs_[at + 1]))
            epochs_.erase(epochs_.begin() + static_cast<std::ptrdiff_t>(at));
    }
}

// Adds the runs of an epoch after an event, and what fires of it: the beginning of each run with an end that is reached.
template <class T, class Order>
void RadiusEpochs<T, Order>::fire(const Epoch& epoch, int64_t first, T d, int side, std::vector<Run>& after,
                                  Pieces& pieces) const {
    T x = side ? -d : d;
    size_t begin = after.size();
    after.reserve(begin + epoch.runs.size() + 1);
    auto is_joined = [&](const Run& run) {
        if (after.size() == begin || after.back().centre != run.centre) return false;
        after.back().high = run.high;
        return true;
    };
    auto put = [&](Run run) {
        if (is_joined(run)) return;
        add(run);
        after.push_back(run);
    };
    for (const Run& run : epoch.runs) {
        if (run.ends[side] > x) {
            if (!is_joined(run)) after.push_back(run);
            continue;
        }
        T last = run.high, next{};
        bool is_cut = run.low != run.high && end(side, run.centre, run.high) > x;
        if (is_cut) epoch.radii.cut([&](T radius) { return end(side, run.centre, radius) > x; }, last, next);
        pieces.push_back({run.low, last, first, epoch.stop, run.centre});
        put({run.low, last, d, {}});
        if (is_cut) put({next, run.high, run.centre, {}});
    }
}

// Whether all radii of an epoch were notified of what they were in the next one, which may have more of them.
template <class T, class Order>
bool RadiusEpochs<T, Order>::are_alike(const Epoch& one, const Epoch& next) {
    if (one.runs.size() != next.runs.size()) return false;
    for (size_t at = 0; at < one.runs.size(); ++at) {
        const Run &mine = one.runs[at], &other = next.runs[at];
        if (mine.centre != other.centre || mine.low < other.low || other.high < mine.high) return false;
    }
    return true;
}

// -- questions ---------------------------------------------------------------------------------------------
template <class T, class Order>
T RadiusEpochs<T, Order>::last_notified(T radius, int64_t birth) const {
    auto epoch = std::lower_bound(epochs_.begin(), epochs_.end(), birth,
                                  [](const Held& one, int64_t birth) { return one.stop < birth; });
    if (epoch == epochs_.end()) return value;
    const std::vector<Run>& runs = (*epoch)->runs;
    auto run = std::upper_bound(runs.begin(), runs.end(), radius, [](T radius, const Run& one) { return radius < one.low; });
    return run == runs.begin() ? run->centre : (run - 1)->centre;
}

template <class T, class Order>
void RadiusEpochs<T, Order>::all(Pieces& pieces) const {
    int64_t first = 0;
    for (const Held& epoch : epochs_) {
        for (const Run& run : epoch->runs) pieces.push_back({run.low, run.high, first, epoch->stop, run.centre});
        first = epoch->stop + 1;
    }
}

template <class T, class Order>
bool RadiusEpochs<T, Order>::is_plain() const {
    for (const Held& epoch : epochs_)
        if (epoch->runs.size() > 1 || epoch->runs.front().centre != value) return false;
    return true;
}

// -- boxes -------------------------------------------------------------------------------------------------
template <class T>
EpochBoxes<T>::EpochBoxes(std::vector<EpochPiece<T>> pieces) : boxes(std::move(pieces)) {
    if (!boxes.empty() && boxes.front().last != boxes.back().last) join();
    group();
}

// Pieces come by epoch, then by radius; a box takes the place of its first piece.
template <class T>
void EpochBoxes<T>::join() {
    std::vector<size_t> before, here;  // the boxes that reach to the epoch before, and to the present one, by radius
    before.reserve(boxes.size());
    here.reserve(boxes.size());
    size_t next = 0, count = 0;  // of those before; boxes so far
    int64_t last = boxes.front().last;
    for (const EpochPiece<T>& piece : boxes) {
        if (piece.last != last) {
            last = piece.last;
            before.swap(here);
            here.clear();
            next = 0;
        }
        while (next < before.size() && boxes[before[next]].low < piece.low) ++next;
        EpochPiece<T>* box = next < before.size() ? &boxes[before[next]] : nullptr;
        if (box && box->low == piece.low && box->high == piece.high && box->before == piece.before &&
            box->last + 1 == piece.first) {
            box->last = piece.last;
            here.push_back(before[next]);
        } else {
            here.push_back(count);
            boxes[count++] = piece;
        }
    }
    boxes.resize(count);
}

template <class T>
void EpochBoxes<T>::group() {
    size_t count = boxes.size();
    std::vector<std::pair<int64_t, size_t>> order(count);  // what was notified before, or the first box of it; a box
    for (size_t at = 0; at < count; ++at) order[at] = {bits_of(boxes[at].before), at};
    std::sort(order.begin(), order.end());
    for (size_t at = 0; at < count;) {
        int64_t before = order[at].first, first = static_cast<int64_t>(order[at].second);
        for (; at < count && order[at].first == before; ++at) order[at].first = first;
    }
    std::sort(order.begin(), order.end());
    std::vector<EpochPiece<T>> sorted(count);
    for (size_t at = 0; at < count; ++at) {
        sorted[at] = boxes[order[at].second];
        if (!at || order[at].first != order[at - 1].first) groups.push_back(at);
    }
    boxes = std::move(sorted);
    groups.push_back(count);
}

// -- invariants --------------------------------------------------------------------------------------------
template <class T, class Order>
void RadiusEpochs<T, Order>::check() const {
    for (size_t at = 0; at < epochs_.size(); ++at) {
        const Epoch& epoch = *epochs_[at];
        require(!at || epochs_[at - 1]->stop < epoch.stop, "epochs follow one another");
        require(!epoch.runs.empty(), "each epoch was notified of something");
        T nearest[2] = {epoch.runs.front().ends[0], epoch.runs.front().ends[1]};
        const Run* before = nullptr;
        for (const Run& run : epoch.runs) {
            require(run.low <= run.high, "a run holds a radius");
            if (before) {
                T last{}, next{};
                epoch.radii.cut([&](T radius) { return radius > before->high; }, last, next);
                require(last == before->high && next == run.low, "runs leave no radius out");
                require(before->centre != run.centre, "neighbours were notified of different values");
            }
            for (int side = 0; side < 2; ++side) {
                require(run.ends[side] == end(side, run.centre, run.low), "ends are those of the centres");
                nearest[side] = std::min(nearest[side], run.ends[side]);
            }
            before = &run;
        }
        require(epoch.runs.back().high == epoch.radii.last(), "runs go to the last radius");
        for (int side = 0; side < 2; ++side)
            require(nearest[side] == epochs_[at].nearest[side], "the nearest ends are kept");
    }
}
