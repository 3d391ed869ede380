#include "planner/search.hpp"

#include <tbb/enumerable_thread_specific.h>
#include <tbb/global_control.h>
#include <tbb/info.h>
#include <tbb/parallel_for.h>
#include <tbb/parallel_for_each.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "core/base/diagnostics.hpp"
#include "core/program/lower/lower.hpp"
#include "core/spec/node_kinds.hpp"
#include "planner/certificate.hpp"
#include "planner/families.hpp"
#include "planner/fewest_offloaded.hpp"
#include "planner/fewest_recomputed.hpp"
#include "planner/frontier.hpp"
#include "planner/nearest_tiers.hpp"
#include "planner/outdone.hpp"
#include "planner/progress_meter.hpp"
#include "sim/des/simulate.hpp"
#include "sim/estimate/estimate.hpp"
#include "sim/memory/fit.hpp"

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
constexpr std::size_t ahead_of_turn = 4;

/// Families looked into side by side, and in the last turn, which finds few plans: there threads wait less for each
/// other.
constexpr std::size_t family_batch = 32;
constexpr std::size_t last_family_batch = 128;
/// On the way down to the first plans one more after so many looks: where no plan fits all families are looked into so.
constexpr std::size_t looks_down = 64;

std::uint64_t bytes_below(Bytes memory) { return static_cast<std::uint64_t>(std::min(memory.base(), 9e18)); }

struct Estimated {
  Rating rating;
  std::uint64_t number = 0;
  Picoseconds step = 0;
  bool fits = true;
  std::vector<std::uint32_t> recomputed;  ///< layers of each stage, of a plan with the fewest
  std::uint32_t activations = 0;          ///< eighths in host memory
  bool same = false;                      ///< another plan of the space stands for it
  Tiers tiers{};
  /// What its processes hold, which fit; of a plan that is slower than the best they are not looked at.
  std::shared_ptr<const Report> memory = nullptr;
  friend auto operator<=>(const Estimated&, const Estimated&) = default;
};

