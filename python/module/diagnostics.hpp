#pragma once

#include <nanobind/nanobind.h>

#include "core/base/diagnostics.hpp"

namespace orrery::python {

/// Diagnostics as a list of tuples: file, line, column, code, message, details, and the text that a person sees. What
/// is not known is None.
[[nodiscard]] nanobind::list listed(const Diagnostics&);

}  // namespace orrery::python
