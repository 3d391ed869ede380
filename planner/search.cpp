#include "planner/search.hpp"

#include <tbb/enumerable_thread_specific.h>
#include <tbb/global_control.h>
#include <tbb/info.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>

#include "core/base/diagnostics.hpp"
#include "core/program/lower/lower.hpp"
#include "planner/candidates.hpp"
#include "planner/certificate.hpp"
#include "planner/progress_meter.hpp"
#include "sim/des/simulate.hpp"
#include "sim/estimate/estimate.hpp"

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

/// Plans estimated side by side between two looks at the K-th best.  Fixed, so
/// that what is evaluated does not depend on the number of threads.
constexpr std::size_t batch_size = 16;

struct Estimated {
  Rating rating;
  std::uint64_t number = 0;
  Picoseconds step = 0;
  friend auto operator<=>(const Estimated&, const Estimated&) = default;
};

class Search {
 public:
  Search(const Space& space, const ModelSpec& model, const Workload& workload, const ClusterSpec& cluster,
         const Calibration& calibration, const SearchOptions& options)
      : space_(space),
        model_(model),
        workload_(workload),
        cluster_(cluster),
        calibration_(calibration),
        options_(options),
        meter_(options) {}

  SearchResult run() {
    ORRERY_ASSERT(options_.top >= 1, options_.top);
    Candidates candidates = find_candidates(space_, model_, workload_, cluster_, calibration_, options_, meter_);
    SearchResult result;
    result.space = space_.count;
    result.infeasible = candidates.infeasible;
    const std::size_t end = evaluate(candidates.list);
    result.evaluated = evaluated_.size();
    result.complete = candidates.looked_at == space_.count && !stopped_;
    if (result.infeasible > 0) result.pruned.push_back({"memory", result.infeasible});
    if (result.complete && end < candidates.list.size()) {
      result.pruned.push_back({"bound", candidates.list.size() - end});
    }
    report(result);
    certify(result, candidates.list, end);
    result.wall_s = meter_.elapsed();
    return result;
  }

 private:
  /// Position in the list behind the last candidate that may still be among the best.
  std::size_t open_end(const std::vector<Candidate>& list, std::size_t at) const {
    if (!options_.prune || best_.size() < options_.top) return list.size();
    const auto exceeds = [](const Rating& worst, const Candidate& c) { return worst < c.bound; };
    return static_cast<std::size_t>(
        std::upper_bound(list.begin() + static_cast<std::ptrdiff_t>(at), list.end(), best_.back().rating, exceeds) -
        list.begin());
  }

  /// Estimates candidates in ascending order of their bounds until the rest
  /// cannot be among the best.  Returns how many.
  std::size_t evaluate(const std::vector<Candidate>& list) {
    // How many there will be is known once there are enough to compare with.
    meter_.phase("estimate", std::min(list.size(), batch_size));
    std::size_t at = 0;
    std::vector<Estimated> batch;
    for (std::size_t end = open_end(list, at); at < end; end = open_end(list, at)) {
      if (meter_.cancelled() && !best_.empty()) {
        stopped_ = true;
        break;
      }
      batch.assign(std::min(batch_size, end - at), {});
      tbb::parallel_for(std::size_t{0}, batch.size(), [&](std::size_t i) { batch[i] = estimate_one(list[at + i]); });
      at += batch.size();
      for (const Estimated& e : batch) {
        evaluated_.push_back(e);
        best_.insert(std::upper_bound(best_.begin(), best_.end(), e), e);
        if (best_.size() > options_.top) best_.pop_back();
        meter_.best(Seconds::of(static_cast<double>(e.step) * 1e-12));
      }
      meter_.decided(batch.size(), open_end(list, at) - at);
    }
    return at;
  }

  CostModel costs_of(const Plan& plan) const {
    return CostModel(cluster_, calibration_, plan.mesh, plan.placement, plan.collective_algorithm);
  }

