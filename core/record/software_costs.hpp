#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace orrery {

/// Costs that training software adds to a device's kernels. The same matrix product or norm takes longer in one program
/// than in another, because it is fused or not, follows other casts, waits for the host or shares the device with NCCL.
///
/// Factors multiply a time that the device's constants give, and are 1 where the software adds nothing. Terms are
/// added, and are 0 where it adds nothing.
enum class SoftwareCost : std::uint8_t {
  // Factors.
  gemm,            ///< time of matrix products, in sixteen bits and more
  gemm_f8,         ///< time of matrix products in fp8
  weights_gather,  ///< bytes of gathered weights: a half where fp8 weights are sent as they are multiplied
  attention,       ///< time of attention kernels
  memory,          ///< bytes that memory-bound kernels move, over those of fused ones
  optimizer,       ///< the same of the optimizer's
  expert_bias,     ///< passes over the rows of experts with biases, forward and backward each; 1: within their product
  network,         ///< time of a byte between nodes
  tensor,          ///< time of collectives along the tensor axis: below 1 where products hide a part of it
  node_copies,     ///< share of a token's further copies for one node that cross the network; near 0: one copy a node
  // Terms.
  quantize,     ///< bytes moved for each element of an activation made fp8
  accumulate,   ///< bytes moved for each element of a weight gradient after its product: the sum so far, in and out
  overlap,      ///< time that compute loses, for each second in which collectives of gradients and parameters run
  host_launch,  ///< s: of the host for each kernel or collective of a pass; hidden while the device is behind
  expert_gap,   ///< s: least time of one expert's product in a grouped one: its launch
  routing_gap,  ///< s: once for each routing of tokens: the host waits for the counts
  step_gap,     ///< s: once a step: data, logging, the host's wait for the norm
};
inline constexpr std::size_t software_cost_count = static_cast<std::size_t>(SoftwareCost::step_gap) + 1;

[[nodiscard]] std::string_view name_of(SoftwareCost);
/// Whether the cost multiplies; otherwise it is a term that is added.
[[nodiscard]] constexpr bool is_factor(SoftwareCost c) { return c <= SoftwareCost::node_copies; }

struct SoftwareCosts {
  std::array<double, software_cost_count> values = neutral();

  [[nodiscard]] double operator[](SoftwareCost c) const { return values[static_cast<std::size_t>(c)]; }
  [[nodiscard]] double& operator[](SoftwareCost c) { return values[static_cast<std::size_t>(c)]; }
  friend bool operator==(const SoftwareCosts&, const SoftwareCosts&) = default;

 private:
  static constexpr std::array<double, software_cost_count> neutral() {
    std::array<double, software_cost_count> out{};
    for (std::size_t i = 0; i < software_cost_count; ++i) out[i] = is_factor(static_cast<SoftwareCost>(i)) ? 1.0 : 0.0;
    return out;
  }
};

/// Both costs at once: factors are multiplied, terms added.
[[nodiscard]] SoftwareCosts combined(const SoftwareCosts&, const SoftwareCosts&);

}  // namespace orrery
