#include "sim/bound/after_passes.hpp"

#include <algorithm>
#include <optional>

#include "core/plan/schedule_rules.hpp"
#include "sim/bound/stage_memory.hpp"

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

/// Whether a rank's last pass is the backward pass of its lowest chunk.
bool backward_ends_lowest(const Plan& plan) {
  return !splits_backward(plan) && rules_of(plan.schedule).placement != StagePlacement::two_way;
}

/// With ZeRO-2 and 3, what comes at least behind a rank's last pass, whichever chunk that is of: the reduction of the
/// chunk's last bucket that holds layers, and the sums of parts behind it. (Weight gradients are of layers alone.)
Picoseconds after_any_chunk(const Plan& plan, const ChunkBuckets& chunks, Picoseconds tied) {
  LaneTimes all{};
  for (const ChunkBucket& chunk : chunks) {
    for (const BucketCosts& b : *chunk.list) {
      for (const LanePrice& p : b.combine) all[p.lane] += p.price;
    }
  }
  std::optional<Picoseconds> least;
  for (const ChunkBucket& chunk : chunks) {
    const std::vector<BucketCosts>& list = *chunk.list;
    std::size_t last = list.size() - 1;
    while (splits_backward(plan) && last > 0 && list[last].layers == 0) --last;
    Picoseconds reduced = 0;
    for (const LanePrice& p : list[last].reduce) reduced = std::max(reduced, p.price);
    LaneTimes lane{};
    for (std::size_t b = last; b < list.size(); ++b) {
      for (const LanePrice& p : list[b].combine) lane[p.lane] += p.price;
    }
    const Picoseconds after = reduced + after_sums(*plan.overlap_gradients ? lane : all, tied);
    least = least ? std::min(*least, after) : after;
  }
  return *least;
}

/// Backward pass of the layers of a bucket, which are the uppermost of the chunk's lowest `left`, and then no more.
Picoseconds backward_of(const BucketCosts& bucket, const StageShare& chunk, std::uint32_t& left,
                        const LayerCosts& costs) {
  const PerCase<std::uint32_t> layers = chunk.between(left - bucket.layers, left);
  left -= bucket.layers;
  const PerBlock<Picoseconds>& span = costs.plain_times().span;
  return over_cases(layers, [&](std::size_t c) { return costs.times[c]->span.layer_backward; }) +
         (bucket.head ? span.head_backward : 0) + (bucket.embedding ? span.embedding_backward : 0);
}

/// The host's updates, module by module: gradients go down, what waits on the disk is read, the host updates, that is
/// written, weights come up, each in the order of modules.
///
///   updated = max(down, updated before + read) + update
///
/// What a module reads waits for the update before it, but for the first, which may be read beside the passes.
class HostChain {
 public:
  explicit HostChain(const Plan& plan)
      : states_on_disk_(plan.states_tier == OffloadTier::disk),
        weights_on_disk_(plan.parameters_tier == OffloadTier::disk) {}

  void add(const HostUpdate& module, bool comes_up, bool lives_there) {
    const bool weights = weights_on_disk_ && lives_there;
    const Picoseconds read = (states_on_disk_ ? module.read_states : 0) + (weights ? module.read_weights : 0);
    const Picoseconds write = (states_on_disk_ ? module.write_states : 0) + (weights ? module.write_weights : 0);
    down_ += module.down;
    updated_ = std::max(down_, first_ ? 0 : updated_ + read) + module.update;
    written_ = std::max(written_, updated_) + write;
    if (comes_up) up_ = std::max(up_, updated_) + module.up;
    all_ += module.down + read + module.update + write + (comes_up ? module.up : 0);
    first_ = false;
  }
  /// When what has come up is there.
  [[nodiscard]] Picoseconds up() const { return up_; }
  [[nodiscard]] Picoseconds end() const { return std::max({updated_, written_, up_}); }
  /// One op after the other.
  [[nodiscard]] Picoseconds all() const { return all_; }

