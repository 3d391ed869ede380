#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "framework/launch/shell_values.hpp"

namespace orrery {

/// What a script tells the program that starts its ranks.
struct LauncherSays {
  std::optional<ShellText> gpus;                          ///< of the run; unknown where a part of it is
  std::vector<std::pair<std::string, ShellText>> others;  ///< further flags by name, without dashes
};

/// Reads what torchrun, srun, mpirun and #SBATCH lines are told. GPUs are ranks: the launcher's ranks of a node times
/// its nodes; where it has no such flags, those of #SBATCH, else the variables WORLD_SIZE, or GPUS_PER_NODE and NNODES.
class Launcher {
 public:
  Launcher(const std::string& text, ShellValues& values) : text_(text), values_(values) {}
  /// Reads the launcher's flags in front of the program; returns the first word of the program's own.
  std::size_t read(const std::vector<ShellText>& words);
  [[nodiscard]] LauncherSays says();

 private:
  void flag(const std::string& name, const ShellText& value, bool of_slurm);
  void read_sbatch();
  [[nodiscard]] std::optional<ShellText> product(const std::optional<ShellText>& a, const std::optional<ShellText>& b);
  [[nodiscard]] std::optional<ShellText> of_variables();

  const std::string& text_;
  ShellValues& values_;
  bool launches_ = false;                                        ///< torchrun or its like is called
  std::optional<ShellText> per_node_, nodes_;                    ///< of torchrun and its like
  std::optional<ShellText> slurm_per_node_, slurm_nodes_, all_;  ///< of srun, mpirun and #SBATCH
  std::vector<std::pair<std::string, ShellText>> others_;
};

}  // namespace orrery
