// Partitions of filters, and matching, over the rows that cn.match.rows.Rows holds in arrays.
#include <nanobind/stl/optional.h>

#include "arrays.h"
#include "bindings.h"
#include "filter_partition.h"
#include "reading.h"

namespace kernels {

namespace {
// A view of an array's memory, released with it; arrays do not change their length meanwhile.
struct View {
    Py_buffer buffer;

    View(nb::handle owner, const char* name) {
        nb::object array = owner.attr(name);
        if (PyObject_GetBuffer(array.ptr(), &buffer, PyBUF_SIMPLE)) throw nb::python_error();
    }
    View(const View&) = delete;
    ~View() { PyBuffer_Release(&buffer); }
};

// What `Rows` holds: bounds, refusals of NULL and owners by slot.
struct ReadRows {
    View bounds, refuses;
    FilterRows rows;

    explicit ReadRows(nb::handle object) : bounds(object, "_bounds"), refuses(object, "_refuses") {
        rows.bounds = static_cast<const int64_t*>(bounds.buffer.buf);
        rows.refuses = static_cast<const uint64_t*>(refuses.buffer.buf);
        rows.slots = static_cast<size_t>(refuses.buffer.len) / 8;
        rows.columns = static_cast<int>(nb::len(nb::object(object.attr("_columns"))));
        if (static_cast<size_t>(bounds.buffer.len) != rows.slots * 16 * static_cast<size_t>(rows.columns))
            throw nb::value_error("rows are as wide as there are columns");
    }
    int32_t slot(int64_t number) const {
        if (number < 0 || static_cast<size_t>(number) >= rows.slots) throw nb::index_error("there is no such slot");
        return static_cast<int32_t>(number);
    }
};

// The 64-bit image of a text: see cn/match/image.py.
int64_t text_image(PyObject* text) {
    constexpr Py_ssize_t LENGTH = 7;
    nb::object start = nb::steal(PyUnicode_Substring(text, 0, LENGTH + 1));
    nb::object bytes = nb::steal(PyUnicode_AsEncodedString(start.ptr(), "utf-8", "surrogatepass"));
    if (!bytes.is_valid()) throw nb::python_error();
    Py_ssize_t length = PyBytes_GET_SIZE(bytes.ptr());
    const auto* from = reinterpret_cast<const unsigned char*>(PyBytes_AS_STRING(bytes.ptr()));
    uint64_t image = 0;
    for (Py_ssize_t at = 0; at < LENGTH; ++at) image = image << 8 | (at < length ? from[at] : 0);
    image = image << 8 | static_cast<uint64_t>(std::min<Py_ssize_t>(length, LENGTH + 1));
    return static_cast<int64_t>(image ^ (uint64_t{1} << 63));
}

int64_t image_of(PyObject* code) {
    if (PyUnicode_Check(code)) return text_image(code);
    int beyond = 0;
    int64_t number = end_of(code, beyond);
    return beyond ? (beyond < 0 ? LOWEST : HIGHEST) : number;
}

FilterQuestion read_question(nb::handle rows, const Items& values) {
    FilterQuestion question;
    question.nulls = 0;
    nb::object columns = rows.attr("_columns");
    PyObject *attribute, *column;
    Py_ssize_t at = 0;
    while (PyDict_Next(columns.ptr(), &at, &attribute, &column)) {
        int64_t place = code_of(attribute);
        if (place < 0 || place >= values.count) throw nb::index_error("the vector has too few attributes");
        PyObject* code = values.items[place];
        if (code == Py_None) {
            int64_t number = code_of(column);
            if (number < 64) question.nulls |= uint64_t{1} << number;
            question.codes.emplace_back();
            question.limits.insert(question.limits.end(), {HIGHEST, HIGHEST});
        } else {
            int64_t image = image_of(code);
            question.codes.emplace_back(image);
            question.limits.insert(question.limits.end(), {image, ~image});
        }
    }
    return question;
}

// The place of some filters: which attribute, and which cell of which level.
struct BoundPartition : FilterPartition {
    nb::object attribute, level, cell;

