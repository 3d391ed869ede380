#pragma once

#include <vector>

#include "sim/bound/mesh_costs.hpp"
#include "sim/bound/pipeline_bound.hpp"

namespace orrery {

/// Buckets of a rank's chunks, the last chunk's first, what those chunks hold, and their passes.
struct ChunkBucket {
  const std::vector<BucketCosts>* list = nullptr;
  const StageShare* share = nullptr;
  const StageTimes* times = nullptr;
};
using ChunkBuckets = std::vector<ChunkBucket>;

/// How long after the end of the last pass of a rank the last reduction ends.  A tied table is summed over the
/// pipeline after the other sums.  Lanes are taken to wait for compute alone, not for each other.
[[nodiscard]] Picoseconds exposed_reduction(const Plan&, const ChunkBuckets&, const LayerCosts&, const StateCosts&,
                                            bool concurrent_lanes, Picoseconds backward, Picoseconds tied);

/// How much longer than its times say the last backward pass of a rank takes with ZeRO-2 and 3 and sequence
/// parallelism: where reductions overlap each bucket of it but the last ends with a sum over tensor ranks, behind the
/// bucket's reduction, and their lane takes nothing of the next layer meanwhile.  On lanes that run beside each other.
[[nodiscard]] Picoseconds held_up(const Plan&, const ChunkBuckets&, const LayerCosts&);

/// With ZeRO-2 and 3, on such lanes: how long the reductions of a rank take at least from the first backward pass on
/// that is before one, each of so many microbatches; they follow each other on the busiest lane.
[[nodiscard]] Picoseconds reductions_in_turn(const ChunkBuckets&, std::uint64_t microbatches);

/// Update of a rank's modules, on the device or the host, and the gathers of updated weights beside it, upwards.
[[nodiscard]] Picoseconds update_time(const Plan&, const ChunkBuckets&, StateCosts&, const CostModel&,
                                      bool concurrent_lanes);

/// Of update_time, on lanes that run beside each other, what it is at least with as much or more in host memory: what
/// the host does for the states that the plan has there, and, where no parameters are there, the gathers.  With more
/// states there the host's chain of layers is longer; weights that live there neither come up nor are gathered here.
[[nodiscard]] Picoseconds least_update_time(const Plan&, const ChunkBuckets&, StateCosts&, const CostModel&);

}  // namespace orrery
