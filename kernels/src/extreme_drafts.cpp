// The messages of range minima and maxima: prosem/types/extreme/form.py.
//
// Each carries a row of the table as JSON, {"value": …, "row": {…}}. Rows of integers, booleans, NULL and plain ASCII text
// are written here, as msgspec writes them; for all others the encoder in Python is called.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <charconv>

#include "bindings.h"
#include "range_objects.h"

namespace kernels {

namespace {
class ExtremeDrafts {
   public:
    // `draft`: the class of the messages; `names`: of the columns, as JSON; `y`: which one is the value; `encode` writes
    // the answer that shows a row, or None.
    ExtremeDrafts(nb::object draft, nb::str kind, const std::vector<std::string>& names, size_t y, nb::object encode)
        : draft_(draft), encode_(encode), nothing_(encode(nb::none())), kind_(kind), y_(y) {
        if (y >= names.size()) throw nb::index_error("there is no such column");
        for (const auto& name : names) before_.push_back((before_.empty() ? ",\"row\":{" : ",") + name + ":");
    }

    // Of [(topic, piece), …]; `rows` holds those that pieces refer to.
    nb::object make(nb::handle description, nb::handle rows) {
        Items all{description};
        nb::object made = nb::steal(PyList_New(all.count));
        if (!made.is_valid()) throw nb::python_error();
        for (Py_ssize_t at = 0; at < all.count; ++at) {
            Items one{all.items[at]};
            if (one.count != 2) throw nb::value_error("a description is of (topic, piece)");
            Items piece{one.items[1]};
            if (piece.count != 3) throw nb::value_error("a piece is (region, y, ref)");
            nb::object draft = named(draft_, kind_, nb::borrow(one.items[0]), nb::borrow(piece.items[0]), nb::none(),
                                     nb::none(), payload(piece.items[2], rows), none_of_, none_of_);
            PyList_SET_ITEM(made.ptr(), at, draft.release().ptr());
        }
        return made;
    }

   private:
    nb::object draft_, encode_, nothing_;
    nb::str kind_;
    nb::tuple none_of_;
    std::vector<std::string> before_;  // what is written before each column
    size_t y_;
    std::string text_;

    nb::object payload(nb::handle ref, nb::handle rows) {
        if (ref.is_none()) return nothing_;
        nb::object row = nb::steal(PyObject_GetItem(rows.ptr(), ref.ptr()));
        if (!row.is_valid()) throw nb::python_error();
        if (!write(row)) return encode_(row);
        return nb::bytes(text_.data(), text_.size());
    }

    // Whether it could.
    bool write(nb::handle row) {
        if (!PyTuple_Check(row.ptr()) || static_cast<size_t>(PyTuple_GET_SIZE(row.ptr())) != before_.size()) return false;
        text_ = "{\"value\":";
        if (!write_value(PyTuple_GET_ITEM(row.ptr(), y_))) return false;
        for (size_t at = 0; at < before_.size(); ++at) {
            text_ += before_[at];
            if (!write_value(PyTuple_GET_ITEM(row.ptr(), at))) return false;
        }
        text_ += "}}";
        return true;
    }
    bool write_value(PyObject* value) {
        if (PyLong_CheckExact(value)) {
            int beyond = 0;
            int64_t number = PyLong_AsLongLongAndOverflow(value, &beyond);
            if (beyond) return false;
            char digits[24];
            text_.append(digits, std::to_chars(digits, digits + sizeof digits, number).ptr);
            return true;
        }
        if (PyUnicode_CheckExact(value)) return write_text(value);
        if (value != Py_None && !PyBool_Check(value)) return false;
        text_ += value == Py_None ? "null" : value == Py_True ? "true" : "false";
        return true;
    }
    bool write_text(PyObject* value) {
        if (!PyUnicode_IS_COMPACT_ASCII(value)) return false;
        auto* characters = reinterpret_cast<const char*>(PyUnicode_1BYTE_DATA(value));
        Py_ssize_t length = PyUnicode_GET_LENGTH(value);
        for (Py_ssize_t at = 0; at < length; ++at) {
            char one = characters[at];
            if (one < ' ' || one == '"' || one == '\\' || one == 0x7f) return false;  // may need an escape
        }
        text_ += '"';
        text_.append(characters, static_cast<size_t>(length));
        text_ += '"';
        return true;
    }
};
}  // namespace

void bind_extreme_drafts(nb::module_& module) {
    nb::class_<ExtremeDrafts>(module, "ExtremeDrafts")
        .def(nb::init<nb::object, nb::str, const std::vector<std::string>&, size_t, nb::object>(), nb::arg("draft"),
             nb::arg("kind"), nb::arg("names"), nb::arg("y"), nb::arg("encode"))
        .def("make", &ExtremeDrafts::make);
}

}  // namespace kernels
