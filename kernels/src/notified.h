// Those that an event notifies, by what they were notified of before: boxes of radii and births, as
// prosem/index/radii/epochs.py has them. Objects of Python are made when they are asked for.
#pragma once

#include <cstring>
#include <utility>
#include <vector>

#include "point_index.h"
#include "radius_epochs.h"
#include "radius_reading.h"

namespace kernels {

// A radius as a coordinate: a double by its bits, which ascend with it.
inline int64_t radius_code(int64_t radius) { return radius; }
inline int64_t radius_code(double radius) {
    int64_t code;
    std::memcpy(&code, &radius, sizeof code);
    return code;
}

template <class T>
class Notified {
   public:
    Notified(std::vector<EpochPiece<T>> pieces, nb::object interval)
        : boxes_(std::move(pieces)), interval_(std::move(interval)) {}

    size_t size() const { return boxes_.size(); }
    // The same, with coordinates in the place of radii.
    Notified coded() const {
        Notified all = *this;
        all.is_coded_ = true;
        return all;
    }
    // [(notified before, ((radii, births), ...)), ...]
    nb::list regions() const {
        nb::list all;
        for (size_t group = 0; group < size(); ++group) {
            size_t first = boxes_.groups[group], count = boxes_.groups[group + 1] - first;
            nb::object region = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(count)));
            if (!region.is_valid()) throw nb::python_error();
            for (size_t at = 0; at < count; ++at) {
                const auto& box = boxes_.boxes[first + at];
                nb::object sides = nb::make_tuple(interval(end(box.low), end(box.high)),
                                                  interval(as_number(box.first), as_number(box.last)));
                PyTuple_SET_ITEM(region.ptr(), static_cast<Py_ssize_t>(at), sides.release().ptr());
            }
            all.append(nb::make_tuple(as_number(boxes_.before(group)), region));
        }
        return all;
    }
    // [(notified before, ids), ...]: the points under some topics, of those groups that have any.
    nb::list named(PointIndex& points, nb::handle topics) const {
        if (points.dimensions() != 2) throw nb::value_error("a place has two dimensions");
        Items names{topics};
        std::vector<const PointTree*> trees;
        for (Py_ssize_t at = 0; at < names.count; ++at) {
            if (!PyBytes_Check(names.items[at])) throw nb::type_error("a topic is bytes");
            if (const PointTree* tree = points.tree(view(names.items[at]))) trees.push_back(tree);
        }
        nb::list all;
        std::vector<int64_t> ids;
        for (size_t group = 0; group < size(); ++group) {
            ids.clear();
            for (size_t at = boxes_.groups[group]; at < boxes_.groups[group + 1]; ++at) {
                const auto& box = boxes_.boxes[at];
                Span spans[2] = {{radius_code(box.low), radius_code(box.high)}, {box.first, box.last}};
                for (const PointTree* tree : trees) points.find(tree, spans, ids);
            }
            if (!ids.empty()) all.append(nb::make_tuple(as_number(boxes_.before(group)), as_tuple(ids)));
        }
        return all;
    }

   private:
    EpochBoxes<T> boxes_;
    nb::object interval_;
    bool is_coded_ = false;

    nb::object end(T radius) const { return is_coded_ ? as_number(radius_code(radius)) : as_number(radius); }
    // A named tuple (low, high, False, False), made without calling its class.
    nb::object interval(nb::object low, nb::object high) const {
        auto* type = reinterpret_cast<PyTypeObject*>(interval_.ptr());
        PyObject* made = type->tp_alloc(type, 4);
        if (!made) throw nb::python_error();
        PyTuple_SET_ITEM(made, 0, low.release().ptr());
        PyTuple_SET_ITEM(made, 1, high.release().ptr());
        PyTuple_SET_ITEM(made, 2, nb::bool_(false).release().ptr());
        PyTuple_SET_ITEM(made, 3, nb::bool_(false).release().ptr());
        return nb::steal(made);
    }
    static nb::object as_tuple(const std::vector<int64_t>& ids) {
        nb::object all = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(ids.size())));
        if (!all.is_valid()) throw nb::python_error();
        for (size_t at = 0; at < ids.size(); ++at) {
            PyObject* id = PyLong_FromLongLong(ids[at]);
            if (!id) throw nb::python_error();
            PyTuple_SET_ITEM(all.ptr(), static_cast<Py_ssize_t>(at), id);
        }
        return all;
    }
};

template <class T>
void bind_notified(nb::module_& module, const char* name) {
    nb::class_<Notified<T>>(module, name)
        .def("__len__", &Notified<T>::size)
        .def("__iter__", [](const Notified<T>& self) { return nb::iter(self.regions()); })
        .def("coded", &Notified<T>::coded)
        .def("named", &Notified<T>::named);
}

}  // namespace kernels
