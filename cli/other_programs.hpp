#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/common.hpp"
#include "core/base/units.hpp"
#include "core/plan/plan.hpp"

namespace orrery {

/// A plan's step as one training program runs it.
struct ProgramStep {
  std::string_view program;  ///< "torchtitan"
  Seconds step;
  std::size_t runs = 0;  ///< measured runs of the program on this family of devices
};

/// The step of a resolved plan under every other program with measured runs on its devices, shortest first. Empty where
/// the prices are a person's own choice, or come from this machine.
[[nodiscard]] std::vector<ProgramStep> other_program_steps(const PlannedRun&, const CalibrationChoice&,
                                                           const CommonFlags&);

/// "As other programs run it: 6.14 s (nemo) to 8.20 s (torchtitan)."; empty without steps.
[[nodiscard]] std::string other_programs_text(const std::vector<ProgramStep>&);

}  // namespace orrery
