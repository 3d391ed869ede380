#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "cli/search_question.hpp"
#include "sweep/sweep_points.hpp"
#include "sweep/swept_point.hpp"

namespace orrery {

/// What is the same at every point of a sweep.
struct SweepBase {
  SearchQuestion question;
  std::optional<PlannedRun> plan;     ///< points are estimates of it, changed; unset: searches
  std::optional<Seconds> keep_below;  ///< points that cannot be below it are not computed
};

/// Computes points: as `orrery plan` answers a question, or as `orrery estimate` predicts a plan. May be used from
/// several threads.
class PointComputer {
 public:
  PointComputer(SweepBase, const SweepPoints&);

  /// Throws an InputError where a model, cluster, program or file that some point names is wrong in itself; what is
  /// wrong at single points is their answer.
  void check_names() const;
  /// 16 hexadecimal digits of all that the answer follows from: the content of model, cluster and plan, the workload,
  /// limits, prices and this program's version.
  [[nodiscard]] std::string digest(std::uint64_t number) const;
  /// Empty where the search was told to stop. The answer does not depend on the threads.
  [[nodiscard]] std::optional<SweptPoint> compute(std::uint64_t number, std::uint32_t threads,
                                                  const std::atomic<bool>* cancel) const;

 private:
  struct Prepared;
  [[nodiscard]] Prepared prepared(std::uint64_t number) const;
  [[nodiscard]] Prepared prepared_search(std::uint64_t number) const;
  [[nodiscard]] Prepared prepared_plan(std::uint64_t number) const;

  SweepBase base_;
  const SweepPoints& points_;
  std::string prices_;  ///< digest of the files that prices come from
};

}  // namespace orrery
