// What a tree may hold as the reference of a tuple.
#pragma once

#include "reading.h"

namespace kernels {

// Any hashable object; the tree owns a reference to it.
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

// The key of a row in one word: a tuple of one integer of at most 62 bits is held as the number, all else as an object.
// Equal keys are held alike, and the lowest bit says how. A number needs neither memory nor Python.
struct KeyRef {
    struct Value {
        uint64_t word;

        bool is_number() const { return word & 1; }
        int64_t number() const { return static_cast<int64_t>(word) >> 1; }
        PyObject* object() const { return reinterpret_cast<PyObject*>(word); }
    };
    static constexpr int64_t LEAST = -(int64_t{1} << 62), GREATEST = (int64_t{1} << 62) - 1;

    static bool fits(int64_t number) { return LEAST <= number && number <= GREATEST; }
    static Value of(int64_t number) { return {static_cast<uint64_t>(number) << 1 | 1}; }
    static Value of(nb::handle key) {
        if (PyTuple_CheckExact(key.ptr()) && PyTuple_GET_SIZE(key.ptr()) == 1 &&
            PyLong_CheckExact(PyTuple_GET_ITEM(key.ptr(), 0))) {
            int beyond = 0;
            int64_t number = PyLong_AsLongLongAndOverflow(PyTuple_GET_ITEM(key.ptr(), 0), &beyond);
            if (!beyond && fits(number)) return of(number);
        }
        return {reinterpret_cast<uint64_t>(key.ptr())};
    }
    static nb::object object(Value value) {
        if (!value.is_number()) return nb::borrow(value.object());
        nb::object number = nb::steal(PyLong_FromLongLong(value.number()));
        nb::object key = nb::steal(number.is_valid() ? PyTuple_Pack(1, number.ptr()) : nullptr);
        if (!key.is_valid()) throw nb::python_error();
        return key;
    }

    static int64_t hash(Value value) {
        return value.is_number() ? value.number() : ObjectRef::hash(value.object());
    }
    static bool equal(Value one, Value other) {
        if (one.word == other.word) return true;
        return !one.is_number() && !other.is_number() && ObjectRef::equal(one.object(), other.object());
    }
    static void keep(Value value) {
        if (!value.is_number()) Py_INCREF(value.object());
    }
    static void let_go(Value value) {
        if (!value.is_number()) Py_DECREF(value.object());
    }
};

}  // namespace kernels
