#include "sim/bound/shared_stages.hpp"

#include <algorithm>
#include <cmath>

#include "sim/bound/coverage.hpp"
#include "sim/bound/stage_times.hpp"

namespace orrery {

void SharedStages::enter_pipeline(const Plan& plan, MeshCosts& mesh) {
  const BlockKey block = block_key(plan, mesh.model);
  const BlockKey recomputed = plan.recompute_layers ? block_key(plan, mesh.model, LayerCase::recomputed) : block;
  const bool same_mesh = visit_ == mesh.visit() && block == block_ && recomputed == recomputed_;
  Pipeline pipeline{plan.schedule, plan.chunks, plan.mesh.size(Axis::pipeline), microbatches(plan, mesh.workload),
                    plan.action_times};
  if (!same_mesh) {
    stages_known_ = false;
    layers_ = mesh.layers_of(plan);
    visit_ = mesh.visit();
    block_ = block;
    recomputed_ = recomputed;
  }
  if (pipeline == pipeline_) return;
  stages_known_ = in_flight_known_ = false;
  pipeline_ = pipeline;
  microbatches_ = pipeline.microbatches;
  map_ = stage_map(plan);
}

void SharedStages::enter(const Plan& plan, MeshCosts& mesh) {
  static const std::vector<std::uint32_t> none;
  const std::vector<std::uint32_t>& counts = plan.recompute_layers ? *plan.recompute_layers : none;
  enter_pipeline(plan, mesh);
  if (stages_known_ && stage_layers_ == *plan.stage_layers && recompute_layers_ == counts) return;
  ++entered_;
  stages_known_ = true;
  stage_layers_ = *plan.stage_layers;
  recompute_layers_ = counts;
  if (!in_flight_known_) {
    in_flight_known_ = true;
    in_flight_.resize(map_.ranks);
    for (std::uint32_t r = 0; r < map_.ranks; ++r) in_flight_[r] = microbatches_in_flight(plan, r, microbatches_);
  }
  shares_of(shares_, plan, map_, mesh.kinds());
  runs_.clear();
  for (std::uint32_t r = 0; r < map_.ranks; ++r) {
    bool alike = r > 0;
    for (std::uint32_t c = 0; alike && c < map_.chunks; ++c) alike = share(r, c) == share(r - 1, c);
    if (alike) {
      runs_.back().end = r + 1;
    } else {
      runs_.push_back({r, r + 1});
    }
  }
  for (auto& of : plain_activations_) of.clear();
  plain_lanes_.clear();
  plain_stages_.clear();
  plain_passes_ = {};
}

std::uint64_t SharedStages::activations(const Run& run, const Plan& plan, const StateCosts& state) {
  memory_.clear();
  for (std::uint32_t c = 0; c < map_.chunks; ++c) {
    memory_.push_back(pass_memory(layers_.blocks, state, share(run.begin, c), plan, microbatches_));
  }
  std::uint64_t most = 0;
  for (std::uint32_t r = run.begin; r < run.end; ++r) {
    most = std::max(most, activation_bytes(memory_.data(), in_flight_[r]));
  }
  return most;
}

std::uint64_t SharedStages::held(const Run& run, const Plan& plan, const StateCosts& state) const {
  std::uint64_t held = state.scalar_bytes();
  for (std::uint32_t c = 0; c < map_.chunks; ++c) held += persistent_bytes(state, share(run.begin, c), plan);
  return held;
}

std::uint64_t SharedStages::held(const Plan& plan, const StateCosts& state) const {
  std::uint64_t most = 0;
  for (const Run& run : runs_) most = std::max(most, held(run, plan, state));
  return most;
}

std::uint64_t SharedStages::peak(const Plan& plan, const StateCosts& state) {
  const bool plain = state.zero() < 2;
  std::vector<std::uint64_t>& known = plain_activations_[copied_kind(state, plan, microbatches_)];
  if (plain && known.empty()) {
    for (const Run& run : runs_) known.push_back(activations(run, plan, state));
  }
  std::uint64_t peak = 0;
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    peak = std::max(peak, held(runs_[i], plan, state) + (plain ? known[i] : activations(runs_[i], plan, state)));
  }
  return peak;
}

