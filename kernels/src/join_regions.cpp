// Regions of an event on a select-join by semijoins, as prosem/types/join/regions.py has them: rows are read from the lists
// of Python, subscriptions from the compiled points and intervals, and a region is made in one call.
#include "bindings.h"
#include "interval_blocks.h"
#include "places.h"
#include "point_index.h"
#include "range_objects.h"

namespace kernels {

namespace {
constexpr int FEW = 1000;  // so many subscriptions are asked one by one before the points are searched

// An interval of codes, with the ends that Python gives it.
struct Side {
    bool has_low = false, has_high = false, low_open = false, high_open = false;
    int64_t low = 0, high = 0;

    static Side up_to(int64_t high, bool open = false) { return {false, true, false, open, 0, high}; }
    static Side from(int64_t low) { return {true, false, false, false, low, 0}; }

    bool is_empty() const {
        return has_low && has_high && (high < low || (high == low && (low_open || high_open)));
    }
    bool has_low_of(const Side& other) const {
        return has_low == other.has_low && (!has_low || (low == other.low && low_open == other.low_open));
    }
    bool has_high_of(const Side& other) const {
        return has_high == other.has_high && (!has_high || (high == other.high && high_open == other.high_open));
    }
    Side operator&(const Side& other) const {
        Side both = *this;
        if (other.has_low && (!has_low || other.low > low || (other.low == low && other.low_open > low_open))) {
            both.has_low = true;
            both.low = other.low;
            both.low_open = other.low_open;
        }
        if (other.has_high && (!has_high || other.high < high || (other.high == high && other.high_open > high_open))) {
            both.has_high = true;
            both.high = other.high;
            both.high_open = other.high_open;
        }
        return both;
    }
    // The codes of 64 bits in it; false if there are none.
    bool as_span(Span& span) const {
        span = {has_low ? low : LOWEST, has_high ? high : HIGHEST};
        if (has_low && low_open && span.low++ == HIGHEST) return false;
        if (has_high && high_open && span.high-- == LOWEST) return false;
        return span.low <= span.high;
    }
};
using Sides = std::vector<Side>;

// `box` without `hole` as disjoint boxes: see cn/model/geometry.py.
std::vector<Sides> difference(const Sides& box, const Sides& hole) {
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
        if (inner.has_low && !inner.has_low_of(side)) {
            Side below{side.has_low, true, side.low_open, !inner.low_open, side.low, inner.low};
            if (!below.is_empty()) {
                found.push_back(rest);
                found.back()[at] = below;
            }
        }
        if (inner.has_high && !inner.has_high_of(side)) {
            Side above{true, side.has_high, !inner.high_open, side.high_open, inner.high, side.high};
            if (!above.is_empty()) {
                found.push_back(rest);
                found.back()[at] = above;
            }
        }
        rest[at] = inner;
    }
    return found;
}

// Entries (code, …) in the order of their codes: a list, a tuple, or a `SortedList` of lists.
class Entries {
   public:
    explicit Entries(nb::handle rows) {
        if (PyList_Check(rows.ptr()) || PyTuple_Check(rows.ptr())) {
            lists_.push_back(rows.ptr());
        } else {
            owner_ = nb::object(rows.attr("_lists"));
            Items lists{owner_};
            lists_.assign(lists.items, lists.items + lists.count);
        }
        if (lists_.empty() || !size(lists_.back())) throw nb::value_error("a key has entries");
    }
    int64_t first() const { return code(lists_.front(), 0); }
    int64_t last() const { return code(lists_.back(), size(lists_.back()) - 1); }

