#include "planner/priced_plans.hpp"

#include <tbb/concurrent_unordered_map.h>
#include <tbb/enumerable_thread_specific.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <map>
#include <string>

#include "planner/openings.hpp"
#include "planner/plan_key.hpp"

namespace orrery {
namespace {

std::vector<std::uint64_t> level_units(const ClusterSpec& cluster) {
  std::vector<std::uint64_t> out;
  std::uint64_t unit = 1;
  for (const NetworkLevel& level : cluster.levels) out.push_back(unit *= level.size);
  return out;
}

std::uint64_t whole(Bytes memory) { return static_cast<std::uint64_t>(std::min(memory.base(), 9e18)); }

bool is_better(const Seen& a, const Seen& b) { return a.rating < b.rating; }

}  // namespace

std::vector<Seen>::const_iterator best_of(const std::vector<Seen>& list) {
  return std::min_element(list.begin(), list.end(), is_better);
}

std::vector<Seen> joined(std::vector<std::vector<Seen>> lists) {
  std::vector<Seen> out;
  for (std::vector<Seen>& list : lists) {
    for (Seen& s : list) out.push_back(std::move(s));
  }
  return out;
}

std::vector<std::uint32_t> sizes_of(const Plan& plan) {
  std::vector<std::uint32_t> out;
  for (const Axis a : plan_axes) out.push_back(plan.mesh.size(a));
  return out;
}

struct PricedPlans::Memo : tbb::concurrent_unordered_map<std::string, Known> {};

struct PricedPlans::State {
  explicit State(const PricedPlans& of)
      : appraisers(
            [&of] { return Appraiser(of.model, of.workload, of.cluster, of.calibration, of.options.limits.close); }) {}
  tbb::enumerable_thread_specific<Appraiser> appraisers;
  Memo held, least, settled;
};

PricedPlans::PricedPlans(const ModelSpec& m, const Workload& w, const ClusterSpec& c, const Calibration& prices,
                         const SearchOptions& o)
    : model(m),
      workload(w),
      cluster(c),
      calibration(prices),
      options(o),
      rules{o.headroom.value_or(default_headroom(c, prices)), false},
      room(o.judge_memory ? whole(most_for_tensors(c, prices, rules.headroom)) : ~std::uint64_t{0}),
      hosts(hosts_are_known(c) && o.judge_memory),
      units(level_units(c)),
      for_memory(o.objective == Objective::memory),
      state_(std::make_unique<State>(*this)) {}

PricedPlans::~PricedPlans() = default;

Appraiser& PricedPlans::appraiser() { return state_->appraisers.local(); }

std::uint64_t PricedPlans::count() const { return state_->least.size() + state_->settled.size(); }

void side_by_side(std::size_t n, const std::function<void(std::size_t)>& task) {
  tbb::parallel_for(std::size_t{0}, n, task, tbb::simple_partitioner());
}

Rating PricedPlans::rate(const Appraisal& a) const {
  const auto peak = static_cast<std::int64_t>(a.peak);
  return for_memory ? Rating{peak, a.step} : Rating{a.step, peak};
}

bool PricedPlans::is_allowed(const Plan& plan) {
  return options.limits.allow(appraiser().run(plan), options.dimensions);
}

const PricedPlans::Known& PricedPlans::known(Memo& memo, const Candidate& c, const Ask& ask) {
  Appraiser& here = appraiser();
  const std::string key =
      key_of(here.run(c.plan), options.dimensions) + static_cast<char>('0' + static_cast<int>(c.raised));
  if (const auto at = memo.find(key); at != memo.end()) return at->second;
  Known out;
  Plan plan = c.plan;
  out.valid = here.is_valid(plan);
  if (out.valid) {
    out.raised = c.raised;
    out.what = ask(here, Candidate{std::move(plan), c.raised});
  }
  return memo.emplace(key, std::move(out)).first->second;
}

const PricedPlans::Known& PricedPlans::least(const Candidate& c) {
  return known(state_->least, {with_least(c), Raised::nothing},
               [&](Appraiser& a, const Candidate& plain) { return a.appraise(plain, room); });
}

const PricedPlans::Known* PricedPlans::least_below(const Candidate& c, const Rating& limit) {
  if (for_memory && limit != worst) {
    const Known& held = known(state_->held, {with_least(c), Raised::nothing}, [](Appraiser& a, const Candidate& plain) {
      return Appraisal{plain.plan, 0, a.held(plain.plan), false};
    });
    if (!held.valid || static_cast<std::int64_t>(held.what.peak) > limit.first) return nullptr;
  }
  const Known& plain = least(c);
  return plain.valid && rate(plain.what) < limit ? &plain : nullptr;
}

Seen PricedPlans::look(const Candidate& wished, const Rating& limit) {
  // Where memory is what counts, as much is done as can be.
  const Candidate c = for_memory ? with_most(wished) : wished;
  Seen out{c, {}, worst};
  if (c.raised == Raised::recomputed_layers && options.limits.only.contains("plan.recompute_layers")) return out;
  const Known* plain = least_below(c, limit);
  if (plain == nullptr) return out;
  out.what = plain->what;
  if (!plain->what.fits) {
    if (c.raised == Raised::nothing || !may_be_raised_below(c, plain->what, limit)) return out;
    out.what =
        known(state_->settled, c, [&](Appraiser& a, const Candidate& open) { return a.appraise(open, room); }).what;
  }
  if (out.what.fits && is_allowed(out.what.plan)) out.rating = rate(out.what);
  return out;
}

/// Whether the candidate fits with the most that can be raised, and a count in proportion to what is short leaves a
/// step that may be below the limit.
bool PricedPlans::may_be_raised_below(const Candidate& c, const Appraisal& none, const Rating& limit) {
  const Known& all = least(with_most(c));
  if (!all.valid) return false;
  if (all.what.peak > room) {
    // With all layers recomputed but one, a stage may hold less.
    if (c.raised != Raised::recomputed_layers || none.peak <= room) return false;
    const double layer = static_cast<double>(none.peak - std::min(all.what.peak, none.peak)) /
                         std::max<double>(1, all.what.plan.stage_layers->front());
    if (static_cast<double>(all.what.peak - room) > layer) return false;
  }
  if (for_memory || none.peak <= room || all.what.peak >= none.peak) return true;
  const double share = part_that_fits(none, all.what, room);
  constexpr double sure = 0.8;  // of the share: a rank that is not the fullest needs less
  return static_cast<double>(none.step) + sure * share * static_cast<double>(all.what.step - none.step) <
         static_cast<double>(limit.first);
}

std::vector<Seen> PricedPlans::ranked() {
  std::vector<std::pair<std::string, Seen>> all;
  for (const Memo* memo : {&state_->least, &state_->settled}) {
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

std::vector<Appraisal> PricedPlans::leanest_by_shape() {
  std::map<std::vector<std::uint32_t>, std::pair<std::string, Appraisal>> by_shape;
  for (const auto& [key, k] : state_->least) {
    if (!k.valid || !is_allowed(k.what.plan)) continue;
    const auto [at, fresh] = by_shape.try_emplace(sizes_of(k.what.plan), key, k.what);
    const auto order = [](const std::string& name, const Appraisal& a) { return std::pair(a.peak, name); };
    if (!fresh && order(key, k.what) < order(at->second.first, at->second.second)) at->second = {key, k.what};
  }
  std::vector<Appraisal> out;
  for (auto& [sizes, of] : by_shape) out.push_back(std::move(of.second));
  std::stable_sort(out.begin(), out.end(), [](const Appraisal& a, const Appraisal& b) { return a.peak < b.peak; });
  return out;
}

}  // namespace orrery
