// The A2B-tree, and the minima of one space by topic with the rule, as Python has them.
#include "range_rule.h"

#include <string>
#include <unordered_map>

#include <nanobind/stl/optional.h>

#include "point_index.h"
#include "references.h"

namespace kernels {

namespace {
using Tree = RangeTree<ObjectRef>;
using Rule = RangeRule<ObjectRef>;

nb::object code(int64_t code) { return nb::steal(PyLong_FromLongLong(code)); }
nb::object end(const Tree::End& end) { return end.is_there ? code(end.x) : nb::none(); }
nb::object point(const Tree::Point& point) {
    return nb::make_tuple(code(point.x), code(point.y), nb::borrow(point.ref));
}
nb::object peak(const Tree::Point& point) { return nb::make_tuple(code(point.y), nb::borrow(point.ref)); }

nb::object points(const std::vector<Tree::Point>& all) {
    nb::list out;
    for (const auto& one : all) out.append(point(one));
    return out;
}

nb::object hull_of(const Tree::Hull& hull) {
    return nb::make_tuple(points(hull.left), end(hull.left_end), points(hull.right), end(hull.right_end));
}

nb::object exposure_of(const Tree::Exposure& exposure) {
    if (exposure.is_ignorable) return nb::none();
    return nb::make_tuple(peak(exposure.peak), hull_of(exposure.hull));
}

[[noreturn]] void raise_missing(int64_t x, int64_t y, nb::handle ref) {
    raise_key_error(nb::make_tuple(x, y, ref));
}

[[noreturn]] void raise_twice(nb::handle ref) {
    PyErr_Format(PyExc_ValueError, "%R is already there", ref.ptr());
    throw nb::python_error();
}

void build(Tree& tree, nb::handle entries) {
    std::vector<Tree::Point> all;
    nb::list kept;  // the entries, while their references are read
    for (nb::handle entry : nb::iter(entries)) {
        Items items{entry};
        if (items.count != 3) throw nb::value_error("an entry is (x, y, ref)");
        kept.append(entry);
        all.push_back({code_of(items.items[0]), code_of(items.items[1]), items.items[2]});
    }
    tree.build(all);
}

// Gives named tuples without calling their class: a third of the time.
nb::object named(nb::handle type, PyObject* fields) {
    PyObject* arguments = PyTuple_Pack(1, fields);
    Py_DECREF(fields);
    if (!arguments) throw nb::python_error();
    PyObject* made = PyTuple_Type.tp_new(reinterpret_cast<PyTypeObject*>(type.ptr()), arguments, nullptr);
    Py_DECREF(arguments);
    if (!made) throw nb::python_error();
    return nb::steal(made);
}

// The minima over the rows of one space: a tree for each combination of equality values (a topic), and the rule.
class RangeMinima {
   public:
    // `points`: the index of the space's subscriptions, or None; `interval` and `piece` are the classes to answer in.
    RangeMinima(nb::object points, nb::object interval, nb::object piece)
        : owner_(points), interval_(interval), piece_(piece) {
        points_ = points.is_none() ? nullptr : nb::cast<PointIndex*>(points);
        if (points_ && points_->dimensions() != 2) throw nb::value_error("a range is a point of two dimensions");
    }

    void build(nb::bytes topic, nb::handle entries) {
        kernels::build(*tree_of(view(topic)), entries);
        forget_if_empty(view(topic));
    }
    nb::object tree(nb::bytes topic) {
        auto found = trees_.find(std::string(view(topic)));
        return found == trees_.end() ? nb::none() : found->second;
    }
    nb::object topics() const {
        nb::list names;
        for (const auto& [name, tree] : trees_) names.append(nb::bytes(name.data(), name.size()));
        return names;
    }
    nb::object lowest(nb::bytes topic, int64_t low, int64_t high) {
        auto found = trees_.find(std::string(view(topic)));
        Tree::Point best;
        if (found == trees_.end() || !nb::cast<Tree&>(found->second).lowest(low, high, best)) return nb::none();
        return peak(best);
    }
    int64_t visits() const {
        int64_t sum = gone_visits_;
        for (const auto& [name, tree] : trees_) sum += nb::cast<Tree&>(tree).visits;
        return sum;
    }
    void check() const {
        for (const auto& [name, tree] : trees_) {
            require(nb::cast<Tree&>(tree).size() > 0, "a topic is known while it has rows");
            nb::cast<Tree&>(tree).check();
        }
    }

