#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gui/model/prediction.hpp"

// What figures stand on besides the plan: what is trained on what, and what prices it.

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

/// Whether the change from one to the other is one of the plan's making, so that a percentage says something: they
/// share model, cluster, workload and calibration.  Software that somebody chose may differ: that is a decision too.
[[nodiscard]] bool is_comparable(const std::vector<BasisDifference>&);
/// "model gpt2-1.5b, not bert-base; workload.batch 64, not 32": what b has and what a had.
[[nodiscard]] std::string text_of(const std::vector<BasisDifference>&);
/// "another model"; the first of them that keeps figures from being compared, else the first.
[[nodiscard]] std::string short_text_of(const std::vector<BasisDifference>&);

}  // namespace orrery::gui
