// The notified values of all radii of one item, in blocks of neighbouring radii with the nearest ends of each block.
//
// A block whose radii were all notified of one value is one tag: its ends follow from its first and last radius, and what
// an event fires of it is its beginning. Another block holds value and ends of every radius. An event compares the nearest
// end of every block and enters those that fire: O(N / block) of about a third of a nanosecond, O(block) for each block
// that is entered, O(m) for m ranges, whatever the state. The tree of runs in Python does less where one range fires and
// more where hundreds do; this loses to neither.
//
// A radius whose subscriptions were notified of several values has classes that know them: `Classes` is asked.
#pragma once

#include <algorithm>
#include <vector>

#include "radius_ends.h"

namespace kernels {

template <class T>
struct RadiusRun {
    T low, high, centre;
    bool is_several;
};

// What events overwrote, in their order: undone from the last one to the first.
template <class T>
struct RadiusJournal {
    std::vector<RadiusRun<T>> runs;
};

// What an event says: ranges of radii that fire wholly. Radii that fire in part are reported to `Classes`.
template <class T>
struct FiredRanges {
    std::vector<T> lows, highs;
};

// `Classes` has: `bool event(T radius, T d, bool& is_single)`, whether all subscriptions of a radius fire (if not it notes the
// part), and whether they were notified of one value from now on, d; and `void near(T radius, T& right, T& left)`.
template <class T>
class RadiusCells {
   public:
    // `block`: so many radii of a block are cut in two.
    RadiusCells(RadiusEnds<T> ends, size_t block) : ends_(ends), block_(std::max<size_t>(2, block)) {}

    size_t size() const { return size_; }
    int64_t visits = 0;  // blocks entered
    const RadiusEnds<T>& ends() const { return ends_; }
    // The nearest right end and the nearest negated left end of all, or less; only while there are radii.
    T root(int side) const { return root_[side]; }
    // Whether values and radii are small enough for 64-bit ends; nothing changes if not.
    bool fits(T centre) const { return !size_ || ends_.fits(centre, largest_); }

    template <class Classes>
    void build(const std::vector<T>& radii, const std::vector<RadiusRun<T>>& runs, Classes& classes);
    template <class Classes>
    void fire(T d, bool rising, Classes& classes, FiredRanges<T>& fired, RadiusJournal<T>* journal);
    // Takes back what events noted in a journal; the radii are those of then, and their classes are as they were.
    template <class Classes>
    void rewind(const RadiusJournal<T>& journal, Classes& classes);

    void recentre(T d, RadiusJournal<T>* journal);
    bool centre(T radius, T& centre) const;  // false: several
    void insert(T radius, T centre);
    void erase(T radius);
    void set_centre(T radius, T centre) { set(radius, centre, false, ends_.right(centre, radius), -ends_.left(centre, radius)); }
    void set_several(T radius, T right, T left) { set(radius, T{}, true, right, -left); }
    std::vector<RadiusRun<T>> runs() const;
    template <class Classes>
    void check(Classes& classes) const;

   private:
    struct Block {
        std::vector<T> radii;
        bool is_uniform = true;
        T tag{};  // of a uniform block: the value that all were notified of
        std::vector<T> centres, ends[2];
        std::vector<uint8_t> several;
    };

    RadiusEnds<T> ends_;
    size_t block_;
    std::vector<Block> blocks_;
    std::vector<T> firsts_, nearest_[2];  // of each block: first radius, nearest end of each side
    T root_[2]{};
    T largest_{};
    size_t size_ = 0;

    T end(int side, T centre, T radius) const {
        return side ? -ends_.left(centre, radius) : ends_.right(centre, radius);
    }
    size_t block_of(T radius) const {
        auto at = std::upper_bound(firsts_.begin(), firsts_.end(), radius) - firsts_.begin();
        return at ? static_cast<size_t>(at) - 1 : 0;
    }
    static size_t place_in(const Block& block, T radius) {
        return static_cast<size_t>(std::lower_bound(block.radii.begin(), block.radii.end(), radius) -
                                   block.radii.begin());
    }
    // Whether a block is touched: radii of a run are in it, which are put back.
    template <class Classes>
    bool put_back(Block& block, const RadiusRun<T>& run, Classes& classes) const;
    static T least(const std::vector<T>& values);
    void spread(Block& block) const;
    void settle(size_t at);
    void renew_root();
    void set(T radius, T centre, bool is_several, T right, T minus_left);
    void put_block(size_t at, Block block);
    void drop_block(size_t at);
};

#include "radius_cells.inl"

}  // namespace kernels
