#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "planner/appraiser.hpp"
#include "planner/search.hpp"

// What a search knows: every plan that it priced, under the plan's key, so that no plan is priced twice.

namespace orrery {

constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();

/// The lower, the better: the objective, then the step (or, where that is the objective, the memory).
using Rating = std::pair<std::int64_t, std::int64_t>;
constexpr Rating worst{never, never};

struct Seen {
  Candidate from;
  Appraisal what;
  Rating rating = worst;  ///< worst where it does not fit
};
/// The best of what was seen, the first among equals; the end of an empty list.
[[nodiscard]] std::vector<Seen>::const_iterator best_of(const std::vector<Seen>&);
[[nodiscard]] std::vector<Seen> joined(std::vector<std::vector<Seen>>);

/// Sizes of all mesh axes.
[[nodiscard]] std::vector<std::uint32_t> sizes_of(const Plan&);

/// Asked from many threads at once.
class PricedPlans {
 public:
  /// All outlive it.
  PricedPlans(const ModelSpec&, const Workload&, const ClusterSpec&, const Calibration&, const SearchOptions&);
  ~PricedPlans();

  const ModelSpec& model;
  const Workload& workload;
  const ClusterSpec& cluster;
  const Calibration& calibration;
  const SearchOptions& options;
  const MemoryRules rules;
  const std::uint64_t room;                ///< bytes of a device for tensors
  const bool hosts;                        ///< whether host memory may be used
  const std::vector<std::uint64_t> units;  ///< devices in a unit of each network level
  const bool for_memory;                   ///< the objective is memory

  /// That of this thread.
  [[nodiscard]] Appraiser& appraiser();
  [[nodiscard]] Rating rate(const Appraisal&) const;
  [[nodiscard]] bool is_allowed(const Plan&);

  struct Known {
    bool valid = false;
    Raised raised = Raised::nothing;
    Appraisal what;
  };
  /// The candidate with the least count, whatever memory it takes: its step is the least that the candidate can have.
  const Known& least(const Candidate&);
  /// The same if it is valid and may be better than `limit`, or null.  Where memory is the objective, plans that hold
  /// more than the limit are not priced.
  const Known* least_below(const Candidate&, const Rating& limit);
  /// A candidate that may be better than `limit`, with the first count that fits.  Where it cannot be better, nothing
  /// is said of it (a step of 0).
  [[nodiscard]] Seen look(const Candidate&, const Rating& limit);

  /// All plans that were priced and whose tensors fit, best first.
  [[nodiscard]] std::vector<Seen> ranked();
  /// The plan that holds least of each shape, the leanest first.
  [[nodiscard]] std::vector<Appraisal> leanest_by_shape();
  [[nodiscard]] std::uint64_t count() const;

 private:
  struct Memo;
  struct State;
  using Ask = std::function<Appraisal(Appraiser&, const Candidate&)>;
  const Known& known(Memo&, const Candidate&, const Ask&);
  [[nodiscard]] bool may_be_raised_below(const Candidate&, const Appraisal& none, const Rating& limit);

  std::unique_ptr<State> state_;
};

/// Calls task(i) for each i below n, on all threads.
void side_by_side(std::size_t n, const std::function<void(std::size_t)>& task);

}  // namespace orrery
