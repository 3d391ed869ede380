#include "sim/net/import/nccl_values.hpp"

#include <algorithm>
#include <string>

namespace orrery::importing {

Bandwidth lane_bandwidth(double gigatransfers) {
  const double coding = gigatransfers < 8.0 ? 0.8 : gigatransfers < 64.0 ? 128.0 / 130.0 : 242.0 / 256.0;
  return Bandwidth::of(gigatransfers * 1e9 / 8.0 * coding);
}

Bandwidth socket_bandwidth(std::string_view arch, std::string_view vendor, int family, int model) {
  double gigabytes = 16.0;  // AMD
  if (arch == "ppc64") gigabytes = 32.0;
  if (arch == "arm64") gigabytes = 6.0;
  if (vendor == "GenuineIntel") {
    gigabytes = family != 6 || model < 0x55 ? 6.0 : model < 0x8f ? 10.0 : model < 0xcf ? 22.0 : 40.0;
  }
  return Bandwidth::of(gigabytes * 1e9);
}

std::optional<std::uint64_t> bus_number(std::string_view text) {
  std::uint64_t number = 0;
  bool any = false;
  for (const char c : text) {
    if (c == ':' || c == '.') continue;
    const std::string_view digits = "0123456789abcdef";
    const std::size_t digit = digits.find(c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c);
    if (digit == std::string_view::npos) break;
    number = number << 4 | digit;
    any = true;
  }
  return any ? std::optional(number) : std::nullopt;
}

PciKind pci_kind_of(std::string_view pci_class) {
  if (pci_class.starts_with("0x")) pci_class.remove_prefix(2);
  if (pci_class.size() < 2) return PciKind::unknown;
  // ROCm's GPUs are processing accelerators.
  if (pci_class.starts_with("03") || pci_class.starts_with("12")) return PciKind::gpu;
  if (pci_class.starts_with("02")) return PciKind::nic;
  if (pci_class.starts_with("0604")) return PciKind::bridge;
  if (pci_class.starts_with("068001")) return PciKind::processor;
  if (pci_class.starts_with("0680")) return PciKind::nvswitch;
  return PciKind::other;
}

}  // namespace orrery::importing
