// Long: the phases of one search share what is known so far, the best and the memos.
#include "planner/search.hpp"

#include <fmt/format.h>
#include <tbb/concurrent_unordered_map.h>
#include <tbb/enumerable_thread_specific.h>
#include <tbb/global_control.h>
#include <tbb/info.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "core/base/diagnostics.hpp"
#include "core/program/lower/lower.hpp"
#include "planner/appraiser.hpp"
#include "planner/neighbours.hpp"
#include "planner/openings.hpp"
#include "planner/plan_key.hpp"
#include "planner/progress_meter.hpp"
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

constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();

/// Looked at side by side between two looks at the best.  Fixed, so that what is looked at does not depend on the
/// number of threads.
constexpr std::size_t starts_at_once = 16;
constexpr std::size_t changes_at_once = 32;
/// Shapes from whose best plan decisions are changed one by one, and of those the ones that are changed in pairs.
constexpr std::size_t most_descents = 8;
constexpr std::size_t most_paired = 3;
/// Shapes whose leanest plans are made leaner where nothing fits.
constexpr std::size_t most_squeezed = 4;
/// Coarse plans in a row that may leave the best as it is before no more are looked at.
constexpr std::size_t patience = 128;
/// A shape is looked at further where its usual plan takes at most so many times as long as the fastest of those.
constexpr double worth_a_look = 2.5;
/// A coarse plan is arranged where its step may come so near to the best, made to fit where it then may come so near,
/// and changed step by step where it is so near.
constexpr double worth_arranging = 1.15, worth_fitting = 1.02, worth_changing = 1.1;

/// What is least: the objective, then the step.
using Rating = std::pair<std::int64_t, std::int64_t>;
constexpr Rating worst{never, never};

struct Seen {
  Candidate from;
  Appraisal what;
  Rating rating = worst;  ///< worst where it does not fit
};

struct Start {
  Plan plan;
  Picoseconds step = 0;
  double hope = 0.0;  ///< a step that no schedule of this shape is likely to be below
};

class Search {
 public:
  Search(const ModelSpec& model, const Workload& workload, const ClusterSpec& cluster, const Calibration& calibration,
         const SearchOptions& options)
      : model_(model),
        workload_(workload),
        cluster_(cluster),
        calibration_(calibration),
        options_(options),
        rules_{options.headroom.value_or(default_headroom(cluster, calibration)), false},
        room_(options.judge_memory ? whole(most_for_tensors(cluster, calibration, rules_.headroom))
                                   : ~std::uint64_t{0}),
        hosts_(hosts_are_known(cluster) && options.judge_memory),
        units_(level_units(cluster)),
        meter_(options),
        appraisers_([this] { return Appraiser(model_, workload_, cluster_, calibration_); }) {}

  SearchResult run() {
    ORRERY_ASSERT(options_.top >= 1, options_.top);
    SearchResult result;
    explore(result);
    squeeze();
    descend(result);
    result.complete = !stopped_;
    result.estimated = least_.size() + settled_.size() + raised_further_;
    report(result);
    claim(result);
    result.wall_s = meter_.elapsed();
    return result;
  }

 private:
  static std::vector<std::uint64_t> level_units(const ClusterSpec& cluster) {
    std::vector<std::uint64_t> out;
    std::uint64_t unit = 1;
    for (const NetworkLevel& level : cluster.levels) out.push_back(unit *= level.size);
    return out;
  }
  static std::uint64_t whole(Bytes memory) { return static_cast<std::uint64_t>(std::min(memory.base(), 9e18)); }

  [[nodiscard]] Rating rate(const Appraisal& a) const {
    const auto peak = static_cast<std::int64_t>(a.peak);
    return options_.objective == Objective::memory ? Rating{peak, a.step} : Rating{a.step, peak};
  }
  [[nodiscard]] bool is_allowed(const Plan& plan) {
    return options_.limits.allow(appraisers_.local().run(plan), options_.dimensions);
  }

  /// Appraisals that were asked for, by key of the plan and what is raised.
  struct Known {
    bool valid = false;
    Raised raised = Raised::nothing;
    Appraisal what;
  };
  using Memo = tbb::concurrent_unordered_map<std::string, Known>;

