#pragma once

#include "sim/net/fabric_spec.hpp"

namespace orrery {

/// Every GPU on one NVLink switch, and by PCIe on its NIC.
[[nodiscard]] NodeWiring nvswitch_node(std::uint32_t gpus, std::uint32_t nics, Link nvlink, Link pcie);

/// The hybrid cube mesh of the DGX-1V: eight GPUs, one or two NVLinks between
/// neighbours (`nvlink` is one of them), two GPUs and a NIC on each of four PCIe
/// switches, two of those on each of two hosts.
/// NVIDIA, "DGX-1 with Tesla V100 system architecture", WP-08437-002, 2017.
[[nodiscard]] NodeWiring cube_mesh_node(Link nvlink, Link pcie, Link socket);

/// PCIe only: GPUs and NICs spread over switches, switches over hosts, all
/// hosts joined by `socket`.
[[nodiscard]] NodeWiring pcie_node(std::uint32_t gpus, std::uint32_t nics, std::uint32_t gpus_per_switch,
                                   std::uint32_t sockets, Link pcie, Link socket);

/// The cable of each GPU to the one switch that all of them reach by NVLink, as indices into the wires; the first such
/// switch, and none where there is none.
[[nodiscard]] std::vector<std::uint32_t> cables_to_nvlink_switch(const NodeWiring&);

}  // namespace orrery