    // The greatest code below one, and the least that is not: whether they are there.
    struct Around {
        bool has_below, has_above;
        int64_t below, above;
    };
    Around around(int64_t wanted) const {
        auto list = std::partition_point(lists_.begin(), lists_.end(),
                                         [&](PyObject* one) { return code(one, size(one) - 1) < wanted; });
        Around found{};
        Py_ssize_t at = 0;
        if (list != lists_.end()) {
            Py_ssize_t high = size(*list) - 1;  // its last code is not below
            while (at < high) {
                Py_ssize_t middle = (at + high) / 2;
                if (code(*list, middle) < wanted)
                    at = middle + 1;
                else
                    high = middle;
            }
            found.has_above = true;
            found.above = code(*list, at);
        }
        if (at || list != lists_.begin()) {
            found.has_below = true;
            found.below = at ? code(*list, at - 1) : code(*(list - 1), size(*(list - 1)) - 1);
        }
        return found;
    }

   private:
    nb::object owner_;
    std::vector<PyObject*> lists_;

    static Py_ssize_t size(PyObject* list) { return PySequence_Fast_GET_SIZE(list); }
    static int64_t code(PyObject* list, Py_ssize_t at) {
        PyObject* entry = PySequence_Fast_GET_ITEM(list, at);
        if (!PyTuple_Check(entry) || !PyTuple_GET_SIZE(entry)) throw nb::type_error("an entry is (code, key, row)");
        return code_of(PyTuple_GET_ITEM(entry, 0));
    }
};

// Ascending codes in a list of Python.
class CodeList {
   public:
    explicit CodeList(nb::handle list) : items_(list) {}
    size_t size() const { return static_cast<size_t>(items_.count); }
    int64_t operator[](size_t at) const { return code_of(items_.items[at]); }
    size_t past(int64_t code, size_t from) const {  // the first place with a greater code
        size_t low = from, high = size();
        while (low < high) {
            size_t middle = (low + high) / 2;
            if ((*this)[middle] > code)
                high = middle;
            else
                low = middle + 1;
        }
        return low;
    }

   private:
    Items items_;
};

class JoinRegions {
   public:
    JoinRegions(nb::object points, int dimensions, nb::object interval)
        : owner_(points), points_(nb::cast<PointIndex&>(points)), interval_(interval),
          everything_(as_interval(Side{})), dimensions_(static_cast<size_t>(dimensions)), places_(dimensions_) {
        if (points_.dimensions() != dimensions) throw nb::value_error("points of other dimensions");
    }

    void came(nb::handle ids, nb::handle places) {
        Items names{ids}, points{places};
        if (names.count != points.count) throw nb::value_error("every subscription has a place");
        int64_t codes[MAX_DIMENSIONS];
        for (Py_ssize_t at = 0; at < names.count; ++at) {
            Items point{nb::handle(points.items[at])};
            if (static_cast<size_t>(point.count) != dimensions_) throw nb::value_error("a place of other dimensions");
            std::transform(point.items, point.items + point.count, codes, code_of);
            if (!places_.add(code_of(names.items[at]), codes)) throw nb::value_error("a subscription is there already");
        }
    }
    void went(nb::handle id) {
        if (!places_.remove(code_of(id.ptr()))) raise_key_error(id);
    }

    nb::object shifts(nb::handle routing, nb::handle other_routing, nb::handle lost, nb::handle gained, bool is_one_key) {
        Sides boxes[2];
        bool is_there[2];
        nb::handle asked[2] = {lost, gained};
        for (int at = 0; at < 2; ++at) is_there[at] = !asked[at].is_none() && alone(routing, other_routing, asked[at], boxes[at]);
        nb::object regions[2];
        for (int at = 0; at < 2; ++at) {
            std::vector<Sides> region;
            if (is_there[at]) {
                if (is_there[1 - at] && is_one_key)
                    region = difference(boxes[at], boxes[1 - at]);
                else
                    region.push_back(boxes[at]);
            }
            regions[at] = is_populated(region) ? as_region(region) : nb::object(nb::make_tuple());
        }
        return nb::make_tuple(regions[0], regions[1]);
    }

