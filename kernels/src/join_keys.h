// Rows of one table by join key and code: prosem/index/joins/join_keys.py. Keys are compared as in a dictionary of Python:
// integers and decimals of one value are one key.
#pragma once

#include <vector>

#include "entry_list.h"
#include "references.h"
#include "slot_index.h"

namespace kernels {

class JoinKeys {
   public:
    JoinKeys() = default;
    JoinKeys(const JoinKeys&) = delete;
    ~JoinKeys() {
        for (Slot& slot : slots_) {
            slot.list.let_go();
            ObjectRef::let_go(slot.key);
        }
    }

    size_t size() const { return count_; }
    size_t keys() const { return slots_.size(); }
    int64_t version() const { return version_; }  // raised with each change

    // The entries of a key; null if it has none.
    const EntryList* find(nb::handle key) const {
        uint32_t slot = slot_of(key.ptr());
        return slot == SlotIndex::NONE ? nullptr : &slots_[slot].list;
    }
    bool holds(nb::handle key, nb::handle entry) const {
        EntryList::Held held = read(entry);
        const EntryList* list = find(key);
        return list && list->holds(held.code, EntryList::key_of(held.entry));
    }
    // Entries are (code, primary key, …).
    void add(nb::handle key, nb::handle entry) {
        EntryList::Held held = read(entry);
        EntryList& list = slots_[made(key)].list;
        list.add(held, EntryList::key_of(held.entry));
        Py_INCREF(held.entry);
        ++count_;
        ++version_;
    }
    // False if there is no such entry.
    bool remove(nb::handle key, nb::handle entry) {
        EntryList::Held held = read(entry);
        uint32_t slot = slot_of(key.ptr());
        PyObject* found = slot == SlotIndex::NONE ? nullptr : slots_[slot].list.remove(held.code, EntryList::key_of(held.entry));
        if (!found) return false;
        --count_;
        ++version_;
        if (!slots_[slot].list.size()) forget(slot);
        Py_DECREF(found);
        return true;
    }
    // Pairs of key and entry, into an empty index; O(N log N).
    void build(nb::handle pairs) {
        std::vector<std::vector<EntryList::Held>> gathered;
        nb::list kept;  // while their order is not made
        for (nb::handle pair : nb::iter(pairs)) {
            Items items{pair};
            if (items.count != 2) throw nb::value_error("an index is built of pairs of key and entry");
            nb::handle key(items.items[0]), entry(items.items[1]);
            EntryList::Held held = read(entry);
            kept.append(entry);
            uint32_t slot = made(key);
            if (gathered.size() <= slot) gathered.resize(slot + 1);
            gathered[slot].push_back(held);
        }
        for (size_t slot = 0; slot < gathered.size(); ++slot) {
            auto& some = gathered[slot];
            EntryList::sort(some);
            for (const auto& held : some) Py_INCREF(held.entry);
            count_ += some.size();
            slots_[slot].list.fill({some.begin(), some.end()});
            some = {};
        }
        ++version_;
    }

    template <class Visit>
    void each_key(Visit&& visit) const {
        for (const Slot& slot : slots_) visit(nb::handle(slot.key));
    }
    size_t nbytes() const {
        size_t sum = sizeof(*this) + slots_.capacity() * sizeof(Slot) + index_.nbytes();
        for (const Slot& slot : slots_) sum += slot.list.nbytes();
        return sum;
    }
    void check() const {
        size_t count = 0;
        for (size_t slot = 0; slot < slots_.size(); ++slot) {
            slots_[slot].list.check();
            count += slots_[slot].list.size();
            require(slot_of(slots_[slot].key) == slot, "a key is found where it is");
        }
        require(index_.size() == slots_.size(), "the index has every key");
        require(count == count_, "the count is kept");
    }

   private:
    struct Slot {
        PyObject* key;
        EntryList list;
    };

    SlotIndex index_;
    std::vector<Slot> slots_;
    size_t count_ = 0;
    int64_t version_ = 0;

    static EntryList::Held read(nb::handle entry) {
        if (!PyTuple_Check(entry.ptr()) || PyTuple_GET_SIZE(entry.ptr()) < 2)
            throw nb::type_error("an entry is (code, primary key, …)");
        return {code_of(PyTuple_GET_ITEM(entry.ptr(), 0)), entry.ptr()};
    }
    static uint64_t hash_of(PyObject* key) {
        return static_cast<uint64_t>(ObjectRef::hash(key)) * 0x9E3779B97F4A7C15ull;
    }
    uint32_t slot_of(PyObject* key) const {
        return index_.find(hash_of(key), [&](uint32_t slot) { return ObjectRef::equal(slots_[slot].key, key); });
    }
    uint32_t made(nb::handle key) {
        PyObject* value = key.ptr();
        uint32_t slot = slot_of(value);
        if (slot != SlotIndex::NONE) return slot;
        slot = static_cast<uint32_t>(slots_.size());
        index_.reserve(slots_.size() + 1, [&](uint32_t one) { return hash_of(slots_[one].key); });
        index_.add(hash_of(value), slot);
        ObjectRef::keep(value);
        slots_.push_back({value, {}});
        return slot;
    }
    // The last key takes the place of one without entries.
    void forget(uint32_t slot) {
        auto last = static_cast<uint32_t>(slots_.size() - 1);
        PyObject* key = slots_[slot].key;
        index_.remove(hash_of(key), slot, [&](uint32_t one) { return hash_of(slots_[one].key); });
        if (slot != last) {
            index_.move(hash_of(slots_[last].key), last, slot);
            slots_[slot] = std::move(slots_[last]);
        }
        slots_.pop_back();
        ObjectRef::let_go(key);
    }
};

// Some entries of a key as Python has them: a sequence that is used before the next change.
struct EntryView {
    nb::object owner;
    const JoinKeys* keys;
    const EntryList* list;
    int64_t version;

    const EntryList& entries() const {
        if (keys->version() != version) throw std::runtime_error("the rows of a key are used after a change");
        return *list;
    }
};

}  // namespace kernels
