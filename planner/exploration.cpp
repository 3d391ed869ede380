#include "planner/exploration.hpp"

#include <algorithm>
#include <optional>

#include "planner/hope.hpp"
#include "planner/openings.hpp"

namespace orrery {
namespace {

/// Looked at side by side between two looks at the best.  Fixed, so that what is looked at does not depend on the
/// number of threads.
constexpr std::size_t starts_at_once = 16, hopes_at_once = 64;
/// Coarse plans in a row that may leave the best as it is before no more are looked at.
constexpr std::size_t patience = 48;
/// A shape is looked at further where its usual plan takes at most so many times as long as the fastest of those,
constexpr double worth_a_look = 1.6;
/// and as what was found: other schedules and sizes may gain that much.
constexpr double least_gain = 1.3;
/// Tokens of a data rank up to which its gradients may take longer than what tensor ranks exchange, so that the usual
/// order of axes says little.
constexpr std::uint64_t few_tokens = 1U << 15;
/// A grid of tensor ranks, where its step is so near to that of one dimension: it holds less.
constexpr double worth_a_grid = 1.25;
/// A coarse plan is arranged where its step may come so near to the best, and made to fit where it then may come so
/// near.
constexpr double worth_arranging = 1.05, worth_fitting = 1.02;

}  // namespace

std::vector<Seen> made_to_fit(PricedPlans& plans, const Plan& plan, Rating limit) {
  std::vector<Seen> out;
  bool fits = false;
  const auto offer = [&](const Candidate& c) {
    Seen s = plans.look(c, limit);
    limit = std::min(limit, s.rating);
    fits = fits || s.rating != worst;
    if (s.what.step > 0) out.push_back(std::move(s));
  };
  offer({plan, Raised::nothing});
  if (fits && !plans.for_memory) return out;
  Plan stages = plan;
  if (!plans.appraiser().is_valid(stages)) return out;
  for (const Candidate& c : reliefs(stages, plans, few_mixtures)) offer(c);
  if (fits || !plans.hosts) return out;
  for (const Candidate& c : strong_reliefs(stages)) offer(c);
  return out;
}

/// Shapes whose coarse plan may come near to the best: first to the fastest of them, then to what was found.
void Exploration::run() {
  std::vector<Contest> all = coarse_plans();
  std::stable_sort(all.begin(), all.end(),
                   [](const Contest& a, const Contest& b) { return a.best.step < b.best.step; });
  for (std::size_t next = 0; next < all.size() && !meter_.cancelled();) {
    const double near = standing_.has_plan() ? least_gain * static_cast<double>(standing_.best().what.step)
                                             : worth_a_look * static_cast<double>(all[next].best.step);
    std::size_t end = next;
    while (end < all.size() && (plans_.for_memory || static_cast<double>(all[end].best.step) <= near)) ++end;
    if (end == next) return;
    make_fit(starts(std::span(all).subspan(next, end - next)));
    next = end;
  }
}

/// One for each shape.
std::vector<Contest> Exploration::coarse_plans() {
  const std::vector<Plan> list = coarse_shapes(plans_.appraiser(), plans_.options.limits, plans_.options.dimensions);
  std::vector<Contest> out(list.size(), Contest(plans_));
  meter_.phase("coarse plans", 2 * list.size());
  side_by_side(list.size(), [&](std::size_t i) {
    meter_.done(1);
    if (meter_.cancelled()) return;
    out[i].look_at(list[i]);
    const std::uint64_t ranks = size(list[i].mesh, sequence_axes(list[i]));
    const std::uint64_t tokens = plans_.workload.global_batch * plans_.workload.sequence_length / ranks;
    if (tokens > few_tokens || out[i].is_empty()) return;
    for (const Plan& plan : orders_of(list[i])) out[i].look_at(plan);
  });
  std::erase_if(out, [](const Contest& c) { return c.is_empty(); });
  return out;
}

/// The shapes, arranged, with microbatches that are worth a look; in ascending order of hope.
std::vector<Start> Exploration::starts(std::span<Contest> shapes) {
  std::vector<std::vector<Start>> by_shape(shapes.size());
  side_by_side(shapes.size(), [&](std::size_t i) {
    Contest& here = shapes[i];
    if (meter_.cancelled()) return;
    here.look_around();
    add_sizes(by_shape[i], here.best.plan);
    // Grids that are not much slower than one dimension are shapes of their own.
    for (const Plan& plan : grids_of(here.best.plan)) {
      Contest grid(plans_);
      grid.look_at(plan);
      if (!grid.is_empty() && grid.best.hope < worth_a_grid * here.best.hope) add_sizes(by_shape[i], plan);
    }
    meter_.done(1);
  });
  std::vector<Start> out;
  for (const std::vector<Start>& of : by_shape) out.insert(out.end(), of.begin(), of.end());
  std::stable_sort(out.begin(), out.end(), [](const Start& a, const Start& b) { return a.hope < b.hope; });
  return out;
}

/// The plan with every size of microbatch, until larger ones take longer and hold more.
void Exploration::add_sizes(std::vector<Start>& to, const Plan& shape) {
  Picoseconds shortest = never;
  int longer = 0;
  for (const std::uint32_t size : microbatch_sizes(shape, plans_.workload)) {
    if (!plans_.options.limits.allow("plan.microbatch_size", size)) continue;
    Plan plan = shape;
    plan.microbatch_size = size;
    Contest cut(plans_);
    cut.look_at(plan);
    for (const Plan& other : sequence_cuts_of(plan)) cut.look_at(other);
    if (cut.is_empty()) continue;
    const Picoseconds step = cut.best.step;
    to.push_back({cut.best.plan, step, static_cast<double>(step) * bubble_left(cut.best.plan)});
    longer = step < shortest ? 0 : longer + 1;
    shortest = std::min(shortest, step);
    if (longer > 1 || plans_.for_memory) break;
  }
}

/// What schedules with less bubble than 1F1B may leave of its step: of m + p - 1 passes of a microbatch one after the
/// other m, and a fifth of the rest.
double Exploration::bubble_left(const Plan& plan) const {
  const double p = plan.mesh.size(Axis::pipeline);
  const auto m = static_cast<double>(microbatches(plan, plans_.workload));
  const auto& only = plans_.options.limits.only;
  const auto others = only.find("plan.schedule");
  const bool plain =
      others != only.end() && std::all_of(others->second.begin(), others->second.end(), [](std::uint64_t s) {
        return s <= static_cast<std::uint64_t>(ScheduleName::eager_one_f_one_b);
      });
  return plain ? 1.0 : (m + 0.2 * (p - 1)) / (m + p - 1);
}

/// Hopes become those of plans that fit; starts whose own hope is above what others reach when they fit go.
void Exploration::hope_to_fit(std::vector<Start>& all) {
  auto least = static_cast<double>(never);
  std::vector<double> reached(all.size());
  std::size_t next = 0;
  while (next < all.size() && !meter_.cancelled() && (plans_.for_memory || all[next].hope < worth_arranging * least)) {
    const std::size_t n = std::min(hopes_at_once, all.size() - next);
    side_by_side(n, [&](std::size_t i) {
      Start& s = all[next + i];
      const double left = s.hope / static_cast<double>(s.step);
      reached[next + i] = plans_.for_memory ? least_held(plans_, s.plan) : fitting_step(plans_, s.plan);
      s.hope = (plans_.for_memory ? 1.0 : left) * reached[next + i];
    });
    for (std::size_t i = 0; i < n; ++i) least = std::min(least, reached[next + i]);
    next += n;
  }
  all.resize(next);
  std::stable_sort(all.begin(), all.end(), [](const Start& a, const Start& b) { return a.hope < b.hope; });
}

/// In ascending order of hope, until the rest is too slow for the best, or many in a row have not changed it.
void Exploration::make_fit(std::vector<Start> all) {
  shapes_ += all.size();
  const std::uint64_t before_these = looked_at_;
  hope_to_fit(all);
  std::size_t in_vain = 0;
  for (std::size_t next = 0; next < all.size() && !meter_.cancelled(); next += starts_at_once) {
    const Rating before = standing_.best().rating;
    const auto best = static_cast<double>(before.first);
    if (all[next].hope >= worth_arranging * best || in_vain >= patience) break;
    const bool any = !standing_.has_plan() || plans_.for_memory;
    const double limit = any ? static_cast<double>(never) : worth_fitting * best;
    const std::size_t n = std::min(starts_at_once, all.size() - next);
    std::vector<std::vector<Seen>> seen(n);
    side_by_side(n, [&](std::size_t i) {
      if (meter_.cancelled()) return;
      for (const Start& s : arranged(all[next + i].plan, limit)) {
        if (s.hope >= limit) continue;
        const Rating below{any ? never : static_cast<std::int64_t>(limit), never};
        for (Seen& found : made_to_fit(plans_, s.plan, below)) seen[i].push_back(std::move(found));
      }
    });
    looked_at_ = before_these + next + n;
    standing_.take_in(joined(std::move(seen)));
    in_vain = standing_.best().rating < before || !standing_.has_plan() ? 0 : in_vain + n;
  }
}

/// A coarse plan in its fastest schedule and with its states shared out in the fastest way, where its step then is
/// within the limit; and where that does not fit, with more shared out, and with sequence parallelism.
std::vector<Start> Exploration::arranged(const Plan& coarse, double limit) {
  Contest fastest(plans_);
  fastest.look_at(coarse);
  for (const Plan& plan : schedules_of(coarse, plans_.model)) fastest.look_at(plan);
  const Plan scheduled = fastest.best.plan;
  std::vector<Start> out;
  if (fastest.is_empty() || (!plans_.for_memory && fastest.best.hope > limit)) return out;
  for (const Plan& plan : states_of(scheduled, plans_.units)) fastest.look_at(plan);
  const Plan first = fastest.best.plan;
  out.push_back(fastest.best);
  const auto offer = [&](Contest& c) {
    if (c.is_empty()) return;
    if (c.best.plan != first) out.push_back(c.best);
    if (c.fits || c.best.plan.mesh.size(Axis::tensor) == 1 || c.best.plan.sequence_parallel) return;
    Contest cut(plans_);
    Plan plan = c.best.plan;
    plan.sequence_parallel = true;
    cut.look_at(plan);
    if (!cut.is_empty()) out.push_back(cut.best);
  };
  offer(fastest);
  if (fastest.fits && !plans_.for_memory) return out;
  for (const Plan& plan : lean_schedules_of(coarse)) {
    Contest lean(plans_);
    lean.look_at(plan);
    if (plan.schedule != scheduled.schedule) offer(lean);
  }
  if (const std::optional<Plan> ring = ring_of(scheduled)) {
    Contest lean(plans_);
    lean.look_at(*ring);
    offer(lean);
  }
  for (const std::uint32_t stage : {1U, 2U, 3U}) {
    // Without a pipeline ZeRO 3 is ZeRO 2 and more.
    const bool usual = stage != 2 || coarse.mesh.size(Axis::pipeline) > 1;
    if (shard_axes_of(coarse).empty() || (!usual && !plans_.options.limits.only.contains("plan.zero_stage"))) continue;
    Contest shared(plans_);
    Plan plan = scheduled;
    plan.zero_stage = stage;
    shared.look_at(plan);
    if (stage == 3) {
      if (const std::optional<Plan> other = breadth_first_of(plan, plans_.model)) shared.look_at(*other);
    }
    if (shared.is_empty()) continue;
    shared.look_around();
    for (const Plan& parted : replicas_of(shared.best.plan, plans_.units)) shared.look_at(parted);
    offer(shared);
  }
  return out;
}

}  // namespace orrery
