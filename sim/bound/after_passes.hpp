#pragma once

#include <vector>

#include "sim/bound/mesh_costs.hpp"

namespace orrery {

/// Buckets of a rank's chunks, the last chunk's first, and what those chunks hold.
struct ChunkBucket {
  const std::vector<BucketCosts>* list = nullptr;
  const StageShare* share = nullptr;
};
using ChunkBuckets = std::vector<ChunkBucket>;

/// How long after the end of the last pass of a rank the last reduction ends.  A tied table is summed over the
/// pipeline after the other sums.  Lanes are taken to wait for compute alone, not for each other.
[[nodiscard]] Picoseconds exposed_reduction(const Plan&, const ChunkBuckets&, const LayerCosts&, const StateCosts&,
                                            bool concurrent_lanes, Picoseconds backward, Picoseconds tied);

/// Update of a rank's modules, on the device or the host, and the gathers of updated weights beside it, upwards.
[[nodiscard]] Picoseconds update_time(const Plan&, const ChunkBuckets&, StateCosts&, const CostModel&,
                                      bool concurrent_lanes);

}  // namespace orrery