  Estimated estimate_one(const Candidate& candidate) {
    const Plan plan = plan_at(space_, candidate.number);
    const Program program = lower(model_, workload_, plan);
    const Picoseconds step = picoseconds(estimators_.local().step_time(program, costs_of(plan)));
    ORRERY_ASSERT(step >= candidate.step_bound, candidate.number, step, candidate.step_bound);
    Rating exact = rating(options_.objective, step, 0);
    // Memory is known exactly without the Program.
    if (options_.objective == Objective::memory) exact.first = candidate.bound.first;
    return {exact, candidate.number, step};
  }

  /// Reports of the best, and their simulations.
  void report(SearchResult& result) {
    result.plans.resize(best_.size());
    meter_.phase("simulate", best_.size());
    tbb::parallel_for(std::size_t{0}, best_.size(), [&](std::size_t i) {
      FoundPlan& found = result.plans[i];
      found.number = best_[i].number;
      found.plan = plan_at(space_, found.number);
      const PlannedRun run{model_, workload_, cluster_, found.plan, {}, {}};
      const Program program = lower(model_, workload_, found.plan);
      const CostModel costs = costs_of(found.plan);
      found.report = estimators_.local().estimate(run, program, costs);
      ORRERY_ASSERT(found.report.fits, found.number, found.report.peak_memory_bytes);
      if (options_.simulate && !meter_.cancelled()) {
        SimulateOptions plain;
        plain.trace = SimulateOptions::Ranks::none;
        plain.progress.cancelled = options_.cancel;
        try {
          found.simulated = simulate(run, program, costs, plain).report;
        } catch (const SimulationCancelled&) {
          // The plan stands with its estimate.
        }
      }
      meter_.done(1);
    });
  }

  void certify(SearchResult& result, const std::vector<Candidate>& list, std::size_t end) const {
    CertificateInput input;
    input.objective = options_.objective;
    input.capacity = cluster_.device.memory;
    if (end < list.size()) input.least_bound_left = Seconds::of(static_cast<double>(list[end].step_bound) * 1e-12);
    // Plans that a simulation might still find faster than the best simulated one:
    // those estimated but not simulated, and those only bounded.
    std::optional<Seconds> best;
    for (const FoundPlan& f : result.plans) {
      if (f.simulated && (!best || f.simulated->step_time < *best)) best = f.simulated->step_time;
    }
    input.best_simulated = best;
    if (best) {
      const Picoseconds limit = picoseconds(*best);
      for (std::size_t i = end; i < list.size(); ++i) input.below_simulated += list[i].step_bound < limit ? 1 : 0;
      for (const Estimated& e : evaluated_) {
        const bool simulated = std::any_of(result.plans.begin(), result.plans.end(),
                                           [&](const FoundPlan& f) { return f.number == e.number && f.simulated; });
        input.below_simulated += !simulated && e.step < limit ? 1 : 0;
      }
    }
    write_certificate(result, input);
  }

  const Space& space_;
  const ModelSpec& model_;
  const Workload& workload_;
  const ClusterSpec& cluster_;
  const Calibration& calibration_;
  const SearchOptions& options_;
  ProgressMeter meter_;
  tbb::enumerable_thread_specific<Estimator> estimators_;
  std::vector<Estimated> evaluated_;
  std::vector<Estimated> best_;  ///< ascending, at most `top`
  bool stopped_ = false;
};

}  // namespace

SearchResult search(const Space& space, const ModelSpec& model, const Workload& workload, const ClusterSpec& cluster,
                    const Calibration& calibration, const SearchOptions& options) {
  Search run(space, model, workload, cluster, calibration, options);
  SearchResult result;
  // More threads than cores must be asked for, so that a test can.
  const auto wanted =
      std::max<std::size_t>(options.threads, static_cast<std::size_t>(tbb::info::default_concurrency()));
  const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, wanted);
  tbb::task_arena arena(options.threads == 0 ? tbb::task_arena::automatic : static_cast<int>(options.threads));
  arena.execute([&] { result = run.run(); });
  return result;
}

SearchResult search(const ModelSpec& model, const Workload& workload, const ClusterSpec& cluster,
                    const Calibration& calibration, const SearchOptions& options) {
  return search(make_space(model, workload, cluster), model, workload, cluster, calibration, options);
}

}  // namespace orrery