    nb::object visible(nb::handle own, nb::handle rows, nb::handle routing, nb::handle clusters, bool is_merged) {
        Span spans[MAX_DIMENSIONS];
        const PointTree* tree = points_.tree(std::string_view());
        if (!tree || !read_box(own.ptr(), static_cast<int>(dimensions_), spans)) return nb::make_tuple();
        size_t low = dimension(routing, 0), high = dimension(routing, 1);
        nb::object anchors(clusters.attr("anchors")), intervals(clusters.attr("intervals"));
        Skyline skyline = codes(Entries{rows}, CodeList{anchors});
        if (is_merged) merge(skyline, CodeList{anchors}, nb::cast<const IntervalBlocks&>(intervals), *tree, spans, low, high);
        Items sides{own};
        nb::list region;
        bool is_seen = false;
        for (size_t at = 0; at < skyline.size(); ++at) {
            Side x = Side::up_to(skyline[at].first), y = Side::from(skyline[at].second);
            if (at) {
                x.has_low = x.low_open = true;
                x.low = skyline[at - 1].first;
            }
            nb::object box = nb::steal(PyTuple_New(sides.count));
            if (!box.is_valid()) throw nb::python_error();
            for (Py_ssize_t side = 0; side < sides.count; ++side) {
                auto number = static_cast<size_t>(side);
                nb::object one = number == low ? as_interval(x) : number == high ? as_interval(y) : nb::borrow(sides.items[side]);
                PyTuple_SET_ITEM(box.ptr(), side, one.release().ptr());
            }
            region.append(box);
            if (!is_seen && x.as_span(spans[low]) && y.as_span(spans[high])) is_seen = points_.any(tree, spans);
        }
        return is_seen ? nb::object(nb::tuple(region)) : nb::object(nb::make_tuple());
    }

   private:
    using Skyline = std::vector<std::pair<int64_t, int64_t>>;  // points (X, Y), both ascending

    nb::object owner_;
    PointIndex& points_;
    nb::object interval_, everything_;
    size_t dimensions_;
    Places places_;

