#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/plan/schedule_rules.hpp"

namespace orrery {

/// The next of the counts (Plan::recompute_layers) that a pipeline rank may have, from none of its layers to all: one
/// more layer of the stage with the fewest of those that have some left, of equals the lowest.  Each differs from the
/// one before by one layer more, so whatever fits first has the fewest in every stage.  Answers with the stage that has
/// one more; none where all layers are recomputed.
///
/// Where a stage is on two ranks (StagePlacement::two_way) both ranks of a pair hold the same stages.
[[nodiscard]] std::optional<std::uint32_t> recompute_one_more(std::vector<std::uint32_t>& counts,
                                                              const std::vector<std::uint32_t>& stage_layers,
                                                              const StageMap&, std::uint32_t rank);

}  // namespace orrery