/// Calls task(i) for each i below n on the threads of the arena: each begins in a part of its own, since neighbours ask
/// for the same blocks, and who has done with it takes over a part of another's.
template <class Task>
void for_each_below(std::size_t n, Task&& task) {
  tbb::parallel_for(std::size_t{0}, n, std::forward<Task>(task), tbb::simple_partitioner());
}

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
        rules_{options.headroom.value_or(default_headroom(cluster, calibration)), false},
        capacity_(bytes_below(most_for_tensors(cluster, calibration, rules_.headroom))),
        room_{capacity_, bytes_below(safe_for_tensors(cluster, calibration, rules_.headroom)),
              cluster.host_memory.base() > 0 ? bytes_below(cluster.host_memory) : ~std::uint64_t{0}},
        meter_(options),
        bounder_(model, workload, cluster, calibration),
        bounders_([this] { return bounder_.beside(); }),
        meshes_(space) {}
  /// What threads know of a large space takes a while to give up, so they do that side by side.
  ~Search() {
    tbb::parallel_for_each(bounders_, [](Bounder& of) { const Bounder gone = std::move(of); });
  }

  SearchResult run() {
    ORRERY_ASSERT(options_.top >= 1, options_.top);
    SearchResult result;
    result.space = space_.count;
    meter_.phase("estimate", space_.count);
    seed_ = seed();
    // First shapes without a pipeline, which have one schedule, and of each kind the plainest: a good plan among them
    // leaves out most of the others unseen.  The first good ones will do for a start.
    constexpr int kinds = 4, last = 2 * kinds - 1;
    const auto turn_of = [&](const Family& f) {
      const ShapeSpace& s = space_.shapes[f.shape];
      const bool grid = s.tensor != TensorAlgorithm::one_d;
      const bool context = s.sizes[index(Axis::context)] > 1, replicas = s.sizes[index(Axis::replica)] > 1;
      const int kind = grid ? (context ? 3 : 2) : context || replicas ? 1 : 0;
      return (s.sizes[index(Axis::pipeline)] == 1 ? 0 : kinds) + kind;
    };
    const std::vector<Family> shapes = shape_families(space_);
    for (int turn = 0; turn <= last; ++turn) {
      for (const Family& f : shapes) {
        if (turn_of(f) == turn) frontier_.push(f);
      }
      look_around(turn <= kinds ? family_batch : last_family_batch, turn == 0);
    }
    result.complete = !stopped_;
    frontier_.drain([&](const Family& f) { leave(f); });
    result.evaluated = evaluated_.size();
    result.infeasible = infeasible_;
    if (infeasible_ > 0) result.pruned.push_back({"memory", infeasible_});
    if (same_ > 0) result.pruned.push_back({"same", same_});
    std::uint64_t left = 0;
    for (const auto& [step, count] : left_) left += count;
    if (result.complete && left > 0) result.pruned.push_back({"bound", left});
    report(result);
    certify(result);
    result.wall_s = meter_.elapsed();
    return result;
  }

 private:
  /// Plans whose bounds exceed it cannot be among the best.
  [[nodiscard]] Rating worst() const {
    constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
    const Rating known = seed_.value_or(Rating{most, most});
    return options_.prune && best_.size() == options_.top ? std::min(known, best_.back().rating) : known;
  }

  /// The worst of the best plans of the basic space, where this one is larger and has them all: K plans are no worse.
  std::optional<Rating> seed() const {
    if (!options_.prune) return std::nullopt;
    const Space basic = make_space(model_, workload_, cluster_, basic_limits());
    if (basic.count >= space_.count) return std::nullopt;
    SearchOptions first = options_;
    first.simulate = false;
    first.progress = nullptr;
    first.found = nullptr;
    const SearchResult found = Search(basic, model_, workload_, cluster_, calibration_, first).run();
    if (!found.complete || found.plans.size() < options_.top) return std::nullopt;
    for (const FoundPlan& f : found.plans) {
      if (number_of(space_, f.plan) == space_.count) return std::nullopt;
    }
    const Report& last = found.plans.back().report;
    return rating(options_.objective, picoseconds(last.step_time), last.peak_memory_bytes);
  }

  void leave(const Family& f) { left_.push_back({f.step, f.count}); }

  /// Looks into families and estimates plans in ascending order of their bounds
  /// until the least bound left exceeds the worst of the best, or enough plans are known.
  void look_around(std::size_t side_by_side, bool until_enough) {
    std::vector<Family> inner, plans;
    std::vector<Expansion> parts;
    std::vector<Estimated> batch;
    for (std::size_t looks = 0; !stopped_ && !(until_enough && best_.size() == options_.top); ++looks) {
      const Rating limit = worst();
      const bool enough = seed_ || best_.size() == options_.top;
      inner.clear();
      plans.clear();
      // Straight down to the first plans, then the least bound first.
      const std::size_t families = enough || !options_.prune ? side_by_side
                                   : frontier_.candidates() >= batch_size
                                       ? 0
                                       : std::min(family_batch, 1 + looks / looks_down);
      while (inner.size() < families) {
        const Family* f = enough ? frontier_.least() : frontier_.deepest();
        if (f == nullptr || limit < f->bound) break;
        inner.push_back(frontier_.take(f));
      }
      // Plans whose bound is not the least may show others to be too slow; a few of those that promise to do.
      const Family* least = frontier_.least();
      while (plans.size() < batch_size) {
        const Family* f = frontier_.candidate();
        if (f == nullptr || limit < f->bound) break;
        const bool next = !enough || least == nullptr || f->bound <= least->bound;
        if (!next) f = plans.size() < ahead_of_turn ? frontier_.promising(limit) : nullptr;
        if (f == nullptr) break;
        plans.push_back(frontier_.take(f));
      }
      if (inner.empty() && plans.empty()) return;
      if (meter_.cancelled()) {
        for (const Family& f : inner) frontier_.push(f);
        for (const Family& f : plans) frontier_.push(f);
        stopped_ = true;
        return;
      }
      parts.assign(inner.size(), {});
      batch.assign(plans.size(), {});
      for_each_below(inner.size() + plans.size(), [&](std::size_t i) {
        if (i < inner.size()) {
          parts[i] = expand(inner[i], space_, room_, options_.objective, limit, bounders_.local(), meshes_);
        } else {
          batch[i - inner.size()] = estimate_one(plans[i - inner.size()], limit);
        }
      });
      for (std::size_t i = 0; i < plans.size(); ++i) {
        if (batch[i].step > 0) frontier_.learn(plans[i], batch[i].rating);
      }
      take_in(parts, batch);
    }
  }

  void take_in(const std::vector<Expansion>& parts, const std::vector<Estimated>& batch) {
    std::uint64_t decided = 0;
    for (const Expansion& e : parts) {
      for (const Family& f : e.inside) frontier_.push(f);
      for (const LeftOut& of : e.beyond) left_.push_back(of), decided += of.count;
      infeasible_ += e.infeasible;
      same_ += e.same;
      decided += e.infeasible + e.same;
    }
    for (const Estimated& e : batch) {
      ++decided;
      if (e.same) {
        ++same_;
        continue;
      }
      if (!e.fits) {
        ++infeasible_;
        if (e.step > 0 && (!rejected_ || e < *rejected_)) rejected_ = e;
        continue;
      }
      evaluated_.push_back(e);
      if (!e.memory) continue;
      best_.insert(std::upper_bound(best_.begin(), best_.end(), e), e);
      const bool enters = best_.size() <= options_.top || e < best_.back();
      if (best_.size() > options_.top) best_.pop_back();
      if (enters && options_.found) options_.found(described(e).found);
      meter_.best(Seconds::of(static_cast<double>(e.step) * 1e-12));
    }
    meter_.done(decided);
  }

  CostModel costs_of(const Plan& plan) const {
    return CostModel(cluster_, calibration_, plan.mesh, plan.placement, plan.collective_algorithm);
  }

  /// Gives a plan of the space its recomputed layers, its activations in host memory and its tiers; whether its tensors
  /// fit.
  bool settle(PlannedRun& run, Program& program) {
    set_tiers(run.plan, {});
    return settle_on_device(run, program) && settle_tiers(run, program);
  }
  /// The same of hosts and disks; the plan has nothing on a disk yet.
  bool settle_tiers(PlannedRun& run, Program& program) {
    if (!offloads(run.plan)) return true;
    if (!space_.disks) return offloaded_.local().fits(run, program, capacity_);
    return find_nearest_tiers(
        run, program, bounders_.local(), room_.host,
        [&](const PlannedRun& of, const Program& with) { return offloaded_.local().fits(of, with, capacity_); },
        [&](const PlannedRun& of, const Program& with) {
          return picoseconds(estimators_.local().step_time(with, costs_of(of.plan)));
        });
  }
  /// The same, of device memory alone.
  bool settle_on_device(PlannedRun& run, Program& program) {
    FewestOffloaded& offloaded = offloaded_.local();
    if (has_open_counts(run.plan)) {
      return fewest_.local().find(run.plan, program, model_, workload_, capacity_, bounders_.local());
    }
    if (*run.plan.offload_activations > 0) return offloaded.find(run, program, capacity_, bounders_.local());
    program = lower(model_, workload_, run.plan);
    return offloaded.peak(program) <= capacity_;
  }

  /// Gives a plan whose tensors fit as many recomputed layers, or activations in host memory, more as its process
  /// needs; what it then holds, and nothing where it does not fit.
  std::optional<Report> settle_process(PlannedRun& run, Program& program) {
    if (auto held = judged_if_it_fits(run, program, calibration_, rules_)) return held;
    if (has_open_counts(run.plan)) {
      if (!FewestRecomputed::raise(run, program, calibration_, rules_)) return std::nullopt;
      return judged_if_it_fits(run, program, calibration_, rules_);
    }
    if (*run.plan.offload_activations == 0) return std::nullopt;
    while (*run.plan.offload_activations < 8) {
      ++*run.plan.offload_activations;
      set_tiers(run.plan, {});
      program = lower(run.model, run.workload, run.plan);
      if (!settle_tiers(run, program)) continue;
      if (auto held = judged_if_it_fits(run, program, calibration_, rules_)) return held;
    }
    return std::nullopt;
  }

  /// `limit`: what is worse cannot be among the best.
  Estimated estimate_one(const Family& candidate, const Rating& limit) {
    PlannedRun run{model_, workload_, cluster_, plan_at(space_, candidate.first), {}, {}};
    Plan& plan = run.plan;
    Program program;
    const bool open = plan.recompute_layers || *plan.offload_activations > 0;
    if (open || offloads(plan)) {
      const bool fits = settle(run, program);
      const bool same = fits && has_open_counts(plan) && is_listed_elsewhere(space_, plan);
      if (!fits || same) return {{}, candidate.first, 0, fits, {}, 0, same};
    } else {
      program = lower(model_, workload_, plan);
    }
    std::uint64_t peak = candidate.peak;
    Picoseconds step = 0;
    const auto price = [&] {
      step = picoseconds(estimators_.local().step_time(program, costs_of(plan)));
      // What is settled fits, on every tier.
      if (!memory_is_exact(plan, workload_) || offloads(plan) || open) peak = offloaded_.local().peak(program);
      return rating(options_.objective, step, peak);
    };
    Rating exact = price();
    ORRERY_ASSERT(step >= candidate.step && peak >= candidate.peak, candidate.first, step, candidate.step, peak,
                  candidate.peak);
    bool fits = peak <= capacity_;
    std::shared_ptr<const Report> memory;
    // Processes take longer to look at than tensors: only those of plans that may be among the best matter.
    if (fits && !(limit < exact)) {
      const Plan before = plan;
      auto held = settle_process(run, program);
      fits = held.has_value();
      if (fits) memory = std::make_shared<const Report>(*std::move(held));
      if (!fits) {
        // What was nearest is told: the plan as its tensors ask for it.
        plan = before;
      } else if (plan != before) {
        if (has_open_counts(plan) && is_listed_elsewhere(space_, plan))
          return {{}, candidate.first, 0, true, {}, 0, true};
        exact = price();
      }
    }
    // Where closed forms know the memory they have said whether another plan outdoes it; of others only the best
    // matter.
    if (fits && !(limit < exact) && offloads(plan) && !bounders_.local().knows_memory(plan) && is_outdone(plan)) {
      return {{}, candidate.first, 0, true, {}, 0, true};
    }
    return {exact,
            candidate.first,
            step,
            fits,
            plan.recompute_layers.value_or(std::vector<std::uint32_t>{}),
            *plan.offload_activations,
            false,
            tiers_of(plan),
            std::move(memory)};
  }

  /// By a plan that its Program shows to fit.
  bool is_outdone(Plan plan) {
    set_tiers(plan, {});  // what holds on the host holds on a disk behind it
    return orrery::is_outdone(plan, bounders_.local(), [&](Plan& less) {
      if (!less.recompute_layers && *less.offload_activations == 0 && bounders_.local().peak_memory(less) > capacity_) {
        return false;
      }
      PlannedRun other{model_, workload_, cluster_, less, {}, {}};
      Program ignored;
      const bool settled = settle(other, ignored) && settle_process(other, ignored).has_value();
      less = other.plan;
      set_tiers(less, {});
      return settled;
    });
  }

  /// What was played before is not played again.
  void judge(Report& report, const PlannedRun& run, const Program& program, const Estimated& e) const {
    if (e.memory && e.memory->peak_memory_reserved_bytes) return judge_alike(report, *e.memory);
    judge_memory(report, run, program, calibration_);
  }

  /// A plan that was estimated, in full.
  struct Described {
    FoundPlan found;
    PlannedRun run;
    Program program;
  };
  Described described(const Estimated& e) {
    Described out;
    FoundPlan& found = out.found;
    found.number = e.number;
    found.plan = plan_at(space_, found.number);
    if (found.plan.recompute_layers) {
      found.plan.recompute_layers = e.recomputed;
      tidy_counts(space_, found.plan);
    }
    found.plan.offload_activations = e.activations;
    set_tiers(found.plan, e.tiers);
    out.run = {model_, workload_, cluster_, found.plan, {}, {}};
    out.program = lower(model_, workload_, found.plan);
    found.report = estimators_.local().estimate(out.run, out.program, costs_of(found.plan));
    judge(found.report, out.run, out.program, e);
    return out;
  }

  /// Reports of the best, and their simulations.
  void report(SearchResult& result) {
    if (rejected_ && (best_.empty() || *rejected_ < best_.front())) result.rejected = described(*rejected_).found;
    result.plans.resize(best_.size());
    meter_.phase("simulate", best_.size());
    tbb::parallel_for(std::size_t{0}, best_.size(), [&](std::size_t i) {
      const Described known = described(best_[i]);
      FoundPlan& found = result.plans[i];
      found = known.found;
      ORRERY_ASSERT(found.report.fits, found.number, found.report.peak_memory_bytes);
      if (options_.simulate && !meter_.cancelled()) {
        SimulateOptions plain;
        plain.trace = SimulateOptions::Ranks::none;
        plain.progress.cancelled = options_.cancel;
        try {
          found.simulated = simulate(known.run, known.program, costs_of(found.plan), plain).report;
          judge(*found.simulated, known.run, known.program, best_[i]);
        } catch (const SimulationCancelled&) {
          // The plan stands with its estimate.
        }
      }
      meter_.done(1);
    });
  }

  void certify(SearchResult& result) const {
    CertificateInput input;
    input.objective = options_.objective;
    input.capacity = least_memory(cluster_);
    input.headroom = rules_.headroom;
    if (std::any_of(space_.shapes.begin(), space_.shapes.end(),
                    [](const ShapeSpace& s) { return s.offloads_states; })) {
      input.host = cluster_.host_memory;
    }
    std::optional<Picoseconds> least;
    for (const auto& [step, count] : left_) least = least ? std::min(*least, step) : step;
    if (least) input.least_bound_left = Seconds::of(static_cast<double>(*least) * 1e-12);
    // Plans that a simulation might still find faster than the best simulated one:
    // those estimated but not simulated, and those only bounded.
    std::optional<Seconds> best;
    for (const FoundPlan& f : result.plans) {
      if (f.simulated && (!best || f.simulated->step_time < *best)) best = f.simulated->step_time;
    }
    input.best_simulated = best;
    if (best) {
      const Picoseconds limit = picoseconds(*best);
      for (const auto& [step, count] : left_) input.below_simulated += step < limit ? count : 0;
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
  const MemoryRules rules_;
  const std::uint64_t capacity_;  ///< for tensors
  const Room room_;
  ProgressMeter meter_;
  Bounder bounder_;
  tbb::enumerable_thread_specific<Bounder> bounders_;
  ShapeMeshes meshes_;
  Frontier frontier_;
  std::vector<LeftOut> left_;
  std::uint64_t infeasible_ = 0, same_ = 0;
  tbb::enumerable_thread_specific<Estimator> estimators_;
  tbb::enumerable_thread_specific<FewestRecomputed> fewest_;
  tbb::enumerable_thread_specific<FewestOffloaded> offloaded_;
  std::vector<Estimated> evaluated_;
  std::optional<Rating> seed_;
  std::vector<Estimated> best_;        ///< ascending, at most `top`
  std::optional<Estimated> rejected_;  ///< the least of those that do not fit
  bool stopped_ = false;
};

}  // namespace

SearchResult search(const Space& space, const ModelSpec& model, const Workload& workload, const ClusterSpec& cluster,
                    const Calibration& calibration, const SearchOptions& options) {
  SearchResult result;
  // More threads than cores must be asked for, so that a test can.
  const auto wanted =
      std::max<std::size_t>(options.threads, static_cast<std::size_t>(tbb::info::default_concurrency()));
  const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, wanted);
  tbb::task_arena arena(options.threads == 0 ? tbb::task_arena::automatic : static_cast<int>(options.threads));
  arena.execute([&] { result = Search(space, model, workload, cluster, calibration, options).run(); });
  return result;
}

SearchResult search(const ModelSpec& model, const Workload& workload, const ClusterSpec& cluster,
                    const Calibration& calibration, const SearchOptions& options) {
  return search(make_space(model, workload, cluster, basic_limits()), model, workload, cluster, calibration, options);
}

}  // namespace orrery
