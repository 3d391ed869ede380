#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/plan/plan.hpp"

namespace orrery::test {

/// Virtual stages of a pipeline rank, and the layers of all of them.
[[nodiscard]] std::vector<std::uint32_t> stages_on(const Plan&, std::uint32_t rank);
[[nodiscard]] std::uint32_t layers_on(const Plan&, std::uint32_t rank);
[[nodiscard]] std::uint32_t mixtures_on(const PlannedRun&, std::uint32_t rank);  ///< of which are mixtures
/// Whether a layer's activations are computed again, all or the attention core's, and for how many layers of a rank.
[[nodiscard]] bool recomputes(const Plan&, std::uint32_t layer);
[[nodiscard]] std::uint32_t recomputed_on(const Plan&, std::uint32_t rank);

/// One line with every choice of the run, for CAPTURE.
[[nodiscard]] std::string describe(const PlannedRun&);

}  // namespace orrery::test
