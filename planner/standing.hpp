#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "planner/priced_plans.hpp"

namespace orrery {

/// How a search stands: the best plan so far, whose process fits too, and what was better and did not fit.
///
/// Whether a process fits is asked of the allocator (sim/memory/fit.hpp), so only of plans that would be the best.
/// One thread at a time.
class Standing {
 public:
  /// `is_best` is told of every new best; both outlive it.
  Standing(PricedPlans& plans, std::function<void(const Seen&)> is_best)
      : plans_(plans), is_best_(std::move(is_best)) {}

  [[nodiscard]] const Seen& best() const { return best_; }
  [[nodiscard]] bool has_plan() const { return best_.rating != worst; }
  /// Takes in what was seen.
  void take_in(std::vector<Seen>);
  /// What a plan's process needs.
  const MemoryVerdict& judged(const Plan&);
  /// The best of the plans that would be better than the best and whose processes do not fit; where there is no best,
  /// else the one whose tensors lack least memory.
  [[nodiscard]] std::optional<Appraisal> rejected() const;
  /// Plans that were priced for it alone.
  [[nodiscard]] std::uint64_t count() const { return raised_further_; }

 private:
  void judge(Seen&);
  void reject(const Appraisal&);

  PricedPlans& plans_;
  std::function<void(const Seen&)> is_best_;
  Seen best_;
  std::optional<Appraisal> rejected_, leanest_;
  std::map<std::string, MemoryVerdict> verdicts_;
  std::uint64_t raised_further_ = 0;
};

}  // namespace orrery
