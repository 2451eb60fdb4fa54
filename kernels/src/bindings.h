// What each file of bindings adds to the module.
#pragma once

#include <nanobind/nanobind.h>

namespace kernels {

void bind_point_index(nanobind::module_& module);
void bind_a2b_tree(nanobind::module_& module);
void bind_box_minima(nanobind::module_& module);
void bind_epochs(nanobind::module_& module);
void bind_extreme_drafts(nanobind::module_& module);
void bind_filters(nanobind::module_& module);
void bind_interval_blocks(nanobind::module_& module);
void bind_join_keys(nanobind::module_& module);
void bind_join_regions(nanobind::module_& module);
void bind_join_step(nanobind::module_& module);
void bind_packed_rows(nanobind::module_& module);
void bind_radii(nanobind::module_& module);
void bind_range_minima(nanobind::module_& module);
void bind_range_sums(nanobind::module_& module);
void bind_sum_tree(nanobind::module_& module);

}  // namespace kernels
