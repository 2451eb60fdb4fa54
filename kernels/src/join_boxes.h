// Boxes of the space of a select-join, and regions of them in which there are subscriptions.
#pragma once

#include <utility>
#include <vector>

#include "join_keys.h"
#include "point_index.h"
#include "range_objects.h"

namespace kernels {

using Sides = std::vector<Side>;

// `box` without `hole` as disjoint boxes: see cn/model/geometry.py.
inline std::vector<Sides> difference(const Sides& box, const Sides& hole) {
    std::vector<Sides> found;
    Sides common;
    bool is_apart = false, is_empty = false;
    for (size_t at = 0; at < box.size(); ++at) {
        common.push_back(box[at] & hole[at]);
        is_apart |= common.back().is_empty();
        is_empty |= box[at].is_empty();
    }
    if (is_apart) {
        if (!is_empty) found.push_back(box);
        return found;
    }
    Sides rest = box;
    for (size_t at = 0; at < box.size(); ++at) {
        const Side &side = box[at], &inner = common[at];
        if (inner.has_low && !inner.same_low(side)) {
            Side below{side.low, inner.low, side.has_low, true, side.low_open, !inner.low_open};
            if (!below.is_empty()) {
                found.push_back(rest);
                found.back()[at] = below;
            }
        }
        if (inner.has_high && !inner.same_high(side)) {
            Side above{inner.high, side.high, true, side.has_high, !inner.high_open, side.high_open};
            if (!above.is_empty()) {
                found.push_back(rest);
                found.back()[at] = above;
            }
        }
        rest[at] = inner;
    }
    return found;
}

// The two dimensions of a routing column's condition, if a table has one.
struct Routing {
    bool is_there = false;
    size_t low = 0, high = 0;
};

class JoinBoxes {
   public:
    // `interval` is the class to answer in.
    JoinBoxes(nb::object points, int dimensions, nb::object interval)
        : owner_(points), points_(nb::cast<PointIndex&>(points)), interval_(interval),
          everything_(as_interval(interval, Side{})), dimensions_(static_cast<size_t>(dimensions)) {
        if (points_.dimensions() != dimensions) throw nb::value_error("points of other dimensions");
    }

    PointIndex& points() const { return points_; }
    size_t dimensions() const { return dimensions_; }

    Routing routing(nb::handle pair) const {
        if (pair.is_none()) return {};
        Items items{pair};
        if (items.count != 2) throw nb::value_error("a condition has two dimensions");
        return {true, dimension(items.items[0]), dimension(items.items[1])};
    }
    size_t dimension(nb::handle number) const {
        auto found = static_cast<size_t>(code_of(number.ptr()));
        if (found >= dimensions_) throw nb::value_error("there is no such dimension");
        return found;
    }

    // Those that hold a row alone of its key, and reach between the other table's rows of that key: no subscription, if
    // another row has the code.
    struct Alone {
        bool is_there = false;
        Sides box;
    };
    Alone alone(const Routing& own, const Routing& other, int64_t code, const EntryList::Around& near, int64_t first,
                int64_t last) const {
        if (near.has_above && near.above == code) return {};
        Alone found{true, Sides(dimensions_)};
        if (own.is_there) {
            found.box[own.low] = {near.below, code, near.has_below, true, true, false};
            found.box[own.high] = {code, near.above, true, near.has_above, false, true};
        }
        if (other.is_there) {
            found.box[other.low] = Side::up_to(last);
            found.box[other.high] = Side::from(first);
        }
        return found;
    }
    // Where rows are lost and where they are gained; with one key those that lose and gain do neither.
    std::pair<nb::object, nb::object> shifted(const Alone& lost, const Alone& gained, bool is_one_key) {
        return {without(lost, gained, is_one_key), without(gained, lost, is_one_key)};
    }
    bool any(const Sides& box) {
        Span spans[MAX_DIMENSIONS];
        for (size_t at = 0; at < box.size(); ++at)
            if (!box[at].span(spans[at])) return false;
        return points_.any(points_.tree(std::string_view()), spans);
    }

    nb::object as_box(const Sides& sides) const {
        nb::object box = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(dimensions_)));
        if (!box.is_valid()) throw nb::python_error();
        for (size_t at = 0; at < dimensions_; ++at) {
            const Side& side = sides[at];
            bool is_open = !side.has_low && !side.has_high && !side.low_open && !side.high_open;
            nb::object one = is_open ? everything_ : as_interval(interval_, side);
            PyTuple_SET_ITEM(box.ptr(), static_cast<Py_ssize_t>(at), one.release().ptr());
        }
        return box;
    }

   private:
    nb::object owner_;
    PointIndex& points_;
    nb::object interval_, everything_;
    size_t dimensions_;

    nb::object without(const Alone& one, const Alone& other, bool is_one_key) {
        std::vector<Sides> region;
        if (one.is_there && other.is_there && is_one_key)
            region = difference(one.box, other.box);
        else if (one.is_there)
            region.push_back(one.box);
        for (const Sides& box : region)
            if (any(box)) return as_region(region);
        return nb::make_tuple();
    }
    nb::object as_region(const std::vector<Sides>& region) const {
        nb::object all = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(region.size())));
        if (!all.is_valid()) throw nb::python_error();
        for (size_t number = 0; number < region.size(); ++number)
            PyTuple_SET_ITEM(all.ptr(), static_cast<Py_ssize_t>(number), as_box(region[number]).release().ptr());
        return all;
    }
};

}  // namespace kernels
