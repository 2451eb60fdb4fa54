// The k-d tree of minima over several ranges as Python has it (prosem/index/boxes/kd_tree.py), with the rule of an event
// (prosem/types/extreme/boxes.py) in one call. The GIL is held: references are compared as Python objects.
#include <nanobind/stl/optional.h>

#include "bindings.h"
#include "box_field.h"
#include "point_index.h"
#include "range_objects.h"
#include "references.h"

namespace kernels {

namespace {
using Tree = BoxTree<ObjectRef>;
using Tuple = Tree::Tuple;
using Field = BoxField<ObjectRef>;

Codes read_point(nb::handle point, int axes) {
    Items items{point};
    if (items.count != axes) throw nb::value_error("a point has a code for each dimension");
    Codes codes{};
    for (int axis = 0; axis < axes; ++axis) codes[static_cast<size_t>(axis)] = code_of(items.items[axis]);
    return codes;
}
nb::object as_point(const Codes& x, int axes) {
    nb::list codes;
    for (int axis = 0; axis < axes; ++axis) codes.append(as_code(x[static_cast<size_t>(axis)]));
    return nb::tuple(codes);
}
nb::object as_entry(const Tuple& tuple, int axes) {
    return nb::make_tuple(as_code(tuple.y), as_point(tuple.x, axes), nb::borrow(tuple.ref));
}
nb::object as_tuple(const Tuple& tuple, int axes) {
    return nb::make_tuple(as_point(tuple.x, axes), as_code(tuple.y), nb::borrow(tuple.ref));
}

// A place is (point, y), or None.
struct Place {
    bool is_there;
    Tuple tuple;

    Place(nb::handle place, nb::handle ref, int axes) : is_there(!place.is_none()), tuple{} {
        if (!is_there) return;
        Items items{place};
        if (items.count != 2) throw nb::value_error("a place is (point, y)");
        tuple = {code_of(items.items[1]), read_point(items.items[0], axes), ref.ptr()};
    }
};

// What an event means, in the classes of Python.
class BoxRule {
   public:
    // `points`: the subscriptions, of which those of `topic` matter; null: every piece is given.
    BoxRule(Tree& tree, nb::handle interval, nb::handle piece, PointIndex* points, std::string_view topic)
        : tree_(tree), interval_(interval), piece_(piece), points_(points) {
        if (points_) subscriptions_ = points_->tree(topic);
    }

    nb::object step(const Place& old, const Place& now, nb::handle ref, int64_t limit) {
        int axes = tree_.axes();
        bool is_same_place = old.is_there && now.is_there &&
                             std::equal(old.tuple.x.begin(), old.tuple.x.begin() + axes, now.tuple.x.begin());
        bool is_same = is_same_place && old.tuple.y == now.tuple.y;
        if (is_same || (!old.is_there && !now.is_there)) return nb::make_tuple(pieces_, unresolved_);
        bool is_watched = !points_ || subscriptions_;
        if (now.is_there && is_watched) {
            bool is_covered = old.is_there && old.tuple.y <= now.tuple.y;
            Field field(tree_, now.tuple.x, now.tuple.y, limit, -1, is_covered ? &old.tuple.x : nullptr);
            Field::Cells region, rest;
            field.clean(limit, region, rest);
            tell(field, region, as_code(now.tuple.y), ref);
            leave(field, rest);
        }
        exchange(old, now, ref);
        if (old.is_there && is_watched) {
            bool is_lower = now.is_there && now.tuple.y < old.tuple.y;
            Field field(tree_, old.tuple.x, old.tuple.y, limit, limit ? limit : -1, is_lower ? &now.tuple.x : nullptr);
            Field::Cells region, rest;
            field.clean(limit, region, rest);
            std::vector<Field::Part> parts;
            if (field.part(region, limit, parts)) {
                for (const auto& part : parts)
                    tell(field, part.cells, part.tuple ? as_code(part.tuple->y) : nb::none(),
                         part.tuple ? nb::borrow(part.tuple->ref) : nb::none());
            } else {
                rest.insert(rest.end(), region.begin(), region.end());
            }
            leave(field, rest);
        }
        return nb::make_tuple(pieces_, unresolved_);
    }

   private:
    Tree& tree_;
    nb::handle interval_, piece_;
    PointIndex* points_;
    const PointTree* subscriptions_ = nullptr;
    nb::list pieces_, unresolved_;

    void exchange(const Place& old, const Place& now, nb::handle ref) {
        if (old.is_there && !tree_.remove(old.tuple))
            raise_key_error(nb::make_tuple(as_point(old.tuple.x, tree_.axes()), old.tuple.y, ref));
        if (!now.is_there || tree_.add(now.tuple)) return;
        if (old.is_there) tree_.add(old.tuple);
        raise_twice(ref);
    }

