#include "planner/fewest_recomputed.hpp"

#include <algorithm>

#include "core/program/lower/lower.hpp"
#include "sim/bound/recompute_counts.hpp"

namespace orrery {

namespace {

/// One recomputed layer more on each of these pipeline ranks; false where one has none left.
bool one_more_each(Plan& plan, const std::vector<std::uint32_t>& ranks) {
  const StageMap map = stage_map(plan);
  std::vector<std::uint32_t> counts = *plan.recompute_layers;
  for (const std::uint32_t rank : ranks) {
    // A rank that holds the same stages as one before it may have had its turn.
    bool turn = false;
    for (std::uint32_t chunk = 0; chunk < map.chunks; ++chunk) {
      const std::uint32_t s = map.stage(rank, chunk);
      turn = turn || counts[s] != (*plan.recompute_layers)[s];
    }
    if (!turn && !recompute_one_more(counts, *plan.stage_layers, map, rank)) return false;
  }
  plan.recompute_layers = std::move(counts);
  return true;
}

}  // namespace

bool FewestRecomputed::find(Plan& plan, Program& program, const ModelSpec& model, const Workload& workload,
                            std::uint64_t capacity, Bounder& bounder) {
  if (!bounder.recompute_fewest(plan, capacity, Bounder::Memory::closed_form)) return false;
  const bool exact = bounder.knows_memory(plan);
  if (!exact && !bounder.recompute_fewest(plan, capacity, Bounder::Memory::passes)) return false;
  for (;;) {
    program = lower(model, workload, plan);
    if (exact) return true;
    memory_.read(program);
    std::vector<std::uint32_t> full;
    for (std::uint32_t c = 0; c < program.classes.size(); ++c) {
      const StageMemory peak = memory_.peak(program, c);
      if (peak.peak > capacity) full.push_back(peak.stage);
    }
    if (full.empty()) return true;
    if (!one_more_each(plan, full)) return false;
  }
}

bool FewestRecomputed::raise(PlannedRun& run, Program& program, const Calibration& calibration,
                             const MemoryRules& rules) {
  for (;;) {
    program = lower(run.model, run.workload, run.plan);
    const std::vector<std::uint32_t> full = stages_that_do_not_fit(run, program, calibration, rules);
    if (full.empty()) return true;
    if (!one_more_each(run.plan, full)) return false;
  }
}

}  // namespace orrery
