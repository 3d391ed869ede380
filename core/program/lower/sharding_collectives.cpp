#include <fmt/format.h>

#include <algorithm>

#include "core/program/lower/passes.hpp"

namespace orrery::lowering {
namespace {

std::size_t collectives(const Draft& d) {
  std::size_t n = 0;
  for (const Op& op : d.block.ops) n += std::holds_alternative<Collective>(op.action) ? 1U : 0U;
  return n;
}

std::string before(const State& s) {
  if (s.stages.empty() || s.stages.front().step.empty()) return "there is no schedule";
  for (const Draft& d : s.drafts) {
    if (collectives(d) != 0) return d.block.name + " already communicates";
    for (const Seam& seam : d.seams) {
      if (group_size(s.program[seam.group], s.program.mesh) == 1) return d.block.name + " changes layouts on one rank";
    }
  }
  return {};
}

void run(State& s) {
  for (Draft& d : s.drafts) {
    if (d.seams.empty()) continue;
    BlockBuilder b(s, d);
    auto seam = d.seams.begin();
    for (std::uint32_t i = 0; i <= d.block.ops.size(); ++i) {
      for (; seam != d.seams.end() && seam->op == i; ++seam) {
        for (const Lane lane : seam->tails) b.after_tail(lane);
        b.collective(seam->kind, seam->group, {seam->operands, seam->count}, seam->reduction, seam->root, seam->width);
      }
      if (i < d.block.ops.size()) b.copy_op(d, i);
    }
    d = std::move(b.draft());
  }
}

/// Axes along which ranks work on one microbatch, or on each other's, together.
bool joins(Axis axis) {
  return axis == Axis::context || axis == Axis::expert || axis == Axis::tensor || axis == Axis::depth ||
         axis == Axis::row || axis == Axis::column;
}

/// No seam is left, and every collective so far joins ranks that share a microbatch.
std::string after(const State& s) {
  for (const Draft& d : s.drafts) {
    if (!d.seams.empty()) return fmt::format("{} has {} seams left", d.block.name, d.seams.size());
    for (const Op& op : d.block.ops) {
      const auto* collective = std::get_if<Collective>(&op.action);
      if (collective == nullptr) continue;
      const AxisList& axes = s.program[collective->group].axes;
      if (!std::all_of(axes.begin(), axes.end(), joins)) {
        return d.block.name + " communicates outside its tensor, context and expert groups";
      }
      if (group_size(s.program[collective->group], s.program.mesh) == 1) return d.block.name + " communicates alone";
    }
  }
  return {};
}

}  // namespace

LoweringPass sharding_collectives() { return {"sharding_collectives", before, run, after}; }

}  // namespace orrery::lowering
