#pragma once

#include <optional>
#include <string>

#include "core/base/diagnostics.hpp"
#include "core/plan/plan.hpp"
#include "framework/framework.hpp"

namespace orrery {

/// A plan as a DeepSpeed configuration. Requires a resolved plan that passes check().
[[nodiscard]] std::optional<std::string> write_deepspeed(const PlannedRun&, Diagnostics&);

/// What DeepSpeed cannot train, the rules of a workload (framework/framework.hpp), and whether ranks stand in its
/// order.
void check_deepspeed_model(const ModelSpec&, const Workload&, Diagnostics&);
[[nodiscard]] std::vector<AbilityRule> deepspeed_rules(const ModelSpec&, const Workload&);
[[nodiscard]] bool deepspeed_order(const PlannedRun&);

}  // namespace orrery
