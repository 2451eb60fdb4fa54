// The entries (code, primary key, …) of one join key in the order of code and primary key: prosem/index/joins/join_keys.py.
//
// A few stand in one list, many in blocks. O(log n) to find one, and O(√n) to shift those behind it.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "reading.h"

namespace kernels {

class EntryList {
   public:
    static constexpr size_t LONG_LIST = 1024;  // from here on there are blocks
    struct Held {
        int64_t code;
        PyObject* entry;  // owned by the list
    };
    // A place in the order: primary keys are compared where codes are equal. Without a key before or behind all of a code.
    struct Wanted {
        int64_t code;
        PyObject* key = nullptr;
        bool is_behind = false;
    };

    EntryList() = default;
    EntryList(EntryList&&) = default;
    EntryList& operator=(EntryList&&) = default;
    EntryList(const EntryList&) = delete;

    size_t size() const { return blocks_ ? blocks_->count : flat_.size(); }
    bool is_long() const { return static_cast<bool>(blocks_); }
    const Held& at(size_t rank) const {
        if (!blocks_) return flat_[rank];
        const auto& starts = blocks_->starts();
        size_t block = static_cast<size_t>(std::upper_bound(starts.begin(), starts.end(), rank) - starts.begin()) - 1;
        return blocks_->all[block][rank - starts[block]];
    }
    const Held& first() const { return blocks_ ? blocks_->all.front().front() : flat_.front(); }
    const Held& last() const { return blocks_ ? blocks_->all.back().back() : flat_.back(); }

    // How many are before a place.
    size_t rank(const Wanted& wanted) const {
        if (!blocks_) return lower(flat_, wanted);
        size_t block = blocks_->find(wanted);
        return block == blocks_->all.size() ? blocks_->count : blocks_->starts()[block] + lower(blocks_->all[block], wanted);
    }
    // Whether there is an entry with this code and primary key.
    bool holds(int64_t code, PyObject* key) const {
        const std::vector<Held>* list = &flat_;
        if (blocks_) {
            size_t block = blocks_->find({code, key});
            if (block == blocks_->all.size()) return false;
            list = &blocks_->all[block];
        }
        return is_at(*list, lower(*list, {code, key}), code, key);
    }
    // The greatest code below one, and the least that is not: whether they are there.
    struct Around {
        bool has_below, has_above;
        int64_t below, above;
    };
    Around around(int64_t code) const {
        Around found{};
        const std::vector<Held>* list = &flat_;
        size_t block = 0, blocks = 1;
        if (blocks_) {
            blocks = blocks_->all.size();
            block = std::min(blocks_->find({code}), blocks - 1);
            list = &blocks_->all[block];
        }
        size_t at = lower(*list, {code});
        if (at < list->size()) {
            found.has_above = true;
            found.above = (*list)[at].code;
        }
        if (at || block) {
            found.has_below = true;
            found.below = at ? (*list)[at - 1].code : blocks_->all[block - 1].back().code;
        }
        return found;
    }

    template <class Visit>
    void each(size_t first, size_t end, Visit&& visit) const {
        if (!blocks_) {
            for (size_t at = first; at < end; ++at) visit(flat_[at]);
            return;
        }
        size_t start = 0;
        for (const auto& block : blocks_->all) {
            size_t from = std::max(first, start), to = std::min(end, start + block.size());
            for (size_t at = from; at < to; ++at) visit(block[at - start]);
            start += block.size();
        }
    }

    // Takes over a reference.
    void add(const Held& held, PyObject* key) {
        if (!blocks_) {
            flat_.insert(flat_.begin() + static_cast<ptrdiff_t>(lower(flat_, {held.code, key})), held);
            if (flat_.size() >= LONG_LIST) divide();
            return;
        }
        auto& all = blocks_->all;
        size_t block = std::min(blocks_->find({held.code, key}), all.size() - 1);
        auto& list = all[block];
        list.insert(list.begin() + static_cast<ptrdiff_t>(lower(list, {held.code, key})), held);
        blocks_->changed(1);
        if (list.size() > LONG_LIST) {
            auto half = list.begin() + static_cast<ptrdiff_t>(list.size() / 2);
            std::vector<Held> right(half, list.end());
            list.erase(half, list.end());
            all.insert(all.begin() + static_cast<ptrdiff_t>(block) + 1, std::move(right));
        }
    }
    // The entry with this code and primary key, whose reference the caller has from now on; null if there is none.
    PyObject* remove(int64_t code, PyObject* key) {
        if (!blocks_) return removed(flat_, code, key);
        auto& all = blocks_->all;
        size_t block = blocks_->find({code, key});
        if (block == all.size()) return nullptr;
        PyObject* entry = removed(all[block], code, key);
        if (!entry) return nullptr;
        blocks_->changed(-1);
        if (all[block].size() < LONG_LIST / 4) merge(block);
        if (blocks_->count < LONG_LIST / 4) {
            std::vector<Held> some;
            for (auto& list : all) some.insert(some.end(), list.begin(), list.end());
            flat_.swap(some);
            blocks_.reset();
        }
        return entry;
    }
    // In the order of the list, once, into an empty one. Takes over the references.
    void fill(std::vector<Held> held) {
        flat_ = std::move(held);
        if (flat_.size() >= LONG_LIST) divide();
    }
    static void sort(std::vector<Held>& held) {
        std::stable_sort(held.begin(), held.end(), [](const Held& a, const Held& b) {
            return a.code < b.code || (a.code == b.code && is_less(key_of(a.entry), key_of(b.entry)));
        });
    }
    void let_go() {
        each(0, size(), [](const Held& held) { Py_DECREF(held.entry); });
        flat_.clear();
        blocks_.reset();
    }

