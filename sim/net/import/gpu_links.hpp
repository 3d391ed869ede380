#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/units.hpp"

namespace orrery::importing {

/// How GPUs of a kind reach each other without PCIe.
enum class PeerLinks : std::uint8_t {
  none,
  by_box,    ///< modules whose NVLinks lead to other GPUs or to NVSwitches, depending on the box
  switched,  ///< modules whose NVLinks lead to NVSwitches in most boxes
  bridge,    ///< cards whose NVLinks are used where a bridge joins two of them
  xgmi       ///< AMD's links between GPUs
};

/// How a GPU is linked, by its datasheet: nominal bandwidths in one direction.
struct GpuLinks {
  std::string_view name;
  std::string_view architecture;  ///< as a dump writes it: NCCL's sm ("90" is 9.0), RCCL's gcn ("942")
  PeerLinks kind;
  Bandwidth link;       ///< one NVLink or xGMI link
  std::uint32_t links;  ///< of one GPU
  Bandwidth pcie;       ///< of its 16 lanes
};

/// The names of kinds with NVLinks that a user may give for a file, "h100, h200, ..."; for messages.
[[nodiscard]] std::string gpu_link_names();
[[nodiscard]] const GpuLinks* gpu_links_named(std::string_view name);
/// The kind that a line of text names as listings do: "GPU 0: NVIDIA A100-SXM4-80GB (UUID: ...)". Null where it names
/// none.
[[nodiscard]] const GpuLinks* gpu_links_in(std::string_view line);
/// The kind with this PCI device of NVIDIA's, as a dump writes it: "0x2330". Null where it is not known.
[[nodiscard]] const GpuLinks* gpu_links_of_device(std::string_view device);
/// The first kind with links of that architecture. RCCL also writes "gfx90a:sramecc+:xnack-".
[[nodiscard]] const GpuLinks* gpu_links_of_sm(std::string_view sm);
[[nodiscard]] const GpuLinks* gpu_links_of_gcn(std::string_view gcn);

}  // namespace orrery::importing
