#include "packed_column.h"

#include <datetime.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace kernels {

namespace {
constexpr int64_t UNIX_ORDINAL = 719163;  // of 1970-01-01, as in Python
constexpr int64_t DAY_US = 86'400'000'000;

// Days since 1970-01-01 of a date of the proleptic Gregorian calendar, and back.
int64_t days_of(int64_t year, int month, int day) {
    year -= month <= 2;
    int64_t era = (year >= 0 ? year : year - 399) / 400;
    int64_t of_era = year - era * 400;
    int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146'097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719'468;
}

struct Civil {
    int year, month, day;
};

Civil civil_of(int64_t days) {
    days += 719'468;
    int64_t era = (days >= 0 ? days : days - 146'096) / 146'097;
    int64_t of_era = days - era * 146'097;
    int64_t year = (of_era - of_era / 1'460 + of_era / 36'524 - of_era / 146'096) / 365;
    int64_t of_year = of_era - (365 * year + year / 4 - year / 100);
    int64_t month = (5 * of_year + 2) / 153;
    int day = static_cast<int>(of_year - (153 * month + 2) / 5 + 1);
    int number = static_cast<int>(month < 10 ? month + 3 : month - 9);
    return {static_cast<int>(year + era * 400 + (number <= 2)), number, day};
}

void load_datetime() {
    if (!PyDateTimeAPI) PyDateTime_IMPORT;
    if (!PyDateTimeAPI) throw nb::python_error();
}

PyObject* decimal_type() {
    static PyObject* type = [] {
        nb::object module = nb::steal(PyImport_ImportModule("decimal"));
        PyObject* found = module.is_valid() ? PyObject_GetAttrString(module.ptr(), "Decimal") : nullptr;
        if (!found) throw nb::python_error();
        return found;
    }();
    return type;
}

// The moment in microseconds since 1970 of a datetime whose zone is UTC, by whatever class.
bool moment_of(PyObject* value, int64_t& code) {
    PyObject* zone = PyDateTime_DATE_GET_TZINFO(value);
    if (zone != PyDateTime_TimeZone_UTC) {
        if (zone == Py_None) return false;
        nb::object name = nb::steal(PyObject_Str(zone));
        if (!name.is_valid()) throw nb::python_error();
        if (PyUnicode_CompareWithASCIIString(name.ptr(), "UTC")) return false;
    }
    if (PyDateTime_DATE_GET_FOLD(value)) return false;
    int64_t days = days_of(PyDateTime_GET_YEAR(value), PyDateTime_GET_MONTH(value), PyDateTime_GET_DAY(value));
    int64_t seconds = PyDateTime_DATE_GET_HOUR(value) * 3'600 + PyDateTime_DATE_GET_MINUTE(value) * 60 +
                      PyDateTime_DATE_GET_SECOND(value);
    code = days * DAY_US + seconds * 1'000'000 + PyDateTime_DATE_GET_MICROSECOND(value);
    return true;
}

PyObject* moment(int64_t code) {
    int64_t days = code / DAY_US, rest = code % DAY_US;
    if (rest < 0) {
        --days;
        rest += DAY_US;
    }
    Civil date = civil_of(days);
    int seconds = static_cast<int>(rest / 1'000'000);
    return PyDateTimeAPI->DateTime_FromDateAndTime(date.year, date.month, date.day, seconds / 3'600,
                                                   seconds / 60 % 60, seconds % 60,
                                                   static_cast<int>(rest % 1'000'000), PyDateTime_TimeZone_UTC,
                                                   PyDateTimeAPI->DateTimeType);
}

// A Decimal as a number of 10⁻ˢ, of at most 18 digits. `is_exact`: it must have s decimals, and no minus zero.
bool scaled_of(PyObject* value, int scale, bool is_exact, int64_t& code) {
    nb::object text = nb::steal(PyObject_Str(value));
    if (!text.is_valid()) throw nb::python_error();
    Py_ssize_t length;
    const char* at = PyUnicode_AsUTF8AndSize(text.ptr(), &length);
    if (!at) throw nb::python_error();
    bool is_negative = *at == '-', has_point = false;
    at += is_negative;
    int64_t number = 0;
    int digits = 0, exponent = 0;
    for (; *at && *at != 'E'; ++at) {
        if (*at == '.') {
            has_point = true;
            continue;
        }
        if (*at < '0' || *at > '9') return false;
        if (number || *at != '0') ++digits;
        if (digits > 18) return false;
        number = 10 * number + (*at - '0');
        exponent -= has_point;
    }
    if (*at == 'E') {
        long shift = std::strtol(at + 1, nullptr, 10);
        if (shift > 4'000 || shift < -4'000) return false;
        exponent += static_cast<int>(shift);
    }
    if (is_exact && (exponent != -scale || (is_negative && !number))) return false;
    for (; number && exponent > -scale; --exponent) {
        if (++digits > 18) return false;
        number *= 10;
    }
    for (; number && exponent < -scale; ++exponent) {
        if (number % 10) return false;
        number /= 10;
    }
    code = is_negative ? -number : number;
    return true;
}

nb::object scaled(int64_t code, int scale) {
    std::array<char, 32> text;
    char* at = text.data() + text.size();
    uint64_t rest = code < 0 ? 0 - static_cast<uint64_t>(code) : static_cast<uint64_t>(code);
    for (int digit = 0; rest || digit <= scale; ++digit) {
        if (digit == scale && scale) *--at = '.';
        *--at = static_cast<char>('0' + rest % 10);
        rest /= 10;
    }
    if (code < 0) *--at = '-';
    nb::object digits = nb::steal(PyUnicode_FromStringAndSize(at, text.data() + text.size() - at));
    nb::object number = nb::steal(digits.is_valid() ? PyObject_CallOneArg(decimal_type(), digits.ptr()) : nullptr);
    if (!number.is_valid()) throw nb::python_error();
    return number;
}

int64_t bits_of(double value) {
    int64_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

bool integer_of(PyObject* value, bool is_narrow, int64_t& code) {
    int beyond = 0;
    code = PyLong_AsLongLongAndOverflow(value, &beyond);
    if (code == -1 && PyErr_Occurred()) throw nb::python_error();
    return !beyond && (!is_narrow || (INT32_MIN <= code && code <= INT32_MAX));
}
}  // namespace

Kind kind_named(const std::string& name) {
    load_datetime();
    static const std::pair<const char*, Kind> NAMES[] = {
        {"boolean", Kind::BOOLEAN}, {"int32", Kind::INT32},   {"int64", Kind::INT64},     {"double", Kind::DOUBLE},
        {"date", Kind::DATE},       {"moment", Kind::MOMENT}, {"numeric", Kind::NUMERIC}, {"object", Kind::OBJECT},
    };
    for (const auto& [known, kind] : NAMES)
        if (name == known) return kind;
    throw nb::value_error("no such kind of column");
}

bool PackedColumn::pack(PyObject* value, int64_t& code) const {
    switch (kind_) {
        case Kind::BOOLEAN:
            code = value == Py_True;
            return PyBool_Check(value);
        case Kind::INT32:
        case Kind::INT64: return PyLong_CheckExact(value) && integer_of(value, kind_ == Kind::INT32, code);
        case Kind::DOUBLE:
            if (!PyFloat_CheckExact(value)) return false;
            code = bits_of(PyFloat_AS_DOUBLE(value));
            return true;
        case Kind::DATE:
            if (!PyDate_CheckExact(value)) return false;
            code = UNIX_ORDINAL +
                   days_of(PyDateTime_GET_YEAR(value), PyDateTime_GET_MONTH(value), PyDateTime_GET_DAY(value));
            return true;
        case Kind::MOMENT: return PyDateTime_CheckExact(value) && moment_of(value, code);
        case Kind::NUMERIC:
            return Py_TYPE(value) == reinterpret_cast<PyTypeObject*>(decimal_type()) &&
                   scaled_of(value, scale_, true, code);
        case Kind::OBJECT: break;
    }
    return false;
}

// Python finds 1 by True and by 1.0; so do we.
bool PackedColumn::probe(PyObject* value, int64_t& code) const {
    switch (kind_) {
        case Kind::BOOLEAN:
        case Kind::INT32:
        case Kind::INT64:
            if (PyFloat_Check(value)) {
                double number = PyFloat_AS_DOUBLE(value);
                if (!(number >= -9.2e18 && number <= 9.2e18) || std::trunc(number) != number) return false;
                code = static_cast<int64_t>(number);
                return true;
            }
            return PyLong_Check(value) && integer_of(value, false, code);
        case Kind::DOUBLE: {
            if (PyLong_Check(value)) {
                double number = PyLong_AsDouble(value);
                if (number == -1 && PyErr_Occurred()) {
                    PyErr_Clear();
                    return false;
                }
                code = bits_of(number);
            } else if (PyFloat_Check(value)) {
                code = bits_of(PyFloat_AS_DOUBLE(value));
            } else {
                return false;
            }
            code = without_sign_of_zero(code);
            return true;
        }
        case Kind::NUMERIC:
            return (PyLong_Check(value) || Py_TYPE(value) == reinterpret_cast<PyTypeObject*>(decimal_type())) &&
                   scaled_of(value, scale_, false, code);
        default: return pack(value, code);
    }
}

nb::object PackedColumn::unpack(int64_t code) const {
    PyObject* made = nullptr;
    switch (kind_) {
        case Kind::BOOLEAN: return nb::borrow(code ? Py_True : Py_False);
        case Kind::INT32:
        case Kind::INT64: made = PyLong_FromLongLong(code); break;
        case Kind::DOUBLE: {
            double value;
            std::memcpy(&value, &code, sizeof value);
            made = PyFloat_FromDouble(value);
            break;
        }
        case Kind::DATE: {
            Civil date = civil_of(code - UNIX_ORDINAL);
            made = PyDate_FromDate(date.year, date.month, date.day);
            break;
        }
        case Kind::MOMENT: made = moment(code); break;
        case Kind::NUMERIC: return scaled(code, scale_);
        case Kind::OBJECT: break;
    }
    if (!made) throw nb::python_error();
    return nb::steal(made);
}

int64_t PackedColumn::ordered_code(size_t slot) const {
    int64_t stored = code(slot);
    if (kind_ != Kind::DOUBLE) return stored;
    return stored >= 0 ? stored : stored == LOWEST ? 0 : LOWEST - stored;
}

void PackedColumn::set_null(size_t slot, bool is_null, size_t count) {
    if (!has_nulls_ && is_null) {
        nulls_.grow(std::max(count, slot + 1));
        std::memset(&nulls_.at<uint8_t>(0), 0, nulls_.capacity());
        has_nulls_ = true;
    }
    if (!has_nulls_) return;
    nulls_.grow(slot + 1);
    nulls_.at<uint8_t>(slot) = is_null;
}

void PackedColumn::put(size_t slot, PyObject* value, bool is_new, size_t count) {
    int64_t code = 0;
    bool is_null = value == Py_None;
    if (kind_ != Kind::OBJECT && !is_null && !pack(value, code)) widen(count);
    values_.grow((slot + 1) * static_cast<size_t>(width()));
    if (kind_ == Kind::OBJECT) {
        PyObject* before = is_new ? nullptr : objects(slot);
        Py_INCREF(value);
        set_object(slot, value);
        Py_XDECREF(before);
        return;
    }
    set_code(slot, code);
    set_null(slot, is_null, count);
}

void PackedColumn::move(size_t from, size_t to) {
    if (kind_ == Kind::OBJECT) return set_object(to, objects(from));
    set_code(to, code(from));
    if (has_nulls_) nulls_.at<uint8_t>(to) = nulls_.at<uint8_t>(from);
}

void PackedColumn::widen(size_t count) {
    Bytes made;
    made.grow((count + 1) * sizeof(PyObject*));
    for (size_t slot = 0; slot < count; ++slot) made.at<PyObject*>(slot) = get(slot).release().ptr();
    values_ = std::move(made);
    nulls_ = Bytes();
    has_nulls_ = false;
    kind_ = Kind::OBJECT;
}

}  // namespace kernels