const std::vector<StageTimes>& SharedStages::stages(const Plan& plan, MeshCosts& mesh, StateCosts& state) {
  if (state.zero() >= 2) {
    stage_times(stages_, plan, map_, shares_, layers_, mesh, state);
    return stages_;
  }
  // Every stage copies alike, but for how many layers.
  const bool copies = *plan.offload_activations > 0 || *plan.offload_parameters > 0;
  const PlainPasses passes{state.layer().clear, state.embedding().clear, state.head().clear,
                           copies ? copied_eighths(plan) : 0,
                           copies ? copy_times(plan, layers_, mesh, state) : CopyTimes{}};
  if (plain_stages_.empty() || passes != plain_passes_) {
    if (!plain_stages_.empty()) ++entered_;
    stage_times(plain_stages_, plan, map_, shares_, layers_, mesh, state);
    plain_passes_ = passes;
    plain_ends_.end.clear();
  }
  return plain_stages_;
}

const std::vector<Picoseconds>& SharedStages::ends(const std::vector<StageTimes>& times, const Plan& plan,
                                                   const MeshCosts& mesh, const StateCosts& state) {
  const bool plain = state.zero() < 2;
  PipelineStorage& storage = plain ? plain_ends_ : ends_;
  if (plain && !storage.end.empty()) return storage.end;
  const bool concurrent = mesh.cluster.device.concurrent_lanes;
  return is_plain(plan) ? backward_ends(storage, times, plan.schedule, microbatches_, concurrent)
                        : rank_ends(storage, times, map_, microbatches_, concurrent, !splits_backward(plan));
}

Picoseconds SharedStages::step_of(Counts counts, const Plan& plan, MeshCosts& mesh, StateCosts& state) {
  const std::vector<StageTimes>& times = stages(plan, mesh, state);
  return step_after(ends(times, plan, mesh, state), times, plan, mesh, state, counts);
}

Picoseconds SharedStages::step(const Plan& plan, MeshCosts& mesh, StateCosts& state) {
  return step_of(Counts::all, plan, mesh, state);
}

Picoseconds SharedStages::busiest_lane(const Run& run, const Plan& plan, const MeshCosts& mesh,
                                       StateCosts& state) const {
  const PerBlock<LaneTimes>& lanes = layers_.plain_times().lanes;
  LaneTimes sum{};
  for (std::uint32_t c = 0; c < map_.chunks; ++c) {
    const StageShare& holds = share(run.begin, c);
    for (std::size_t l = 0; l < sum.size(); ++l) {
      sum[l] += over_layers(holds, [&](std::size_t k) {
        const PerBlock<LaneTimes>& of = layers_.times[k]->lanes;
        return of.layer_forward[l] + of.layer_backward[l] + of.layer_weight[l];
      });
      if (holds.first) sum[l] += lanes.embedding_forward[l] + lanes.embedding_backward[l];
      if (holds.last) sum[l] += lanes.head_forward[l] + lanes.head_backward[l];
    }
    if (state.zero() < 2) continue;
    for (const BucketCosts& b : state.buckets(holds, mesh.costs())) {
      for (const LanePrice& p : b.reduce) sum[p.lane] += p.price;
      for (const LanePrice& p : b.reduce_first) sum[p.lane] += p.price;
    }
    if (state.zero() >= 3 && plan.reshard_after_forward) {
      sum[gather_lane] +=
          2 * over_layers(holds, [&](std::size_t k) { return state.layer(static_cast<LayerCase>(k)).gather_weights; });
    }
  }
  return static_cast<Picoseconds>(microbatches_) / map_.pipes() * *std::max_element(sum.begin(), sum.end());
}

