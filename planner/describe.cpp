#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "core/plan/memory_check.hpp"
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
  if (plan.mesh.size(Axis::pipeline) > 1) {
    line += fmt::format(", {}, layers {}", name_of(plan.schedule),
                        plan.stage_layers ? stages_text(*plan.stage_layers) : "auto");
  }
  line += fmt::format(", attention {}, recompute {}", plan.attention ? name_of(*plan.attention) : "auto",
                      name_of(plan.recompute));
  if (plan.recompute_layers) line += fmt::format(" of {}", stages_text(*plan.recompute_layers));
  if (plan.offload && plan.offload->states == undecided_eighths) {
    line += ", states on host auto";
  } else if (plan.offload && plan.offload->states > 0) {
    line += fmt::format(", states on host {}/8", plan.offload->states);
  }
  if (plan.sequence_parallel) line += ", sequence parallel";
  if (plan.mesh.size(Axis::data) > 1) {
    line += fmt::format(", zero {}, gradients {}", plan.zero_stage,
                        !plan.overlap_gradients   ? "auto"
                        : *plan.overlap_gradients ? "overlapped"
                                                  : "at the end");
  }
  return line;
}

std::string describe(const Space& space) {
  std::string out = fmt::format("{} plans on {} meshes", space.count, space.meshes.size());
  if (space.orders_left_out > 0) {
    out += fmt::format(" ({} more orders of axes lie on the network like a listed one)", space.orders_left_out);
  }
  out += ".\n";
  for (std::size_t i = 0; i < space.meshes.size(); ++i) {
    const MeshSpace& on = space.meshes[i];
    out += fmt::format("{}: plans {} to {}\n", mesh_text(on.mesh), space.first[i], space.first[i] + on.count() - 1);
    out += fmt::format("  microbatch sizes  {}\n", fmt::join(on.microbatch_sizes, ", "));
    if (on.stage_layers.front().size() > 1) {
      out += "  stage layers      ";
      for (std::size_t s = 0; s < on.stage_layers.size(); ++s) {
        out += fmt::format("{}{}", s == 0 ? "" : " | ", stages_text(on.stage_layers[s]));
      }
      out += "\n";
    }
    std::set<std::string_view> schedules;
    std::set<bool> sequence, overlap;
    std::set<std::uint32_t> zero;
    for (const RunChoice& r : on.runs) {
      schedules.insert(name_of(r.schedule));
      sequence.insert(r.sequence_parallel);
      zero.insert(r.zero_stage);
      overlap.insert(r.overlap_gradients);
    }
    const auto switch_text = [](const std::set<bool>& values) {
      return values.size() == 2 ? "off, on" : values.contains(true) ? "on" : "off";
    };
    if (on.mesh.size(Axis::pipeline) > 1) out += fmt::format("  schedules         {}\n", fmt::join(schedules, ", "));
    out += fmt::format("  sequence parallel {}\n", switch_text(sequence));
    out += fmt::format("  zero              {}\n", fmt::join(zero, ", "));
    out += fmt::format("  overlap gradients {}\n", switch_text(overlap));
    out += "  attention and recomputation  ";
    for (std::size_t k = 0; k < on.kernels.size(); ++k) {
      out += fmt::format("{}{} {}", k == 0 ? "" : " | ", name_of(on.kernels[k].attention),
                         name_of(on.kernels[k].recompute));
    }
    out += "\n";
  }
  return out;
}

}  // namespace orrery