 private:
  bool states_on_disk_, weights_on_disk_;
  bool first_ = true;
  Picoseconds down_ = 0, updated_ = 0, written_ = 0, up_ = 0, all_ = 0;
};

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
  if (state.zero() >= 2 && !backward_ends_lowest(plan)) return after_any_chunk(plan, chunks, tied);
  if (state.zero() >= 2) {
    // The last bucket of the chunk that comes last, which is the lowest, is reduced after its pass; without overlap all
    // parts are combined behind.
    const BucketCosts& last = chunks.back().list->back();
    Picoseconds reduced = 0;
    for (const LanePrice& p : last.reduce) reduced = std::max(reduced, p.price);
    const auto combine = [&](const BucketCosts& b) {
      for (const LanePrice& p : b.combine) lane[p.lane] += p.price;
    };
    // Chunks that hold as much have one list in common: the last is not known by its address.
    if (*plan.overlap_gradients) {
      combine(last);
    } else {
      for (const ChunkBucket& chunk : chunks) std::for_each(chunk.list->begin(), chunk.list->end(), combine);
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
    const StageShare& share = *chunks.front().share;
    std::uint32_t left = share.count();
    for (const BucketCosts& b : *chunks.front().list) compute -= backward_of(b, share, left, costs);
    // What else the pass waits for may come behind all buckets but the last.
    compute = std::min<Picoseconds>(0, compute);
  }
  for (const ChunkBucket& chunk : chunks) {
    std::uint32_t left = chunk.share->count();
    for (const BucketCosts& b : *chunk.list) {
      if (*plan.overlap_gradients) compute += backward_of(b, *chunk.share, left, costs);
      for (const LanePrice& p : b.reduce) lane[p.lane] = std::max(lane[p.lane], compute) + p.price;
    }
  }
  for (Picoseconds& l : lane) l = std::max(l, backward);
  return after_sums(lane, tied) - backward;
}

namespace {

/// Where the last backward pass is that of the chunk.
Picoseconds held_up(const ChunkBucket& chunk, const LayerCosts& costs) {
  const StageShare& share = *chunk.share;
  const std::vector<BucketCosts>& buckets = *chunk.list;
  const PerBlock<Picoseconds>& ends = costs.plain_times().span;
  // What a pass takes by its blocks alone, from the arrival of its message on.
  Picoseconds alone = (share.first ? ends.embedding_backward : 0) + (share.last ? ends.head_backward : 0);
  Picoseconds lead = 0;  // of a layer, before the first op that waits for that lane
  for (std::size_t c = 0; c < share.layers.size(); ++c) {
    if (share.layers[c] == 0) continue;
    const BlockTimes& times = *costs.times[c];
    alone += static_cast<Picoseconds>(share.layers[c]) * times.span.layer_backward;
    lead = std::max(lead, times.span.layer_backward - times.behind.tensor_backward);
  }
  if (!share.last) {
    const BlockTimes& top = *costs.times[share.highest()];
    alone -= top.span.layer_backward - top.arrival.layer_backward;
  }
  Picoseconds held = 0;
  for (std::size_t b = 0; b + 1 < buckets.size(); ++b) {
    if (buckets[b + 1].layers == 0) continue;
    Picoseconds reduce = 0, sum = -1;
    for (const LanePrice& p : buckets[b].reduce) reduce = std::max(reduce, p.price);
    for (const LanePrice& p : buckets[b].combine) {
      if (p.lane == index(Axis::tensor)) sum = p.price;
    }
    if (sum >= 0) held += std::max<Picoseconds>(0, reduce + sum - lead);
  }
  // What else the pass waits for may be beside that.
  return std::max<Picoseconds>(0, held - (chunk.times->backward + chunk.times->before_backward - alone));
}

}  // namespace

Picoseconds held_up(const Plan& plan, const ChunkBuckets& chunks, const LayerCosts& costs) {
  if (splits_backward(plan) || !*plan.overlap_gradients) return 0;
  // Blocks differ in chunks of parameters in what runs before those sums.
  if (plan.parameter_chunk != Bytes()) return 0;
  Picoseconds held = held_up(chunks.back(), costs);
  if (backward_ends_lowest(plan)) return held;
  for (const ChunkBucket& chunk : chunks) held = std::min(held, held_up(chunk, costs));
  return held;
}

