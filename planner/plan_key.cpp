#include "planner/plan_key.hpp"

namespace orrery {

std::string key_of(const PlannedRun& run, Dimensions table) {
  std::string key;
  const auto add = [&](std::uint64_t value) {
    for (; value >= 128; value >>= 7) key += static_cast<char>(value | 128);
    key += static_cast<char>(value);
  };
  for (const Dimension& d : table) {
    if (d.table() == "plan" || d.table() == "mesh") add(d.get(run));
  }
  // What dimensions say in more than a number.
  const Plan& plan = run.plan;
  for (const MeshAxis& a : plan.mesh.axes) {
    if (a.size > 1) add(index(a.axis)), add(a.size);
  }
  const auto add_list = [&](const auto& list) {
    add(list.size());
    for (const auto value : list) add(value);
  };
  add_list(plan.placement);
  add_list(plan.stage_layers.value_or(std::vector<std::uint32_t>{}));
  add_list(plan.recompute_layers.value_or(std::vector<std::uint32_t>{}));
  add(plan.parameter_chunk ? 1 + static_cast<std::uint64_t>(plan.parameter_chunk->base()) : 0);
  return key;
}

}  // namespace orrery
