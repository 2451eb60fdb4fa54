// The rows of a table by key, packed in columns: prosem/values/packed_rows.py.
//
// Rows are made as tuples when they are read. They stand in slots 0 to N - 1: the last one moves to the slot of a row that
// goes, so columns have no holes, and iteration follows no order.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>

#include "arrays.h"
#include "bindings.h"
#include "packed_column.h"
#include "slot_index.h"

namespace kernels {

namespace {
enum class What { KEYS, VALUES, ITEMS };

uint32_t big_endian(const char* at) {
    auto* bytes = reinterpret_cast<const unsigned char*>(at);
    return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
}

int64_t big_endian_of(const char* at, int width) {
    switch (width) {
        case 1: return static_cast<unsigned char>(*at);
        case 4: return static_cast<int32_t>(big_endian(at));
        default: return static_cast<int64_t>(uint64_t{big_endian(at)} << 32 | big_endian(at + 4));
    }
}

class PackedRows {
   public:
    PackedRows(const std::vector<std::string>& kinds, const std::vector<int>& scales, const std::vector<int>& key)
        : key_(key) {
        if (kinds.size() != scales.size()) throw nb::value_error("a column has a kind and a scale");
        columns_.reserve(kinds.size());
        for (size_t at = 0; at < kinds.size(); ++at) columns_.emplace_back(kind_named(kinds[at]), scales[at]);
        for (int at : key_)
            if (at < 0 || static_cast<size_t>(at) >= columns_.size()) throw nb::value_error("a key is of columns");
    }
    PackedRows(const PackedRows& other) : key_(other.key_), index_(other.index_), count_(other.count_) {
        columns_.reserve(other.columns_.size());
        for (const auto& column : other.columns_) columns_.emplace_back(column, count_);
    }
    ~PackedRows() { drop_all(); }

    size_t size() const { return count_; }
    size_t nbytes() const {
        size_t sum = index_.nbytes();
        for (const auto& column : columns_) sum += column.nbytes();
        return sum;
    }

    uint32_t find(nb::handle key) const {
        if (!PyTuple_Check(key.ptr()) || static_cast<size_t>(PyTuple_GET_SIZE(key.ptr())) != key_.size())
            return SlotIndex::NONE;
        return find_by([&](size_t at) { return PyTuple_GET_ITEM(key.ptr(), at); });
    }
    nb::object row(size_t slot) const {
        return tuple_of(columns_.size(), [&](size_t at) { return columns_[at].get(slot); });
    }
    nb::object key(size_t slot) const {
        return tuple_of(key_.size(), [&](size_t at) { return column_of(at).get(slot); });
    }
    nb::object get(nb::handle key, nb::handle other) const {
        uint32_t slot = find(key);
        return slot == SlotIndex::NONE ? nb::borrow(other) : row(slot);
    }

    // By the key that stands in the row.
    void put(nb::handle row) {
        if (!PyTuple_Check(row.ptr()) || static_cast<size_t>(PyTuple_GET_SIZE(row.ptr())) != columns_.size())
            throw nb::value_error("a row is a tuple with a value for each column");
        uint32_t slot = find_by([&](size_t at) { return PyTuple_GET_ITEM(row.ptr(), key_[at]); });
        bool is_new = slot == SlotIndex::NONE, is_widened = false;
        if (is_new) {
            index_.reserve(count_ + 1, [&](uint32_t one) { return hash(one); });
            slot = static_cast<uint32_t>(count_);
        }
        for (size_t at = 0; at < columns_.size(); ++at) {
            Kind before = columns_[at].kind();
            columns_[at].put(slot, PyTuple_GET_ITEM(row.ptr(), at), is_new, count_);
            is_widened = is_widened || columns_[at].kind() != before;
        }
        count_ += is_new;
        if (is_widened)
            rebuild();
        else if (is_new)
            index_.add(hash(slot), slot);
    }
    void remove(uint32_t slot) {
        auto hash_of = [&](uint32_t one) { return hash(one); };
        uint32_t last = static_cast<uint32_t>(count_ - 1);
        index_.remove(hash(slot), slot, hash_of);
        if (slot != last) index_.move(hash(last), last, slot);
        for (auto& column : columns_) {
            column.drop(slot);
            if (slot != last) column.move(last, slot);
        }
        --count_;
    }
    void clear() {
        drop_all();
        count_ = 0;
        index_.clear();
    }

