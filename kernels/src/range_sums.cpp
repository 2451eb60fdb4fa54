// The sums of one space, as Python has them: prosem/types/sums/trees.py.
//
// An event is one call: the tree that takes the row, the three regions of ranges that see the row before, after or both
// times, and the search that leaves out those without a subscription.
#include <optional>

#include "bindings.h"
#include "coded_column.h"
#include "deltas.h"
#include "keyed_trees.h"
#include "point_index.h"
#include "sum_objects.h"

namespace kernels {

namespace {
// Where a row counts and what it adds: `number` is 0 if its value is NULL.
struct Spot {
    int64_t x, number, total;

    bool operator==(const Spot& other) const { return x == other.x && number == other.number && total == other.total; }
};
using Place = std::optional<Spot>;
using Trees = KeyedTrees<SumTree>;

// Where a row has x and y. Without a column for x all rows are at 0; without one for y rows are counted.
class RowReader {
   public:
    RowReader(CodedColumn x, CodedColumn y, bool is_summed) : x_(x), y_(y), is_summed_(is_summed) {}

    // Nothing if there is no row, or a NULL keeps it out of all ranges.
    Place read(nb::handle row) const {
        if (row.is_none()) return std::nullopt;
        Spot spot{0, 1, 0};
        if (x_.is_there() && !x_.read(row, spot.x)) return std::nullopt;
        if (!y_.is_there()) return spot;
        PyObject* value = y_.value(row);
        if (value == Py_None)
            spot.number = 0;
        else if (is_summed_)
            spot.total = y_.code(value);
        return spot;
    }

   private:
    CodedColumn x_, y_;
    bool is_summed_;
};

class RangeSums {
   public:
    // `points`: the subscriptions of the space; `interval` is the class to answer in.
    RangeSums(nb::object points, nb::object interval) : owner_(points), interval_(interval), nowhere_(nb::bytes("", 0)) {
        points_ = nb::cast<PointIndex*>(points);
        if (points_->dimensions() != 2) throw nb::value_error("a range is a point of two dimensions");
    }

    void build(nb::handle entries) { trees_.build(entries, build_sums); }
    nb::object total(nb::handle key, nb::handle box) const {
        PyObject* tree = trees_.find(key);
        Span span;
        if (!tree || !read_box(box.ptr(), 1, &span)) return as_sums({});
        return as_sums(Trees::of(tree).total(span.low, span.high));
    }
    void change(nb::handle key, nb::handle point, int64_t rows, int64_t values, nb::handle total) {
        add(key, x_of(point), {rows, values, total_of(total)});
    }
    int64_t visits() const { return trees_.visits(); }
    void check() const { trees_.check(); }

    // A row goes from `old` to `now`, each ((x,), number, total) or None. Gives the gains that a subscription of the topic has.
    nb::object step(nb::handle key, nb::bytes topic, nb::handle old, nb::handle now) {
        nb::object found = taken(key, topic, spot(old), spot(now));
        return found.is_valid() ? found : nb::list();
    }

    void read_rows(Py_ssize_t x, nb::object encode_x, Py_ssize_t y, nb::object encode_y, bool is_summed) {
        reader_.emplace(CodedColumn(x, encode_x), CodedColumn(y, encode_y), is_summed);
    }
    // The same from rows, all of the topic b"", which is the key too. Gives None for none.
    nb::object step_row(nb::handle old_row, nb::handle new_row) {
        if (!reader_) throw nb::value_error("where rows have x and y must be said first");
        nb::object found = taken(nowhere_, nowhere_, reader_->read(old_row), reader_->read(new_row));
        return found.is_valid() ? found : nb::none();
    }

    // All events of a request in one call; the same for each.
    nb::object step_rows(nb::handle deltas) {
        return stepped(deltas, [&](const ReadDelta& one) { return step_row(one.old_row, one.new_row); });
    }

   private:
    nb::object owner_, interval_;
    PointIndex* points_;
    nb::bytes nowhere_;
    Trees trees_;
    std::optional<RowReader> reader_;