    // All events of a request in order: for each its reference, and topic, x and y before and after (None: there is no
    // such point). Topics may be one for all. Gives (place in the request, [(topic, piece), …]) for the events that have
    // pieces, without those that no subscription is in.
    nb::list take(nb::handle refs, nb::handle old_topics, nb::handle old_xs, nb::handle old_ys,
                  nb::handle new_topics, nb::handle new_xs, nb::handle new_ys) {
        Items keys{refs}, from_x{old_xs}, from_y{old_ys}, to_x{new_xs}, to_y{new_ys};
        Topics from{old_topics, keys.count}, to{new_topics, keys.count};
        if (from_x.count != keys.count || from_y.count != keys.count || to_x.count != keys.count ||
            to_y.count != keys.count)
            throw nb::value_error("the columns of a request are equally long");
        nb::list out;
        for (Py_ssize_t at = 0; at < keys.count; ++at) {
            auto old = place(from_x.items[at], from_y.items[at]), now = place(to_x.items[at], to_y.items[at]);
            nb::object found;
            if (old && now && from.at(at) == to.at(at)) {
                step(from.object(at), old, now, keys.items[at], found);
            } else {
                if (old) step(from.object(at), old, std::nullopt, keys.items[at], found);
                if (now) step(to.object(at), std::nullopt, now, keys.items[at], found);
            }
            if (found.is_valid()) out.append(nb::make_tuple(at, found));
        }
        return out;
    }

   private:
    nb::object owner_, interval_, piece_;
    PointIndex* points_;
    std::unordered_map<std::string, nb::object> trees_;
    std::string last_topic_;
    Tree* last_tree_ = nullptr;
    int64_t gone_visits_ = 0;
    Rule rule_;

    // One topic for all events, or one for each.
    struct Topics {
        nb::handle one;
        nb::object owner;
        PyObject** items = nullptr;

        Topics(nb::handle topics, Py_ssize_t count) {
            if (PyBytes_Check(topics.ptr())) {
                one = topics;
                return;
            }
            Items all{topics};
            if (all.count != count) throw nb::value_error("the columns of a request are equally long");
            owner = all.owner;
            items = all.items;
        }
        nb::handle object(Py_ssize_t at) const { return items ? nb::handle(items[at]) : one; }
        std::string_view at(Py_ssize_t place) const {
            nb::handle topic = object(place);
            return PyBytes_Check(topic.ptr()) ? view(topic) : std::string_view();
        }
    };

    static std::optional<Rule::Place> place(PyObject* x, PyObject* y) {
        if (x == Py_None || y == Py_None) return std::nullopt;
        return Rule::Place{code_of(x), code_of(y)};
    }

    Tree* tree_of(std::string_view topic) {
        if (last_tree_ && last_topic_ == topic) return last_tree_;
        nb::object& tree = trees_[std::string(topic)];
        if (!tree.is_valid()) tree = nb::cast(new Tree(), nb::rv_policy::take_ownership);
        last_topic_ = topic;
        last_tree_ = nb::cast<Tree*>(tree);
        return last_tree_;
    }
    void forget_if_empty(std::string_view topic) {
        auto found = trees_.find(std::string(topic));
        if (nb::cast<Tree&>(found->second).size()) return;
        gone_visits_ += nb::cast<Tree&>(found->second).visits;
        trees_.erase(found);
        last_tree_ = nullptr;
    }

    void step(nb::handle topic, std::optional<Rule::Place> old, std::optional<Rule::Place> now, PyObject* ref,
              nb::object& found) {
        if (!PyBytes_Check(topic.ptr())) throw nb::type_error("a topic is bytes");
        Tree* tree = tree_of(view(topic));
        if (!rule_.step(*tree, old, now, ref)) {
            if (!tree->size()) forget_if_empty(view(topic));
            if (old) raise_missing(old->x, old->y, ref);
            raise_twice(ref);
        }
        if (!tree->size()) forget_if_empty(view(topic));
        if (rule_.pieces.empty()) return;
        const PointTree* points = points_ ? points_->tree(view(topic)) : nullptr;
        if (points_ && !points) return;
        for (const auto& piece : rule_.pieces) {
            if (points_ && !holds_any(points, piece)) continue;
            if (!found.is_valid()) found = nb::list();
            nb::cast<nb::list>(found).append(nb::make_tuple(topic, as_piece(piece)));
        }
    }

    bool holds_any(const PointTree* points, const Rule::Piece& piece) {
        for (size_t at = piece.first_box; at < piece.first_box + piece.boxes; ++at) {
            Span spans[2];
            const RangeBox& box = rule_.boxes[at];
            if (box.sides[0].span(spans[0]) && box.sides[1].span(spans[1]) && points_->any(points, spans))
                return true;
        }
        return false;
    }

    nb::object as_interval(const Side& side) const {
        PyObject* low = side.has_low ? PyLong_FromLongLong(side.low) : Py_NewRef(Py_None);
        PyObject* high = side.has_high ? PyLong_FromLongLong(side.high) : Py_NewRef(Py_None);
        PyObject* fields = PyTuple_New(4);
        PyTuple_SET_ITEM(fields, 0, low);
        PyTuple_SET_ITEM(fields, 1, high);
        PyTuple_SET_ITEM(fields, 2, PyBool_FromLong(side.low_open));
        PyTuple_SET_ITEM(fields, 3, PyBool_FromLong(side.high_open));
        return named(interval_, fields);
    }

