#pragma once

#include <string_view>
#include <vector>

#include "core/plan/plan.hpp"

namespace orrery {

// The words for a plan's choices in files, flags and tables; the lists are in
// the order of the enumerators.
[[nodiscard]] std::string_view name_of(ScheduleName);
[[nodiscard]] std::string_view name_of(ContextAlgorithm);
[[nodiscard]] std::string_view name_of(TensorAlgorithm);
[[nodiscard]] std::string_view name_of(ExpertFolding);
[[nodiscard]] std::string_view name_of(ExpertDispatch);
[[nodiscard]] std::string_view name_of(Recompute);
[[nodiscard]] std::string_view name_of(OffloadTier);
[[nodiscard]] std::string_view name_of(AttentionKernel);
[[nodiscard]] std::string_view name_of(CollectiveAlgorithm);
[[nodiscard]] const std::vector<std::string_view>& pipeline_schedule_names();
[[nodiscard]] const std::vector<std::string_view>& context_names();
[[nodiscard]] const std::vector<std::string_view>& tensor_names();
[[nodiscard]] const std::vector<std::string_view>& expert_folding_names();
[[nodiscard]] const std::vector<std::string_view>& expert_dispatch_names();
[[nodiscard]] const std::vector<std::string_view>& recompute_names();
/// "core_attn", "layernorm", ...: by RecomputeModule.
[[nodiscard]] const std::vector<std::string_view>& recompute_module_names();
/// "none", "core_attn", "layernorm", "core_attn+layernorm", ...: by RecomputeModules.
[[nodiscard]] const std::vector<std::string_view>& recompute_set_names();
[[nodiscard]] const std::vector<std::string_view>& offload_tier_names();
[[nodiscard]] const std::vector<std::string_view>& attention_names();
[[nodiscard]] const std::vector<std::string_view>& algorithm_names();

}  // namespace orrery
