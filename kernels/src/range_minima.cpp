// The minima of one space with the rules, as Python has them: prosem/types/extreme/trees.py.
//
// An event is one call: the rule, the tree that takes the row, and the search that leaves out pieces without a
// subscription. The GIL is held: references are compared as Python objects, and an event takes about a microsecond.
#include "arrays.h"
#include "bindings.h"
#include "coded_column.h"
#include "deltas.h"
#include "keyed_trees.h"
#include "point_index.h"
#include "range_objects.h"
#include "range_rule.h"

namespace kernels {

namespace {
using Tree = ObjectTree;
using Trees = KeyedTrees<Tree>;
using Rule = RangeRule<KeyRef>;
using Place = std::optional<Rule::Place>;

// Where a row has x and y.
class RowReader {
   public:
    RowReader(CodedColumn x, CodedColumn y, bool is_descending) : x_(x), y_(y), is_descending_(is_descending) {}

    // Nothing if there is no row, or a NULL keeps it out. Without a column for x all rows are at 0.
    Place read(nb::handle row) const {
        if (row.is_none()) return std::nullopt;
        int64_t x = 0, y = 0;
        if ((x_.is_there() && !x_.read(row, x)) || !y_.read(row, y)) return std::nullopt;
        return Rule::Place{x, is_descending_ ? ~y : y};
    }

   private:
    CodedColumn x_, y_;
    bool is_descending_;
};

class RangeMinima {
   public:
    // `points`: the subscriptions of the space; `interval` and `piece` are the classes to answer in.
    RangeMinima(nb::object points, bool is_tracked, nb::object interval, nb::object piece)
        : owner_(points), interval_(interval), piece_(piece), is_tracked_(is_tracked), nowhere_(nb::bytes("", 0)) {
        points_ = nb::cast<PointIndex*>(points);
        if (points_->dimensions() != 2) throw nb::value_error("a range is a point of two dimensions");
    }

    void build(nb::handle entries) { trees_.build(entries, build_tree); }
    // The same from columns, whose rows have keys of one integer.
    void build_columns(nb::handle key, ReadColumn xs, ReadColumn ys, ReadColumn refs) {
        size_t count = xs.size();
        if (ys.size() != count || refs.size() != count) throw nb::value_error("columns are equally long");
        if (!count) return;
        nb::object tree = Trees::make();
        std::vector<Tree::Point> all(count);
        nb::list kept;  // keys that are held as objects
        for (size_t at = 0; at < count; ++at) {
            int64_t number = refs.data()[at];
            KeyRef::Value ref = KeyRef::of(number);
            if (!KeyRef::fits(number)) {
                kept.append(nb::make_tuple(number));
                ref = KeyRef::of(kept[kept.size() - 1]);
            }
            all[at] = {xs.data()[at], ys.data()[at], ref};
        }
        Trees::of(tree).build(all);
        trees_.put(key, tree);
    }
    nb::object get(nb::handle key) const {
        PyObject* tree = trees_.find(key);
        return tree ? nb::borrow(tree) : nb::none();
    }
    nb::object lowest(nb::handle key, nb::handle box) const {
        PyObject* tree = trees_.find(key);
        Span span;
        Tree::Point best;
        if (!tree || !read_box(box.ptr(), 1, &span) || !Trees::of(tree).lowest(span.low, span.high, best))
            return nb::none();
        return as_peak(best);
    }
    int64_t visits() const { return trees_.visits(); }
    void check() const { trees_.check(); }

    // A row goes from `old` to `now`, each (x, y) or None. Gives the pieces that hold a subscription of the topic.
    nb::object step(nb::handle key, nb::bytes topic, nb::handle old, nb::handle now, nb::handle ref) {
        nb::list found;
        take(key, topic, spot(old), spot(now), ref, [&](nb::object piece) { found.append(piece); });
        return found;
    }

    void read_rows(Py_ssize_t x, nb::object encode_x, Py_ssize_t y, nb::object encode_y, bool is_descending) {
        if (y < 0) throw nb::value_error("rows have a y");
        reader_.emplace(CodedColumn(x, encode_x), CodedColumn(y, encode_y), is_descending);
    }
    // The same from rows, all of the topic b"", which is the key too. Gives [(topic, piece), …], None for none.
    nb::object step_row(nb::handle ref, nb::handle old_row, nb::handle new_row) {
        if (!reader_) throw nb::value_error("where rows have x and y must be said first");
        nb::object found;
        take(nowhere_, nowhere_, reader_->read(old_row), reader_->read(new_row), ref, [&](nb::object piece) {
            if (!found.is_valid()) found = nb::list();
            nb::borrow<nb::list>(found).append(nb::make_tuple(nowhere_, piece));
        });
        return found.is_valid() ? found : nb::none();
    }