    nb::object as_piece(const Rule::Piece& piece) const {
        PyObject* region = PyTuple_New(static_cast<Py_ssize_t>(piece.boxes));
        for (size_t at = 0; at < piece.boxes; ++at) {
            const RangeBox& box = rule_.boxes[piece.first_box + at];
            PyObject* sides = PyTuple_New(2);
            for (int side = 0; side < 2; ++side)
                PyTuple_SET_ITEM(sides, side, as_interval(box.sides[side]).release().ptr());
            PyTuple_SET_ITEM(region, static_cast<Py_ssize_t>(at), sides);
        }
        PyObject* fields = PyTuple_New(3);
        PyTuple_SET_ITEM(fields, 0, region);
        PyTuple_SET_ITEM(fields, 1, piece.has_y ? PyLong_FromLongLong(piece.y) : Py_NewRef(Py_None));
        PyTuple_SET_ITEM(fields, 2, Py_NewRef(piece.has_y ? piece.ref : Py_None));
        return named(piece_, fields);
    }
};
}  // namespace

void bind_range_minima(nb::module_& module) {
    using Maybe = std::optional<int64_t>;
    nb::class_<Tree>(module, "A2BTree")
        .def("__init__",
             [](Tree* self, int fan_out) {
                 if (fan_out < 4) throw nb::value_error("the fan-out must be at least 4");
                 new (self) Tree(fan_out);
             },
             nb::arg("fan_out") = Tree::FAN_OUT)
        .def_prop_ro("fan_out", &Tree::fan_out)
        .def_ro("visits", &Tree::visits)
        .def("build",
             [](nb::handle_t<Tree> self, nb::handle entries) {
                 build(nb::cast<Tree&>(self), entries);
                 return nb::borrow(self);
             })
        .def("__len__", &Tree::size)
        .def("__iter__",
             [](const Tree& tree) {
                 nb::list all;
                 tree.each([&](const Tree::Point& one) { all.append(point(one)); });
                 return nb::iter(all);
             })
        .def("add",
             [](Tree& tree, int64_t x, int64_t y, nb::handle ref) {
                 if (!tree.add(x, y, ref.ptr())) raise_twice(ref);
             })
        .def("remove",
             [](Tree& tree, int64_t x, int64_t y, nb::handle ref) {
                 if (!tree.remove(x, y, ref.ptr())) raise_missing(x, y, ref);
             })
        .def("replace",
             [](Tree& tree, int64_t x, int64_t y, nb::handle ref, int64_t new_y) {
                 if (!tree.replace(x, y, ref.ptr(), new_y)) raise_missing(x, y, ref);
             })
        .def("replace_seen",
             [](Tree& tree, int64_t x, int64_t y, nb::handle ref, int64_t new_y) {
                 Tree::Exposure found;
                 if (!tree.replace_seen(x, y, ref.ptr(), new_y, found)) raise_missing(x, y, ref);
                 return exposure_of(found);
             })
        .def("peak",
             [](Tree& tree, int64_t x) {
                 Tree::Point found;
                 return tree.peak(x, found) ? peak(found) : nb::none();
             })
        .def("mar",
             [](Tree& tree, int64_t x, int64_t y) -> nb::object {
                 Tree::Hull hull;
                 if (!tree.mar(x, y, hull)) return nb::none();
                 return nb::make_tuple(end(hull.left_end), end(hull.right_end));
             })
        .def("hull",
             [](Tree& tree, int64_t x, Maybe top, int64_t floor, bool or_equal) {
                 Tree::Hull found;
                 tree.hull(x, top ? Tree::Top{*top, or_equal || *top == floor} : Tree::Top{HIGHEST, true}, floor,
                           found);
                 return hull_of(found);
             },
             nb::arg("x"), nb::arg("top").none(), nb::arg("floor"), nb::kw_only(), nb::arg("or_equal") = false)
        .def("exposure",
             [](Tree& tree, int64_t x, int64_t y, nb::handle ref, int64_t new_y) {
                 Tree::Exposure found;
                 tree.exposure(x, y, ref.ptr(), new_y, found);
                 return exposure_of(found);
             })
        .def("lowest",
             [](Tree& tree, Maybe low, Maybe high) {
                 Tree::Point found;
                 return tree.lowest(low.value_or(LOWEST), high.value_or(HIGHEST), found) ? peak(found) : nb::none();
             },
             nb::arg("low") = nb::none(), nb::arg("high") = nb::none())
        .def_prop_ro("nbytes", [](const Tree& tree) { return tree.nbytes(); })
        .def("check", [](const Tree& tree) { tree.check(); });
    nb::class_<RangeMinima>(module, "RangeMinima")
        .def(nb::init<nb::object, nb::object, nb::object>(), nb::arg("points").none(), nb::arg("interval"),
             nb::arg("piece"))
        .def("build", &RangeMinima::build)
        .def("tree", &RangeMinima::tree)
        .def("topics", &RangeMinima::topics)
        .def("lowest", &RangeMinima::lowest)
        .def("take", &RangeMinima::take)
        .def_prop_ro("visits", &RangeMinima::visits)
        .def("check", &RangeMinima::check);
}

}  // namespace kernels
