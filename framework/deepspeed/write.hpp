#pragma once

#include <optional>
#include <string>

#include "core/base/diagnostics.hpp"
#include "core/plan/plan.hpp"

namespace orrery {

/// A plan as a DeepSpeed configuration. Requires a resolved plan that passes check().
[[nodiscard]] std::optional<std::string> write_deepspeed(const PlannedRun&, Diagnostics&);

/// "AdamW" with its parameters, as the lines of a JSON object behind "optimizer"; empty, with a diagnostic, where
/// DeepSpeed has no such optimizer.
[[nodiscard]] std::optional<std::string> deepspeed_optimizer(const PlannedRun&, Diagnostics&);

}  // namespace orrery
