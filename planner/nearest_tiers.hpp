#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "core/plan/plan.hpp"
#include "core/program/lower/lower.hpp"
#include "core/record/report.hpp"
#include "sim/bound/bound.hpp"
#include "sim/cost/cost_model.hpp"

namespace orrery {

/// Where what a plan offloads lives: states, parameters, activations.
using Tiers = std::array<OffloadTier, 3>;

[[nodiscard]] inline Tiers tiers_of(const Plan& plan) {
  return {plan.states_tier, plan.parameters_tier, plan.activations_tier};
}
inline void set_tiers(Plan& plan, const Tiers& tiers) {
  plan.states_tier = tiers[0];
  plan.parameters_tier = tiers[1];
  plan.activations_tier = tiers[2];
}

/// Calls visit() with the plan on all tiers that it may have: all on the host first, then of what it offloads every
/// part on a disk.
template <class Visit>
void for_each_tiers(Plan& plan, Visit&& visit) {
  const std::array<bool, 3> offloads = {plan.offload_states != 0U, plan.offload_parameters != 0U,
                                        plan.offload_activations != 0U};
  for (unsigned on_disk = 0; on_disk < 8; ++on_disk) {
    Tiers tiers{};
    bool there = true;
    for (unsigned part = 0; part < tiers.size(); ++part) {
      if ((on_disk >> part & 1U) == 0) continue;
      there = there && offloads[part];
      tiers[part] = OffloadTier::disk;
    }
    if (!there) continue;
    set_tiers(plan, tiers);
    visit();
  }
}

/// The least `bound(plan)` over the tiers on which a plan may fit in its hosts, which hold `room`, as far as bounds say
/// so; none where there are no such tiers.  The plan is on the host, and so it is left.
///
/// No part is on a disk that need not be: that makes no bound less.
template <class Bound>
[[nodiscard]] std::optional<Picoseconds> least_on_tiers(Plan& plan, Bounder& bounder, std::uint64_t room, bool disks,
                                                        HostHeld what, Bound&& bound) {
  if (bounder.host_memory(plan, what) <= room) return bound(plan);
  if (!disks) return std::nullopt;
  std::optional<Picoseconds> least;
  std::vector<Tiers> fitting;
  for_each_tiers(plan, [&] {
    const Tiers here = tiers_of(plan);
    const auto within = [&](const Tiers& less) {
      return std::equal(less.begin(), less.end(), here.begin(),
                        [](OffloadTier a, OffloadTier b) { return a == OffloadTier::host || b == OffloadTier::disk; });
    };
    if (here == Tiers{} || std::any_of(fitting.begin(), fitting.end(), within)) return;
    if (bounder.host_memory(plan, what) > room) return;
    fitting.push_back(here);
    const Picoseconds step = bound(plan);
    least = least ? std::min(*least, step) : step;
  });
  set_tiers(plan, {});
  return least;
}

/// Gives a plan that fits in its devices the tiers on which it has the shortest step: the host where that holds it all,
/// else of the parts that are on a disk those with the least `step(run, program)` of all that fit.  `fits(run,
/// program)` says what fits, on every tier.  False where nothing does.  `program` is the plan's, all on the host.
/// Tiers that bounds show not to fit in hosts, which hold `room`, or to be slower, are not lowered.
///
/// Everything goes to a disk by way of the host, so that a part on the disk adds copies and what waits for them and
/// takes nothing away: where the host holds all, no plan with a disk has a shorter step (docs/planner.md).
template <class Fits, class Step>
[[nodiscard]] bool find_nearest_tiers(PlannedRun& run, Program& program, Bounder& bounder, std::uint64_t room,
                                      Fits&& fits, Step&& step) {
  if (fits(run, program)) return true;
  std::optional<Picoseconds> least;
  Tiers nearest{};
  Program of_nearest;
  for_each_tiers(run.plan, [&] {
    if (tiers_of(run.plan) == Tiers{} || bounder.host_memory(run.plan) > room) return;
    if (least && *least <= bounder.step_time(run.plan)) return;
    program = lower(run.model, run.workload, run.plan);
    if (!fits(run, program)) return;
    const Picoseconds time = step(run, program);
    if (least && *least <= time) return;
    least = time;
    nearest = tiers_of(run.plan);
    of_nearest = program;
  });
  set_tiers(run.plan, nearest);
  if (least) program = std::move(of_nearest);
  return least.has_value();
}

}  // namespace orrery
