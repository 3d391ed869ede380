#pragma once

#include <nanobind/nanobind.h>

namespace orrery::python {

/// Binds estimate(run, flags), which gives an Estimate: times at once, memory and text when they are asked for.
void bind_estimates(nanobind::module_&);

}  // namespace orrery::python
