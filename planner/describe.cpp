#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/base/units_text.hpp"
#include "core/plan/plan_names.hpp"
#include "planner/describe.hpp"

namespace orrery {
namespace {

// "20 x 3, 19": runs of equal stages together.
std::string stages_text(const std::vector<std::uint32_t>& stages) {
  std::string list;
  for (std::size_t i = 0; i < stages.size();) {
    std::size_t end = i;
    while (end < stages.size() && stages[end] == stages[i]) ++end;
    list += list.empty() ? "" : ", ";
    list += end - i == 1 ? fmt::format("{}", stages[i]) : fmt::format("{} x {}", stages[i], end - i);
    i = end;
  }
  return list;
}

std::string mesh_text(const Mesh& mesh) {
  std::string list;
  for (const MeshAxis& a : mesh.axes) {
    list += fmt::format("{}{} {}", list.empty() ? "" : " x ", name_of(a.axis), a.size);
  }
  return list.empty() ? "one rank" : list;
}

}  // namespace

std::string describe(const Plan& plan) {
  std::string line = fmt::format("{}, microbatch {}", mesh_text(plan.mesh), plan.microbatch_size);
  if (plan.tensor != TensorAlgorithm::one_d) {
    line += fmt::format(", tensor {}{}", name_of(plan.tensor), plan.save_gathered ? " saving gathered" : "");
  }
  if (plan.mesh.size(Axis::context) > 1) {
    line += fmt::format(", context {}{}", name_of(plan.context), plan.zigzag ? " zigzag" : "");
    if (plan.inner_ring != 0) line += fmt::format(" in rings of {}", plan.inner_ring);
  }
  if (plan.expert_folding != ExpertFolding::none) {
    line += fmt::format(", experts folded over {}", name_of(plan.expert_folding));
  }
  if (plan.expert_dispatch == ExpertDispatch::all_gather) line += ", tokens gathered for experts";
  if (plan.mesh.size(Axis::pipeline) > 1 || plan.chunks > 1 || plan.schedule != ScheduleName::one_f_one_b) {
    line += fmt::format(", {}{}, layers {}", name_of(plan.schedule),
                        plan.chunks > 1 ? fmt::format(" of {} chunks", plan.chunks) : "",
                        plan.stage_layers ? stages_text(*plan.stage_layers) : "auto");
  }
  line += fmt::format(", attention {}, recompute {}", plan.attention ? name_of(*plan.attention) : "auto",
                      name_of(plan.recompute));
  if (plan.recompute == Recompute::selective && plan.recompute_modules != Plan{}.recompute_modules) {
    line += fmt::format(" ({})", recompute_set_names()[plan.recompute_modules]);
  }
  if (plan.recompute_layers) line += fmt::format(" of {}", stages_text(*plan.recompute_layers));
  if (plan.loss_chunks > 1) line += fmt::format(", loss in {} chunks", plan.loss_chunks);
  const auto on_host = [&](const char* what, const std::optional<std::uint32_t>& eighths, OffloadTier tier) {
    if (!eighths) line += fmt::format(", {} on host auto", what);
    if (eighths.value_or(0) > 0) line += fmt::format(", {} on host {}/8", what, *eighths);
    if (tier == OffloadTier::disk) line += " by way of the disk";
  };
  on_host("states", plan.offload_states, plan.states_tier);
  on_host("parameters", plan.offload_parameters, plan.parameters_tier);
  on_host("activations", plan.offload_activations, plan.activations_tier);
  if (plan.sequence_parallel) line += ", sequence parallel";
  if (!shard_axes_of(plan).empty()) line += fmt::format(", zero {}", plan.zero_stage);
  if (plan.zero_stage == 3) {
    line += fmt::format("{}{}", plan.reshard_after_forward ? "" : " kept", plan.prefetch > 0 ? "" : " no prefetch");
    if (!plan.parameter_chunk) line += " in chunks auto";
    if (plan.parameter_chunk > Bytes()) line += fmt::format(" in chunks of {}", short_text(*plan.parameter_chunk));
  }
  const std::uint64_t sums = size(plan.mesh, sequence_axes(plan)) * plan.mesh.size(Axis::context);
  if (sums > 1) {
    line += fmt::format(", gradients {}", !plan.overlap_gradients   ? "auto"
                                          : *plan.overlap_gradients ? "overlapped"
                                                                    : "at the end");
  }
  return line;
}

}  // namespace orrery
