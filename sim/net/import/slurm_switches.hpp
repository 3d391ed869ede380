#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/net/import/source.hpp"

namespace orrery::importing {

/// A switch of Slurm, or a block, and what hangs on it.
struct SlurmSwitch {
  std::string name;
  std::vector<std::string> below;  ///< nodes, or switches
  bool leaf = false;               ///< whether nodes hang on it
  Position where;
};

/// Expands a hostlist of Slurm: "n[0-3,007],m". Empty after a mistake (import.hostlist).
[[nodiscard]] std::optional<std::vector<std::string>> slurm_names(std::string_view text, Position, Source&);

/// The switches of topology.conf (plugins topology/tree and topology/block), or of what `scontrol show topology`
/// prints.
[[nodiscard]] std::vector<SlurmSwitch> read_slurm_conf(Source&);
/// The switches of topology.yaml: of its default topology, or else its first with a tree or blocks.
[[nodiscard]] std::vector<SlurmSwitch> read_slurm_yaml(Source&);

}  // namespace orrery::importing
