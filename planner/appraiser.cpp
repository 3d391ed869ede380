#include "planner/appraiser.hpp"

#include <algorithm>
#include <cmath>

#include "core/base/diagnostics.hpp"
#include "core/plan/plan_check.hpp"
#include "core/plan/recompute_modules.hpp"
#include "core/plan/schedule_rules.hpp"
#include "core/program/lower/lower.hpp"
#include "core/record/tier_memory.hpp"
#include "planner/complete.hpp"

namespace orrery {
namespace {

/// `counts[r]` layers recomputed on pipeline rank r: of its stages one by one, the one with the fewest first, of equals
/// the lowest.
std::vector<std::uint32_t> spread(const Plan& plan, const StageMap& map, const std::vector<std::uint32_t>& counts) {
  const std::vector<std::uint32_t>& layers = *plan.stage_layers;
  std::vector<std::uint32_t> out(layers.size(), 0);
  for (std::uint32_t r = 0; r < map.ranks; ++r) {
    std::uint32_t has = 0;
    for (std::uint32_t c = 0; c < map.chunks; ++c) has += out[map.stage(r, c)];
    for (; has < counts[r]; ++has) {
      std::optional<std::uint32_t> next;
      for (std::uint32_t c = 0; c < map.chunks; ++c) {
        const std::uint32_t s = map.stage(r, c);
        if (out[s] < layers[s] && (!next || out[s] < out[*next] || (out[s] == out[*next] && s < *next))) next = s;
      }
      if (!next) break;
      ++out[*next];
    }
  }
  return out;
}

/// None is what a plan without recomputation says, and all what one without counts says.
void tidy_counts(Plan& plan, const ModelSpec& model) {
  if (!plan.recompute_layers) return;
  if (std::all_of(plan.recompute_layers->begin(), plan.recompute_layers->end(), [](auto n) { return n == 0; })) {
    plan.recompute_layers.reset();
    set_recompute(plan, Recompute::none);
  } else if (model.prediction_modules == 0 && plan.recompute_layers == plan.stage_layers) {
    plan.recompute_layers.reset();
  }
}

}  // namespace

double part_that_fits(const Appraisal& none, const Appraisal& all, std::uint64_t room) {
  if (none.peak <= room) return 0.0;
  const auto short_of = static_cast<double>(none.peak - room);
  const auto saved = static_cast<double>(none.peak - std::min(all.peak, none.peak - 1));
  return std::min(1.0, short_of / saved);
}

Plan with_least(const Candidate& c) {
  Plan plan = c.plan;
  switch (c.raised) {
    case Raised::nothing: break;
    case Raised::recomputed_layers:
      set_recompute(plan, Recompute::none);
      plan.recompute_layers.reset();
      break;
    case Raised::offloaded_activations: plan.offload_activations = 0; break;
    case Raised::offloaded_states: plan.offload_states = plan.offload_parameters; break;
  }
  return plan;
}

Candidate with_most(const Candidate& c) {
  Candidate out{c.plan, Raised::nothing};
  switch (c.raised) {
    case Raised::nothing: break;
    case Raised::recomputed_layers: out.plan.recompute_layers.reset(); break;
    case Raised::offloaded_activations: out.plan.offload_activations = 8; break;
    case Raised::offloaded_states: out.plan.offload_states = 8; break;
  }
  return out;
}

Appraiser::Appraiser(const ModelSpec& model, const Workload& workload, const ClusterSpec& cluster,
                     const Calibration& calibration, void (*close)(PlannedRun&))
    : calibration_(calibration), run_{model, workload, cluster, {}, {}, {}}, close_(close) {}

void Appraiser::complete_plan(Plan& plan) {
  if (close_ != nullptr) {
    run_.plan = plan;
    close_(run_);
    plan = run_.plan;
  }
  complete(plan, run_.model, run_.workload);
}

const PlannedRun& Appraiser::run(const Plan& plan) {
  run_.plan = plan;
  return run_;
}

CostModel Appraiser::costs(const Plan& plan) const {
  return CostModel(*run_.cluster, calibration_, plan.mesh, plan.placement, plan.collective_algorithm);
}

bool Appraiser::is_valid(Plan& plan) {
  Diagnostics wrong;
  check(plan, run_.model, run_.workload, &*run_.cluster, wrong);
  if (!wrong.empty()) return false;
  complete_plan(plan);
  check(plan, run_.model, run_.workload, &*run_.cluster, wrong);
  return wrong.empty();
}

std::uint64_t Appraiser::lower_and_measure(const Plan& plan) {
  if (lowered_ == plan) return *std::max_element(held_.begin(), held_.end());
  lowered_.reset();
  program_ = lower(run_.model, run_.workload, plan, {.orders = &orders_});
  memory_.read(program_);
  held_.assign(plan.mesh.size(Axis::pipeline), 0);
  for (std::uint32_t c = 0; c < program_.classes.size(); ++c) {
    const StageMemory peak = memory_.peak(program_, c);
    held_[peak.stage] = std::max(held_[peak.stage], peak.peak);
  }
  lowered_ = plan;
  return *std::max_element(held_.begin(), held_.end());
}

Picoseconds Appraiser::price(const Plan& plan) { return picoseconds(estimator_.step_time(program_, costs(plan))); }

bool Appraiser::fits(const Plan& plan, std::uint64_t room) {
  if (lower_and_measure(plan) > room) return false;
  if (!offloads(plan)) return true;
  // Where the most that any rank has there fits once for each of a node, nodes need not be looked at.
  std::uint64_t most = 0;
  bool on_disk = false;
  for (const TierBytes& peaks : tier_peaks(program_)) {
    most = std::max(most, peaks[index(Tier::host)]);
    on_disk = on_disk || peaks[index(Tier::disk)] > 0;
  }
  const ClusterSpec& cluster = *run_.cluster;
  if (!on_disk && static_cast<double>(most) * cluster.devices_per_node <= cluster.host_memory.base()) return true;
  Report tiers;
  tiers.fits = true;
  add_tier_memory(tiers, run(plan), program_);
  return tiers.fits;
}

bool Appraiser::raise_recomputed(Plan& plan, std::uint64_t room) {
  const StageMap map = stage_map(plan);
  const std::vector<std::uint32_t>& layers = *plan.stage_layers;
  if (plan.recompute == Recompute::none) set_recompute(plan, Recompute::full);
  // Where pipes run both ways, a rank and its mirror hold the same stages: one count for both.
  const std::uint32_t counted = map.two_way() ? (map.ranks + 1) / 2 : map.ranks;
  std::vector<std::uint32_t> low(map.ranks, 0), high(map.ranks, 0);
  for (std::uint32_t r = 0; r < counted; ++r) {
    for (std::uint32_t c = 0; c < map.chunks; ++c) high[r] += layers[map.stage(r, c)];
  }
  const auto held_with = [&](const std::vector<std::uint32_t>& counts) {
    plan.recompute_layers = spread(plan, map, counts);
    lower_and_measure(plan);
    std::vector<std::uint64_t> held = held_;
    for (std::uint32_t r = counted; r < map.ranks; ++r) {
      const std::uint32_t mirror = map.ranks - 1 - r;
      held[mirror] = std::max(held[mirror], held[r]);
      held[r] = 0;
    }
    return held;
  };
  std::vector<std::uint64_t> most = held_with(low), least = held_with(high);
  if (*std::max_element(least.begin(), least.end()) > room) {
    // A stage whose layers are all recomputed but one may hold less: that one's activations are made when they are
    // used.
    for (std::uint32_t r = 0; r < counted; ++r) high[r] -= least[r] > room && high[r] > 1 ? 1 : 0;
    least = held_with(high);
    if (*std::max_element(least.begin(), least.end()) > room) return false;
  }
  // Each rank's memory falls with its count, nearly in proportion: guess, look, and close in from both sides.
  for (;;) {
    std::vector<std::uint32_t> guess = high;
    bool open = false;
    for (std::uint32_t r = 0; r < counted; ++r) {
      if (most[r] <= room) high[r] = guess[r] = low[r];
      if (high[r] <= low[r] + 1) continue;
      open = true;
      const double share =
          static_cast<double>(most[r] - room) / static_cast<double>(most[r] - std::min(most[r] - 1, least[r]));
      const auto near = low[r] + static_cast<std::uint32_t>(std::ceil(share * (high[r] - low[r])));
      guess[r] = std::clamp(near, low[r] + 1, high[r] - 1);
    }
    if (!open) break;
    const std::vector<std::uint64_t> held = held_with(guess);
    for (std::uint32_t r = 0; r < counted; ++r) {
      if (guess[r] == high[r]) continue;
      (held[r] <= room ? high : low)[r] = guess[r];
      (held[r] <= room ? least : most)[r] = held[r];
    }
  }
  plan.recompute_layers = spread(plan, map, high);
  tidy_counts(plan, run_.model);
  return fits(plan, room);
}

bool Appraiser::raise_eighths(Plan& plan, std::optional<std::uint32_t> Plan::*eighths, std::uint64_t room) {
  plan.states_tier = plan.parameters_tier = plan.activations_tier = OffloadTier::host;
  const auto fits_device = [&](std::uint32_t e) {
    plan.*eighths = e;
    Diagnostics wrong;
    check(plan, run_.model, run_.workload, &*run_.cluster, wrong);
    return wrong.empty() && lower_and_measure(plan) <= room;
  };
  if (!fits_device(8)) return false;
  // Below `low` it does not fit on the device, with `high` it does; hosts hold more with every eighth.
  std::uint32_t low = eighths == &Plan::offload_states ? *plan.offload_parameters : 0, high = 8;
  while (high > low + 1) {
    const std::uint32_t middle = (low + high) / 2;
    (fits_device(middle) ? high : low) = middle;
  }
  plan.*eighths = high;
  return find_tiers(plan, room);
}

bool Appraiser::find_tiers(Plan& plan, std::uint64_t room) {
  plan.states_tier = plan.parameters_tier = plan.activations_tier = OffloadTier::host;
  if (fits(plan, room)) return true;
  if (!run_.cluster->disk || !offloads(plan)) return false;
  // Everything goes to a disk by way of the host, so what need not be there is not.
  std::optional<Picoseconds> quickest;
  Plan best = plan;
  for (unsigned on_disk = 1; on_disk < 8; ++on_disk) {
    const auto tier = [&](unsigned part, const std::optional<std::uint32_t>& held) {
      return (on_disk >> part & 1U) != 0 && held != 0U ? OffloadTier::disk : OffloadTier::host;
    };
    Plan other = plan;
    other.states_tier = tier(0, plan.offload_states);
    other.parameters_tier = tier(1, plan.offload_parameters);
    other.activations_tier = tier(2, plan.offload_activations);
    if (!fits(other, room)) continue;
    const Picoseconds step = price(other);
    if (quickest && *quickest <= step) continue;
    quickest = step;
    best = other;
  }
  if (!quickest) return false;
  plan = best;
  return fits(plan, room);
}

Appraisal Appraiser::least(const Candidate& c, std::uint64_t room) {
  Appraisal out;
  out.plan = with_least(c);
  complete_plan(out.plan);
  out.peak = lower_and_measure(out.plan);
  out.step = price(out.plan);
  out.fits = out.peak <= room;
  if (!out.fits || !offloads(out.plan)) return out;
  const Plan before = out.plan;
  out.fits = find_tiers(out.plan, room);
  if (out.fits && !(out.plan == before)) {
    out.peak = lower_and_measure(out.plan);
    out.step = price(out.plan);
  }
  return out;
}

Appraisal Appraiser::appraise(const Candidate& c, std::uint64_t room) {
  Appraisal out = least(c, room);
  if (out.fits || c.raised == Raised::nothing) return out;
  switch (c.raised) {
    case Raised::nothing: break;
    case Raised::recomputed_layers: {
      Plan plan = c.plan;
      complete_plan(plan);
      if (raise_recomputed(plan, room)) out.plan = plan, out.fits = true;
      break;
    }
    case Raised::offloaded_activations: out.fits = raise_eighths(out.plan, &Plan::offload_activations, room); break;
    case Raised::offloaded_states: out.fits = raise_eighths(out.plan, &Plan::offload_states, room); break;
  }
  if (!out.fits) return out;
  if (offloads(out.plan) && c.raised == Raised::recomputed_layers) out.fits = find_tiers(out.plan, room);
  out.peak = lower_and_measure(out.plan);
  out.step = price(out.plan);
  return out;
}

bool Appraiser::raise_by(std::uint32_t more, Appraisal& a, const Candidate& c, std::uint32_t stage,
                         std::uint64_t room) {
  Plan& plan = a.plan;
  if (c.raised == Raised::recomputed_layers) {
    const StageMap map = stage_map(plan);
    std::vector<std::uint32_t> counts(map.ranks, 0), most(map.ranks, 0);
    for (std::uint32_t r = 0; r < map.ranks; ++r) {
      for (std::uint32_t chunk = 0; chunk < map.chunks; ++chunk) {
        const std::uint32_t s = map.stage(r, chunk);
        most[r] += (*plan.stage_layers)[s];
        if (plan.recompute == Recompute::none) continue;
        counts[r] += plan.recompute_layers ? (*plan.recompute_layers)[s] : (*plan.stage_layers)[s];
      }
    }
    if (counts[stage] == most[stage]) return false;
    counts[stage] = std::min(most[stage], counts[stage] + more);
    plan.recompute = c.plan.recompute == Recompute::none ? Recompute::full : c.plan.recompute;
    plan.recompute_layers = spread(plan, map, counts);
    tidy_counts(plan, run_.model);
  } else {
    std::optional<std::uint32_t>& eighths =
        c.raised == Raised::offloaded_states ? plan.offload_states : plan.offload_activations;
    if (c.raised == Raised::nothing || *eighths == 8) return false;
    ++*eighths;
    Diagnostics wrong;
    check(plan, run_.model, run_.workload, &*run_.cluster, wrong);
    if (!wrong.empty()) return false;
  }
  a.fits = find_tiers(plan, room);
  a.peak = lower_and_measure(plan);
  a.step = price(plan);
  return a.fits;
}

MemoryVerdict Appraiser::processes(const Plan& plan, const MemoryRules& rules) {
  lower_and_measure(plan);
  return memory_verdict(run(plan), program_, calibration_, rules);
}

}  // namespace orrery
