#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/net/import/gpu_links.hpp"
#include "sim/net/import/nccl_values.hpp"
#include "sim/net/import/node_draft.hpp"

namespace orrery::importing {

/// One row of a GPU's links in a dump of NCCL or RCCL. A GPU has a row for each peer or switch that its links lead to.
struct GpuLinkRow {
  PciKind to = PciKind::nvswitch;       ///< a GPU, the NVSwitches or the processor
  std::optional<std::uint64_t> target;  ///< bus of the GPU
  std::uint32_t count = 0;              ///< NVLinks or xGMI links; 0: a coherent link, whose rate is `bandwidth`
  Bandwidth bandwidth;                  ///< of all of them
  Position where;
};

/// A GPU with its rows.
struct DumpedGpu {
  std::string vertex, host;  ///< names in the draft: its own, and that of the processor above it
  std::uint64_t bus = 0;
  const GpuLinks* links = nullptr;  ///< null: the GPU's kind is not known, and it has no row that needs it
  std::vector<GpuLinkRow> rows;
};

/// Wires the links that the rows state. Rows of one GPU to one peer add up, and all NVSwitches count as one, since a
/// message uses all of those links (NCCL does the same: graph/topo.cc, ncclTopoConnectNodes). Links to GPUs that the
/// dump does not have are left out, with a note, because the process that wrote it did not see them.
void wire_gpu_links(const std::vector<DumpedGpu>&, Source&, NodeDraft&);

}  // namespace orrery::importing
