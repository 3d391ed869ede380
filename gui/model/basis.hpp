#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gui/model/prediction.hpp"

// The things besides the plan on which figures depend: model, cluster, workload, and prices.

namespace orrery::gui {

/// Something that two runs do not share.
struct BasisDifference {
  enum class Of : std::uint8_t { model, cluster, workload, software, calibration, memory_margin };
  Of of = Of::model;
  std::string field;  ///< as plan files call it: "workload.batch"
  std::string a, b;
};
[[nodiscard]] std::vector<BasisDifference> basis_differences(const PricedRun& a, const PricedRun& b);
/// The differences of model, cluster and workload alone.
[[nodiscard]] std::vector<BasisDifference> basis_differences(const PlannedRun& a, const PlannedRun& b);

/// Whether the change from one run to the other comes from the plans, so that a percentage says something: they share
/// model, cluster, workload and calibration. Software that somebody chose may differ, because that is a decision too.
[[nodiscard]] bool is_comparable(const std::vector<BasisDifference>&);
/// The differences as a text: what b has and what a had, "model gpt2-1.5b, not bert-base; workload.batch 64, not 32".
[[nodiscard]] std::string text_of(const std::vector<BasisDifference>&);
/// A short text such as "another model", for the first difference that keeps figures from being compared, otherwise for
/// the first one.
[[nodiscard]] std::string short_text_of(const std::vector<BasisDifference>&);

}  // namespace orrery::gui