    // Columns as PostgreSQL sends binary arrays, of rows that are new. Dates and moments count from `shifts`; `readers`
    // make the values of columns of objects from bytes, None: they are text.
    void load_arrays(nb::list arrays, nb::list readers, const std::vector<int64_t>& shifts) {
        if (arrays.size() != columns_.size() || readers.size() != columns_.size() || shifts.size() != columns_.size())
            throw nb::value_error("there is an array for each column");
        size_t first = count_, added = 0;
        for (size_t at = 0; at < columns_.size(); ++at) {
            size_t length = load_array(columns_[at], nb::cast<nb::bytes>(arrays[at]), readers[at], shifts[at], first);
            if (at && length != added) throw nb::value_error("arrays are equally long");
            added = length;
        }
        index_.reserve(first + added, [&](uint32_t one) { return hash(one); });
        for (; count_ < first + added; ++count_) {
            uint32_t slot = static_cast<uint32_t>(count_);
            uint64_t hashed = hash(slot);
            if (index_.find(hashed, [&](uint32_t one) { return is_same_key(one, slot); }) != SlotIndex::NONE)
                throw nb::value_error("a key is there already");
            index_.add(hashed, slot);
        }
    }

    // The codes of a column, and a byte for each that is NULL where any is; None for a column of objects.
    nb::object codes(size_t at) const {
        if (at >= columns_.size()) throw nb::index_error("there is no such column");
        const auto& column = columns_[at];
        if (column.kind() == Kind::OBJECT) return nb::none();
        std::vector<int64_t> found(count_);
        for (size_t slot = 0; slot < count_; ++slot) found[slot] = column.ordered_code(slot);
        if (!column.has_nulls()) return nb::make_tuple(as_array(found), nb::none());
        std::string nulls(count_, '\0');
        for (size_t slot = 0; slot < count_; ++slot) nulls[slot] = column.is_null(slot);
        return nb::make_tuple(as_array(found), nb::bytes(nulls.data(), nulls.size()));
    }

    nb::object as_dict() const {
        nb::dict all;
        for (size_t slot = 0; slot < count_; ++slot) all[key(slot)] = row(slot);
        return all;
    }
    nb::object entry(size_t slot, What what) const {
        if (what == What::ITEMS) return nb::make_tuple(key(slot), row(slot));
        return what == What::KEYS ? key(slot) : row(slot);
    }

    void check() const {
        require(index_.size() == count_, "the index holds every row");
        for (uint32_t slot = 0; slot < count_; ++slot) {
            uint32_t found = index_.find(hash(slot), [&](uint32_t one) { return one == slot; });
            require(found == slot, "a row is found by its hash");
            require(find(key(slot)) == slot, "a row is found by its key");
        }
    }

   private:
    std::vector<int> key_;
    std::vector<PackedColumn> columns_;
    SlotIndex index_;
    size_t count_ = 0;

    const PackedColumn& column_of(size_t at) const { return columns_[static_cast<size_t>(key_[at])]; }