Picoseconds SharedStages::busiest_copies(const Run& run, const Plan& plan, const MeshCosts& mesh,
                                         StateCosts& state) const {
  Picoseconds down = 0, up = 0, gathers = 0, read = 0, written = 0;
  const CostModel& costs = mesh.costs();
  const bool acts_on_disk = plan.activations_tier == OffloadTier::disk;
  const bool weights_on_disk = plan.parameters_tier == OffloadTier::disk;
  const auto m = static_cast<Picoseconds>(microbatches_) / map_.pipes();
  for (std::uint32_t c = 0; c < map_.chunks; ++c) {
    const std::uint32_t layers = share(run.begin, c).count();
    if (const std::uint32_t away = offloaded_layers(layers, *plan.offload_activations); away > 0) {
      const CopyTimes copies = activation_copies(plan, layers_, costs);
      down += m * sum_of_lowest(share(run.begin, c), away, copies.down, copies.down_again);
      up += m * sum_of_lowest(share(run.begin, c), away, copies.up, copies.up_again);
      if (acts_on_disk) {
        const CopyTimes there = activation_copies(plan, layers_, costs, Tier::host, Tier::disk);
        written += m * sum_of_lowest(share(run.begin, c), away, there.down, there.down_again);
        read += m * sum_of_lowest(share(run.begin, c), away, there.up, there.up_again);
      }
    }
    if (const auto away = static_cast<Picoseconds>(offloaded_layers(layers, *plan.offload_parameters)); away > 0) {
      const HostUpdate& layer = state.host_updates(costs).layer;
      up += 2 * m * away * layer.up;
      gathers += 2 * m * away * layer.gather;
      if (weights_on_disk) {
        read += (2 * m + 1) * away * layer.read_weights;
        written += away * layer.write_weights;
      }
    }
    const auto states = static_cast<Picoseconds>(offloaded_layers(layers, *plan.offload_states));
    if (states > 0 && plan.states_tier == OffloadTier::disk) {
      const HostUpdates& host = state.host_updates(costs);
      read += states * host.layer.read_states;
      written += states * host.layer.write_states;
    }
  }
  return std::max({down, up, gathers, read, written});
}

bool SharedStages::host_is_slower(const Plan& plan, StateCosts& state, const CostModel& costs) const {
  const HostUpdates& host = state.host_updates(costs);
  const auto whole = [](const HostUpdate& module) { return module.down + module.update + module.up; };
  // Collectives beside it may slow down what the device updates, by no more than this.
  const double stretch = 1.0 + costs.overlap_loss();
  const auto at_most = [&](Picoseconds update) {
    return static_cast<Picoseconds>(std::ceil(stretch * static_cast<double>(update)));
  };
  const auto slower = [&](const HostUpdate& there, const ModuleState& here) {
    return whole(there) >= at_most(here.update);
  };
  const bool gathers = state.zero() == 1 || state.zero() == 2;
  return std::all_of(runs_.begin(), runs_.end(), [&](const Run& run) {
    Picoseconds on_device = 0;
    std::uint32_t away = 0;
    for (std::uint32_t c = 0; c < map_.chunks; ++c) {
      const StageShare& holds = share(run.begin, c);
      on_device += static_cast<Picoseconds>(holds.count() - holds.dense()) * state.layer().update +
                   static_cast<Picoseconds>(holds.dense()) * state.layer(LayerCase::dense).update +
                   (holds.first ? state.embedding().update : 0) + (holds.last ? state.head().update : 0);
      away += offloaded_layers(holds.count(), *plan.offload_states);
      if (holds.first && !slower(host.embedding, state.embedding())) return false;
      if (holds.last && !slower(host.head, state.head())) return false;
      if (holds.dense() > 0 && whole(host.dense_layer) < whole(host.layer)) return false;
    }
    // A gather waits for what is updated before it, which may be one of those layers alone.
    return (gathers ? whole(host.layer) : static_cast<Picoseconds>(away) * host.layer.update) >= at_most(on_device);
  });
}

