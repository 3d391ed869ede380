#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/diagnostics.hpp"
#include "sim/net/fabric_spec.hpp"

namespace orrery {

/// Other programs' descriptions of machines and networks that become fabrics.
enum class ImportKind : std::uint8_t {
  nccl_topology,   ///< NCCL_TOPO_DUMP_FILE, or the skeleton that a cloud ships for NCCL_TOPO_FILE: one node
  smi_topology,    ///< what `nvidia-smi topo -m` prints: one node
  slurm_topology,  ///< Slurm's topology.conf: the switches above the nodes
  astra_network,   ///< a network of ASTRA-sim's analytical backends, in YAML
  dot_graph        ///< a graph for Graphviz, as `orrery show fabric --dot` writes it
};
/// "nccl-topology" and so on, in the order of the kinds.
[[nodiscard]] const std::vector<std::string>& import_kind_names();
[[nodiscard]] std::string_view name_of(ImportKind);
/// What a text looks like; none: like none of them.
[[nodiscard]] std::optional<ImportKind> import_kind_of(std::string_view text);

/// What such files leave open.
struct ImportOptions {
  std::string name = "imported";
  std::optional<std::string> gpu;        ///< a name of gpu_link_names(): its links and PCIe, where the file has none
  std::optional<std::uint32_t> nvlinks;  ///< of each GPU, in a matrix of `nvidia-smi` that shows none
  std::optional<Bandwidth> nic;          ///< of a network port, where the file does not say
  std::vector<std::string> without;      ///< NICs of these names are left out (those for storage)
  std::uint32_t nodes = 1;               ///< of the one that a file describes
  std::optional<NodeWiring> node;        ///< Slurm: what stands in each node; none: one GPU
};

struct Imported {
  FabricSpec fabric;
  std::vector<std::string> notes;  ///< what was assumed, and what has been left out
};

/// Reads one.  Nothing after a mistake, which is in the diagnostics: codes import.*.
[[nodiscard]] std::optional<Imported> import_fabric(ImportKind, std::string text, std::string file,
                                                    const ImportOptions&, Diagnostics&);

/// A fabric as a network of ASTRA-sim's analytical backends; none where it has no such form, and `why` says why.
[[nodiscard]] std::optional<std::string> astra_text(const FabricSpec&, std::string& why);

}  // namespace orrery
