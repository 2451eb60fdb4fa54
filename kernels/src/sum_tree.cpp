// The tree of sums as Python has it: prosem/index/ranges/sum_tree.py.
#include <nanobind/stl/optional.h>

#include "bindings.h"
#include "sum_objects.h"

namespace kernels {

void bind_sum_tree(nb::module_& module) {
    using Maybe = std::optional<int64_t>;
    nb::class_<SumTree>(module, "SumTree")
        .def("__init__",
             [](SumTree* self, int fan_out) {
                 if (fan_out < 4) throw nb::value_error("the fan-out must be at least 4");
                 new (self) SumTree(fan_out);
             },
             nb::arg("fan_out") = SumTree::FAN_OUT)
        .def_prop_ro("fan_out", &SumTree::fan_out)
        .def_ro("visits", &SumTree::visits)
        .def("build",
             [](nb::handle_t<SumTree> self, nb::handle entries) {
                 build_sums(nb::cast<SumTree&>(self), entries);
                 return nb::borrow(self);
             })
        .def("__len__", &SumTree::size)
        .def("__iter__",
             [](const SumTree& tree) {
                 nb::list all;
                 tree.each([&](const SumTree::Entry& one) {
                     all.append(nb::make_tuple(as_code(one.x), as_code(one.sums.rows), as_code(one.sums.values),
                                               as_total(one.sums.total)));
                 });
                 return nb::iter(all);
             })
        .def("change",
             [](SumTree& tree, int64_t x, int64_t rows, int64_t values, nb::handle total) {
                 change_sums(tree, x, {rows, values, total_of(total)});
             })
        .def("total",
             [](SumTree& tree, Maybe low, Maybe high) {
                 return as_sums(tree.total(low.value_or(LOWEST), high.value_or(HIGHEST)));
             },
             nb::arg("low") = nb::none(), nb::arg("high") = nb::none())
        .def_prop_ro("nbytes", [](const SumTree& tree) { return tree.nbytes(); })
        .def("check", [](const SumTree& tree) { tree.check(); });
}

}  // namespace kernels
