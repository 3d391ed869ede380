#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/units.hpp"

namespace orrery::importing {

/// How a GPU is linked, by its datasheet: nominal bandwidths in one direction.
struct GpuLinks {
  std::string_view name;
  std::uint32_t compute_capability;  ///< as NCCL writes it: 90 is 9.0
  Bandwidth nvlink;                  ///< of one NVLink
  std::uint32_t nvlinks;             ///< of one GPU
  Bandwidth pcie;                    ///< of its 16 lanes
};

/// NVIDIA's architecture white papers: Tesla P100 (2016), Tesla V100 (2017), A100 (2020), H100 (2022), Blackwell
/// (2024).  PCIe: 8, 16 and 32 GT/s per lane, coded 128b/130b.
[[nodiscard]] const std::vector<GpuLinks>& gpu_links();
/// "p100, v100, ...", for messages.
[[nodiscard]] std::string gpu_link_names();
[[nodiscard]] const GpuLinks* gpu_links_named(std::string_view name);
/// Of the first with that compute capability.
[[nodiscard]] const GpuLinks* gpu_links_of(std::uint32_t compute_capability);

}  // namespace orrery::importing
