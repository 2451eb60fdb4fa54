// The codes of one column, read from rows of Python.
#pragma once

#include "reading.h"

namespace kernels {

// `encode` gives the code of a value (None: integers that are their own codes). A column at -1 is not there.
class CodedColumn {
   public:
    CodedColumn(Py_ssize_t at, nb::object encode) : at_(at), encode_(encode) {}

    bool is_there() const { return at_ >= 0; }
    // The value; borrowed from the row.
    PyObject* value(nb::handle row) const {
        if (!PyTuple_Check(row.ptr())) throw nb::type_error("a row is a tuple");
        if (at_ >= PyTuple_GET_SIZE(row.ptr())) throw nb::index_error("a row has too few columns");
        return PyTuple_GET_ITEM(row.ptr(), at_);
    }
    int64_t code(PyObject* value) const {
        return encode_.is_none() ? code_of(value) : code_of(encode_(nb::handle(value)).ptr());
    }
    // False for NULL.
    bool read(nb::handle row, int64_t& found) const {
        PyObject* held = value(row);
        if (held == Py_None) return false;
        found = code(held);
        return true;
    }

   private:
    Py_ssize_t at_;
    nb::object encode_;
};

}  // namespace kernels
