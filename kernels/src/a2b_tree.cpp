// The A2B-tree as Python has it: prosem/index/ranges/a2b_tree.py.
#include <nanobind/stl/optional.h>

#include "bindings.h"
#include "range_objects.h"

namespace kernels {

namespace {
using Tree = ObjectTree;

nb::object end(const Tree::End& end) { return end.is_there ? as_code(end.x) : nb::none(); }
nb::object point(const Tree::Point& point) {
    return nb::make_tuple(as_code(point.x), as_code(point.y), KeyRef::object(point.ref));
}

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
    return nb::make_tuple(as_peak(exposure.peak), hull_of(exposure.hull));
}
}  // namespace

void bind_a2b_tree(nb::module_& module) {
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
                 build_tree(nb::cast<Tree&>(self), entries);
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
                 if (!tree.add(x, y, KeyRef::of(ref))) raise_twice(ref);
             })
        .def("remove",
             [](Tree& tree, int64_t x, int64_t y, nb::handle ref) {
                 if (!tree.remove(x, y, KeyRef::of(ref))) raise_missing(x, y, ref);
             })
        .def("replace",
             [](Tree& tree, int64_t x, int64_t y, nb::handle ref, int64_t new_y) {
                 if (!tree.replace(x, y, KeyRef::of(ref), new_y)) raise_missing(x, y, ref);
             })
        .def("replace_seen",
             [](Tree& tree, int64_t x, int64_t y, nb::handle ref, int64_t new_y) {
                 Tree::Exposure found;
                 if (!tree.replace_seen(x, y, KeyRef::of(ref), new_y, found)) raise_missing(x, y, ref);
                 return exposure_of(found);
             })
        .def("peak",
             [](Tree& tree, int64_t x) {
                 Tree::Point found;
                 return tree.peak(x, found) ? as_peak(found) : nb::none();
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
                 tree.hull(x, top ? Tree::Bound{*top, or_equal || *top == floor} : Tree::Bound{HIGHEST, true},
                           {floor, true}, found);
                 return hull_of(found);
             },
             nb::arg("x"), nb::arg("top").none(), nb::arg("floor"), nb::kw_only(), nb::arg("or_equal") = false)
        .def("exposure",
             [](Tree& tree, int64_t x, int64_t y, nb::handle ref, int64_t new_y) {
                 Tree::Exposure found;
                 tree.exposure(x, y, KeyRef::of(ref), new_y, found);
                 return exposure_of(found);
             })
        .def("lowest",
             [](Tree& tree, Maybe low, Maybe high) {
                 Tree::Point found;
                 return tree.lowest(low.value_or(LOWEST), high.value_or(HIGHEST), found) ? as_peak(found) : nb::none();
             },
             nb::arg("low") = nb::none(), nb::arg("high") = nb::none())
        .def_prop_ro("nbytes", [](const Tree& tree) { return tree.nbytes(); })
        .def("check", [](const Tree& tree) { tree.check(); });
}

}  // namespace kernels
