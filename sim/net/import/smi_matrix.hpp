#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/net/import/source.hpp"

namespace orrery::importing {

/// The matrix of `nvidia-smi topo -m`: for each two devices the farthest thing between them (by NVIDIA's legend). PIX
/// is one PCIe switch, PXB several, PHB the host bridge, NODE bridges of one NUMA node, SYS sockets. NV# is that many
/// NVLinks, and then hides what lies between the two over PCIe.
struct SmiMatrix {
  enum Distance : std::uint8_t { same, pix, pxb, phb, numa, sys, unknown };
  struct Cell {
    Distance distance = unknown;
    std::uint32_t nvlinks = 0;
  };
  struct Device {
    std::string name;
    bool gpu = false;
    std::string place = {};  ///< for a GPU: its NUMA node, or where there is no such column its cores; empty: not said
  };
  std::vector<Device> devices;
  std::vector<std::vector<Cell>> cells;
  std::vector<std::vector<std::size_t>> offsets;  ///< of the cells, in the file
  std::size_t header = 0;                         ///< where it stands in the file
  bool pcie_alone = false;                        ///< the file shows the command: `topo -mp`, which leaves NVLinks out
};

/// Reads a matrix whose halves are alike; empty after a mistake: import.matrix, import.size.
[[nodiscard]] std::optional<SmiMatrix> read_smi_matrix(Source&);

}  // namespace orrery::importing
