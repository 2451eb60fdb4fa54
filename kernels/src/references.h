// What a tree may hold as the reference of a tuple.
#pragma once

#include "reading.h"

namespace kernels {

// Any hashable object; the tree owns a reference to it. Keys of rows are such objects, shared with the table.
struct ObjectRef {
    using Value = PyObject*;

    static int64_t hash(PyObject* object) {
        Py_hash_t hash = PyObject_Hash(object);
        if (hash == -1 && PyErr_Occurred()) throw nb::python_error();
        return hash;
    }
    static bool equal(PyObject* one, PyObject* other) {
        if (one == other) return true;
        int is_equal = PyObject_RichCompareBool(one, other, Py_EQ);
        if (is_equal < 0) throw nb::python_error();
        return is_equal;
    }
    static void keep(PyObject* object) { Py_INCREF(object); }
    static void let_go(PyObject* object) { Py_DECREF(object); }
};

// A number, such as that of a row: eight bytes, compared without Python.
struct NumberRef {
    using Value = int64_t;

    static int64_t hash(int64_t number) { return number; }
    static bool equal(int64_t one, int64_t other) { return one == other; }
    static void keep(int64_t) {}
    static void let_go(int64_t) {}
};

}  // namespace kernels
