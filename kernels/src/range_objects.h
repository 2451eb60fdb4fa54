// Tuples of the A2B-tree as Python objects, and from them; shared by its binding and by the minima of a space.
#pragma once

#include "range_tree.h"
#include "references.h"
#include "sides.h"

namespace kernels {

using ObjectTree = RangeTree<KeyRef>;

inline nb::object as_code(int64_t code) { return nb::steal(PyLong_FromLongLong(code)); }
inline nb::object as_peak(const ObjectTree::Point& point) {
    return nb::make_tuple(as_code(point.y), KeyRef::object(point.ref));
}

[[noreturn]] inline void raise_missing(int64_t x, int64_t y, nb::handle ref) {
    raise_key_error(nb::make_tuple(x, y, ref));
}

[[noreturn]] inline void raise_twice(nb::handle ref) {
    PyErr_Format(PyExc_ValueError, "%R is already there", ref.ptr());
    throw nb::python_error();
}

// A named tuple, without calling its class and without a tuple of its fields: a fifth of the time.
template <class... Fields>
nb::object named(nb::handle type, Fields&&... fields) {
    auto* made_type = reinterpret_cast<PyTypeObject*>(type.ptr());
    nb::object made = nb::steal(made_type->tp_alloc(made_type, sizeof...(Fields)));
    if (!made.is_valid()) throw nb::python_error();
    PyObject** items = reinterpret_cast<PyTupleObject*>(made.ptr())->ob_item;
    ((*items++ = nb::cast(std::forward<Fields>(fields)).release().ptr()), ...);
    return made;
}

// Intervals and boxes in the class of cn.model.geometry.
inline nb::object as_interval(nb::handle type, const Side& side) {
    return named(type, side.has_low ? as_code(side.low) : nb::none(), side.has_high ? as_code(side.high) : nb::none(),
                 side.low_open, side.high_open);
}
inline nb::object as_box(nb::handle type, const RangeBox& box) {
    return nb::make_tuple(as_interval(type, box.sides[0]), as_interval(type, box.sides[1]));
}

// Entries are (x, y, ref); the tree is empty. O(N log N).
inline void build_tree(ObjectTree& tree, nb::handle entries) {
    std::vector<ObjectTree::Point> all;
    nb::list kept;  // the entries, while their references are read
    for (nb::handle entry : nb::iter(entries)) {
        Items items{entry};
        if (items.count != 3) throw nb::value_error("an entry is (x, y, ref)");
        kept.append(entry);
        all.push_back({code_of(items.items[0]), code_of(items.items[1]), KeyRef::of(items.items[2])});
    }
    tree.build(all);
}

}  // namespace kernels
