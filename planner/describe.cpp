#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>

#include "core/base/units_text.hpp"
#include "core/plan/plan_names.hpp"
#include "planner/space.hpp"

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
  if (plan.mesh.size(Axis::pipeline) > 1) {
    line += fmt::format(", {}{}, layers {}", name_of(plan.schedule),
                        plan.chunks > 1 ? fmt::format(" of {} chunks", plan.chunks) : "",
                        plan.stage_layers ? stages_text(*plan.stage_layers) : "auto");
  }
  line += fmt::format(", attention {}, recompute {}", plan.attention ? name_of(*plan.attention) : "auto",
                      name_of(plan.recompute));
  if (plan.recompute_layers) line += fmt::format(" of {}", stages_text(*plan.recompute_layers));
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

std::string describe(const Space& space) {
  std::string out = fmt::format("{} plans of {} shapes", space.count, space.shapes.size());
  if (space.orders_left_out > 0) {
    out += fmt::format(" ({} more orders of axes lie on the network like a listed one)", space.orders_left_out);
  }
  out += ".\n";
  // The values of every dimension over all shapes.
  std::array<std::set<std::uint32_t>, axis_count> sizes;
  std::set<std::string> tensor, schedules, context, kernels;
  std::set<std::uint32_t> microbatches, zero, chunks, states, parameters;
  bool parameter_chunks = false;
  for (const ShapeSpace& s : space.shapes) {
    for (std::size_t a = 0; a < axis_count; ++a) sizes[a].insert(s.sizes[a]);
    tensor.insert(std::string(name_of(s.tensor)));
    for (const MicrobatchSpace& m : s.microbatches) {
      microbatches.insert(m.size);
      for (const ScheduleChoice& c : m.schedules)
        schedules.insert(std::string(name_of(c.schedule))), chunks.insert(c.chunks);
    }
    for (const BlockChoice& b : s.blocks) {
      kernels.insert(fmt::format("{} {}{}", name_of(b.attention), name_of(b.recompute),
                                 b.fewest                   ? " of the fewest layers"
                                 : b.recomputed_eighths > 0 ? " of eighths with the fewest activations on the host"
                                 : b.offload                ? " with the fewest activations on the host"
                                                            : ""));
      if (s.sizes[index(Axis::context)] > 1) {
        context.insert(fmt::format("{}{}{}", name_of(b.context), b.zigzag ? " zigzag" : "",
                                   b.inner_ring > 0 ? fmt::format(" in rings of {}", b.inner_ring) : ""));
      }
    }
    for (const StateChoice& c : s.states) {
      zero.insert(c.zero_stage);
      parameter_chunks = parameter_chunks || c.parameter_chunk > Bytes();
      if (!s.offloads_states) continue;
      states.insert(c.offload_states);
      parameters.insert(c.offload_parameters);
    }
  }
  for (std::size_t a = 0; a < axis_count; ++a) {
    if (sizes[a].size() > 1 || (!sizes[a].empty() && *sizes[a].begin() > 1)) {
      out += fmt::format("  {:<18}{}\n", name_of(static_cast<Axis>(a)), fmt::join(sizes[a], ", "));
    }
  }
  const auto row = [&](const char* name, const auto& values) {
    if (!values.empty()) out += fmt::format("  {:<18}{}\n", name, fmt::join(values, ", "));
  };
  row("tensor algorithm", tensor);
  row("context algorithm", context);
  row("microbatch", microbatches);
  row("schedule", schedules);
  row("chunks per rank", chunks);
  row("zero", zero);
  if (parameter_chunks) out += fmt::format("  {:<18}none, one for each layer\n", "parameter chunks");
  row("states, eighths", states);
  row("weights, eighths", parameters);
  row("kernels", kernels);
  std::size_t most = 0;
  for (const auto& [stages, splits] : space.stage_layers) most = std::max(most, splits.size());
  out += fmt::format("  {:<18}up to {} splits\n", "stages", most);
  for (const ShapeSpace& s : space.shapes) {
    Mesh mesh;
    for (std::size_t a = 0; a < axis_count; ++a) {
      if (s.sizes[a] > 1) mesh.axes.push_back({static_cast<Axis>(a), s.sizes[a]});
    }
    std::size_t most_schedules = 0;
    for (const MicrobatchSpace& m : s.microbatches) most_schedules = std::max(most_schedules, m.schedules.size());
    out += fmt::format(
        "{}, {}: plans {} to {}; {} orders, {} microbatch sizes, {} kernels and cuts, up to {} schedules, {} "
        "ways to keep states\n",
        mesh_text(mesh), name_of(s.tensor), s.first, s.first + s.count - 1, s.orders, s.microbatches.size(),
        s.blocks.size(), most_schedules, s.states.size());
  }
  return out;
}

}  // namespace orrery
