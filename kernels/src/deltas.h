// The events of a request, as prosem/values/model.py has them: (seq, table, key, row before, row after).
#pragma once

#include "reading.h"

namespace kernels {

struct ReadDelta {
    nb::handle key, old_row, new_row;

    explicit ReadDelta(PyObject* delta) {
        if (!PyTuple_Check(delta) || PyTuple_GET_SIZE(delta) != 5)
            throw nb::type_error("a delta is (seq, table, key, old, new)");
        key = PyTuple_GET_ITEM(delta, 2);
        old_row = PyTuple_GET_ITEM(delta, 3);
        new_row = PyTuple_GET_ITEM(delta, 4);
    }
};

// What `step` gives for each of some deltas, in their order.
template <class Step>
nb::object stepped(nb::handle deltas, Step&& step) {
    Items all{deltas};
    nb::object found = nb::steal(PyList_New(all.count));
    if (!found.is_valid()) throw nb::python_error();
    for (Py_ssize_t at = 0; at < all.count; ++at) {
        nb::object one = step(ReadDelta(all.items[at]));
        PyList_SET_ITEM(found.ptr(), at, one.release().ptr());
    }
    return found;
}

}  // namespace kernels
