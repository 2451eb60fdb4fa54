// Sums as Python objects, and from them; shared by the binding of the tree and by the sums of a space.
#pragma once

#include "range_objects.h"
#include "sum_tree.h"

namespace kernels {

// A total of at most 65 bits with its sign: the difference of two values, or the opposite of one. OverflowError beyond.
inline Total total_of(nb::handle object) {
    int beyond = 0;
    int64_t code = end_of(object.ptr(), beyond);
    if (!beyond) return code;
    nb::object away = nb::steal(PyNumber_Absolute(object.ptr()));
    unsigned long long distance = away.is_valid() ? PyLong_AsUnsignedLongLong(away.ptr()) : 0;
    if (PyErr_Occurred()) throw nb::python_error();
    return beyond > 0 ? Total{distance} : -Total{distance};
}

inline nb::object as_total(Total total) {
    if (LOWEST <= total && total <= HIGHEST) return as_code(static_cast<int64_t>(total));
    nb::object high = as_code(static_cast<int64_t>(total >> 64));
    nb::object low = nb::steal(PyLong_FromUnsignedLongLong(static_cast<uint64_t>(total)));
    nb::object bits = nb::steal(PyLong_FromLong(64));
    nb::object shifted = nb::steal(PyNumber_Lshift(high.ptr(), bits.ptr()));
    nb::object whole = nb::steal(shifted.is_valid() ? PyNumber_Or(shifted.ptr(), low.ptr()) : nullptr);
    if (!whole.is_valid()) throw nb::python_error();
    return whole;
}

inline nb::object as_sums(const Sums& sums) {
    return nb::make_tuple(as_code(sums.rows), as_code(sums.values), as_total(sums.total));
}

[[noreturn]] inline void raise_impossible(int64_t x, const Sums& left) {
    nb::object held = nb::make_tuple(as_code(left.values), as_total(left.total));
    PyErr_Format(PyExc_ValueError, "%lld would be left with %lld rows and the sums %R", static_cast<long long>(x),
                 static_cast<long long>(left.rows), held.ptr());
    throw nb::python_error();
}

inline void change_sums(SumTree& tree, int64_t x, const Sums& more) {
    SumTree::Left left = tree.change(x, more);
    if (!left.is_possible) raise_impossible(x, left.sums);
}

// Entries are (x, rows, values, total). O(N log N).
inline void build_sums(SumTree& tree, nb::handle entries) {
    std::vector<SumTree::Entry> all;
    for (nb::handle entry : nb::iter(entries)) {
        Items items{entry};
        if (items.count != 4) throw nb::value_error("an entry is (x, rows, values, total)");
        int64_t codes[3];
        std::transform(items.items, items.items + 3, codes, code_of);
        all.push_back({codes[0], {codes[1], codes[2], total_of(items.items[3])}});
    }
    if (!tree.build(std::move(all))) throw nb::value_error("values without rows");
}

}  // namespace kernels
