#include "planner/descent.hpp"

#include <algorithm>
#include <set>

#include "planner/exploration.hpp"
#include "planner/openings.hpp"

namespace orrery {
namespace {

/// Changes that are looked at side by side.  Fixed, so that the number of threads does not count.
constexpr std::size_t changes_at_once = 32;
/// Shapes from whose best plan decisions are changed one by one, and of those the ones that are changed in pairs.
constexpr std::size_t most_descents = 8, fewest_descents = 3, most_paired = 3;
/// Estimates from which on only the fewest are.
constexpr std::uint64_t worth_more_descents = 4000;
/// A plan is changed step by step where it is so near to the best.
constexpr double worth_changing = 1.1, worth_changing_memory = 1.5;
/// Shapes whose leanest plans are made leaner where nothing fits.
constexpr std::size_t most_squeezed = 4;

/// What follows from the search's own counts is no neighbour of its own.
bool is_raised(const std::string& dimension) {
  return dimension == "recompute" || dimension == "recompute_layers" || dimension == "offload_activations" ||
         dimension.ends_with("_tier");
}

/// The plan as before anything was done so that it fits: what that was on another mesh says little of this one.
std::vector<Plan> as_before_reliefs(Plan plan) {
  plan = without_reliefs(std::move(plan));
  std::vector<Plan> out{plan};
  if (plan.offload_states > 0U) {
    plan.offload_states = plan.offload_parameters = 0;
    out.push_back(plan);
  }
  if (plan.zero_stage == 3) {
    plan.reshard_after_forward = !plan.reshard_after_forward;
    out.push_back(plan);
  }
  return out;
}

}  // namespace

void Descent::squeeze() {
  std::size_t tried = 0;
  for (Appraisal& lean : plans_.leanest_by_shape()) {
    if (standing_.has_plan() || tried++ == most_squeezed) return;
    squeeze(std::move(lean));
  }
}

void Descent::squeeze(Appraisal at) {
  while (!standing_.has_plan() && !meter_.cancelled()) {
    std::vector<Plan> list;
    for (const Reach reach : {Reach::plan, Reach::pairs, Reach::mesh}) {
      for (Neighbour& n :
           neighbours(plans_.appraiser().run(at.plan), reach, plans_.options.limits, plans_.options.dimensions)) {
        n.plan.gradient_bucket.reset();
        list.push_back(std::move(n.plan));
      }
    }
    std::vector<Seen> seen(list.size());
    side_by_side(list.size(), [&](std::size_t i) { seen[i] = plans_.look({list[i], Raised::nothing}, worst); });
    const std::uint64_t before = at.peak;
    for (const Seen& s : seen) {
      if (s.what.step > 0 && s.what.peak < at.peak) at = s.what;
    }
    standing_.take_in(std::move(seen));
    if (at.peak == before) return;
  }
}

void Descent::run() {
  std::vector<Seen> from = starts();
  meter_.phase("changes", from.size() + 1);
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (i < fewest_descents || estimates() < worth_more_descents) improve(from[i], Reach::plan);
    meter_.done(1);
  }
  std::stable_sort(from.begin(), from.end(), [](const Seen& a, const Seen& b) { return a.rating < b.rating; });
  for (std::size_t i = 0; i < std::min(from.size(), most_paired); ++i) {
    if (i == 0 || estimates() < worth_more_descents) improve(from[i], Reach::pairs);
  }
  // The best until no change of it is better.
  for (bool better = standing_.has_plan(); better && !meter_.cancelled();) {
    better = false;
    changes_ = 0;
    for (const Reach reach : {Reach::plan, Reach::pairs, Reach::mesh}) {
      const Rating before = standing_.best().rating;
      Seen s = standing_.best();
      changes_ += step(s, reach);
      better = standing_.best().rating < before;
      if (better) break;
    }
  }
  meter_.done(1);
}

/// The best plan of each shape, of the shapes that are near to the best.
std::vector<Seen> Descent::starts() {
  std::vector<Seen> out;
  if (!standing_.has_plan()) return out;
  const Rating best = standing_.best().rating;
  const double near = plans_.for_memory ? worth_changing_memory : worth_changing;
  std::set<std::vector<std::uint32_t>> shapes;
  for (Seen& s : plans_.ranked()) {
    if (out.size() == most_descents) break;
    // Those that are better than the best do not fit as processes.
    if (s.rating < best) continue;
    if (static_cast<double>(s.rating.first) > near * static_cast<double>(best.first)) break;
    if (shapes.insert(sizes_of(s.what.plan)).second) out.push_back(std::move(s));
  }
  return out;
}

void Descent::improve(Seen& s, Reach reach) {
  for (Rating before = worst; s.rating != before && !meter_.cancelled();) {
    before = s.rating;
    step(s, reach);
  }
}

/// Takes the best of the neighbours, if one is better; how many there are.
std::uint64_t Descent::step(Seen& s, Reach reach) {
  std::vector<Candidate> list;
  for (Neighbour& n :
       neighbours(plans_.appraiser().run(s.what.plan), reach, plans_.options.limits, plans_.options.dimensions)) {
    if (!plans_.for_memory && is_raised(n.dimension)) continue;
    n.plan.gradient_bucket.reset();
    list.push_back({std::move(n.plan), s.from.raised});
  }
  if (reach == Reach::plan) {
    for (Candidate& c : reliefs(s.what.plan, plans_, all_mixtures)) list.push_back(std::move(c));
  }
  for (std::size_t next = 0; next < list.size() && !meter_.cancelled(); next += changes_at_once) {
    const std::size_t n = std::min(changes_at_once, list.size() - next);
    std::vector<std::vector<Seen>> seen(n);
    side_by_side(n, [&](std::size_t i) { seen[i] = changed(list[next + i], reach, s.rating); });
    std::vector<Seen> found = joined(std::move(seen));
    const auto least = best_of(found);
    if (least == found.end() || least->rating >= s.rating) continue;
    const Seen better = *least;
    standing_.take_in(std::move(found));
    // One that would be the best must fit as a process, too.
    s = better.rating < standing_.best().rating ? standing_.best() : better;
  }
  return list.size();
}

/// A changed plan; where it does not fit, with what makes it fit.
std::vector<Seen> Descent::changed(const Candidate& c, Reach reach, const Rating& limit) {
  std::vector<Seen> out;
  if (reach == Reach::mesh) {
    for (const Plan& bare : as_before_reliefs(c.plan)) {
      for (Seen& found : made_to_fit(plans_, bare, limit)) out.push_back(std::move(found));
    }
    return out;
  }
  Seen s = plans_.look(c, limit);
  if (s.rating < limit) {
    out.push_back(std::move(s));
  } else if (s.rating == worst && s.what.step > 0) {
    Rating below = limit;
    std::vector<Plan> lean{s.what.plan};
    if (std::optional<Plan> shared = shared_out_further(s.what.plan)) lean.push_back(std::move(*shared));
    for (const Plan& plan : lean) {
      for (const Candidate& r : reliefs(plan, plans_, all_mixtures)) {
        Seen other = plans_.look(r, below);
        if (other.rating >= below) continue;
        below = other.rating;
        out.push_back(std::move(other));
      }
    }
  }
  return out;
}

}  // namespace orrery
