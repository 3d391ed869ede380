#include "planner/fewest_offloaded.hpp"

#include <algorithm>

#include "core/program/lower/lower.hpp"
#include "core/record/tier_memory.hpp"

namespace orrery {

bool offloads(const Plan& plan) {
  return plan.offload_states != 0U || plan.offload_parameters != 0U || plan.offload_activations != 0U;
}

std::uint64_t FewestOffloaded::peak(const Program& program) {
  memory_.read(program);
  std::uint64_t most = 0;
  for (std::uint32_t c = 0; c < program.classes.size(); ++c) most = std::max(most, memory_.peak(program, c).peak);
  return most;
}

bool FewestOffloaded::fits(const PlannedRun& run, const Program& program, std::uint64_t capacity) {
  Report tiers;
  tiers.fits = peak(program) <= capacity;
  if (!tiers.fits) return false;
  // Where the most that any rank has there fits once for each of a node, nodes need not be looked at.
  std::uint64_t most = 0;
  bool on_disk = false;
  for (const TierBytes& peaks : tier_peaks(program)) {
    most = std::max(most, peaks[index(Tier::host)]);
    on_disk = on_disk || peaks[index(Tier::disk)] > 0;
  }
  if (!on_disk && static_cast<double>(most) * run.cluster->devices_per_node <= run.cluster->host_memory.base())
    return true;
  add_tier_memory(tiers, run, program);
  return tiers.fits;
}

bool FewestOffloaded::find(PlannedRun& run, Program& program, std::uint64_t capacity, Bounder& bounder) {
  if (!bounder.offload_fewest(run.plan, capacity, Bounder::Memory::closed_form)) return false;
  if (!bounder.offload_fewest(run.plan, capacity, Bounder::Memory::passes)) return false;
  for (; *run.plan.offload_activations <= 8; ++*run.plan.offload_activations) {
    program = lower(run.model, run.workload, run.plan);
    if (peak(program) <= capacity) return true;
  }
  return false;
}

}  // namespace orrery