    static uint64_t mixed(uint64_t hash, uint64_t code) { return (hash ^ code) * 0x9E3779B97F4A7C15u; }
    uint64_t hash(uint32_t slot) const {
        uint64_t found = 0;
        for (size_t at = 0; at < key_.size(); ++at) found = mixed(found, column_of(at).hash(slot)) ^ found >> 29;
        return found;
    }
    template <class ValueAt>
    uint32_t find_by(ValueAt&& value_at) const {
        constexpr size_t FEW = 8;
        int64_t some[FEW];
        std::vector<int64_t> more(key_.size() > FEW ? key_.size() : 0);
        int64_t* codes = more.empty() ? some : more.data();
        uint64_t hashed = 0;
        for (size_t at = 0; at < key_.size(); ++at) {
            const auto& column = column_of(at);
            PyObject* value = value_at(at);
            codes[at] = 0;
            if (column.kind() != Kind::OBJECT && !column.probe(value, codes[at])) return SlotIndex::NONE;
            uint64_t one = column.kind() == Kind::OBJECT ? PackedColumn::hash_of(value) : static_cast<uint64_t>(codes[at]);
            hashed = mixed(hashed, one) ^ hashed >> 29;
        }
        return index_.find(hashed, [&](uint32_t slot) {
            for (size_t at = 0; at < key_.size(); ++at)
                if (!column_of(at).equals(slot, value_at(at), codes[at])) return false;
            return true;
        });
    }
    bool is_same_key(uint32_t one, uint32_t other) const {
        for (size_t at = 0; at < key_.size(); ++at) {
            const auto& column = column_of(at);
            bool is_object = column.kind() == Kind::OBJECT;
            PyObject* value = is_object ? column.objects(other) : nullptr;
            int64_t code = is_object ? 0 : static_cast<int64_t>(column.hash(other));
            if (!column.equals(one, value, code)) return false;
        }
        return true;
    }
    template <class ValueAt>
    static nb::object tuple_of(size_t length, ValueAt&& value_at) {
        nb::object made = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(length)));
        if (!made.is_valid()) throw nb::python_error();
        for (size_t at = 0; at < length; ++at)
            PyTuple_SET_ITEM(made.ptr(), static_cast<Py_ssize_t>(at), value_at(at).release().ptr());
        return made;
    }
    void rebuild() {
        index_.clear();
        index_.reserve(count_, [](uint32_t) { return uint64_t{0}; });
        for (uint32_t slot = 0; slot < count_; ++slot) index_.add(hash(slot), slot);
    }
    void drop_all() {
        for (auto& column : columns_)
            for (size_t slot = 0; column.kind() == Kind::OBJECT && slot < count_; ++slot) column.drop(slot);
    }

    // The header of an array: dimensions, whether there are NULLs, the type; for each dimension its length and first place.
    static size_t load_array(PackedColumn& column, nb::bytes array, nb::handle reader, int64_t shift, size_t first) {
        const char *at = array.c_str(), *end = at + array.size();
        auto take = [&](size_t size) {
            if (static_cast<size_t>(end - at) < size) throw nb::value_error("an array is cut short");
            const char* taken = at;
            at += size;
            return taken;
        };
        uint32_t dimensions = big_endian(take(12));
        if (!dimensions) return 0;
        if (dimensions != 1) throw nb::value_error("an array has one dimension");
        size_t length = big_endian(take(8));
        column.reserve(first + length);
        for (size_t slot = first; slot < first + length; ++slot) {
            int32_t size = static_cast<int32_t>(big_endian(take(4)));
            const char* data = take(size < 0 ? 0 : static_cast<size_t>(size));
            if (column.kind() == Kind::OBJECT) {
                column.set_object(slot, object_of(data, size, reader).release().ptr());
                continue;
            }
            if (size != -1 && size != 1 && size != 4 && size != 8) throw nb::value_error("a number has 1, 4 or 8 bytes");
            column.set_code(slot, size < 0 ? 0 : big_endian_of(data, size) + shift);
            column.set_null(slot, size < 0, slot);
        }
        return length;
    }
    static nb::object object_of(const char* data, int32_t size, nb::handle reader) {
        if (size < 0) return nb::none();
        nb::object made;
        if (!reader.is_none()) return reader(nb::bytes(data, static_cast<size_t>(size)));
        made = nb::steal(PyUnicode_DecodeUTF8(data, size, nullptr));
        if (!made.is_valid()) throw nb::python_error();
        return made;
    }
};

// Keys, values or items, as those of a dictionary: as many as there are, and iterated over.
struct RowsView {
    nb::object owner;
    What what;
};

