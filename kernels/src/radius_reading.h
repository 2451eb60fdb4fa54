// Values and radii of value notifications, from Python and back.
#pragma once

#include <string>

#include "radius_ends.h"
#include "reading.h"

namespace kernels {

template <class T>
nb::object as_number(T value);
template <>
inline nb::object as_number(int64_t value) {
    return nb::steal(PyLong_FromLongLong(value));
}
template <>
inline nb::object as_number(double value) {
    return nb::steal(PyFloat_FromDouble(value));
}

inline EndsForm form_of(const std::string& form) {
    if (form == "change") return EndsForm::CHANGE;
    if (form == "percent") return EndsForm::PERCENT;
    if (form == "factor") return EndsForm::FACTOR;
    throw nb::value_error("a form is change, percent or factor");
}

// `unfit` is the exception for a number that 64 bits do not hold.
[[noreturn]] inline void raise_unfit(nb::handle unfit) {
    PyErr_SetNone(unfit.ptr());
    throw nb::python_error();
}

template <class T>
T read_number(nb::handle object, nb::handle unfit);
template <>
inline int64_t read_number(nb::handle object, nb::handle unfit) {
    if (!PyLong_Check(object.ptr())) raise_unfit(unfit);
    int beyond = 0;
    int64_t value = end_of(object.ptr(), beyond);
    if (beyond || value >= RadiusEnds<int64_t>::SMALL || value <= -RadiusEnds<int64_t>::SMALL) raise_unfit(unfit);
    return value;
}
template <>
inline double read_number(nb::handle object, nb::handle) {
    double value = PyFloat_AsDouble(object.ptr());
    if (value == -1.0 && PyErr_Occurred()) throw nb::python_error();
    return value;
}

}  // namespace kernels
