#include "core/program/lower/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/program/lower/passes.hpp"
#include "core/program/lower/tensor_1d.hpp"

namespace orrery::lowering {

Schedule schedule_of(ScheduleName name) {
  switch (name) {
    case ScheduleName::gpipe: return schedule_gpipe;
    case ScheduleName::one_f_one_b: return schedule_1f1b;
  }
  return nullptr;
}

namespace {

std::string before(const State& s) {
  if (s.stages.size() != s.pipeline) return "the stages are not placed";
  for (const Stage& stage : s.stages) {
    if (stage.chunks.empty()) return fmt::format("stage {} holds nothing", stage.number);
    if (!stage.step.empty()) return fmt::format("stage {} already does something", stage.number);
  }
  return {};
}

void run(State& s) {
  build_model(s);
  for (Stage& stage : s.stages) {
    stage.step = schedule_of(s.plan.schedule)(stage.number, s.pipeline, s.program.microbatches);
  }
}

/// Each chunk runs every microbatch forward once and later backward once, both
/// in ascending order, and the blocks hold compute alone.
std::string after(const State& s) {
  for (const Stage& stage : s.stages) {
    std::vector<std::uint32_t> forward(stage.own_chunks), backward(stage.own_chunks);
    for (const Action& a : stage.step) {
      if (a.phase != Phase::forward && a.phase != Phase::backward) return "a schedule has more than compute";
      if (a.chunk >= stage.own_chunks) return fmt::format("stage {} has no chunk {}", stage.number, a.chunk);
      std::uint32_t& next = a.phase == Phase::forward ? forward[a.chunk] : backward[a.chunk];
      if (a.microbatch != next++) return fmt::format("stage {} leaves the order of microbatches", stage.number);
      if (backward[a.chunk] > forward[a.chunk]) {
        return fmt::format("stage {} runs microbatch {} backward before forward", stage.number, a.microbatch);
      }
    }
    for (std::uint32_t c = 0; c < stage.own_chunks; ++c) {
      if (forward[c] != s.program.microbatches || backward[c] != s.program.microbatches) {
        return fmt::format("stage {} does not run every microbatch", stage.number);
      }
    }
  }
  for (const Draft& d : s.drafts) {
    if (!std::all_of(d.block.ops.begin(), d.block.ops.end(),
                     [](const Op& op) { return std::holds_alternative<Compute>(op.action); })) {
      return d.block.name + " has more than compute";
    }
  }
  return {};
}

}  // namespace

LoweringPass schedule() { return {"schedule", before, run, after}; }

}  // namespace orrery::lowering