  template <class Ask>
  const Known& known(Memo& memo, const Candidate& c, Ask&& ask) {
    const std::string key = key_of(appraisers_.local().run(c.plan), options_.dimensions) +
                            static_cast<char>('0' + static_cast<int>(c.raised));
    if (const auto at = memo.find(key); at != memo.end()) return at->second;
    Known out;
    Plan plan = c.plan;
    Appraiser& appraiser = appraisers_.local();
    out.valid = appraiser.is_valid(plan);
    if (out.valid) {
      out.raised = c.raised;
      out.what = ask(appraiser, Candidate{std::move(plan), c.raised});
    }
    return memo.emplace(key, std::move(out)).first->second;
  }
  /// The plan with the least count, whatever memory it takes: its step is the least that the candidate can have.
  const Known& least(const Candidate& c) {
    return known(least_, {with_least(c), Raised::nothing},
                 [&](Appraiser& a, const Candidate& plain) { return a.appraise(plain, room_); });
  }

  /// A look at a candidate that may be better than `limit`.
  Seen look(const Candidate& c, const Rating& limit) {
    Seen out{c, {}, worst};
    if (c.raised == Raised::recomputed_layers && options_.limits.only.contains("plan.recompute_layers")) return out;
    const Known& plain = least(c);
    if (!plain.valid) return out;
    out.what = plain.what;
    if (options_.objective != Objective::memory && rate(plain.what) >= limit) return out;
    if (!plain.what.fits) {
      if (c.raised == Raised::nothing || !may_be_raised_below(c, plain.what, limit)) return out;
      out.what = known(settled_, c, [&](Appraiser& a, const Candidate& open) { return a.appraise(open, room_); }).what;
    }
    if (out.what.fits && is_allowed(out.what.plan)) out.rating = rate(out.what);
    return out;
  }

  /// Whether the candidate fits with the most that can be raised, and a count in proportion to what is short leaves a
  /// step that may be below the limit.
  bool may_be_raised_below(const Candidate& c, const Appraisal& none, const Rating& limit) {
    const Known& all = least(with_most(c));
    if (!all.valid || all.what.peak > room_) return false;
    if (options_.objective == Objective::memory || none.peak <= room_) return true;
    const double share = static_cast<double>(none.peak - room_) / static_cast<double>(none.peak - all.what.peak);
    constexpr double sure = 0.8;  // of the share: a rank that is not the fullest needs less
    return static_cast<double>(none.step) + sure * share * static_cast<double>(all.what.step - none.step) <
           static_cast<double>(limit.first);
  }