    bool holds_any(const Field& field, const Field::Cell& cell) const {
        Span spans[MAX_DIMENSIONS];
        for (int way = 0; way < field.ways(); ++way) {
            Field::End near = field.near(cell, way), far = field.far(cell, way);
            // the near end is in the box, the far one is not: between the two there is a code
            spans[way] = way & 1 ? Span{near.code, far.is_there ? far.code - 1 : HIGHEST}
                                 : Span{far.is_there ? far.code + 1 : LOWEST, near.code};
        }
        return points_->any(subscriptions_, spans);
    }
    nb::object as_box(const Field& field, const Field::Cell& cell) const {
        nb::list sides;
        for (int way = 0; way < field.ways(); ++way) {
            nb::object near = as_code(field.near(cell, way).code);
            Field::End end = field.far(cell, way);
            nb::object far = end.is_there ? as_code(end.code) : nb::none();
            sides.append(way & 1 ? named(interval_, near, far, false, true) : named(interval_, far, near, true, false));
        }
        return nb::tuple(sides);
    }
    void tell(const Field& field, const Field::Cells& cells, nb::object y, nb::handle ref) {
        bool is_told = !cells.empty() && !points_;
        for (size_t at = 0; points_ && !is_told && at < cells.size(); ++at) is_told = holds_any(field, cells[at]);
        if (!is_told) return;
        nb::list region;
        for (const auto& cell : cells) region.append(as_box(field, cell));
        pieces_.append(named(piece_, nb::tuple(region), y, ref));
    }
    void leave(const Field& field, const Field::Cells& cells) {
        for (const auto& cell : cells)
            if (!points_ || holds_any(field, cell)) unresolved_.append(as_box(field, cell));
    }
};
}  // namespace

void bind_box_minima(nb::module_& module) {
    nb::class_<Tree>(module, "MinKdTree")
        .def("__init__",
             [](Tree* self, int dimensions, int bucket) {
                 if (dimensions < 1 || dimensions > MAX_AXES || bucket < 2)
                     throw nb::value_error("a k-d tree needs a dimension or more, and buckets of two or more");
                 new (self) Tree(dimensions, bucket);
             },
             nb::arg("dimensions"), nb::arg("bucket") = 32)
        .def_prop_ro("dimensions", &Tree::axes)
        .def_prop_ro("bucket", &Tree::bucket)
        .def_ro("visits", &Tree::visits)
        .def("__len__", &Tree::size)
        .def("__iter__",
             [](const Tree& tree) {
                 nb::list all;
                 tree.each([&](const Tuple& tuple) { all.append(as_tuple(tuple, tree.axes())); });
                 return nb::iter(all);
             })
        .def("build",
             [](nb::handle_t<Tree> self, nb::handle entries) {
                 Tree& tree = nb::cast<Tree&>(self);
                 std::vector<Tuple> tuples;
                 nb::list kept;  // the entries, while their references are read
                 for (nb::handle entry : nb::iter(entries)) {
                     Items items{entry};
                     if (items.count != 3) throw nb::value_error("an entry is (point, y, ref)");
                     kept.append(entry);
                     tuples.push_back({code_of(items.items[1]), read_point(items.items[0], tree.axes()), items.items[2]});
                 }
                 tree.build(std::move(tuples));
                 return nb::borrow(self);
             })
        .def("add",
             [](Tree& tree, nb::handle point, int64_t y, nb::handle ref) {
                 if (!tree.add({y, read_point(point, tree.axes()), ref.ptr()})) raise_twice(ref);
             })
        .def("remove",
             [](Tree& tree, nb::handle point, int64_t y, nb::handle ref) {
                 if (!tree.remove({y, read_point(point, tree.axes()), ref.ptr()}))
                     raise_key_error(nb::make_tuple(point, y, ref));
             })
        .def("lowest",
             [](Tree& tree, nb::handle box) {
                 Span spans[MAX_AXES];
                 Tuple found;
                 bool is_found = read_box(box.ptr(), tree.axes(), spans) && tree.lowest(spans, found);
                 return is_found ? as_entry(found, tree.axes()) : nb::none();
             })
        .def("near",
             [](Tree& tree, nb::handle box, nb::handle point, int64_t limit, nb::handle but) {
                 Span spans[MAX_AXES];
                 Tuple found;
                 PyObject* other = but.ptr();
                 Codes from = read_point(point, tree.axes());
                 bool is_found = read_box(box.ptr(), tree.axes(), spans) &&
                                 tree.near(spans, from, limit, but.is_none() ? nullptr : &other, found);
                 return is_found ? as_entry(found, tree.axes()) : nb::none();
             },
             nb::arg("box"), nb::arg("point"), nb::arg("limit"), nb::kw_only(), nb::arg("but").none() = nb::none())
        .def("step",
             [](Tree& tree, nb::handle old, nb::handle now, nb::handle ref, int64_t limit, nb::handle interval,
                nb::handle piece, nb::handle points, nb::bytes topic) {
                 PointIndex* index = points.is_none() ? nullptr : nb::cast<PointIndex*>(points);
                 if (index && index->dimensions() != 2 * tree.axes())
                     throw nb::value_error("a range has two ends for each dimension");
                 Place from(old, ref, tree.axes()), to(now, ref, tree.axes());
                 return BoxRule(tree, interval, piece, index, view(topic)).step(from, to, ref, limit);
             },
             nb::arg("old").none(), nb::arg("new").none(), nb::arg("ref"), nb::arg("limit"), nb::arg("interval"),
             nb::arg("piece"), nb::arg("points").none() = nb::none(), nb::arg("topic") = nb::bytes("", 0))
        .def("check", [](const Tree& tree) { tree.check(); });
}

}  // namespace kernels
