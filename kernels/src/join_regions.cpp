// Regions of select-joins as Python has them: prosem/types/join/regions.py.
#include "join_regions.h"

#include "bindings.h"

namespace kernels {

void bind_join_regions(nb::module_& module) {
    nb::class_<JoinRegions>(module, "JoinRegions")
        .def("__init__", [](JoinRegions* self, nb::object points, int dimensions,
                            nb::object interval) { new (self) JoinRegions(points, dimensions, interval); })
        .def("came", &JoinRegions::came)
        .def("went", &JoinRegions::went)
        .def("shifts", &JoinRegions::shifts, nb::arg("routing").none(), nb::arg("other_routing").none(),
             nb::arg("lost").none(), nb::arg("gained").none(), nb::arg("is_one_key"))
        .def("visible", [](JoinRegions& self, nb::handle own, nb::handle rows, nb::handle routing, nb::handle clusters,
                           bool is_merged) { return self.visible(own, rows, routing, clusters, is_merged); });
}

}  // namespace kernels