Picoseconds reductions_in_turn(const ChunkBuckets& chunks, std::uint64_t microbatches) {
  LaneTimes lane{};
  const auto add = [&](std::span<const LanePrice> prices, Picoseconds times) {
    for (const LanePrice& p : prices) lane[p.lane] += times * p.price;
  };
  for (const ChunkBucket& chunk : chunks) {
    for (const BucketCosts& b : *chunk.list) {
      for (const auto& behind_pass : {b.reduce, b.reduce_first})
        add(behind_pass, static_cast<Picoseconds>(microbatches));
      add(b.combine, 1);
    }
  }
  return *std::max_element(lane.begin(), lane.end());
}

Picoseconds update_time(const Plan& plan, const ChunkBuckets& chunks, StateCosts& state, const CostModel& costs,
                        bool concurrent_lanes) {
  const bool offloads = *plan.offload_states > 0;
  const HostUpdates* host = offloads ? &state.host_updates(costs) : nullptr;
  const bool ends_away = *plan.offload_states == 8;
  Picoseconds compute = 0;
  LaneTimes gather{};
  HostChain on_host(plan);
  const auto end = [&](const ModuleState& module, const HostUpdate HostUpdates::*there) {
    if (ends_away) {
      on_host.add(host->*there, true, false);
    } else {
      compute += module.update;
    }
  };
  // The lowest chunk, which comes last in the list, is updated first.
  for (auto chunk = chunks.rbegin(); chunk != chunks.rend(); ++chunk) {
    const std::uint32_t layers = chunk->share->count();
    const std::uint32_t on_device = layers - offloaded_layers(layers, *plan.offload_states);
    const std::uint32_t with_weights = layers - offloaded_layers(layers, *plan.offload_parameters);
    std::uint32_t low = 0;
    for (auto b = chunk->list->rbegin(); b != chunk->list->rend(); ++b) {
      const std::uint32_t above = low + b->layers;
      const PerCase<std::uint32_t> here = chunk->share->between(std::min(low, on_device), std::min(above, on_device));
      compute += over_cases(here, [&](std::size_t c) { return state.layer(static_cast<LayerCase>(c)).update; });
      if (b->embedding) end(state.embedding(), &HostUpdates::embedding);
      for (std::uint32_t l = std::max(low, on_device); l < above; ++l) {
        on_host.add(chunk->share->is_dense(l) ? host->dense_layer : host->layer, l < with_weights, l >= with_weights);
      }
      if (b->head) end(state.head(), &HostUpdates::head);
      const bool some_away = b->layers > 0 && above > with_weights;  // those are gathered before each use
      low = above;
      if (some_away) continue;
      for (const LanePrice& p : b->gather) {
        gather[p.lane] = std::max({gather[p.lane], compute, on_host.up()}) + p.price;
      }
      if (!concurrent_lanes) {
        for (const LanePrice& p : b->gather) compute += p.price;
      }
    }
  }
  return concurrent_lanes ? std::max({compute, *std::max_element(gather.begin(), gather.end()), on_host.end()})
                          : compute + on_host.all();
}

Picoseconds least_update_time(const Plan& plan, const ChunkBuckets& chunks, StateCosts& state, const CostModel& costs) {
  const bool weights_away = *plan.offload_parameters > 0;
  LaneTimes lanes{};
  for (const ChunkBucket& chunk : chunks) {
    for (const BucketCosts& b : *chunk.list) {
      for (const LanePrice& p : b.gather) lanes[p.lane] += p.price;
    }
  }
  const Picoseconds gather = weights_away ? 0 : *std::max_element(lanes.begin(), lanes.end());
  if (*plan.offload_states == 0) return gather;
  const HostUpdates& host = state.host_updates(costs);
  HostChain on_host(plan);
  const bool ends_away = *plan.offload_states == 8;
  for (auto chunk = chunks.rbegin(); chunk != chunks.rend(); ++chunk) {
    const StageShare& share = *chunk->share;
    const std::uint32_t layers = share.count();
    const std::uint32_t with_weights = layers - offloaded_layers(layers, *plan.offload_parameters);
    if (share.first && ends_away) on_host.add(host.embedding, !weights_away, false);
    for (std::uint32_t l = layers - offloaded_layers(layers, *plan.offload_states); l < layers; ++l) {
      on_host.add(share.is_dense(l) ? host.dense_layer : host.layer, !weights_away, l >= with_weights);
    }
    if (share.last && ends_away) on_host.add(host.head, !weights_away, false);
  }
  return std::max(gather, on_host.end());
}

}  // namespace orrery