    BoundPartition(nb::object attribute, nb::object level, nb::object cell, Limits limits)
        : FilterPartition(limits), attribute(attribute), level(level), cell(cell) {}
};

constexpr long POINT = -1;  // the level at which a single code, or NULL, is its own cell: see cn/match/image.py

// What a dictionary has under a key, borrowed; null for nothing.
PyObject* held(PyObject* dictionary, PyObject* key) {
    PyObject* found = PyDict_GetItemWithError(dictionary, key);
    if (!found && PyErr_Occurred()) throw nb::python_error();
    return found;
}

// The cell of a level in which a code lies.
nb::object cell_at(PyObject* code, PyObject* level) {
    int beyond = 0;
    nb::object cell;
    if (PyUnicode_Check(code)) {
        cell = nb::steal(PyUnicode_Substring(code, 0, static_cast<Py_ssize_t>(code_of(level))));
    } else {
        int64_t number = end_of(code, beyond), bits = code_of(level);
        cell = nb::steal(beyond ? PyNumber_Rshift(code, level) : PyLong_FromLongLong(number >> std::min<int64_t>(bits, 63)));
    }
    if (!cell.is_valid()) throw nb::python_error();
    return cell;
}

// Visits the partitions whose filters may hold a vector: the root, and those by attribute, level and cell.
template <class Visit>
void reach(nb::handle root, nb::handle places, const Items& vector, Visit&& visit) {
    auto give = [&](PyObject* partition) {
        const auto* one = nb::inst_ptr<BoundPartition>(nb::handle(partition));
        if (one->size()) visit(*one);
    };
    give(root.ptr());
    PyObject *attribute, *levels, *level, *cells;
    for (Py_ssize_t at = 0; PyDict_Next(places.ptr(), &at, &attribute, &levels);) {
        int64_t place = code_of(attribute);
        if (place < 0 || place >= vector.count) throw nb::index_error("the vector has too few attributes");
        PyObject* code = vector.items[place];
        for (Py_ssize_t of_level = 0; PyDict_Next(levels, &of_level, &level, &cells);) {
            bool is_point = code_of(level) == POINT;
            if (code == Py_None && !is_point) continue;
            nb::object cell = is_point ? nb::borrow(code) : cell_at(code, level);
            if (PyObject* found = held(cells, cell.ptr())) give(found);
        }
    }
}

// A bit for each owner, made when it is needed first; all are zero between two calls.
struct Marks {
    static constexpr size_t FEW = 64;      // owners that are sorted in less time than bits are made
    static constexpr int64_t SPARSE = 64;  // numbers that there may be for each filter
    std::vector<uint64_t> words;

    // Each of some owners once.
    void keep_once(std::vector<int64_t>& owners, size_t filters) {
        auto limit = SPARSE * static_cast<int64_t>(filters);
        auto [least, most] = std::minmax_element(owners.begin(), owners.end());
        if (owners.size() < FEW || *least < 0 || *most >= limit) {
            std::sort(owners.begin(), owners.end());
            owners.erase(std::unique(owners.begin(), owners.end()), owners.end());
            return;
        }
        words.resize(std::max(words.size(), static_cast<size_t>(*most) / 64 + 1));
        auto is_marked = [&](int64_t owner) {
            uint64_t &word = words[static_cast<size_t>(owner) / 64], bit = uint64_t{1} << owner % 64;
            bool is_known = word & bit;
            word |= bit;
            return is_known;
        };
        owners.erase(std::remove_if(owners.begin(), owners.end(), is_marked), owners.end());
        for (int64_t owner : owners) words[static_cast<size_t>(owner) / 64] = 0;
    }
};

// The rows with what is read of them once per call.
struct Matcher {
    nb::handle root, places, rows;
    ReadRows read;
    View owned;
    nb::dict rest;  // extents that bounds only approximate, by slot
    int64_t verified = 0;
    std::vector<int32_t> found;

    Matcher(nb::handle root, nb::handle places, nb::handle rows)
        : root(root), places(places), rows(rows), read(rows), owned(rows, "_owners"),
          rest(nb::cast<nb::dict>(rows.attr("_rest"))) {}

    // Adds the owners of the filters that hold one of some vectors; one of several filters may come twice.
    void match(const Items& vectors, std::vector<int64_t>& owners) {
        if (rest.size()) {  // extents are looked at by vector
            for (Py_ssize_t at = 0; at < vectors.count; ++at) {
                Items vector{nb::handle(vectors.items[at])};
                FilterQuestion question = read_question(rows, vector);
                found.clear();
                reach(root, places, vector, [&](const BoundPartition& one) { one.match({&question}, read.rows, found, verified); });
                for (int32_t slot : found)
                    if (holds_rest(slot, vector)) owners.push_back(owner(slot));
            }
            return;
        }
        std::vector<FilterQuestion> questions;
        questions.reserve(static_cast<size_t>(vectors.count));  // they are pointed to
        std::vector<Reached> reached;
        for (Py_ssize_t at = 0; at < vectors.count; ++at) {
            Items vector{nb::handle(vectors.items[at])};
            questions.push_back(read_question(rows, vector));
            reach(root, places, vector, [&](const BoundPartition& one) {
                auto known = std::find_if(reached.begin(), reached.end(), [&](const Reached& other) { return other.partition == &one; });
                if (known == reached.end()) known = reached.insert(known, Reached{&one, {}});
                known->questions.push_back(&questions.back());
            });
        }
        found.clear();
        for (const Reached& one : reached) one.partition->match(one.questions, read.rows, found, verified);
        for (int32_t slot : found) owners.push_back(owner(slot));
    }

