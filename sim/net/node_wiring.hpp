#pragma once

#include "sim/net/fabric_spec.hpp"

namespace orrery {

/// Every GPU is on one NVLink switch, and by PCIe on its NIC.
[[nodiscard]] NodeWiring nvswitch_node(std::uint32_t gpus, std::uint32_t nics, Link nvlink, Link pcie);

/// The hybrid cube mesh of the DGX-1V: eight GPUs, with one or two NVLinks between neighbours (`nvlink` is one of
/// them). Two GPUs and a NIC are on each of four PCIe switches, and two of those on each of two hosts. NVIDIA, "DGX-1
/// with Tesla V100 system architecture", WP-08437-002, 2017.
[[nodiscard]] NodeWiring cube_mesh_node(Link nvlink, Link pcie, Link socket);

/// PCIe only: GPUs and NICs are spread over switches, and switches over hosts; `socket` joins all hosts.
[[nodiscard]] NodeWiring pcie_node(std::uint32_t gpus, std::uint32_t nics, std::uint32_t gpus_per_switch,
                                   std::uint32_t sockets, Link pcie, Link socket);

/// For the first switch that all GPUs reach by NVLink, the cable of each GPU to it, as indices into the wires; empty
/// where there is no such switch.
[[nodiscard]] std::vector<std::uint32_t> cables_to_nvlink_switch(const NodeWiring&);

}  // namespace orrery
