#pragma once

#include <string>
#include <variant>
#include <vector>

#include "core/program/program.hpp"
#include "core/record/calibration.hpp"
#include "core/record/report.hpp"
#include "core/spec/library.hpp"
#include "sim/memory/memory_figures.hpp"
#include "validate/cost_labels.hpp"
#include "validate/measured_run.hpp"

namespace orrery {

/// A row of a table, lowered: everything that a prediction needs except the costs of its software.
struct PreparedRun {
  std::string id, source;
  PlannedRun run;
  Program program;
  Calibration calibration;  ///< of the device; no costs of software
  Calibration unmeasured;   ///< the same, had nothing been measured on the device
  CostLabels labels;
  FrameworkMemory memory;  ///< of its training program
  /// The Program whose memory is played, where the plan's own recomputation stands for another only in time.
  std::optional<Program> held_program;
  AllocatorRules allocator;
  std::string architecture;        ///< a key for models that are alike: activation, width, feed-forward width, experts
  std::optional<double> measured;  ///< seconds of a step; unset: the row publishes only memory
  bool inconsistent = false;
  std::vector<std::string> filled;  ///< columns that a rule filled
};

/// The row, or the reason why it cannot be predicted.
[[nodiscard]] std::variant<PreparedRun, std::string> prepare(const MeasuredRun&, const Library&);

/// Step time with these costs of software.
[[nodiscard]] double step_time(const PreparedRun&, const SoftwareCosts&);
/// The whole prediction: step time and what it is made of.
[[nodiscard]] Report step_report(const PreparedRun&, const SoftwareCosts&);
/// Step time where nothing had been measured on the device.
[[nodiscard]] double unmeasured_step_time(const PreparedRun&, const SoftwareCosts&);
/// Memory of each pipeline stage, as PyTorch's allocator counts it.
[[nodiscard]] std::vector<MemoryFigures> memory_figures(const PreparedRun&);

}  // namespace orrery
