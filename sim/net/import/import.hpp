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
  dot_graph,       ///< a graph for Graphviz, as `orrery show fabric --dot` writes it
  simai_topology   ///< servers, switches and links, as SimAI's ns-3 backend reads them
};
/// "nccl-topology" and so on, in the order of the kinds.
[[nodiscard]] const std::vector<std::string>& import_kind_names();
[[nodiscard]] std::string_view name_of(ImportKind);
/// The kind that a text looks like; empty where it looks like none.
[[nodiscard]] std::optional<ImportKind> import_kind_of(std::string_view text);

/// Figures that such files leave open.
struct ImportOptions {
  std::string name = "imported";
  std::optional<std::string> gpu;        ///< a name from gpu_link_names(), whose links and PCIe count where the file
                                         ///< has none
  std::optional<std::uint32_t> nvlinks;  ///< number for each GPU, for a matrix of `nvidia-smi` that shows none
  std::optional<Bandwidth> nic;          ///< of a network port, where the file does not say
  std::vector<std::string> without;      ///< NICs of these names are left out (those for storage)
  std::uint32_t nodes = 1;               ///< of the one that a file describes
  std::optional<NodeWiring> node;        ///< Slurm: what stands in each node; none: one GPU
};

struct Imported {
  FabricSpec fabric;
  std::vector<std::string> notes;  ///< what was assumed, and what has been left out
};

/// Reads one description. The result is empty after a mistake, which is in the diagnostics: codes import.*.
[[nodiscard]] std::optional<Imported> import_fabric(ImportKind, std::string text, std::string file,
                                                    const ImportOptions&, Diagnostics&);

/// A fabric as a network of ASTRA-sim's analytical backends. It is empty where the fabric has no such form, and `why`
/// gives the reason.
[[nodiscard]] std::optional<std::string> astra_text(const FabricSpec&, std::string& why);

}  // namespace orrery
