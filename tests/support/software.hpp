#pragma once

#include <cstdint>

#include "core/base/random.hpp"
#include "core/record/software_costs.hpp"

namespace orrery::test {

/// Sets every cost of software away from neutral: factors from a half to three, and terms as long as the kernels of
/// tiny models.
inline SoftwareCosts random_software(std::uint64_t seed) {
  SoftwareCosts out;
  for (std::size_t i = 0; i < software_cost_count; ++i) {
    const auto cost = static_cast<SoftwareCost>(i);
    const double share = static_cast<double>(random_bits(seed, stream_of("software"), i) % 1001) / 1000.0;
    switch (cost) {
      case SoftwareCost::quantize:
      case SoftwareCost::accumulate: out[cost] = 8.0 * share; break;
      case SoftwareCost::overlap: out[cost] = share; break;
      case SoftwareCost::host_launch:
      case SoftwareCost::expert_gap:
      case SoftwareCost::routing_gap:
      case SoftwareCost::step_gap: out[cost] = 20e-6 * share; break;
      default: out[cost] = 0.5 + 2.5 * share;
    }
  }
  return out;
}

}  // namespace orrery::test
