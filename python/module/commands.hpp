#pragma once

#include <nanobind/nanobind.h>

namespace orrery::python {

/// Binds command(arguments, progress): `orrery ARGUMENTS...` inside this process.
void bind_commands(nanobind::module_&);

}  // namespace orrery::python
