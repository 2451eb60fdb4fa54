// Codes, intervals and boxes read from Python objects.
//
// An interval with open or missing ends, or with ends beyond 64 bits, becomes the span of the 64-bit codes in it, as
// in cn/match/span.py.
#pragma once

#include <nanobind/nanobind.h>

#include "spans.h"

namespace nb = nanobind;

namespace kernels {

// The 64-bit integer of an object; raises TypeError or OverflowError.
inline int64_t code_of(PyObject* object) {
    int64_t code = PyLong_AsLongLong(object);
    if (code == -1 && PyErr_Occurred()) throw nb::python_error();
    return code;
}

// The integer of an end, clamped; `beyond` is -1 or 1 if it does not fit 64 bits.
inline int64_t end_of(PyObject* object, int& beyond) {
    int64_t code = PyLong_AsLongLongAndOverflow(object, &beyond);
    if (code == -1 && PyErr_Occurred()) throw nb::python_error();
    return code;
}

// A tuple or list as an array of objects; anything else becomes a tuple that `owner` keeps.
struct Items {
    nb::object owner;
    PyObject** items;
    Py_ssize_t count;

    explicit Items(nb::handle sequence) {
        owner = nb::steal(PySequence_Fast(sequence.ptr(), "a sequence is needed"));
        if (!owner.is_valid()) throw nb::python_error();
        items = PySequence_Fast_ITEMS(owner.ptr());
        count = PySequence_Fast_GET_SIZE(owner.ptr());
    }
};

// The span of an interval (low, high, low_open, high_open); false if no 64-bit code is in it.
inline bool read_interval(PyObject* interval, Span& span) {
    if (!PyTuple_Check(interval) || PyTuple_GET_SIZE(interval) != 4)
        throw nb::type_error("an interval is (low, high, low_open, high_open)");
    PyObject* low = PyTuple_GET_ITEM(interval, 0);
    PyObject* high = PyTuple_GET_ITEM(interval, 1);
    span.low = LOWEST;
    span.high = HIGHEST;
    if (low != Py_None) {
        int beyond = 0;
        int64_t code = end_of(low, beyond);
        if (beyond > 0) return false;
        if (!beyond) {
            if (PyObject_IsTrue(PyTuple_GET_ITEM(interval, 2))) {
                if (code == HIGHEST) return false;
                ++code;
            }
            span.low = code;
        }
    }
    if (high != Py_None) {
        int beyond = 0;
        int64_t code = end_of(high, beyond);
        if (beyond < 0) return false;
        if (!beyond) {
            if (PyObject_IsTrue(PyTuple_GET_ITEM(interval, 3))) {
                if (code == LOWEST) return false;
                --code;
            }
            span.high = code;
        }
    }
    return span.low <= span.high;
}

// The spans of a box; false if it is empty.
inline bool read_box(PyObject* box, int dimensions, Span* spans) {
    Items sides{box};
    if (sides.count != dimensions) {
        PyErr_Format(PyExc_ValueError, "a box of %zd dimensions in a space of %d", sides.count, dimensions);
        throw nb::python_error();
    }
    bool is_met = true;
    for (int at = 0; at < dimensions; ++at) is_met = read_interval(sides.items[at], spans[at]) && is_met;
    return is_met;
}

[[noreturn]] inline void raise_key_error(nb::handle key) {
    PyErr_SetObject(PyExc_KeyError, key.ptr());
    throw nb::python_error();
}

}  // namespace kernels
