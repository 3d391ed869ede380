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
  std::string name = "none";  ///< of a TrainingProgram; "none": kernels as the vendor's libraries run them; "any": what
                              ///< all programs have in common
  bool chosen = false;        ///< by the user
  SoftwareCosts costs;        ///< neutral for "none"
  std::vector<std::string> files;       ///< of models/software that it takes, in order of their names
  std::size_t runs = 0;                 ///< measured runs of this program on this family of devices behind all of them
  std::vector<ProgramRuns> others;      ///< such runs of programs that share all of its costs, by program
  std::optional<HeldOutErrors> errors;  ///< unset where nothing measured tells
  friend bool operator==(const Software&, const Software&) = default;
};

/// The program that runs tensor- and pipeline-parallel plans and has most measured runs behind its costs on the family
/// of the device whose calibration is called so; null for a device of no family.
[[nodiscard]] const TrainingProgram* usual_program(const std::vector<CostFile>&, std::string_view calibration);

/// `name` is that of a training program, "none", or "auto": the usual program of the device's family; for a device of
/// no family what all programs have in common; none for CPU cores, and for constants that were measured on a machine
/// of one's own, which hold the costs of the software that was measured.
///
/// `errors`: of the narrowest key of the program; where no run of it on the family was measured, the widest of its
/// keys; of "auto" those of all programs on the family, priced as its usual one; on a device of no family unset.
///
/// Codes: cli.software for an unknown name, for a program on CPU cores, on measured constants, or without a file
[[nodiscard]] std::optional<Software> software_of(std::string_view name, const std::vector<CostFile>&,
                                                  const Calibration&, const DeviceSpec&, Precision, Diagnostics&);

/// "nemo; costs of all, hopper, nemo, transformer-engine; 62 measured runs of it", and how many of which other
/// programs.
[[nodiscard]] std::string describe(const Software&);
/// The same without the files: "nemo, the usual one on this device (--software names yours); 62 measured runs of it".
[[nodiscard]] std::string describe_briefly(const Software&);

}  // namespace orrery
