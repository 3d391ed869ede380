#include "planner/standing.hpp"

#include <algorithm>

#include "planner/openings.hpp"
#include "planner/plan_key.hpp"

namespace orrery {

void Standing::take_in(std::vector<Seen> seen) {
  std::stable_sort(seen.begin(), seen.end(), [](const Seen& a, const Seen& b) { return a.rating < b.rating; });
  for (Seen& s : seen) {
    const bool is_short = s.rating == worst && !s.what.fits && s.what.step > 0;
    if (is_short && (!leanest_ || s.what.peak < leanest_->peak)) leanest_ = s.what;
    if (s.rating < best_.rating) judge(s);
  }
}

/// Whether the process fits, too.  Where it does not, its count is raised once more; of a plan without a count those
/// that make plans fit are tried.  As far as the plan then is still better than the best: the allocator does not need
/// less with every count (docs/decisions/0017), so each is asked for.
void Standing::judge(Seen& s) {
  const SearchLimits& limits = plans_.options.limits;
  std::map<std::uint32_t, std::uint32_t> raises;  // of each stage: by one, then by two more, ...
  while (s.rating < best_.rating) {
    const MemoryVerdict& verdict = judged(s.what.plan);
    if (verdict.fits) {
      best_ = s;
      is_best_(best_);
      return;
    }
    reject(s.what);
    Appraiser& appraiser = plans_.appraiser();
    const Seen before = std::exchange(s, Seen{});
    if (before.from.raised != Raised::nothing) {
      Appraisal more = before.what;
      ++raised_further_;
      if (appraiser.raise_by(++raises[verdict.stage], more, before.from, verdict.stage, plans_.room) &&
          plans_.is_allowed(more.plan)) {
        s = {before.from, more, plans_.rate(more)};
      }
      continue;
    }
    for (Candidate& c : reliefs(before.what.plan, plans_, all_mixtures)) {
      if (c.raised == Raised::nothing || !appraiser.is_valid(c.plan)) continue;
      if (c.raised == Raised::recomputed_layers && limits.only.contains("plan.recompute_layers")) continue;
      ++raised_further_;
      const Appraisal a = appraiser.appraise(c, before.what.peak - 1);
      if (a.fits && plans_.is_allowed(a.plan) && plans_.rate(a) < s.rating) s = {c, a, plans_.rate(a)};
    }
  }
}

void Standing::reject(const Appraisal& a) {
  if (!rejected_ || plans_.rate(a) < plans_.rate(*rejected_)) rejected_ = a;
}

const MemoryVerdict& Standing::judged(const Plan& plan) {
  Appraiser& appraiser = plans_.appraiser();
  const auto [at, fresh] = verdicts_.try_emplace(key_of(appraiser.run(plan), plans_.options.dimensions));
  if (fresh && plans_.options.judge_memory) at->second = appraiser.processes(plan, plans_.rules);
  return at->second;
}

std::optional<Appraisal> Standing::rejected() const {
  if (!has_plan()) return rejected_ ? rejected_ : leanest_;
  if (rejected_ && plans_.rate(*rejected_) < best_.rating) return rejected_;
  return {};
}

}  // namespace orrery