struct RowsIterator {
    nb::object owner;
    What what;
    size_t slot, count;
};

const PackedRows& rows_of(nb::handle owner) { return *nb::inst_ptr<PackedRows>(owner); }
nb::object iterate(nb::handle owner, What what) {
    return nb::cast(RowsIterator{nb::borrow(owner), what, 0, rows_of(owner).size()});
}
}  // namespace

void bind_packed_rows(nb::module_& module) {
    using Self = nb::handle_t<PackedRows>;
    nb::class_<RowsIterator>(module, "RowsIterator")
        .def("__iter__", [](nb::handle_t<RowsIterator> self) { return nb::borrow(self); })
        .def("__next__", [](RowsIterator& self) {
            const PackedRows& rows = rows_of(self.owner);
            if (rows.size() != self.count) throw std::runtime_error("rows came or went during iteration");
            if (self.slot == self.count) throw nb::stop_iteration();
            return rows.entry(self.slot++, self.what);
        });
    nb::class_<RowsView>(module, "RowsView")
        .def("__len__", [](const RowsView& self) { return rows_of(self.owner).size(); })
        .def("__iter__", [](const RowsView& self) { return iterate(self.owner, self.what); });
    nb::class_<PackedRows>(module, "PackedRows")
        .def(nb::init<const std::vector<std::string>&, const std::vector<int>&, const std::vector<int>&>(),
             nb::arg("kinds"), nb::arg("scales"), nb::arg("key"))
        .def("__len__", &PackedRows::size)
        .def("__contains__", [](const PackedRows& self, nb::handle key) { return self.find(key) != SlotIndex::NONE; })
        .def("__getitem__",
             [](const PackedRows& self, nb::handle key) {
                 uint32_t slot = self.find(key);
                 if (slot == SlotIndex::NONE) raise_key_error(key);
                 return self.row(slot);
             })
        .def("get", &PackedRows::get, nb::arg("key"), nb::arg("default").none() = nb::none())
        .def("__setitem__", [](PackedRows& self, nb::handle, nb::handle row) { self.put(row); })
        .def("__delitem__",
             [](PackedRows& self, nb::handle key) {
                 uint32_t slot = self.find(key);
                 if (slot == SlotIndex::NONE) raise_key_error(key);
                 self.remove(slot);
             })
        .def("pop",
             [](PackedRows& self, nb::handle key, nb::args other) {
                 uint32_t slot = self.find(key);
                 if (slot == SlotIndex::NONE && !other.size()) raise_key_error(key);
                 if (slot == SlotIndex::NONE) return nb::object(other[0]);
                 nb::object row = self.row(slot);
                 self.remove(slot);
                 return row;
             })
        .def("clear", &PackedRows::clear)
        .def("load",
             [](PackedRows& self, nb::handle rows) {
                 for (nb::handle row : nb::iter(rows)) self.put(row);
             })
        .def("update",
             [](PackedRows& self, nb::handle rows) {
                 nb::object values = rows.attr("values")();
                 for (nb::handle row : nb::iter(values)) self.put(row);
             })
        .def("load_arrays", &PackedRows::load_arrays)
        .def("codes", &PackedRows::codes)
        .def("__iter__", [](Self self) { return iterate(self, What::KEYS); })
        .def("keys", [](Self self) { return RowsView{nb::borrow(self), What::KEYS}; })
        .def("values", [](Self self) { return RowsView{nb::borrow(self), What::VALUES}; })
        .def("items", [](Self self) { return RowsView{nb::borrow(self), What::ITEMS}; })
        .def("__copy__", [](const PackedRows& self) { return new PackedRows(self); })
        .def("__eq__",
             [](const PackedRows& self, nb::handle other) {
                 nb::object mine = self.as_dict();
                 if (nb::isinstance<PackedRows>(other)) return mine.equal(rows_of(other).as_dict());
                 return mine.equal(other);
             })
        .def_prop_ro("nbytes", &PackedRows::nbytes)
        .def("check", &PackedRows::check);
}

}  // namespace kernels
