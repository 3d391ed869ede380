#pragma once

#include "core/program/verify_regions.hpp"

namespace orrery::verifying {

/// How far the attention of a view has come.
[[nodiscard]] Attended attended_of(Regions&, const OpRun&, const View&);

/// How much view `i` of the kernel has met after the kernel has run.
[[nodiscard]] Attended attend(Regions&, const OpRun&, const Kernel&, std::uint32_t i);

/// Tests that keys have gone as far along the ring as the kernel assumes, and that results are used only when they have
/// met the whole sequence.
void check_attended(Regions&, const OpRun&, const Kernel&);

}  // namespace orrery::verifying