/// Ranks that share cores: at least their compute work over the cores.
Picoseconds SharedStages::least_by_cores(const Plan& plan, const MeshCosts& mesh, const StateCosts& state) const {
  const auto sharing = mesh.costs().core_sharing();
  if (!sharing || sharing->ranks_per_node <= sharing->cores) return 0;
  const auto m = static_cast<Picoseconds>(microbatches_) / map_.pipes();
  const PerBlock<Picoseconds>& busy = layers_.plain_blocks().busy();
  const bool on_device = *plan.offload_states == 0;
  const auto once = [&](const ModuleState& module) {
    return module.clear + module.norm + (on_device ? module.update : 0);
  };
  Picoseconds least = 0;
  for (const Run& run : runs_) {
    Picoseconds work = 0;
    for (std::uint32_t c = 0; c < map_.chunks; ++c) {
      const StageShare& holds = share(run.begin, c);
      work += over_layers(holds, [&](std::size_t k) {
        const PerBlock<Picoseconds>& of = layers_.blocks[k]->busy();
        return m * (of.layer_forward + of.layer_backward + of.layer_weight) +
               once(state.layer(static_cast<LayerCase>(k)));
      });
      if (holds.first) work += m * (busy.embedding_forward + busy.embedding_backward) + once(state.embedding());
      if (holds.last) work += m * (busy.head_forward + busy.head_backward + busy.head_weight) + once(state.head());
    }
    least = run.begin == 0 ? work : std::min(least, work);
  }
  return least / sharing->cores * sharing->ranks_per_node;
}

Picoseconds SharedStages::first_backward(const Run& run, const std::vector<StageTimes>& stages) {
  if (turns_.empty()) {
    // A microbatch goes up all stages of its pipe, and down to the one.
    Picoseconds turn = 0;
    for (const StageTimes& t : stages) turn += t.forward + t.send_hidden;
    turns_.resize(stages.size());
    for (std::size_t s = stages.size(); s-- > 0;) {
      turns_[s] = turn;
      turn += stages[s].backward + (s > 0 ? stages[s - 1].send_gradient : 0);
    }
  }
  Picoseconds latest = 0;
  for (std::uint32_t r = run.begin; r < run.end; ++r) {
    Picoseconds first = turns_[map_.stage(r, 0)];
    for (std::uint32_t c = 1; c < map_.chunks; ++c) first = std::min(first, turns_[map_.stage(r, c)]);
    latest = std::max(latest, first);
  }
  return latest;
}

Picoseconds SharedStages::step_after(const std::vector<Picoseconds>& ends, const std::vector<StageTimes>& stages,
                                     const Plan& plan, MeshCosts& mesh, StateCosts& state, Counts counts) {
  const bool updates = counts == Counts::all;
  const bool concurrent = mesh.cluster.device.concurrent_lanes;
  const bool plain = state.zero() < 2;
  if (concurrent && plain && plain_lanes_.empty()) {
    for (const Run& run : runs_) plain_lanes_.push_back(busiest_lane(run, plan, mesh, state));
  }
  // With a norm, no rank updates before every rank has reduced.
  Picoseconds reduced = 0;
  Picoseconds updated = 0;
  Picoseconds by_lane = 0;
  buckets_.resize(map_.chunks);
  turns_.clear();
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    const Run& run = runs_[i];
    Picoseconds norm = 0, backward = 0, sum_pipes = 0;
    bool tied = false;
    for (std::uint32_t c = 0; c < map_.chunks; ++c) {
      const StageShare& holds = share(run.begin, c);
      buckets_[map_.chunks - 1 - c] = {&state.buckets(holds, mesh.costs()), &holds, &stages[map_.stage(run.begin, c)]};
      norm += over_layers(holds, [&](std::size_t k) { return state.layer(static_cast<LayerCase>(k)).norm; }) +
              (holds.first ? state.embedding().norm : 0) + (holds.last ? state.head().norm : 0);
      tied = tied || holds.first || holds.last;
      backward += stages[map_.stage(run.begin, c)].backward;
      for (const BucketCosts& b : *buckets_[map_.chunks - 1 - c].list) sum_pipes += b.sum_pipes;
    }
    const Picoseconds end = *std::max_element(&ends[run.begin], &ends[run.begin] + (run.end - run.begin));
    const Picoseconds held = concurrent && !plain && counts != Counts::sharded ? held_up(plan, buckets_, layers_) : 0;
    Picoseconds ready =
        end + held +
        exposed_reduction(plan, buckets_, layers_, state, concurrent, backward, tied ? state.tied_reduction() : 0);
    if (concurrent && !plain) {
      ready = std::max(ready, first_backward(run, stages) + reductions_in_turn(buckets_, microbatches_ / map_.pipes()));
    }
    ready += sum_pipes;
    const Picoseconds update = updates ? update_time(plan, buckets_, state, mesh.costs(), concurrent)
                               : concurrent && counts == Counts::more_offloaded
                                   ? least_update_time(plan, buckets_, state, mesh.costs())
                                   : 0;
    if (concurrent) {
      by_lane = std::max({by_lane, plain ? plain_lanes_[i] : busiest_lane(run, plan, mesh, state),
                          updates || counts == Counts::more_offloaded ? busiest_copies(run, plan, mesh, state) : 0});
    }
    if (state.factor()) {
      reduced = std::max(reduced, ready + norm);
      updated = std::max(updated, update);
    } else {
      updated = std::max(updated, ready + update);
    }
  }
  const Picoseconds by_compute = state.factor() ? reduced + state.norm_reduction() + updated : updated;
  return std::max({by_compute, by_lane, least_by_cores(plan, mesh, state)});
}

