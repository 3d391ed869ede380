#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/diagnostics.hpp"
#include "core/record/calibration.hpp"
#include "core/spec/cluster_spec.hpp"
#include "core/spec/workload.hpp"
#include "validate/cost_file.hpp"

namespace orrery {

/// Measured runs of one training program.
struct ProgramRuns {
  std::string program;  ///< of a TrainingProgram; empty: of none of them
  std::size_t runs = 0;
  friend bool operator==(const ProgramRuns&, const ProgramRuns&) = default;
};

/// The training software that a prediction is priced with: its costs, where they come from, and how far off they are.
struct Software {
  std::string name = "none";       ///< of a TrainingProgram; "none": kernels as the vendor's libraries run them; "any":
                                   ///< costs that all programs share
  bool chosen = false;             ///< by the user
  SoftwareCosts costs;             ///< neutral for "none"
  std::vector<std::string> files;  ///< of models/software that it takes, in order of their names
  std::size_t runs = 0;            ///< measured runs of this program on this family of devices behind all of them
  std::vector<ProgramRuns> others;      ///< such runs of programs that share all of its costs, by program
  std::optional<HeldOutErrors> errors;  ///< unset where nothing measured tells
  friend bool operator==(const Software&, const Software&) = default;
};

/// The usual program on the family of the device with this calibration. It runs tensor- and pipeline-parallel plans and
/// has the most measured runs behind its costs there. Null for a device of no family.
[[nodiscard]] const TrainingProgram* usual_program(const std::vector<CostFile>&, std::string_view calibration);

/// `name` is that of a training program, "none", or "auto". For "auto" it is the usual program of the device's family;
/// for a device of no family the costs that all programs share; for CPU cores none, and also for constants measured on
/// the user's own machine, which hold the costs of the measured software.
///
/// `errors` are those of the program's narrowest key. Where no run of it on the family was measured, they are those of
/// its widest key. For "auto" they are those of all programs on the family, priced as its usual one; on a device of no
/// family those of all runs, had nothing been measured on their devices.
///
/// Codes: cli.software for an unknown name, for a program on CPU cores, on measured constants, or without a file
[[nodiscard]] std::optional<Software> software_of(std::string_view name, const std::vector<CostFile>&,
                                                  const Calibration&, const DeviceSpec&, Precision, Diagnostics&);

/// The text "nemo; costs of all, hopper, nemo, transformer-engine; 62 measured runs of it", and how many runs of which
/// other programs.
[[nodiscard]] std::string describe(const Software&);
/// The same without the files: "nemo, the usual one on this device (--software names yours); 62 measured runs of it".
[[nodiscard]] std::string describe_briefly(const Software&);

}  // namespace orrery
