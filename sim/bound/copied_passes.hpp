#pragma once

#include <cstdint>

#include "sim/bound/mesh_costs.hpp"
#include "sim/bound/pipeline_bound.hpp"
#include "sim/bound/stage_share.hpp"

namespace orrery {

/// What copying for a layer takes, whose activations or weights wait in host memory.
struct CopyTimes {
  Picoseconds down = 0, up = 0;  ///< of its activations
  Picoseconds weights = 0;       ///< of its weights, each time that they come
  bool gathered = false;         ///< these come in parts, which are gathered on a lane of their own
  bool sharded = false;          ///< and from ranks alone (ZeRO-3, one layer ahead): a block waits where it reads them
  Picoseconds down_again = 0, up_again = 0;  ///< of the activations of a recomputed layer, where a stage has others too
  friend bool operator==(const CopyTimes&, const CopyTimes&) = default;
};
/// Of a layer's activations alone, between two tiers.
[[nodiscard]] CopyTimes activation_copies(const Plan&, const LayerCosts&, const CostModel&, Tier near = Tier::device,
                                          Tier far = Tier::host);
/// Of the lowest `layers` of a stage: the sum of `plain`, or `again` of a recomputed one.
[[nodiscard]] Picoseconds sum_of_lowest(const StageShare&, std::uint32_t layers, Picoseconds plain, Picoseconds again);

/// Lengthens a stage's passes by what they wait for copies of layers (core/program/lower/host_copies.cpp):
///
///   a block lasts at least as long as the copy down of what the layer before keeps, and the next begins its compute
///   behind what has come up for it, activations, then weights:
///     pass >= sum over blocks of max(span, copies beside it)
///   what the pass needs first comes up in front of it, beside nothing but a message and the head.
///
/// The times given are those without copies, on lanes that run beside each other; of a pass that waits for a message
/// `before_forward` and `before_backward` hold what it takes longer from the pass before it on.
/// `away`, `weights_away`: layers whose activations, whose weights wait there.
void add_copies(StageTimes&, const StageShare&, std::uint32_t away, std::uint32_t weights_away, const LayerCosts&,
                const CopyTimes&);

}  // namespace orrery
