#include "sim/bound/after_passes.hpp"

#include <algorithm>

namespace orrery {
namespace {

/// When the sum over the pipeline has ended, which begins behind those over
/// data, beside those over the tensor axis alone.
Picoseconds after_sums(const LaneTimes& lane, Picoseconds tied) {
  constexpr auto tensor = static_cast<std::size_t>(Axis::tensor);
  Picoseconds data = 0;
  for (std::size_t l = 0; l < lane.size(); ++l) data = l == tensor ? data : std::max(data, lane[l]);
  return std::max(lane[tensor], data + tied);
}

}  // namespace

Picoseconds exposed_reduction(const Plan& plan, const ChunkBuckets& chunks, const BlockTimes& times,
                              const StateCosts& state, bool concurrent_lanes, Picoseconds backward, Picoseconds tied) {
  const PerBlock<Picoseconds>& span = times.span;
  LaneTimes lane{};
  if (!concurrent_lanes) {
    Picoseconds sum = tied;
    for (const auto* list : chunks) {
      for (const BucketCosts& b : *list) {
        if (state.zero() < 2) {
          for (const LanePrice& p : b.reduce) sum += p.price;
        }
        for (const LanePrice& p : b.combine) sum += p.price;
      }
    }
    return sum;
  }
  if (state.zero() >= 2) {
    // One chunk.  Its last bucket is reduced after its last pass, and without overlap all parts are combined behind.
    const std::vector<BucketCosts>& list = *chunks.front();
    Picoseconds reduced = 0;
    for (const LanePrice& p : list.back().reduce) reduced = std::max(reduced, p.price);
    for (const BucketCosts& b : list) {
      if (*plan.overlap_gradients && &b != &list.back()) continue;
      for (const LanePrice& p : b.combine) lane[p.lane] += p.price;
    }
    return reduced + after_sums(lane, tied);
  }
  const bool in_turn = chunks.size() == 1 && !splits_backward(plan);
  if (*plan.overlap_gradients && !in_turn) {
    // Whichever bucket is done last, its sums are still to come.
    Picoseconds least = 0;
    bool any = false;
    for (const auto* list : chunks) {
      for (const BucketCosts& b : *list) {
        Picoseconds most = 0;
        for (const LanePrice& p : b.reduce) most = std::max(most, p.price);
        least = any ? std::min(least, most) : most;
        any = true;
      }
    }
    return std::max(least, tied);
  }
  // With overlap buckets are done one after the other, the last one at the end of the pass.
  Picoseconds compute = backward;
  const auto duration = [&](const BucketCosts& b) {
    return b.layers * span.layer_backward + (b.head ? span.head_backward : 0) +
           (b.embedding ? span.embedding_backward : 0);
  };
  if (*plan.overlap_gradients) {
    for (const BucketCosts& b : *chunks.front()) compute -= duration(b);
  }
  for (const auto* list : chunks) {
    for (const BucketCosts& b : *list) {
      if (*plan.overlap_gradients) compute += duration(b);
      for (const LanePrice& p : b.reduce) lane[p.lane] = std::max(lane[p.lane], compute) + p.price;
    }
  }
  for (Picoseconds& l : lane) l = std::max(l, backward);
  return after_sums(lane, tied) - backward;
}

Picoseconds update_time(const ChunkBuckets& chunks, const StateCosts& state, bool concurrent_lanes) {
  Picoseconds compute = 0;
  Picoseconds gather = 0;
  // The lowest chunk, which comes last in the list, is updated first.
  for (auto list = chunks.rbegin(); list != chunks.rend(); ++list) {
    for (auto b = (*list)->rbegin(); b != (*list)->rend(); ++b) {
      compute += b->layers * state.layer().update + (b->head ? state.head().update : 0) +
                 (b->embedding ? state.embedding().update : 0);
      if (b->gather == 0) continue;
      if (concurrent_lanes) {
        gather = std::max(gather, compute) + b->gather;
      } else {
        compute += b->gather;
      }
    }
  }
  return std::max(compute, gather);
}

}  // namespace orrery
