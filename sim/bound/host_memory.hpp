#pragma once

#include <cstdint>
#include <vector>

#include "core/plan/plan.hpp"
#include "sim/bound/shared_stages.hpp"

namespace orrery {

/// What a bound on host memory holds for.
enum class HostHeld : std::uint8_t {
  plan,           ///< the plan
  more_offloaded  ///< and those like it with more eighths of what it offloads
};

/// Bytes that each pipeline rank's host holds at most at once, at least so many (core/record/tier_memory.hpp):
///
///     held(r) = states + parameters + weights to copy up + max(activations, update)
///
///     states, parameters   of layers that have them there, and not on the disk
///     weights to copy up   of layers that have states alone off the device: in the host whatever states' tier
///     activations          n K of layers whose activations wait there; one layer's on their way to the disk
///     update               of the largest module: its gradients, and what passes from and to the disk
///
/// The plan's stages are entered.  Leaves out scalars, and two layers on their way at a time.
void held_by_hosts(std::vector<std::uint64_t>& held, HostHeld, const Plan&, const SharedStages&, StateCosts&,
                   const CostModel&);

/// The most that ranks of a node hold together, where rank r of the pipeline holds held[r]; at least so much where
/// nodes do not end with the strides of the mesh.
[[nodiscard]] std::uint64_t fullest_node(const std::vector<std::uint64_t>& held, const Plan&,
                                         std::uint32_t devices_per_node);

}  // namespace orrery