    // All events of a request in one call; the same for each.
    nb::object step_rows(nb::handle deltas) {
        return stepped(deltas, [&](const ReadDelta& one) { return step_row(one.key, one.old_row, one.new_row); });
    }

   private:
    nb::object owner_, interval_, piece_;
    PointIndex* points_;
    bool is_tracked_;
    nb::bytes nowhere_;
    Trees trees_;
    std::optional<RowReader> reader_;
    Rule rule_;

    static Place spot(nb::handle pair) {
        if (pair.is_none()) return std::nullopt;
        Items items{pair};
        if (items.count != 2) throw nb::value_error("a spot is (x, y)");
        return Rule::Place{code_of(items.items[0]), code_of(items.items[1])};
    }

    template <class Give>
    void take(nb::handle key, const nb::bytes& topic, Place old, Place now, nb::handle ref, Give&& give) {
        if (!old && !now) return;
        nb::object tree = nb::borrow(trees_.find(key));
        bool is_new = !tree.is_valid();
        if (is_new) {
            if (old) raise_missing(old->x, old->y, ref);
            tree = Trees::make();
        }
        const PointTree* points = points_->tree(view(topic));
        KeyRef::Value held = KeyRef::of(ref);
        Tree& rows = Trees::of(tree);
        bool is_taken = !points       ? exchange(rows, old, now, held)
                        : is_tracked_ ? rule_.track(rows, old, now, held)
                                      : rule_.step(rows, old, now, held);
        if (is_new)
            trees_.put(key, tree);
        else
            trees_.tidy(key, tree);
        if (!is_taken && old) raise_missing(old->x, old->y, ref);
        if (!is_taken) raise_twice(ref);
        if (!points) return;
        for (const auto& piece : rule_.pieces)
            if (holds_any(points, piece)) give(as_piece(piece));
    }

    // Where no subscription is, the row is taken and nothing is described. Nothing is changed if that fails.
    static bool exchange(Tree& tree, Place old, Place now, KeyRef::Value ref) {
        if (old && !tree.remove(old->x, old->y, ref)) return false;
        if (!now || tree.add(now->x, now->y, ref)) return true;
        if (old) tree.add(old->x, old->y, ref);
        return false;
    }

    bool holds_any(const PointTree* points, const Rule::Piece& piece) {
        for (size_t at = piece.first_box; at < piece.first_box + piece.boxes; ++at) {
            Span spans[2];
            const RangeBox& box = rule_.boxes[at];
            if (box.sides[0].span(spans[0]) && box.sides[1].span(spans[1]) && points_->any_range(points, spans))
                return true;
        }
        return false;
    }

    nb::object as_piece(const Rule::Piece& piece) const {
        nb::object region = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(piece.boxes)));
        if (!region.is_valid()) throw nb::python_error();
        for (size_t at = 0; at < piece.boxes; ++at)
            PyTuple_SET_ITEM(region.ptr(), at, as_box(interval_, rule_.boxes[piece.first_box + at]).release().ptr());
        nb::object y = piece.has_y ? as_code(piece.y) : nb::none();
        nb::object ref = piece.has_y ? KeyRef::object(piece.ref) : nb::none();
        return named(piece_, region, y, ref);
    }
};
}  // namespace

void bind_range_minima(nb::module_& module) {
    nb::class_<RangeMinima>(module, "RangeMinima")
        .def(nb::init<nb::object, bool, nb::object, nb::object>(), nb::arg("points"), nb::arg("is_tracked"),
             nb::arg("interval"), nb::arg("piece"))
        .def("build", &RangeMinima::build)
        .def("build_columns", &RangeMinima::build_columns)
        .def("get", &RangeMinima::get)
        .def("lowest", &RangeMinima::lowest)
        .def("step", &RangeMinima::step, nb::arg("key"), nb::arg("topic"), nb::arg("old").none(),
             nb::arg("now").none(), nb::arg("ref"))
        .def("read_rows", &RangeMinima::read_rows, nb::arg("x"), nb::arg("encode_x").none(), nb::arg("y"),
             nb::arg("encode_y").none(), nb::arg("is_descending"))
        .def("step_row", &RangeMinima::step_row, nb::arg("ref"), nb::arg("old_row").none(),
             nb::arg("new_row").none())
        .def("step_rows", &RangeMinima::step_rows)
        .def_prop_ro("visits", &RangeMinima::visits)
        .def("check", &RangeMinima::check);
}

}  // namespace kernels
