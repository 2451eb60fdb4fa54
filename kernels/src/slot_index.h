// Numbers of slots by the hash of what they hold: open addressing with linear probing, four bytes per place.
//
// It holds neither keys nor hashes: `hash_of(slot)` gives a hash again, `is_it(slot)` compares. At most 7 of 10 places are
// taken, and nothing marks a place that was left: what follows it is moved up. Everything takes O(1).
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace kernels {

class SlotIndex {
   public:
    static constexpr uint32_t NONE = UINT32_MAX;

    size_t size() const { return count_; }
    size_t nbytes() const { return places_.capacity() * sizeof(uint32_t); }

    template <class IsIt>
    uint32_t find(uint64_t hash, IsIt&& is_it) const {
        if (places_.empty()) return NONE;
        for (size_t at = first(hash); places_[at] != NONE; at = next(at))
            if (is_it(places_[at])) return places_[at];
        return NONE;
    }

    // Makes room for so many; before they are added.
    template <class HashOf>
    void reserve(size_t count, HashOf&& hash_of) {
        size_t wanted = places_.empty() ? 8 : places_.size();
        while (count * 10 > wanted * 7) wanted *= 2;
        if (wanted == places_.size()) return;
        if (count >= NONE) throw std::length_error("a table has less than 2^32 rows");
        std::vector<uint32_t> before(wanted, NONE);
        before.swap(places_);
        for (uint32_t slot : before)
            if (slot != NONE) put(hash_of(slot), slot);
    }
    // It is not there, and there is room for it.
    void add(uint64_t hash, uint32_t slot) {
        put(hash, slot);
        ++count_;
    }
    template <class HashOf>
    void remove(uint64_t hash, uint32_t slot, HashOf&& hash_of) {
        size_t hole = place_of(hash, slot);
        for (size_t at = next(hole); places_[at] != NONE; at = next(at)) {
            size_t wanted = first(hash_of(places_[at]));
            if (((at - wanted) & (places_.size() - 1)) >= ((at - hole) & (places_.size() - 1))) {
                places_[hole] = places_[at];
                hole = at;
            }
        }
        places_[hole] = NONE;
        --count_;
    }
    // What was in one slot is in another.
    void move(uint64_t hash, uint32_t from, uint32_t to) { places_[place_of(hash, from)] = to; }
    void clear() {
        places_ = {};
        count_ = 0;
    }

   private:
    std::vector<uint32_t> places_;
    size_t count_ = 0;

    size_t first(uint64_t hash) const { return (hash ^ hash >> 32) & (places_.size() - 1); }
    size_t next(size_t at) const { return (at + 1) & (places_.size() - 1); }
    void put(uint64_t hash, uint32_t slot) {
        size_t at = first(hash);
        while (places_[at] != NONE) at = next(at);
        places_[at] = slot;
    }
    size_t place_of(uint64_t hash, uint32_t slot) const {
        size_t at = first(hash);
        while (places_[at] != slot) {
            if (places_[at] == NONE) throw std::logic_error("a slot is not in the index");
            at = next(at);
        }
        return at;
    }
};

}  // namespace kernels