    static int64_t x_of(nb::handle point) {
        Items codes{point};
        if (codes.count != 1) throw nb::value_error("a row is at one code");
        return code_of(codes.items[0]);
    }
    static Place spot(nb::handle given) {
        if (given.is_none()) return std::nullopt;
        Items items{given};
        if (items.count != 3) throw nb::value_error("a spot is ((x,), number, total)");
        return Spot{x_of(items.items[0]), code_of(items.items[1]), code_of(items.items[2])};
    }

    void add(nb::handle key, int64_t x, const Sums& more) {
        nb::object tree = nb::borrow(trees_.find(key));
        bool is_new = !tree.is_valid();
        if (is_new) tree = Trees::make();
        change_sums(Trees::of(tree), x, more);
        if (is_new)
            trees_.put(key, tree);
        else
            trees_.tidy(key, tree);
    }
    // Taking out is what can fail, and comes first: nothing is changed then.
    void exchange(nb::handle key, const Place& old, const Place& now) {
        if (old && now && old->x == now->x)
            add(key, now->x, {0, now->number - old->number, Total{now->total} - old->total});
        else {
            if (old) add(key, old->x, {-1, -old->number, -Total{old->total}});
            if (now) add(key, now->x, {1, now->number, now->total});
        }
    }

    // A list of (topic, region, number, total), or nothing.
    nb::object taken(nb::handle key, const nb::bytes& topic, const Place& old, const Place& now) {
        nb::object found;
        if ((!old && !now) || (old && now && *old == *now)) return found;
        exchange(key, old, now);
        const PointTree* points = points_->tree(view(topic));
        if (!points) return found;
        auto give = [&](const RangeBox& box, int64_t number, Total total) {
            Span spans[2];
            if ((!number && !total) || !box.sides[0].span(spans[0]) || !box.sides[1].span(spans[1]) ||
                !points_->any(points, spans))
                return;
            if (!found.is_valid()) found = nb::list();
            nb::object region = nb::make_tuple(as_box(interval_, box));
            nb::borrow<nb::list>(found).append(nb::make_tuple(topic, region, as_code(number), as_total(total)));
        };
        if (!old) {
            give(around(now->x, now->x), now->number, now->total);
        } else if (!now) {
            give(around(old->x, old->x), -old->number, -Total{old->total});
        } else {
            if (old->x != now->x) {
                give(only(old->x, now->x), -old->number, -Total{old->total});
                give(only(now->x, old->x), now->number, now->total);
            }
            give(around(old->x, now->x), now->number - old->number, Total{now->total} - old->total);
        }
        return found;
    }
    // The ranges that hold both.
    static RangeBox around(int64_t one, int64_t other) {
        return {{Side::up_to(std::min(one, other)), Side::from(std::max(one, other))}};
    }
    // The ranges that hold the one and not the other.
    static RangeBox only(int64_t one, int64_t other) {
        if (one < other) return {{Side::up_to(one), {one, other, true, true, false, true}}};
        return {{{other, one, true, true, true, false}, Side::from(one)}};
    }
};
}  // namespace

void bind_range_sums(nb::module_& module) {
    nb::class_<RangeSums>(module, "RangeSums")
        .def(nb::init<nb::object, nb::object>(), nb::arg("points"), nb::arg("interval"))
        .def("build", &RangeSums::build)
        .def("total", &RangeSums::total)
        .def("change", &RangeSums::change)
        .def("step", &RangeSums::step, nb::arg("key"), nb::arg("topic"), nb::arg("old").none(), nb::arg("now").none())
        .def("read_rows", &RangeSums::read_rows, nb::arg("x"), nb::arg("encode_x").none(), nb::arg("y"),
             nb::arg("encode_y").none(), nb::arg("is_summed"))
        .def("step_row", &RangeSums::step_row, nb::arg("old_row").none(), nb::arg("new_row").none())
        .def("step_rows", &RangeSums::step_rows)
        .def_prop_ro("visits", &RangeSums::visits)
        .def("check", &RangeSums::check);
}

}  // namespace kernels