  /// Takes in what was seen: the best whose process fits is the best so far.
  void take_in(std::vector<Seen> seen) {
    std::stable_sort(seen.begin(), seen.end(), [](const Seen& a, const Seen& b) { return a.rating < b.rating; });
    for (Seen& s : seen) {
      if (s.rating == worst && !s.what.fits && s.what.step > 0) short_of_memory(s.what);
      if (s.rating < best_.rating) judge(s);
    }
  }
  /// All plans that were priced and fit as tensors, best first.
  std::vector<Seen> ranked() {
    std::vector<std::pair<std::string, Seen>> all;
    for (const Memo* memo : {&least_, &settled_}) {
      for (const auto& [key, k] : *memo) {
        if (!k.valid || !k.what.fits || !is_allowed(k.what.plan)) continue;
        all.emplace_back(key, Seen{{k.what.plan, k.raised}, k.what, rate(k.what)});
      }
    }
    std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
      return a.second.rating != b.second.rating ? a.second.rating < b.second.rating : a.first < b.first;
    });
    std::vector<Seen> out;
    for (auto& [key, seen] : all) out.push_back(std::move(seen));
    return out;
  }
  /// The best whose tensors fit and whose process does not.
  void reject(const Appraisal& a) {
    if (!rejected_ || rate(a) < rate(*rejected_)) rejected_ = a;
  }
  /// What lacks least of those whose tensors do not fit.
  void short_of_memory(const Appraisal& a) {
    if (!leanest_ || a.peak < leanest_->peak) leanest_ = a;
  }
  /// Whether the process fits, too.  Where it does not, its count is raised once more; of a plan without a count those
  /// that make plans fit are tried.  As far as the plan then is still better than the best: the allocator does not need
  /// less with every count (docs/decisions/0017), so each is asked for.
  void judge(Seen& s) {
    while (s.rating < best_.rating) {
      const MemoryVerdict& verdict = judged(s.what.plan);
      if (verdict.fits) {
        best_ = s;
        meter_.best(Seconds::of(static_cast<double>(s.what.step) * 1e-12));
        if (options_.found) options_.found(described(s.what).found);
        return;
      }
      reject(s.what);
      Appraiser& appraiser = appraisers_.local();
      const Seen before = std::exchange(s, Seen{});
      if (before.from.raised != Raised::nothing) {
        Appraisal more = before.what;
        ++raised_further_;
        if (appraiser.raise_once(more, before.from, verdict.stage, room_) && is_allowed(more.plan)) {
          s = {before.from, more, rate(more)};
        }
        continue;
      }
      for (Candidate& c : reliefs(before.what.plan, hosts_, all_mixtures)) {
        if (c.raised == Raised::nothing || !appraiser.is_valid(c.plan)) continue;
        if (c.raised == Raised::recomputed_layers && options_.limits.only.contains("plan.recompute_layers")) continue;
        ++raised_further_;
        const Appraisal a = appraiser.appraise(c, before.what.peak - 1);
        if (a.fits && is_allowed(a.plan) && rate(a) < s.rating) s = {c, a, rate(a)};
      }
    }
  }
  const MemoryVerdict& judged(const Plan& plan) {
    const auto [at, fresh] = verdicts_.try_emplace(key_of(appraisers_.local().run(plan), options_.dimensions));
    if (fresh && options_.judge_memory) at->second = appraisers_.local().processes(plan, rules_);
    return at->second;
  }

  /// Calls task(i) for each i below n, side by side.
  template <class Task>
  void side_by_side(std::size_t n, Task&& task) {
    tbb::parallel_for(std::size_t{0}, n, std::forward<Task>(task), tbb::simple_partitioner());
  }
  bool stop() { return stopped_ = stopped_ || meter_.cancelled(); }

  // The coarse space.

  /// The best of a plan and others, by what they need without regard to what fits.
  class Contest {
   public:
    explicit Contest(Search& search) : search_(search) {}
    void look_at(Plan plan) {
      if (!search_.is_allowed(plan)) {
        PlannedRun near = search_.appraisers_.local().run(plan);
        put_within(near, search_.options_.limits, search_.options_.dimensions);
        // What a schedule or a ZeRO stage brings with it may follow the limits; another one is not what was asked for.
        if (near.plan.schedule != plan.schedule || near.plan.zero_stage != plan.zero_stage) return;
        plan = near.plan;
        if (!search_.is_allowed(plan)) return;
      }
      const Known& k = search_.least({plan, Raised::nothing});
      if (!k.valid || search_.rate(k.what) >= rating) return;
      rating = search_.rate(k.what);
      best = {plan, k.what.step, static_cast<double>(k.what.step)};
      fits = k.what.fits;
    }
    /// Orders of axes and ways to cut a layer, one after another.
    void look_around() {
      for (const auto& others : {orders_of, cuts_of, sequence_cuts_of}) {
        for (const Plan& plan : others(best.plan)) look_at(plan);
      }
    }
    Start best;
    Rating rating = worst;
    bool fits = false;

   private:
    Search& search_;
  };

  /// Coarse plans, arranged, with microbatches that are worth a look; in ascending order of hope.
  std::vector<Start> starts() {
    const std::vector<Plan> shapes = coarse_shapes(appraisers_.local(), options_.limits, options_.dimensions);
    std::vector<Contest> arranged(shapes.size(), Contest(*this));
    meter_.phase("coarse plans", 2 * shapes.size());
    side_by_side(shapes.size(), [&](std::size_t i) {
      if (!meter_.cancelled()) arranged[i].look_at(shapes[i]);
      meter_.done(1);
    });
    Picoseconds shortest = never;
    for (const Contest& c : arranged) {
      if (c.rating != worst) shortest = std::min(shortest, c.best.step);
    }
    const double limit = options_.objective == Objective::memory ? static_cast<double>(never)
                                                                 : worth_a_look * static_cast<double>(shortest);
    std::vector<std::vector<Start>> by_shape(shapes.size());
    side_by_side(shapes.size(), [&](std::size_t i) {
      Contest& arranged_here = arranged[i];
      if (meter_.cancelled() || arranged_here.rating == worst || arranged_here.best.hope > limit) return;
      arranged_here.look_around();
      add_sizes(by_shape[i], arranged_here.best.plan);
      // Grids that are faster than one dimension are shapes of their own.
      for (const Plan& plan : grids_of(arranged_here.best.plan)) {
        Contest grid(*this);
        grid.look_at(plan);
        if (grid.rating < arranged_here.rating) add_sizes(by_shape[i], plan);
      }
    });
    std::vector<Start> out;
    for (const std::vector<Start>& of : by_shape) out.insert(out.end(), of.begin(), of.end());
    std::stable_sort(out.begin(), out.end(), [](const Start& a, const Start& b) { return a.hope < b.hope; });
    return out;
  }

  /// The plan with every size of microbatch, until larger ones take longer and hold more.
  void add_sizes(std::vector<Start>& to, const Plan& shape) {
    Picoseconds shortest = never;
    int longer = 0;
    for (const std::uint32_t size : microbatch_sizes(shape, workload_)) {
      if (!options_.limits.allow("plan.microbatch_size", size)) continue;
      Plan plan = shape;
      plan.microbatch_size = size;
      Contest cut(*this);
      cut.look_at(plan);
      for (const Plan& other : sequence_cuts_of(plan)) cut.look_at(other);
      if (cut.rating == worst) continue;
      const Picoseconds step = cut.best.step;
      to.push_back({cut.best.plan, step, static_cast<double>(step) * bubble_left(plan)});
      longer = step < shortest ? 0 : longer + 1;
      shortest = std::min(shortest, step);
      if (longer > 1) break;
    }
  }

  /// What schedules with less bubble than 1F1B may leave of its step: of m + p - 1 passes of a microbatch one after the
  /// other m, and a fifth of the rest.
  [[nodiscard]] double bubble_left(const Plan& plan) const {
    const double p = plan.mesh.size(Axis::pipeline);
    const double m = static_cast<double>(microbatches(plan, workload_));
    const auto others = options_.limits.only.find("plan.schedule");
    const bool plain = others != options_.limits.only.end() &&
                       std::all_of(others->second.begin(), others->second.end(), [](std::uint64_t s) {
                         return s <= static_cast<std::uint64_t>(ScheduleName::eager_one_f_one_b);
                       });
    return plain ? 1.0 : (m + 0.2 * (p - 1)) / (m + p - 1);
  }

  /// Coarse plans in ascending order of hope, until the rest is too slow for the best, or many in a row have not
  /// changed it.
  void explore(SearchResult& result) {
    const std::vector<Start> all = starts();
    result.shapes = all.size();
    const bool memory = options_.objective == Objective::memory;
    std::size_t in_vain = 0;
    for (std::size_t next = 0; next < all.size() && !stop(); next += starts_at_once) {
      const bool any = best_.rating == worst || memory;
      const double best = any ? static_cast<double>(never) : static_cast<double>(best_.rating.first);
      if (all[next].hope >= worth_arranging * best || in_vain >= patience) break;
      const std::size_t n = std::min(starts_at_once, all.size() - next);
      std::vector<std::vector<Seen>> seen(n);
      side_by_side(n, [&](std::size_t i) {
        if (meter_.cancelled()) return;
        for (const Start& s : arrange(all[next + i].plan, worth_fitting * best)) {
          if (s.hope >= worth_fitting * best) continue;
          for (Seen& found : fit(s.plan, {any ? never : static_cast<std::int64_t>(worth_fitting * best), never})) {
            seen[i].push_back(std::move(found));
          }
        }
        meter_.done(1);
      });
      result.looked_at = next + n;
      const Rating before = best_.rating;
      std::vector<Seen> found;
      for (std::vector<Seen>& of : seen) found.insert(found.end(), of.begin(), of.end());
      take_in(std::move(found));
      in_vain = best_.rating < before || best_.rating == worst ? 0 : in_vain + n;
    }
  }

  /// A coarse plan in its fastest schedule and with its states shared out in the fastest way, where its step then is
  /// within the limit; and where that does not fit, with more shared out, and with sequence parallelism.
  std::vector<Start> arrange(const Plan& coarse, double limit) {
    Contest fastest(*this);
    fastest.look_at(coarse);
    for (const Plan& plan : schedules_of(coarse, model_)) fastest.look_at(plan);
    const Plan scheduled = fastest.best.plan;
    std::vector<Start> out;
    if (fastest.rating == worst || (options_.objective != Objective::memory && fastest.best.hope > limit)) return out;
    for (const Plan& plan : states_of(scheduled, units_)) fastest.look_at(plan);
    const Plan first = fastest.best.plan;
    out.push_back(fastest.best);
    const auto offer = [&](Contest& c) {
      if (c.rating == worst) return;
      if (c.best.plan != first) out.push_back(c.best);
      if (c.fits || c.best.plan.mesh.size(Axis::tensor) == 1 || c.best.plan.sequence_parallel) return;
      Contest cut(*this);
      Plan plan = c.best.plan;
      plan.sequence_parallel = true;
      cut.look_at(plan);
      if (cut.rating != worst) out.push_back(cut.best);
    };
    offer(fastest);
    if (fastest.fits && options_.objective != Objective::memory) return out;
    for (const Plan& plan : lean_schedules_of(coarse)) {
      Contest lean(*this);
      lean.look_at(plan);
      if (lean.rating != worst && plan.schedule != scheduled.schedule) offer(lean);
    }
    for (const std::uint32_t stage : {1U, 2U, 3U}) {
      // Without a pipeline ZeRO 3 is ZeRO 2 and more.
      const bool usual = stage != 2 || coarse.mesh.size(Axis::pipeline) > 1;
      if (shard_axes_of(coarse).empty() || (!usual && !options_.limits.only.contains("plan.zero_stage"))) continue;
      Contest shared(*this);
      Plan plan = scheduled;
      plan.zero_stage = stage;
      shared.look_at(plan);
      if (shared.rating == worst) continue;
      shared.look_around();
      for (const Plan& parted : replicas_of(shared.best.plan, units_)) shared.look_at(parted);
      offer(shared);
    }
    return out;
  }

  /// What makes a plan fit, as far as it may be better than the limit.
  std::vector<Seen> fit(const Plan& plan, Rating limit) {
    std::vector<Seen> out;
    bool fits = false;
    const auto offer = [&](const Candidate& c) {
      Seen s = look(c, limit);
      limit = std::min(limit, s.rating);
      fits = fits || s.rating != worst;
      if (s.what.step > 0) out.push_back(std::move(s));
    };
    offer({plan, Raised::nothing});
    if (fits && options_.objective != Objective::memory) return out;
    const Plan stages = least({plan, Raised::nothing}).what.plan;
    for (const Candidate& c : reliefs(stages, hosts_, few_mixtures)) offer(c);
    if (fits || !hosts_) return out;
    for (const Candidate& c : strong_reliefs(stages)) offer(c);
    return out;
  }

  // Changes.

  /// Where nothing fits so far: from the plans that take the least memory on, each of another shape, whatever change
  /// takes less, until one fits.
  void squeeze() {
    if (best_.rating != worst) return;
    std::map<std::vector<std::uint32_t>, std::pair<std::string, Appraisal>> by_shape;
    for (const auto& [key, k] : least_) {
      if (!k.valid || !is_allowed(k.what.plan)) continue;
      const auto [at, fresh] = by_shape.try_emplace(sizes_of(k.what.plan), key, k.what);
      const auto order = [](const std::string& name, const Appraisal& a) { return std::pair(a.peak, name); };
      if (!fresh && order(key, k.what) < order(at->second.first, at->second.second)) at->second = {key, k.what};
    }
    std::vector<Appraisal> from;
    for (auto& [sizes, of] : by_shape) from.push_back(std::move(of.second));
    std::stable_sort(from.begin(), from.end(), [](const Appraisal& a, const Appraisal& b) { return a.peak < b.peak; });
    for (std::size_t i = 0; i < std::min(from.size(), most_squeezed) && best_.rating == worst; ++i) squeeze(from[i]);
  }
  void squeeze(Appraisal at) {
    while (best_.rating == worst && !stop()) {
      std::vector<Plan> list;
      for (const Reach reach : {Reach::plan, Reach::pairs, Reach::mesh}) {
        for (Neighbour& n : neighbours(appraisers_.local().run(at.plan), reach, options_.limits, options_.dimensions)) {
          n.plan.gradient_bucket.reset();
          list.push_back(std::move(n.plan));
        }
      }
      std::vector<Seen> seen(list.size());
      side_by_side(list.size(), [&](std::size_t i) { seen[i] = look({list[i], Raised::nothing}, worst); });
      const std::uint64_t before = at.peak;
      for (const Seen& s : seen) {
        if (s.what.step > 0 && s.what.peak < at.peak) at = s.what;
      }
      take_in(std::move(seen));
      if (at.peak == before) return;
    }
  }
  static std::vector<std::uint32_t> sizes_of(const Plan& plan) {
    std::vector<std::uint32_t> out;
    for (const Axis a : plan_axes) out.push_back(plan.mesh.size(a));
    return out;
  }

  void descend(SearchResult& result) {
    std::vector<Seen> from;
    std::set<std::vector<std::uint32_t>> shapes;
    for (Seen& s : ranked()) {
      if (from.size() == most_descents || best_.rating == worst) break;
      // Those that are better than the best do not fit as processes.
      if (s.rating < best_.rating) continue;
      if (static_cast<double>(s.rating.first) > worth_changing * static_cast<double>(best_.rating.first)) break;
      if (shapes.insert(sizes_of(s.what.plan)).second) from.push_back(std::move(s));
    }
    meter_.phase("changes", from.size() + 1);
    for (Seen& s : from) {
      improve(s, Reach::plan);
      meter_.done(1);
    }
    std::stable_sort(from.begin(), from.end(), [](const Seen& a, const Seen& b) { return a.rating < b.rating; });
    for (std::size_t i = 0; i < std::min(from.size(), most_paired); ++i) improve(from[i], Reach::pairs);
    // The best until no change of it is better.
    for (bool better = best_.rating != worst; better && !stop();) {
      better = false;
      result.changes = 0;
      for (const Reach reach : {Reach::plan, Reach::pairs, Reach::mesh}) {
        const Rating before = best_.rating;
        Seen s = best_;
        result.changes += step(s, reach);
        better = best_.rating < before;
        if (better) break;
      }
    }
    meter_.done(1);
  }
  void improve(Seen& s, Reach reach) {
    for (Rating before = worst; s.rating != before && !stop();) {
      before = s.rating;
      step(s, reach);
    }
  }

  /// Takes the best of the neighbours, if one is better; how many there are.
  std::uint64_t step(Seen& s, Reach reach) {
    std::vector<Candidate> list;
    for (Neighbour& n : neighbours(appraisers_.local().run(s.what.plan), reach, options_.limits, options_.dimensions)) {
      if (is_raised(n.dimension)) continue;
      n.plan.gradient_bucket.reset();
      list.push_back({std::move(n.plan), s.from.raised});
    }
    if (reach == Reach::plan) {
      for (Candidate& c : reliefs(s.what.plan, hosts_, all_mixtures)) list.push_back(std::move(c));
    }
    for (std::size_t next = 0; next < list.size() && !stop(); next += changes_at_once) {
      const std::size_t n = std::min(changes_at_once, list.size() - next);
      std::vector<std::vector<Seen>> seen(n);
      side_by_side(n, [&](std::size_t i) { seen[i] = changed(list[next + i], s.rating); });
      std::vector<Seen> found;
      for (std::vector<Seen>& of : seen) found.insert(found.end(), of.begin(), of.end());
      const auto least = std::min_element(found.begin(), found.end(),
                                          [](const Seen& a, const Seen& b) { return a.rating < b.rating; });
      if (least == found.end() || least->rating >= s.rating) continue;
      const Seen better = *least;
      take_in(std::move(found));
      // One that would be the best must fit as a process, too.
      s = better.rating < best_.rating ? best_ : better;
    }
    return list.size();
  }
  /// What follows from the search's own counts is no neighbour of its own.
  static bool is_raised(const std::string& dimension) {
    return dimension == "recompute" || dimension == "recompute_layers" || dimension == "offload_activations" ||
           dimension.ends_with("_tier");
  }
  /// A changed plan; where it does not fit, with what makes it fit.
  std::vector<Seen> changed(const Candidate& c, const Rating& limit) {
    std::vector<Seen> out;
    Seen s = look(c, limit);
    const bool slow = s.what.step == 0 || (options_.objective != Objective::memory && rate(s.what) >= limit);
    if (s.rating < limit) {
      out.push_back(std::move(s));
    } else if (s.rating == worst && !slow) {
      Rating below = limit;
      std::vector<Plan> lean{s.what.plan};
      if (std::optional<Plan> shared = shared_out_further(s.what.plan)) lean.push_back(std::move(*shared));
      for (const Plan& plan : lean) {
        for (const Candidate& r : reliefs(plan, hosts_, all_mixtures)) {
          Seen other = look(r, below);
          if (other.rating >= below) continue;
          below = other.rating;
          out.push_back(std::move(other));
        }
      }
    }
    return out;
  }

  // The answer.

  struct Described {
    FoundPlan found;
    PlannedRun run;
    Program program;
  };
  /// In full.
  Described described(const Appraisal& a) {
    Described out;
    out.found.plan = a.plan;
    out.found.id = std::hash<std::string>{}(key_of(appraisers_.local().run(a.plan), options_.dimensions));
    out.run = {model_, workload_, cluster_, a.plan, {}, {}};
    out.program = lower(model_, workload_, a.plan);
    Appraiser& appraiser = appraisers_.local();
    out.found.report = appraiser.estimator().estimate(out.run, out.program, appraiser.costs(a.plan));
    judge_memory(out.found.report, out.run, out.program, calibration_);
    return out;
  }

  void report(SearchResult& result) {
    std::vector<Described> found;
    // Orders of axes that lie alike on the network are told once.
    std::set<std::pair<Rating, std::string>> told;
    const auto is_new = [&](const Seen& s) {
      Plan plan = s.what.plan;
      std::sort(plan.mesh.axes.begin(), plan.mesh.axes.end(),
                [](const auto& x, const auto& y) { return x.axis < y.axis; });
      return told.emplace(s.rating, key_of(appraisers_.local().run(plan), options_.dimensions)).second;
    };
    if (best_.rating != worst && is_new(best_)) found.push_back(described(best_.what));
    for (const Seen& s : ranked()) {
      if (found.size() >= options_.top || stop()) break;
      if (s.rating < best_.rating || !is_new(s) || !judged(s.what.plan).fits) continue;
      found.push_back(described(s.what));
    }
    if (!rejected_ && best_.rating == worst) rejected_ = leanest_;
    if (rejected_ && (best_.rating == worst || rate(*rejected_) < best_.rating)) {
      result.rejected = described(*rejected_).found;
    }
    result.plans.resize(found.size());
    meter_.phase("simulate", found.size());
    side_by_side(found.size(), [&](std::size_t i) {
      FoundPlan& out = result.plans[i];
      out = found[i].found;
      if (options_.simulate && !meter_.cancelled()) {
        SimulateOptions plain;
        plain.trace = SimulateOptions::Ranks::none;
        plain.progress.cancelled = options_.cancel;
        try {
          out.simulated = simulate(found[i].run, found[i].program, appraisers_.local().costs(out.plan), plain).report;
          judge_alike(*out.simulated, out.report);
        } catch (const SimulationCancelled&) {
          // The plan stands with its estimate.
        }
      }
      meter_.done(1);
    });
  }

  void claim(SearchResult& result) const {
    if (result.plans.empty()) {
      result.claim =
          fmt::format("None of {} coarse plans fits, whatever was done to make them fit; {} plans were estimated.",
                      result.shapes, result.estimated);
    } else {
      result.claim = fmt::format(
          "The best of {} coarse plans ({} looked at closely) and what {} estimates made of them; none of {} changes "
          "of it is better.",
          result.shapes, result.looked_at, result.estimated, result.changes);
    }
    if (!result.complete) result.claim = fmt::format("Interrupted: the best of {} estimates.", result.estimated);
  }

  const ModelSpec& model_;
  const Workload& workload_;
  const ClusterSpec& cluster_;
  const Calibration& calibration_;
  const SearchOptions& options_;
  const MemoryRules rules_;
  const std::uint64_t room_;  ///< for tensors
  const bool hosts_;
  const std::vector<std::uint64_t> units_;  ///< devices in a unit of each network level
  ProgressMeter meter_;
  tbb::enumerable_thread_specific<Appraiser> appraisers_;
  Memo least_, settled_;
  std::map<std::string, MemoryVerdict> verdicts_;  ///< of processes
  std::uint64_t raised_further_ = 0;
  Seen best_;  ///< its process fits, too
  std::optional<Appraisal> rejected_, leanest_;
  bool stopped_ = false;
};

}  // namespace

SearchResult search(const ModelSpec& model, const Workload& workload, const ClusterSpec& cluster,
                    const Calibration& calibration, const SearchOptions& options) {
  SearchResult result;
  // More threads than cores must be asked for, so that a test can.
  const auto wanted =
      std::max<std::size_t>(options.threads, static_cast<std::size_t>(tbb::info::default_concurrency()));
  const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, wanted);
  tbb::task_arena arena(options.threads == 0 ? tbb::task_arena::automatic : static_cast<int>(options.threads));
  arena.execute([&] { result = Search(model, workload, cluster, calibration, options).run(); });
  return result;
}

}  // namespace orrery
