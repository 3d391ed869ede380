#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sweep/swept_point.hpp"

namespace orrery {

/// What a whole run is, for measures of it.
struct WholeRun {
  std::optional<double> tokens;  ///< to train on
};

/// A figure by which points are compared. To add one: a row of the table in measure.cpp.
struct SweepMeasure {
  std::string_view name;   ///< "step-time"
  std::string_view label;  ///< with its unit: "step time, s"
  bool more_is_better = false;
  bool needs_tokens = false;  ///< of the whole run
  /// Empty where the point has no such figure. Requires a found point.
  std::optional<double> (*get)(const SweptPoint::Figures&, const WholeRun&) = nullptr;
};
[[nodiscard]] std::span<const SweepMeasure> sweep_measures();
[[nodiscard]] const SweepMeasure* sweep_measure_named(std::string_view name);
/// A figure as a person reads it: four digits, with k, M, G behind large ones.
[[nodiscard]] std::string measure_text(double figure);

/// The Pareto front, as places in `points`: the points that no other found point betters, which is at least as good in
/// all measures and better in one. The first of equal points is taken. The order is that of the first measure, best
/// first. Points without one of the figures are left out.
[[nodiscard]] std::vector<std::size_t> pareto_front(const std::vector<SweptPoint>& points,
                                                    const std::vector<const SweepMeasure*>&, const WholeRun&);

}  // namespace orrery