Picoseconds SharedStages::passes(const Plan& plan, MeshCosts& mesh) {
  enter_pipeline(plan, mesh);
  // Where layers are of two kinds a stage's follow from all stages below.
  const bool one_kind = mesh.kinds() == nullptr;
  if (!one_kind) enter(plan, mesh);
  const PerBlock<Picoseconds>& span = layers_.plain_times().span;
  stages_.assign(map_.stages(), {});
  const bool copies = *plan.offload_activations > 0 && mesh.cluster.device.concurrent_lanes;
  const std::vector<std::uint32_t>& counts = *plan.stage_layers;
  const auto again = [&](std::uint32_t i) { return plan.recompute_layers ? (*plan.recompute_layers)[i] : 0; };
  StageShare alone;
  for (std::uint32_t i = 0; i < stages_.size(); ++i) {
    const bool first = i == 0, last = i + 1 == stages_.size();
    const bool alike = one_kind ? i > 1 && !last && counts[i] == counts[i - 1] && again(i) == again(i - 1)
                                : !first && shares_[i] == shares_[i - 1];
    if (alike) {
      stages_[i] = stages_[i - 1];
      continue;
    }
    if (one_kind) {
      alone.first = first;
      alone.last = last;
      alone.layers = {0, 0, 0, counts[i]};
      set_recomputed(alone, again(i));
    }
    const StageShare& share = one_kind ? alone : shares_[i];
    const BlockTimes& low = *layers_.times[share.lowest()];
    const BlockTimes& top = *layers_.times[share.highest()];
    const auto times = [&](std::size_t c) -> const PerBlock<Picoseconds>& { return layers_.times[c]->span; };
    StageTimes& t = stages_[i];
    t.forward = over_layers(share, [&](std::size_t c) { return times(c).layer_forward; }) +
                (first ? span.embedding_forward : low.arrival.layer_forward - low.span.layer_forward) +
                (last ? span.head_forward : 0);
    t.backward = over_layers(share, [&](std::size_t c) { return times(c).layer_backward; }) +
                 (first ? span.embedding_backward : 0) +
                 (last ? span.head_backward : top.arrival.layer_backward - top.span.layer_backward);
    t.backward -= less_in_chunks(plan, share, layers_, mesh.cluster.device.concurrent_lanes);
    t.weight = over_layers(share, [&](std::size_t c) { return times(c).layer_weight; }) + (last ? span.head_weight : 0);
    if (copies) {
      add_copies(t, share, offloaded_layers(share.count(), *plan.offload_activations), 0, layers_,
                 activation_copies(plan, layers_, mesh.costs()));
    }
  }
  const std::vector<Picoseconds>& ends =
      rank_ends(ends_, stages_, map_, microbatches_, mesh.cluster.device.concurrent_lanes, !splits_backward(plan));
  return *std::max_element(ends.begin(), ends.end());
}

}  // namespace orrery
