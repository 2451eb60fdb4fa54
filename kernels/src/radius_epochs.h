// What subscriptions to many items were notified of one of them: epochs of births, in each of them runs of radii.
//
// Births between two events of an item are an epoch, which begins as one run of all radii and is cut only by events that
// notify some of it. Runs are maximal: no two neighbours were notified of the same value. An event compares the nearest end
// of every epoch, and in those that fire that of every run: O(epochs + runs of those), and O(log radii) for each run that is
// cut. Neighbouring epochs that were notified alike become one. Nothing changes if reading a radius fails. A copy shares the
// epochs, each until it changes: O(epochs), whatever their runs.
//
// `Order` holds the radii of an epoch: `T last()`, and `void cut(past, T& last, T& first)`, which gives the last radius that
// is not past a point and the first that is.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
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
    };
    using Pieces = std::vector<EpochPiece<T>>;
    // An epoch, with what every event looks at beside the pointer.
    class Held {
       public:
        int64_t stop;
        T last, nearest[2];

        explicit Held(Epoch&& made)
            : stop(made.stop), last(made.radii.last()), epoch_(std::make_shared<Epoch>(std::move(made))) {
            sum_up();
        }
        const Epoch& operator*() const { return *epoch_; }
        const Epoch* operator->() const { return epoch_.get(); }
        // Other runs, in a new epoch if a copy has this one.
        void renew(const Run* begin, const Run* end) {
            if (epoch_.use_count() == 1)
                epoch_->runs.assign(begin, end);
            else
                epoch_ = std::make_shared<Epoch>(Epoch{stop, epoch_->radii, std::vector<Run>(begin, end)});
            sum_up();
        }

       private:
        std::shared_ptr<Epoch> epoch_;

        void sum_up() {
            nearest[0] = epoch_->runs.front().ends[0];
            nearest[1] = epoch_->runs.front().ends[1];
            for (const Run& run : epoch_->runs)
                for (int side = 0; side < 2; ++side) nearest[side] = std::min(nearest[side], run.ends[side]);
        }
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
    void fire(const Epoch& epoch, int64_t first, T d, int side, std::vector<Run>& after, Pieces& pieces) const;
    static bool are_alike(const Epoch& one, const Epoch& next);
};

// Equal numbers have equal bits.
inline int64_t bits_of(int64_t number) { return number; }
inline int64_t bits_of(double number) {
    number += 0.0;  // the two zeros are equal
    int64_t bits;
    std::memcpy(&bits, &number, sizeof bits);
    return bits;
}

// Boxes of radii and births, grouped by what was notified before, both in the order in which they come. Epochs that follow
// one another and are notified of the same radii share a box.
template <class T>
struct EpochBoxes {
    std::vector<EpochPiece<T>> boxes;
    std::vector<size_t> groups;  // the first box of each, and the number of boxes

    explicit EpochBoxes(std::vector<EpochPiece<T>> pieces);
    size_t size() const { return groups.size() - 1; }
    T before(size_t group) const { return boxes[groups[group]].before; }

   private:
    void join();
    void group();
};

#include "radius_epochs.inl"

}  // namespace kernels
