#pragma once

#include "core/base/units.hpp"
#include "core/record/calibration.hpp"

namespace orrery {

/// What a collective takes over links of this kind that takes `modelled` by NCCL's own model: LinkCurve has the form.
///
/// Source: derived; a form that no choice of NCCL's changes, fitted to published measurements (docs/validate.md).
/// Leaves out what a network carries besides.
[[nodiscard]] Seconds on_links(const LinkCurve&, Seconds modelled);

}  // namespace orrery
