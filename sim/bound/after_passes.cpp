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

/// Backward pass of the layers of a bucket, which are the uppermost of those `left`, and then no more.
Picoseconds backward_of(const BucketCosts& bucket, StageShare& left, const LayerCosts& costs) {
  Picoseconds sum = 0;
  std::uint32_t layers = bucket.layers;
  for (std::size_t c = left.layers.size(); layers > 0 && c-- > 0;) {
    const std::uint32_t n = std::min(layers, left.layers[c]);
    sum += n * costs.times[c]->span.layer_backward;
    left.layers[c] -= n;
    layers -= n;
  }
  const PerBlock<Picoseconds>& span = costs.plain_times().span;
  return sum + (bucket.head ? span.head_backward : 0) + (bucket.embedding ? span.embedding_backward : 0);
}

}  // namespace

Picoseconds exposed_reduction(const Plan& plan, const ChunkBuckets& chunks, const LayerCosts& costs,
                              const StateCosts& state, bool concurrent_lanes, Picoseconds backward, Picoseconds tied) {
  LaneTimes lane{};
  if (!concurrent_lanes) {
    Picoseconds sum = tied;
    for (const ChunkBucket& chunk : chunks) {
      for (const BucketCosts& b : *chunk.list) {
        if (state.zero() < 2) {
          for (const LanePrice& p : b.reduce) sum += p.price;
        }
        for (const LanePrice& p : b.combine) sum += p.price;
      }
    }
    return sum;
  }
  if (state.zero() >= 2) {
    // The last bucket of the chunk that comes last, which is the lowest, is reduced after its pass; without overlap all
    // parts are combined behind.
    const std::vector<BucketCosts>& lowest = *chunks.back().list;
    Picoseconds reduced = 0;
    for (const LanePrice& p : lowest.back().reduce) reduced = std::max(reduced, p.price);
    for (const ChunkBucket& chunk : chunks) {
      for (const BucketCosts& b : *chunk.list) {
        if (*plan.overlap_gradients && &b != &lowest.back()) continue;
        for (const LanePrice& p : b.combine) lane[p.lane] += p.price;
      }
    }
    return reduced + after_sums(lane, tied);
  }
  const bool in_turn = chunks.size() == 1 && !splits_backward(plan);
  if (*plan.overlap_gradients && !in_turn) {
    // Whichever bucket is done last, its sums are still to come.
    Picoseconds least = 0;
    bool any = false;
    for (const ChunkBucket& chunk : chunks) {
      for (const BucketCosts& b : *chunk.list) {
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
  if (*plan.overlap_gradients) {
    StageShare left = *chunks.front().share;
    for (const BucketCosts& b : *chunks.front().list) compute -= backward_of(b, left, costs);
  }
  for (const ChunkBucket& chunk : chunks) {
    StageShare left = *chunk.share;
    for (const BucketCosts& b : *chunk.list) {
      if (*plan.overlap_gradients) compute += backward_of(b, left, costs);
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
  for (auto chunk = chunks.rbegin(); chunk != chunks.rend(); ++chunk) {
    for (auto b = chunk->list->rbegin(); b != chunk->list->rend(); ++b) {
      compute += (b->layers - b->dense) * state.layer().update + b->dense * state.layer(LayerCase::dense).update +
                 (b->head ? state.head().update : 0) + (b->embedding ? state.embedding().update : 0);
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
