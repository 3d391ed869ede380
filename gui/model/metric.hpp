#pragma once

#include <cstdint>
#include <string>

#include "gui/model/prediction.hpp"

namespace orrery::gui {

/// The figures that a plan is judged by.
enum class Metric : std::uint8_t { step_time, tokens_per_s, mfu, peak_memory, bubble, exposed_communication, cost };
inline constexpr std::size_t metric_count = 7;

[[nodiscard]] const char* label_of(Metric);

/// A figure as it is shown.
struct Reading {
  double value = 0.0;
  std::string text;  ///< "14.99 s"; "-" where it is not known
  std::string note;  ///< what stands below it: "of 80.0 GiB"
  bool known = true;
  bool bad = false;  ///< does not fit
};
[[nodiscard]] Reading reading(Metric, const Prediction&);

/// The change against a baseline: "+3.2 %", or "+1.2 points" for shares; empty where either is unknown or nothing
/// differs. Against a baseline of another model, cluster or workload (is_comparable) there is no number: "baseline of
/// another model".
struct MetricChange {
  std::string text;
  bool better = false;
  bool judged = true;  ///< better or worse; false: the text says why neither
};
[[nodiscard]] MetricChange change(Metric, const Prediction& now, const Prediction& baseline);

/// The formula, its legend and the numbers of this plan, as simple HTML. Figures computed here from the numbers shown
/// equal those of the report, to rounding.
[[nodiscard]] std::string explanation(Metric, const Prediction&);

}  // namespace orrery::gui
