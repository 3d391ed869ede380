#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/base/units.hpp"

/// The meaning of attributes in NCCL's topology, for its reader.
namespace orrery::importing {

/// Bandwidth of a PCIe lane in one direction, by transfers per second. Source: PCI Express base specification: 8b/10b
/// below 8 GT/s, 128b/130b from there, 242 of 256 bytes of a flit at 64 GT/s.
[[nodiscard]] Bandwidth lane_bandwidth(double gigatransfers);

/// The bandwidth between two sockets of such processors that NCCL counts (graph/topo.h, 2.28).
[[nodiscard]] Bandwidth socket_bandwidth(std::string_view arch, std::string_view vendor, int family, int model);

/// A bus's digits as one number, as NCCL compares them: "0000:C2:00.0" and "0000:c2:00.0" are equal. Empty where there
/// is no digit.
[[nodiscard]] std::optional<std::uint64_t> bus_number(std::string_view text);

/// What a device is, by its PCI class ("0x030200"; the first digits are enough).
enum class PciKind : std::uint8_t { gpu, nic, bridge, nvswitch, processor, other, unknown };
/// Unknown: there is no class.
[[nodiscard]] PciKind pci_kind_of(std::string_view pci_class);

}  // namespace orrery::importing
