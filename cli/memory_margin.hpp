#pragma once

#include <string>

#include "core/base/diagnostics.hpp"
#include "core/record/calibration.hpp"
#include "core/spec/cluster_spec.hpp"

namespace orrery {

/// Memory that is kept free on every device: the amount in `text` ("4 GiB"), or for "auto" default_headroom
/// (sim/memory/fit.hpp). An impossible text is a mistake, and nothing is kept free.
[[nodiscard]] Bytes margin_of(const std::string& text, const ClusterSpec&, const Calibration&, Diagnostics&);

}  // namespace orrery
