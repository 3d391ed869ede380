#include "planner/search.hpp"

#include <fmt/format.h>
#include <tbb/global_control.h>
#include <tbb/info.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <set>
#include <utility>

#include "core/base/diagnostics.hpp"
#include "core/program/lower/lower.hpp"
#include "planner/descent.hpp"
#include "planner/exploration.hpp"
#include "planner/plan_key.hpp"
#include "sim/des/simulate.hpp"

namespace orrery {

std::string_view name_of(Objective o) {
  switch (o) {
    case Objective::step_time: return "step-time";
    case Objective::memory: return "memory";
    case Objective::cost: return "cost";
  }
  return "";
}

std::optional<Objective> objective_named(std::string_view name) {
  for (const Objective o : {Objective::step_time, Objective::memory, Objective::cost}) {
    if (name_of(o) == name) return o;
  }
  return std::nullopt;
}

namespace {

/// A plan in full.
struct Described {
  FoundPlan found;
  PlannedRun run;
  Program program;
};

Described described(PricedPlans& plans, const Appraisal& a) {
  Described out;
  Appraiser& appraiser = plans.appraiser();
  out.found.plan = a.plan;
  out.found.id = std::hash<std::string>{}(key_of(appraiser.run(a.plan), plans.options.dimensions));
  out.run = {plans.model, plans.workload, plans.cluster, a.plan, {}, {}};
  out.program = lower(plans.model, plans.workload, a.plan);
  out.found.report = appraiser.estimator().estimate(out.run, out.program, appraiser.costs(a.plan));
  judge_memory(out.found.report, out.run, out.program, plans.calibration);
  return out;
}

/// The best plans whose processes fit, as many as are wanted.
std::vector<Described> best_plans(PricedPlans& plans, Standing& standing, const ProgressMeter& meter) {
  std::vector<Described> out;
  // Orders of axes that lie alike on the network are told once.
  std::set<std::pair<Rating, std::string>> told;
  const auto is_new = [&](const Seen& s) {
    Plan plan = s.what.plan;
    std::sort(plan.mesh.axes.begin(), plan.mesh.axes.end(),
              [](const auto& x, const auto& y) { return x.axis < y.axis; });
    return told.emplace(s.rating, key_of(plans.appraiser().run(plan), plans.options.dimensions)).second;
  };
  const Seen& best = standing.best();
  if (standing.has_plan() && is_new(best)) out.push_back(described(plans, best.what));
  for (const Seen& s : plans.ranked()) {
    if (out.size() >= plans.options.top || meter.cancelled()) break;
    if (s.rating < best.rating || !is_new(s) || !standing.judged(s.what.plan).fits) continue;
    out.push_back(described(plans, s.what));
  }
  return out;
}

void simulate(PricedPlans& plans, const Described& of, FoundPlan& out) {
  SimulateOptions plain;
  plain.trace = SimulateOptions::Ranks::none;
  plain.progress.cancelled = plans.options.cancel;
  try {
    out.simulated = simulate(of.run, of.program, plans.appraiser().costs(out.plan), plain).report;
    judge_alike(*out.simulated, out.report);
  } catch (const SimulationCancelled&) {
    // The plan stands with its estimate.
  }
}

std::string claim_of(const SearchResult& result, const Workload& workload, const ClusterSpec& cluster) {
  if (result.complete && result.shapes == 0) {
    return fmt::format(
        "No plan was priced: within what is searched, nothing splits a batch of {} over {} devices. Ranks of data and "
        "experts together divide the batch, and tensor ranks divide the heads.",
        workload.global_batch, cluster.devices());
  }
  if (!result.complete) return fmt::format("Interrupted: the best of {} estimates.", result.estimated);
  if (result.plans.empty()) {
    return fmt::format("None of {} coarse plans fits, whatever was done to make them fit; {} plans were estimated.",
                       result.shapes, result.estimated);
  }
  return fmt::format(
      "The best of {} coarse plans ({} looked at closely) and what {} estimates made of them; none of {} changes "
      "of it is better.",
      result.shapes, result.looked_at, result.estimated, result.changes);
}

SearchResult run(const ModelSpec& model, const Workload& workload, const ClusterSpec& cluster,
                 const Calibration& calibration, const SearchOptions& options) {
  ORRERY_ASSERT(options.top >= 1, options.top);
  ProgressMeter meter(options);
  PricedPlans plans(model, workload, cluster, calibration, options);
  Standing standing(plans, [&](const Seen& best) {
    meter.best(Seconds::of(static_cast<double>(best.what.step) * 1e-12));
    if (options.found) options.found(described(plans, best.what).found);
  });
  Exploration exploration(plans, standing, meter);
  exploration.run();
  Descent descent(plans, standing, meter);
  descent.squeeze();
  descent.run();

  SearchResult result;
  result.complete = !meter.cancelled();
  result.shapes = exploration.shapes();
  result.looked_at = exploration.looked_at();
  result.changes = descent.changes();
  result.estimated = plans.count() + standing.count();
  const std::vector<Described> found = best_plans(plans, standing, meter);
  if (const std::optional<Appraisal> rejected = standing.rejected()) {
    result.rejected = described(plans, *rejected).found;
  }
  result.plans.resize(found.size());
  meter.phase("simulate", found.size());
  side_by_side(found.size(), [&](std::size_t i) {
    result.plans[i] = found[i].found;
    if (options.simulate && !meter.cancelled()) simulate(plans, found[i], result.plans[i]);
    meter.done(1);
  });
  result.claim = claim_of(result, workload, cluster);
  result.wall_s = meter.elapsed();
  return result;
}

}  // namespace

SearchResult search(const ModelSpec& model, const Workload& workload, const ClusterSpec& cluster,
                    const Calibration& calibration, const SearchOptions& options) {
  SearchResult result;
  // More threads than cores must be asked for, so that a test can.
  const auto wanted =
      std::max<std::size_t>(options.threads, static_cast<std::size_t>(tbb::info::default_concurrency()));
  const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, wanted);
  tbb::task_arena arena(options.threads == 0 ? tbb::task_arena::automatic : static_cast<int>(options.threads));
  arena.execute([&] { result = run(model, workload, cluster, calibration, options); });
  return result;
}

}  // namespace orrery
