// One column of a table: fixed-width codes where the type has them, Python objects otherwise.
//
// A value is read back as it was put: of the same type, with the same digits and the same sign of zero. A value that the
// code cannot hold exactly turns the whole column into one of objects.
#pragma once

#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include "reading.h"

namespace kernels {

enum class Kind { BOOLEAN, INT32, INT64, DOUBLE, DATE, MOMENT, NUMERIC, OBJECT };

Kind kind_named(const std::string& name);

// Memory that grows by an eighth, in place where the system can.
class Bytes {
   public:
    Bytes() = default;
    Bytes(const Bytes& other) {
        reserve(other.capacity_);
        if (capacity_) std::memcpy(data_, other.data_, capacity_);
    }
    Bytes(Bytes&& other) noexcept : data_(other.data_), capacity_(other.capacity_) {
        other.data_ = nullptr;
        other.capacity_ = 0;
    }
    Bytes& operator=(Bytes&& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(capacity_, other.capacity_);
        return *this;
    }
    ~Bytes() { std::free(data_); }

    size_t capacity() const { return capacity_; }
    template <class T>
    T& at(size_t place) {
        return static_cast<T*>(data_)[place];
    }
    template <class T>
    const T& at(size_t place) const {
        return static_cast<const T*>(data_)[place];
    }
    void grow(size_t needed) {
        if (needed > capacity_) reserve(needed + needed / 8 + 64);
    }

   private:
    void* data_ = nullptr;
    size_t capacity_ = 0;

    void reserve(size_t capacity) {
        if (!capacity) return;
        void* data = std::realloc(data_, capacity);
        if (!data) throw std::bad_alloc();
        data_ = data;
        capacity_ = capacity;
    }
};

class PackedColumn {
   public:
    PackedColumn(Kind kind, int scale) : kind_(kind), scale_(scale) {}
    // A copy of the first `count` values.
    PackedColumn(const PackedColumn& other, size_t count)
        : kind_(other.kind_), scale_(other.scale_), has_nulls_(other.has_nulls_), values_(other.values_), nulls_(other.nulls_) {
        for (size_t slot = 0; kind_ == Kind::OBJECT && slot < count; ++slot) Py_INCREF(objects(slot));
    }
    PackedColumn(PackedColumn&&) = default;
    PackedColumn(const PackedColumn&) = delete;

    Kind kind() const { return kind_; }
    bool has_nulls() const { return has_nulls_; }
    size_t nbytes() const { return values_.capacity() + nulls_.capacity(); }

    // The code of a value that is not NULL; false if the code would not give it back exactly.
    bool pack(PyObject* value, int64_t& code) const;
    // The code of a value that equals it, for a search; false if there is none.
    bool probe(PyObject* value, int64_t& code) const;
    nb::object unpack(int64_t code) const;

    // Takes a value into a slot behind the last one (`is_new`) or in the place of another; returns what was there.
    // `count`: the slots in use before.
    void put(size_t slot, PyObject* value, bool is_new, size_t count);
    void move(size_t from, size_t to);  // the value of `to` was dropped
    void drop(size_t slot) {
        if (kind_ == Kind::OBJECT) Py_DECREF(objects(slot));
    }
    nb::object get(size_t slot) const {
        if (kind_ == Kind::OBJECT) return nb::borrow(objects(slot));
        return is_null(slot) ? nb::none() : unpack(code(slot));
    }
    bool is_null(size_t slot) const {
        return kind_ == Kind::OBJECT ? objects(slot) == Py_None : has_nulls_ && nulls_.at<uint8_t>(slot);
    }
    // What is stored: the order-preserving code, but of a double its bits.
    int64_t code(size_t slot) const {
        switch (width()) {
            case 1: return values_.at<uint8_t>(slot);
            case 4: return values_.at<int32_t>(slot);
            default: return values_.at<int64_t>(slot);
        }
    }
    PyObject* objects(size_t slot) const { return values_.at<PyObject*>(slot); }
    // As `ColumnType.code` of the value, which is not NULL.
    int64_t ordered_code(size_t slot) const;

    // Equal values have equal hashes, whether of one or of two zeros.
    uint64_t hash(size_t slot) const {
        if (kind_ == Kind::OBJECT) return hash_of(objects(slot));
        return static_cast<uint64_t>(kind_ == Kind::DOUBLE ? without_sign_of_zero(code(slot)) : code(slot));
    }
    static uint64_t hash_of(PyObject* value) {
        Py_hash_t hash = PyObject_Hash(value);
        if (hash == -1 && PyErr_Occurred()) throw nb::python_error();
        return static_cast<uint64_t>(hash);
    }
    bool equals(size_t slot, PyObject* value, int64_t probed) const {
        if (kind_ != Kind::OBJECT)
            return (kind_ == Kind::DOUBLE ? without_sign_of_zero(code(slot)) : code(slot)) == probed;
        if (objects(slot) == value) return true;
        int is_equal = PyObject_RichCompareBool(objects(slot), value, Py_EQ);
        if (is_equal < 0) throw nb::python_error();
        return is_equal;
    }

    // Room for so many, before codes are appended by `append_code`.
    void reserve(size_t count) {
        values_.grow(count * static_cast<size_t>(width()));
        if (has_nulls_) nulls_.grow(count);
    }
    void set_code(size_t slot, int64_t code) {
        switch (width()) {
            case 1: values_.at<uint8_t>(slot) = static_cast<uint8_t>(code); return;
            case 4: values_.at<int32_t>(slot) = static_cast<int32_t>(code); return;
            default: values_.at<int64_t>(slot) = code;
        }
    }
    void set_null(size_t slot, bool is_null, size_t count);
    void set_object(size_t slot, PyObject* owned) { values_.at<PyObject*>(slot) = owned; }

   private:
    Kind kind_;
    int scale_;
    bool has_nulls_ = false;
    Bytes values_, nulls_;

    int width() const {
        switch (kind_) {
            case Kind::BOOLEAN: return 1;
            case Kind::INT32:
            case Kind::DATE: return 4;
            default: return 8;
        }
    }
    static int64_t without_sign_of_zero(int64_t bits) { return bits == LOWEST ? 0 : bits; }
    void widen(size_t count);
};

}  // namespace kernels
