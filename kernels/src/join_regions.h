// Regions of an event on a select-join by semijoins, as prosem/types/join/regions.py has them: rows are read from compiled join
// keys or from lists of Python, subscriptions from the compiled points and intervals, and a region is made in one call.
#pragma once

#include "interval_blocks.h"
#include "join_boxes.h"
#include "places.h"

namespace kernels {

constexpr int FEW = 1000;  // so many subscriptions are asked one by one before the points are searched

// Entries (code, …) in the order of their codes: those of compiled join keys, or a list or tuple of Python.
class Entries {
   public:
    explicit Entries(const EntryList& list) : list_(&list) {}
    explicit Entries(nb::handle rows) {
        if (nb::isinstance<EntryView>(rows)) {
            list_ = &nb::inst_ptr<EntryView>(rows)->entries();
            return;
        }
        Items items{rows};
        owner_ = items.owner;
        rows_ = items.items;
        count_ = items.count;
        if (!count_) throw nb::value_error("a key has entries");
    }
    int64_t first() const { return list_ ? list_->first().code : code(0); }
    int64_t last() const { return list_ ? list_->last().code : code(count_ - 1); }

    EntryList::Around around(int64_t wanted) const {
        if (list_) return list_->around(wanted);
        Py_ssize_t low = 0, high = count_;
        while (low < high) {
            Py_ssize_t middle = (low + high) / 2;
            if (code(middle) < wanted)
                low = middle + 1;
            else
                high = middle;
        }
        EntryList::Around found{};
        found.has_above = low < count_;
        if (found.has_above) found.above = code(low);
        found.has_below = low > 0;
        if (found.has_below) found.below = code(low - 1);
        return found;
    }

   private:
    const EntryList* list_ = nullptr;
    nb::object owner_;
    PyObject** rows_ = nullptr;
    Py_ssize_t count_ = 0;

    int64_t code(Py_ssize_t at) const {
        PyObject* entry = rows_[at];
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
        : boxes_(points, dimensions, interval), points_(boxes_.points()), interval_(interval),
          dimensions_(boxes_.dimensions()), places_(dimensions_) {}

    const JoinBoxes& boxes() const { return boxes_; }

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
        Routing own = boxes_.routing(routing), other = boxes_.routing(other_routing);
        JoinBoxes::Alone alone[2];
        nb::handle asked[2] = {lost, gained};
        for (int at = 0; at < 2; ++at) {
            if (asked[at].is_none()) continue;
            Items items{asked[at]};
            if (items.count != 3) throw nb::value_error("what is asked for is (code, rows, others)");
            int64_t code = code_of(items.items[0]);
            EntryList::Around near{};
            if (PyObject_Length(items.items[1]) > 0) near = Entries{nb::handle(items.items[1])}.around(code);
            Entries others{nb::handle(items.items[2])};
            alone[at] = boxes_.alone(own, other, code, near, others.first(), others.last());
        }
        auto [losing, gaining] = boxes_.shifted(alone[0], alone[1], is_one_key);
        return nb::make_tuple(losing, gaining);
    }

    nb::object visible(nb::handle own, nb::handle rows, nb::handle routing, nb::handle clusters, bool is_merged) {
        Span spans[MAX_DIMENSIONS];
        if (!read_box(own.ptr(), static_cast<int>(dimensions_), spans)) return nb::make_tuple();
        Routing sides = boxes_.routing(routing);
        if (!sides.is_there) throw nb::value_error("a skyline is on a condition");
        return visible(own, spans, Entries{rows}, sides, clusters, is_merged);
    }
    // The same with the spans of `own`, which are changed.
    nb::object visible(nb::handle own, Span* spans, const Entries& rows, const Routing& routing, nb::handle clusters,
                       bool is_merged) {
        const PointTree* tree = points_.tree(std::string_view());
        if (!tree) return nb::make_tuple();
        auto [is_routed, low, high] = routing;
        nb::object anchors(clusters.attr("anchors")), intervals(clusters.attr("intervals"));
        Skyline skyline = codes(rows, CodeList{anchors});
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
                nb::object one = number == low ? as_interval(interval_, x) : number == high ? as_interval(interval_, y) : nb::borrow(sides.items[side]);
                PyTuple_SET_ITEM(box.ptr(), side, one.release().ptr());
            }
            region.append(box);
            if (!is_seen && x.span(spans[low]) && y.span(spans[high])) is_seen = points_.any(tree, spans);
        }
        return is_seen ? nb::object(nb::tuple(region)) : nb::object(nb::make_tuple());
    }

   private:
    using Skyline = std::vector<std::pair<int64_t, int64_t>>;  // points (X, Y), both ascending

    JoinBoxes boxes_;
    PointIndex& points_;
    nb::object interval_;
    size_t dimensions_;
    Places places_;

    // The codes of rows that are nearest to some anchor on one of its sides.
    static Skyline codes(const Entries& rows, const CodeList& anchors) {
        Skyline found;
        for (size_t at = 0; at < anchors.size();) {
            int64_t anchor = anchors[at];
            EntryList::Around near = rows.around(anchor);
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

};

}  // namespace kernels
