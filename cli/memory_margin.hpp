#pragma once

#include <string>

#include "core/base/diagnostics.hpp"
#include "core/record/calibration.hpp"
#include "core/spec/cluster_spec.hpp"

namespace orrery {

/// What is kept free of every device's memory: what `text` says ("4 GiB"), or for "auto" default_headroom
/// (sim/memory/fit.hpp).  A text that says nothing possible is a mistake, and nothing is kept free.
[[nodiscard]] Bytes margin_of(const std::string& text, const ClusterSpec&, const Calibration&, Diagnostics&);

}  // namespace orrery
