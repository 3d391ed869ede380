#include "planner/fewest_recomputed.hpp"

#include <algorithm>

#include "core/program/lower/lower.hpp"
#include "sim/bound/recompute_counts.hpp"

namespace orrery {

bool FewestRecomputed::find(Plan& plan, Program& program, const ModelSpec& model, const Workload& workload,
                            std::uint64_t capacity, Bounder& bounder) {
  if (!bounder.recompute_fewest(plan, capacity, Bounder::Memory::closed_form)) return false;
  const bool exact = bounder.knows_memory(plan);
  if (!exact && !bounder.recompute_fewest(plan, capacity, Bounder::Memory::passes)) return false;
  const StageMap map = stage_map(plan);
  for (;;) {
    program = lower(model, workload, plan);
    if (exact) return true;
    memory_.read(program);
    bool fits = true;
    std::vector<std::uint32_t> counts = *plan.recompute_layers;
    for (std::uint32_t c = 0; c < program.classes.size(); ++c) {
      const StageMemory peak = memory_.peak(program, c);
      if (peak.peak <= capacity) continue;
      fits = false;
      // A rank that holds the same stages as one before it may have had its turn.
      const auto raised = [&](std::uint32_t chunk) {
        const std::uint32_t s = map.stage(peak.stage, chunk);
        return counts[s] != (*plan.recompute_layers)[s];
      };
      bool turn = false;
      for (std::uint32_t chunk = 0; chunk < map.chunks; ++chunk) turn = turn || raised(chunk);
      if (!turn && !recompute_one_more(counts, *plan.stage_layers, map, peak.stage)) return false;
    }
    if (fits) return true;
    plan.recompute_layers = std::move(counts);
  }
}

}  // namespace orrery