    size_t dimension(nb::handle routing, Py_ssize_t at) const {
        Items items{routing};
        if (items.count != 2) throw nb::value_error("a condition has two dimensions");
        auto found = static_cast<size_t>(code_of(items.items[at]));
        if (found >= dimensions_) throw nb::value_error("there is no such dimension");
        return found;
    }
    // The subscriptions that hold this row alone of its key, and reach between the other table's rows of that key. `asked` is
    // (its code, the rows of its key without it, the other table's).
    bool alone(nb::handle routing, nb::handle other_routing, nb::handle asked, Sides& box) const {
        Items items{asked};
        if (items.count != 3) throw nb::value_error("what is asked for is (code, rows, others)");
        box.assign(dimensions_, Side{});
        int64_t code = code_of(items.items[0]);
        Entries::Around near{};
        if (PyObject_Length(items.items[1]) > 0) near = Entries{nb::handle(items.items[1])}.around(code);
        if (near.has_above && near.above == code) return false;
        if (!routing.is_none()) {
            box[dimension(routing, 0)] = {near.has_below, true, true, false, near.below, code};
            box[dimension(routing, 1)] = {true, near.has_above, false, true, code, near.above};
        }
        if (!other_routing.is_none()) {
            Entries others{nb::handle(items.items[2])};
            box[dimension(other_routing, 0)] = Side::up_to(others.last());
            box[dimension(other_routing, 1)] = Side::from(others.first());
        }
        return true;
    }
    bool is_populated(const std::vector<Sides>& region) {
        const PointTree* tree = points_.tree(std::string_view());
        for (const Sides& box : region) {
            Span spans[MAX_DIMENSIONS];
            bool is_met = true;
            for (size_t at = 0; at < box.size(); ++at) is_met = box[at].as_span(spans[at]) && is_met;
            if (is_met && points_.any(tree, spans)) return true;
        }
        return false;
    }
    // The codes of rows that are nearest to some anchor on one of its sides.
    static Skyline codes(const Entries& rows, const CodeList& anchors) {
        Skyline found;
        for (size_t at = 0; at < anchors.size();) {
            int64_t anchor = anchors[at];
            Entries::Around near = rows.around(anchor);
            if (near.has_below && !(near.has_above && near.above == anchor) &&
                (found.empty() || found.back().first != near.below))
                found.push_back({near.below, near.below});
            if (!near.has_above) break;
            found.push_back({near.above, near.above});
            at = anchors.past(near.above, at);
        }
        return found;
    }
    // Makes one point of a run of codes between which no subscription in the spans lies.
    void merge(Skyline& skyline, const CodeList& anchors, const IntervalBlocks& intervals, const PointTree& tree,
               const Span* own, size_t low, size_t high) {
        Skyline merged;
        Span spans[MAX_DIMENSIONS];
        std::copy(own, own + dimensions_, spans);
        for (const auto& [code, same] : skyline) {
            if (!merged.empty() && !lives_between(merged.back().first, code, anchors, intervals, tree, spans, low, high))
                merged.back().first = code;
            else
                merged.push_back({code, same});
        }
        skyline.swap(merged);
    }
    bool lives_between(int64_t q, int64_t r, const CodeList& anchors, const IntervalBlocks& intervals, const PointTree& tree,
                       Span* spans, size_t low, size_t high) {
        size_t at = anchors.past(q, 0);
        if (at == anchors.size() || anchors[at] >= r) return false;
        int few = FEW;
        bool is_found = false;
        intervals.any_inside(q, r, [&](const IntervalBlocks::Held& held) {
            if (!few--) return true;
            const int64_t* place = places_.at(held.ref);
            if (!place) throw nb::value_error("an interval of a subscription that is not there");
            is_found = true;
            for (size_t at = 0; at < dimensions_; ++at)
                is_found = is_found && (at == low || at == high || spans[at].holds(place[at]));
            return is_found;
        });
        if (is_found || few >= 0) return is_found;
        spans[low] = spans[high] = {q + 1, r - 1};
        return points_.any(&tree, spans);
    }

    nb::object as_interval(const Side& side) const {
        nb::object low = side.has_low ? as_code(side.low) : nb::none(), high = side.has_high ? as_code(side.high) : nb::none();
        return named(interval_, nb::make_tuple(low, high, side.low_open, side.high_open));
    }
    nb::object as_region(const std::vector<Sides>& region) const {
        nb::object all = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(region.size())));
        if (!all.is_valid()) throw nb::python_error();
        for (size_t number = 0; number < region.size(); ++number) {
            nb::object box = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(dimensions_)));
            if (!box.is_valid()) throw nb::python_error();
            for (size_t at = 0; at < dimensions_; ++at) {
                const Side& side = region[number][at];
                bool is_open = !side.has_low && !side.has_high && !side.low_open && !side.high_open;
                nb::object one = is_open ? everything_ : as_interval(side);
                PyTuple_SET_ITEM(box.ptr(), static_cast<Py_ssize_t>(at), one.release().ptr());
            }
            PyTuple_SET_ITEM(all.ptr(), static_cast<Py_ssize_t>(number), box.release().ptr());
        }
        return all;
    }
};
}  // namespace

void bind_join_regions(nb::module_& module) {
    nb::class_<JoinRegions>(module, "JoinRegions")
        .def("__init__", [](JoinRegions* self, nb::object points, int dimensions,
                            nb::object interval) { new (self) JoinRegions(points, dimensions, interval); })
        .def("came", &JoinRegions::came)
        .def("went", &JoinRegions::went)
        .def("shifts", &JoinRegions::shifts, nb::arg("routing").none(), nb::arg("other_routing").none(),
             nb::arg("lost").none(), nb::arg("gained").none(), nb::arg("is_one_key"))
        .def("visible", &JoinRegions::visible);
}

}  // namespace kernels
