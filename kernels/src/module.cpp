// The compiled structures of ProSem over 64-bit codes, each with the protocol of the one in Python that it stands for.
#include <nanobind/nanobind.h>

#include "bindings.h"
#include "reading.h"

NB_MODULE(_native, module) {
    nb::set_leak_warnings(false);
    nb::register_exception_translator(
        [](const std::exception_ptr& raised, void*) {
            try {
                std::rethrow_exception(raised);
            } catch (const kernels::Broken& broken) {
                PyErr_SetString(PyExc_AssertionError, broken.what());
            }
        },
        nullptr);
    kernels::bind_point_index(module);
    kernels::bind_a2b_tree(module);
    kernels::bind_box_minima(module);
    kernels::bind_epochs(module);
    kernels::bind_extreme_drafts(module);
    kernels::bind_filters(module);
    kernels::bind_interval_blocks(module);
    kernels::bind_join_keys(module);
    kernels::bind_join_regions(module);
    kernels::bind_join_step(module);
    kernels::bind_packed_rows(module);
    kernels::bind_radii(module);
    kernels::bind_range_minima(module);
    kernels::bind_sum_tree(module);
    kernels::bind_range_sums(module);
}