   private:
    // A partition, and the vectors by which it was reached.
    struct Reached {
        const BoundPartition* partition;
        std::vector<const FilterQuestion*> questions;
    };

    int64_t owner(int32_t slot) const { return static_cast<const int64_t*>(owned.buffer.buf)[slot]; }
    bool holds_rest(int32_t slot, const Items& vector) const {
        nb::object key = nb::int_(slot);
        PyObject* extents = held(rest.ptr(), key.ptr());
        if (!extents) return true;
        Items parts{nb::handle(extents)};
        for (Py_ssize_t at = 0; at < parts.count; ++at) {
            int64_t place = code_of(PyTuple_GET_ITEM(parts.items[at], 0));
            if (place < 0 || place >= vector.count) throw nb::index_error("the vector has too few attributes");
            int inside = PySequence_Contains(PyTuple_GET_ITEM(parts.items[at], 1), vector.items[place]);
            if (inside < 0) throw nb::python_error();
            if (!inside) return false;
        }
        return true;
    }
};

// For each group of vectors an array of the owners of the filters that hold one of them, each once, and how many filters
// were verified in all.
nb::object match(nb::handle root, nb::handle places, nb::handle rows, nb::handle groups) {
    Matcher matcher(root, places, rows);
    Items all{groups};
    nb::list found;
    Marks marks;
    std::vector<int64_t> owners;
    for (Py_ssize_t group = 0; group < all.count; ++group) {
        Items vectors{nb::handle(all.items[group])};
        owners.clear();
        matcher.match(vectors, owners);
        marks.keep_once(owners, matcher.read.rows.slots);
        found.append(as_array(owners));
    }
    return nb::make_tuple(found, matcher.verified);
}
}  // namespace

void bind_filters(nb::module_& module) {
    nb::class_<BoundPartition>(module, "FilterPartition")
        .def("__init__",
             [](BoundPartition* self, nb::object attribute, nb::object level, nb::object cell, size_t many, size_t renew,
                size_t sample) {
                 new (self) BoundPartition(attribute, level, cell, {many, renew, std::max<size_t>(1, sample)});
             },
             nb::arg("attribute").none(), nb::arg("level"), nb::arg("cell").none(), nb::arg("many"), nb::arg("renew"),
             nb::arg("sample"))
        .def_ro("attribute", &BoundPartition::attribute)
        .def_ro("level", &BoundPartition::level)
        .def_ro("cell", &BoundPartition::cell)
        .def_prop_ro("is_renewing", &BoundPartition::is_renewing)
        .def("__len__", &BoundPartition::size)
        .def("__iter__",
             [](const BoundPartition& self) {
                 nb::list slots;
                 for (int32_t slot : self.members()) slots.append(slot);
                 return nb::iter(slots);
             })
        .def("append", [](BoundPartition& self, int32_t slot) { return self.append(slot); })
        .def("settle",
             [](BoundPartition& self, nb::handle rows, size_t start) { self.settle(ReadRows(rows).rows, start); })
        .def("add",
             [](BoundPartition& self, int64_t slot, nb::handle, nb::handle rows) {
                 ReadRows read(rows);
                 return self.add(read.slot(slot), read.rows);
             })
        .def("change",
             [](BoundPartition& self, size_t position, int column, nb::handle, nb::handle rows) {
                 if (position >= self.size()) throw nb::index_error("there is no such position");
                 self.change(position, column, ReadRows(rows).rows);
             })
        .def("remove",
             [](BoundPartition& self, size_t position, nb::handle rows) {
                 if (position >= self.size()) throw nb::index_error("there is no such position");
                 return self.remove(position, ReadRows(rows).rows);
             })
        .def_prop_ro("nbytes", &BoundPartition::nbytes)
        .def("check", [](const BoundPartition& self, nb::handle rows) { self.check(ReadRows(rows).rows); });
    module.def("match_filters", &match);
}

}  // namespace kernels