    static PyObject* key_of(PyObject* entry) { return PyTuple_GET_ITEM(entry, 1); }

    size_t nbytes() const {
        size_t sum = flat_.capacity() * sizeof(Held);
        if (blocks_) {
            sum += sizeof(Blocks);
            for (const auto& block : blocks_->all) sum += sizeof(block) + block.capacity() * sizeof(Held);
        }
        return sum;
    }
    void check() const {
        require(size() > 0, "a key is known while it has entries");
        require(!blocks_ || (flat_.empty() && size() >= LONG_LIST / 4), "many entries stand in blocks");
        require(blocks_ || size() < LONG_LIST, "a list is short");
        size_t count = 0;
        for (size_t at = 0; blocks_ && at < blocks_->all.size(); ++at) {
            size_t length = blocks_->all[at].size();
            require(length <= LONG_LIST && (length >= LONG_LIST / 4 || blocks_->all.size() == 1), "blocks are neither short nor long");
            count += length;
        }
        require(!blocks_ || count == blocks_->count, "the count is kept");
        const Held* before = nullptr;
        each(0, size(), [&](const Held& held) {
            require(!before || before->code < held.code ||
                        (before->code == held.code && is_less(key_of(before->entry), key_of(held.entry))),
                    "entries ascend");
            before = &held;
        });
    }

   private:
    struct Blocks {
        std::vector<std::vector<Held>> all;  // none is empty
        size_t count = 0;

        // The first block whose last entry is not before a place.
        size_t find(const Wanted& wanted) const {
            auto found = std::partition_point(all.begin(), all.end(),
                                              [&](const auto& block) { return is_before(block.back(), wanted); });
            return static_cast<size_t>(found - all.begin());
        }
        // How many entries are before each block; counted when it is first asked for after a change.
        const std::vector<size_t>& starts() const {
            if (starts_.size() != all.size()) {
                starts_.clear();
                size_t before = 0;
                for (const auto& block : all) {
                    starts_.push_back(before);
                    before += block.size();
                }
            }
            return starts_;
        }
        void changed(int by) {
            count += static_cast<size_t>(by);
            starts_.clear();
        }

       private:
        mutable std::vector<size_t> starts_;
    };

    std::vector<Held> flat_;
    std::unique_ptr<Blocks> blocks_;

    // Primary keys are tuples; those of a view with a LEFT JOIN may hold None, which comes before all values.
    static bool is_less(PyObject* one, PyObject* other) {
        if (!PyTuple_Check(one) || !PyTuple_Check(other)) return is_true(one, other, Py_LT);
        Py_ssize_t length = std::min(PyTuple_GET_SIZE(one), PyTuple_GET_SIZE(other));
        for (Py_ssize_t at = 0; at < length; ++at) {
            PyObject *a = PyTuple_GET_ITEM(one, at), *b = PyTuple_GET_ITEM(other, at);
            if (is_true(a, b, Py_EQ)) continue;
            return a == Py_None || (b != Py_None && is_true(a, b, Py_LT));
        }
        return PyTuple_GET_SIZE(one) < PyTuple_GET_SIZE(other);
    }
    static bool is_true(PyObject* one, PyObject* other, int operation) {
        int is_it = PyObject_RichCompareBool(one, other, operation);
        if (is_it < 0) throw nb::python_error();
        return is_it;
    }
    static bool is_before(const Held& held, const Wanted& wanted) {
        if (held.code != wanted.code) return held.code < wanted.code;
        return wanted.key ? is_less(key_of(held.entry), wanted.key) : wanted.is_behind;
    }
    static size_t lower(const std::vector<Held>& list, const Wanted& wanted) {
        auto found = std::partition_point(list.begin(), list.end(), [&](const Held& held) { return is_before(held, wanted); });
        return static_cast<size_t>(found - list.begin());
    }
    static bool is_at(const std::vector<Held>& list, size_t at, int64_t code, PyObject* key) {
        if (at == list.size() || list[at].code != code) return false;
        return is_true(key_of(list[at].entry), key, Py_EQ);
    }
    static PyObject* removed(std::vector<Held>& list, int64_t code, PyObject* key) {
        size_t at = lower(list, {code, key});
        if (!is_at(list, at, code, key)) return nullptr;
        PyObject* entry = list[at].entry;
        list.erase(list.begin() + static_cast<ptrdiff_t>(at));
        return entry;
    }
    void divide() {
        auto blocks = std::make_unique<Blocks>();
        size_t parts = (flat_.size() + LONG_LIST / 2 - 1) / (LONG_LIST / 2);
        for (size_t part = 0; part < parts; ++part) {
            auto from = flat_.begin() + static_cast<ptrdiff_t>(flat_.size() * part / parts);
            auto to = flat_.begin() + static_cast<ptrdiff_t>(flat_.size() * (part + 1) / parts);
            blocks->all.emplace_back(from, to);
        }
        blocks->count = flat_.size();
        std::vector<Held>().swap(flat_);
        blocks_ = std::move(blocks);
    }
    // A short block becomes one with a neighbour; what is too long then is halved.
    void merge(size_t block) {
        auto& all = blocks_->all;
        if (all.size() == 1) return;
        size_t at = std::max<size_t>(block, 1);
        auto &left = all[at - 1], &right = all[at];
        left.insert(left.end(), right.begin(), right.end());
        if (left.size() > LONG_LIST) {
            auto half = left.begin() + static_cast<ptrdiff_t>(left.size() / 2);
            right.assign(half, left.end());
            left.erase(half, left.end());
        } else {
            all.erase(all.begin() + static_cast<ptrdiff_t>(at));
        }
    }
};

}  // namespace kernels
