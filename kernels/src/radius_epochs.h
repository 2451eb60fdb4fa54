// What subscriptions to many items were notified of one of them: epochs of births, in each of them runs of radii.
//
// Births between two events of an item are an epoch, which begins as one run of all radii and is cut only by events that
// notify some of it. Runs are maximal: no two neighbours were notified of the same value. An event compares the nearest end
// of every epoch, and in those that fire that of every run: O(epochs + runs of those), and O(log radii) for each run that is
// cut. Neighbouring epochs that were notified alike become one. Nothing changes if reading a radius fails. Epochs are not
// changed but replaced, so that a copy shares them: O(epochs), whatever their runs.
//
// `Order` holds the radii of an epoch: `T last()`, and `void cut(past, T& last, T& first)`, which gives the last radius that
// is not past a point and the first that is.
#pragma once

#include <algorithm>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "radius_ends.h"

namespace kernels {

// Those notified: radii from `low` to `high` and births from `first` to `last`, all notified of `before` so far.
template <class T>
struct EpochPiece {
    T low, high;
    int64_t first, last;
    T before;
};

template <class T, class Order>
class RadiusEpochs {
   public:
    struct Run {
        T low, high, centre, ends[2];
    };
    struct Epoch {
        int64_t stop;  // the last birth
        Order radii;
        std::vector<Run> runs;
        T nearest[2];
    };
    using Pieces = std::vector<EpochPiece<T>>;
    // An epoch that is not changed any more, with what every event looks at beside the pointer.
    struct Held {
        std::shared_ptr<const Epoch> epoch;
        int64_t stop;
        T last, nearest[2];

        explicit Held(Epoch&& made)
            : epoch(std::make_shared<const Epoch>(std::move(made))),
              stop(epoch->stop),
              last(epoch->radii.last()),
              nearest{epoch->nearest[0], epoch->nearest[1]} {}
        const Epoch& operator*() const { return *epoch; }
        const Epoch* operator->() const { return epoch.get(); }
    };

    RadiusEpochs(RadiusEnds<T> ends, T value) : value(value), ends_(ends) {}

    T value;
    int64_t visits = 0;  // runs of epochs that fired
    const RadiusEnds<T>& ends() const { return ends_; }
    const std::vector<Held>& epochs() const { return epochs_; }
    int64_t stop() const { return epochs_.empty() ? -1 : epochs_.back().stop; }
    // Whether 64 bits hold all ends at a value.
    bool fits(T centre) const {
        for (const Held& epoch : epochs_)
            if (!ends_.fits(centre, epoch.last)) return false;
        return true;
    }
    void add(Run& run) const {
        run.ends[0] = ends_.right(run.centre, run.low);
        run.ends[1] = -ends_.left(run.centre, run.low);
    }
    void begin(Epoch epoch);
    void event(T d, Pieces& pieces);
    T last_notified(T radius, int64_t birth) const;
    void all(Pieces& pieces) const;
    bool is_plain() const;
    void check() const;

   private:
    RadiusEnds<T> ends_;
    std::vector<Held> epochs_;

    T end(int side, T centre, T radius) const {
        return side ? -ends_.left(centre, radius) : ends_.right(centre, radius);
    }
    static void sum_up(Epoch& epoch);
    void fire(const Epoch& epoch, int64_t first, T d, int side, std::vector<Run>& after, Pieces& pieces) const;
    static bool are_alike(const Epoch& one, const Epoch& next);
};

// Boxes of radii and births, grouped by what was notified before, both in the order in which they come. Epochs that follow
// one another and are notified of the same radii share a box.
template <class T>
std::vector<std::pair<T, std::vector<EpochPiece<T>>>> as_boxes(const std::vector<EpochPiece<T>>& pieces);

#include "radius_epochs.inl"

}  // namespace kernels
