// Columns handed to Python as numpy arrays, and columns read from it.
#pragma once

#include <nanobind/ndarray.h>

#include <cstring>
#include <vector>

#include "reading.h"

namespace kernels {

using ReadColumn = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// A copy of some 64-bit integers as an array; with `columns` as lines of so many. numpy makes it itself: a sixth of the
// time of wrapping our memory.
inline nb::object as_array(const std::vector<int64_t>& values, Py_ssize_t columns = -1) {
    static PyObject* numpy = PyImport_ImportModule("numpy");
    static PyObject* empty = numpy ? PyObject_GetAttrString(numpy, "empty") : nullptr;
    static PyObject* int64 = numpy ? PyObject_GetAttrString(numpy, "int64") : nullptr;
    if (!empty || !int64) throw nb::python_error();
    nb::object length = nb::steal(PyLong_FromSize_t(values.size()));
    PyObject* arguments[2] = {length.ptr(), int64};
    nb::object array = nb::steal(PyObject_Vectorcall(empty, arguments, 2, nullptr));
    if (!array.is_valid()) throw nb::python_error();
    if (!values.empty()) {
        Py_buffer buffer;
        if (PyObject_GetBuffer(array.ptr(), &buffer, PyBUF_WRITABLE)) throw nb::python_error();
        std::memcpy(buffer.buf, values.data(), values.size() * sizeof(int64_t));
        PyBuffer_Release(&buffer);
    }
    return columns < 0 ? array : array.attr("reshape")(-1, columns);
}

}  // namespace kernels
