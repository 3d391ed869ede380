#include "core/record/software_costs.hpp"

#include "core/base/diagnostics.hpp"

namespace orrery {

std::string_view name_of(SoftwareCost c) {
  switch (c) {
    case SoftwareCost::gemm: return "gemm";
    case SoftwareCost::gemm_f8: return "gemm_f8";
    case SoftwareCost::weights_gather: return "weights_gather";
    case SoftwareCost::attention: return "attention";
    case SoftwareCost::memory: return "memory";
    case SoftwareCost::optimizer: return "optimizer";
    case SoftwareCost::expert_bias: return "expert_bias";
    case SoftwareCost::network: return "network";
    case SoftwareCost::tensor: return "tensor";
    case SoftwareCost::node_copies: return "node_copies";
    case SoftwareCost::quantize: return "quantize";
    case SoftwareCost::accumulate: return "accumulate";
    case SoftwareCost::overlap: return "overlap";
    case SoftwareCost::host_launch: return "host_launch";
    case SoftwareCost::expert_gap: return "expert_gap";
    case SoftwareCost::routing_gap: return "routing_gap";
    case SoftwareCost::step_gap: return "step_gap";
  }
  ORRERY_ASSERT(false, static_cast<int>(c));
  return {};
}

SoftwareCosts combined(const SoftwareCosts& a, const SoftwareCosts& b) {
  SoftwareCosts out;
  for (std::size_t i = 0; i < software_cost_count; ++i) {
    const bool factor = is_factor(static_cast<SoftwareCost>(i));
    out.values[i] = factor ? a.values[i] * b.values[i] : a.values[i] + b.values[i];
  }
  return out;
}

}  // namespace orrery
