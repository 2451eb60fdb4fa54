// Where subscriptions stand, by their ids.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "slot_index.h"

namespace kernels {

class Places {
   public:
    explicit Places(size_t dimensions) : dimensions_(dimensions) {}

    // The codes of one that is there; null if it is not.
    const int64_t* at(int64_t id) const {
        uint32_t slot = slot_of(id);
        return slot == SlotIndex::NONE ? nullptr : codes_.data() + slot * dimensions_;
    }
    // False: it is there already.
    bool add(int64_t id, const int64_t* codes) {
        if (slot_of(id) != SlotIndex::NONE) return false;
        index_.reserve(ids_.size() + 1, [&](uint32_t slot) { return hash_of(ids_[slot]); });
        index_.add(hash_of(id), static_cast<uint32_t>(ids_.size()));
        ids_.push_back(id);
        codes_.insert(codes_.end(), codes, codes + dimensions_);
        return true;
    }
    // False: it is not there.
    bool remove(int64_t id) {
        uint32_t slot = slot_of(id), last = static_cast<uint32_t>(ids_.size() - 1);
        if (slot == SlotIndex::NONE) return false;
        index_.remove(hash_of(id), slot, [&](uint32_t one) { return hash_of(ids_[one]); });
        if (slot != last) {
            index_.move(hash_of(ids_[last]), last, slot);
            ids_[slot] = ids_[last];
            std::copy_n(codes_.begin() + last * dimensions_, dimensions_, codes_.begin() + slot * dimensions_);
        }
        ids_.pop_back();
        codes_.resize(codes_.size() - dimensions_);
        return true;
    }

   private:
    size_t dimensions_;
    SlotIndex index_;
    std::vector<int64_t> ids_, codes_;

    static uint64_t hash_of(int64_t id) { return static_cast<uint64_t>(id) * 0x9E3779B97F4A7C15ull; }
    uint32_t slot_of(int64_t id) const {
        return index_.find(hash_of(id), [&](uint32_t slot) { return ids_[slot] == id; });
    }
};

}  // namespace kernels
