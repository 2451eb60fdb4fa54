// Included by radius_epochs.h.

template <class T, class Order>
void RadiusEpochs<T, Order>::sum_up(Epoch& epoch) {
    for (int side = 0; side < 2; ++side) {
        T least = epoch.runs.front().ends[side];
        for (const Run& run : epoch.runs) least = std::min(least, run.ends[side]);
        epoch.nearest[side] = least;
    }
}

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
    sum_up(epoch);
    epochs_.emplace_back(std::move(epoch));
}

// -- events ------------------------------------------------------------------------------------------------
template <class T, class Order>
void RadiusEpochs<T, Order>::event(T d, Pieces& pieces) {
    bool rising = d > value;
    int side = rising ? 0 : 1;
    T x = rising ? d : -d;
    std::vector<std::pair<size_t, std::vector<Run>>> fired;
    if (d != value)
        for (size_t at = 0; at < epochs_.size(); ++at) {
            if (epochs_[at].nearest[side] > x) continue;
            fired.emplace_back(at, std::vector<Run>());
            fire(*epochs_[at], at ? epochs_[at - 1].stop + 1 : 0, d, side, fired.back().second, pieces);
        }
    value = d;
    for (auto& [at, runs] : fired) {
        const Epoch& before = *epochs_[at];
        visits += static_cast<int64_t>(before.runs.size());
        Epoch after{before.stop, before.radii, std::move(runs), {}};
        sum_up(after);
        epochs_[at] = Held(std::move(after));
    }
    for (auto one = fired.rbegin(); one != fired.rend(); ++one) {
        auto at = static_cast<std::ptrdiff_t>(one->first);
        if (one->first + 1 < epochs_.size() && are_alike(*epochs_[one->first], *epochs_[one->first + 1]))
            epochs_.erase(epochs_.begin() + at);
    }
}

// The runs of an epoch after an event, and what fires of it: the beginning of each run with an end that is reached.
template <class T, class Order>
void RadiusEpochs<T, Order>::fire(const Epoch& epoch, int64_t first, T d, int side, std::vector<Run>& after,
                                  Pieces& pieces) const {
    T x = side ? -d : d;
    after.reserve(epoch.runs.size() + 1);
    auto put = [&](Run run) {
        if (!after.empty() && after.back().centre == run.centre) {
            after.back().high = run.high;
            return;
        }
        add(run);
        after.push_back(run);
    };
    for (const Run& run : epoch.runs) {
        if (run.ends[side] > x) {
            if (!after.empty() && after.back().centre == run.centre)
                after.back().high = run.high;
            else
                after.push_back(run);
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

template <class T>
std::vector<std::pair<T, std::vector<EpochPiece<T>>>> as_boxes(const std::vector<EpochPiece<T>>& pieces) {
    std::vector<EpochPiece<T>> boxes;
    std::vector<size_t> before, here;  // the boxes that reach to the epoch before, and to the present one, by radius
    size_t next = 0;                   // of those before
    for (size_t at = 0; at < pieces.size(); ++at) {
        const EpochPiece<T>& piece = pieces[at];
        if (at && pieces[at - 1].last != piece.last) {
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
            here.push_back(boxes.size());
            boxes.push_back(piece);
        }
    }
    std::vector<std::pair<T, std::vector<EpochPiece<T>>>> groups;
    std::unordered_map<T, size_t> place;
    for (const EpochPiece<T>& box : boxes) {
        auto [found, is_new] = place.try_emplace(box.before, groups.size());
        if (is_new) groups.push_back({box.before, {}});
        groups[found->second].second.push_back(box);
    }
    return groups;
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
            require(nearest[side] == epoch.nearest[side] && nearest[side] == epochs_[at].nearest[side],
                    "the nearest ends are kept");
    }
}
