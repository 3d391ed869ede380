#pragma once

#include <string>

#include "core/base/diagnostics.hpp"
#include "core/record/calibration.hpp"
#include "core/spec/cluster_spec.hpp"

namespace orrery {

/// What a search leaves of every device's memory to all that is no tensor: what
/// `text` says ("4 GiB"), or for "auto" memory_margin() of sim/memory.  A text
/// that says nothing possible is a mistake, and none is left.
[[nodiscard]] Bytes margin_of(const std::string& text, const DeviceSpec&, const std::optional<ProcessMemory>&,
                              Diagnostics&);

}  // namespace orrery
