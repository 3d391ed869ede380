#pragma once

#include "core/base/units.hpp"
#include "core/record/calibration.hpp"

namespace orrery {

/// Time of a collective over links of this kind, given the time `modelled` by NCCL's own model; LinkCurve has the form.
///
/// Source: derived. No choice of NCCL's changes the form, which was fitted to published measurements
/// (docs/validate.md). Leaves out other traffic on the network.
[[nodiscard]] Seconds on_links(const LinkCurve&, Seconds modelled);

}  // namespace orrery
