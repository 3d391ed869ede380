#include "sim/bound/stage_times.hpp"

#include <algorithm>
#include <optional>

#include "core/plan/schedule_rules.hpp"
#include "sim/bound/copied_passes.hpp"
#include "sim/bound/stage_memory.hpp"

namespace orrery {
namespace {

/// What the layers of a stage have in common: of what delays them the least, of what hides that the most.
struct CommonLayer {
  Picoseconds idle_forward = 0, idle_backward = 0, idle_weight = 0;
  Picoseconds lead_backward = 0;  ///< what of it may run before any of its computation
  Picoseconds gather = 0, gather_some = 0, clear = 0, clear_products = 0;
  bool forward_reads = true, backward_reads = true;
};

CommonLayer common_layer(const StageShare& share, const LayerCosts& costs, const StateCosts& state) {
  CommonLayer common;
  bool first = true;
  for (std::size_t c = 0; c < share.layers.size(); ++c) {
    if (share.layers[c] == 0) continue;
    const PerBlock<Picoseconds>& span = costs.times[c]->span;
    const PerBlock<Picoseconds>& busy = costs.blocks[c]->busy();
    const PerBlock<BlockCosts::Beginning>& begins = costs.blocks[c]->beginning();
    const ModuleState& layer = state.layer(static_cast<LayerCase>(c));
    common.idle_forward = std::max(common.idle_forward, span.layer_forward - busy.layer_forward);
    common.idle_backward = std::max(common.idle_backward, span.layer_backward - busy.layer_backward);
    common.lead_backward =
        std::max(common.lead_backward, span.layer_backward - costs.times[c]->behind.compute_backward);
    common.idle_weight = std::max(common.idle_weight, span.layer_weight - busy.layer_weight);
    common.gather = first ? layer.gather_weights : std::min(common.gather, layer.gather_weights);
    common.gather_some = first ? layer.gather_some : std::min(common.gather_some, layer.gather_some);
    common.clear = first ? layer.clear_copy : std::min(common.clear, layer.clear_copy);
    common.clear_products = first ? layer.clear_products : std::min(common.clear_products, layer.clear_products);
    common.forward_reads = common.forward_reads && begins.layer_forward.reads_weights;
    common.backward_reads = common.backward_reads && begins.layer_backward.reads_weights;
    first = false;
  }
  return common;
}

void add_sharding(const Plan& plan, const StageMap& map, MeshCosts& mesh, StateCosts& state, const StageShare& share,
                  const LayerCosts& costs, StageTimes& t) {
  if (state.zero() < 2) return;
  const BlockCosts& of = costs.plain_blocks();
  const PerBlock<Picoseconds>& span = costs.plain_times().span;
  const bool gathers = state.zero() >= 3 && plan.reshard_after_forward;  // kept weights come once a step: not counted
  const auto others = static_cast<Picoseconds>(share.count()) - 1;
  const CommonLayer common = common_layer(share, costs, state);
  const Picoseconds layer = gathers ? common.gather : 0;
  const Picoseconds embedding = gathers && share.first ? state.embedding().gather_weights : 0;
  const Picoseconds clear = common.clear;
  const Picoseconds clear_embedding = share.first ? state.embedding().clear_copy : 0;
  const std::vector<BucketCosts>& buckets = state.buckets(share, mesh.costs());
  const bool concurrent = mesh.cluster.device.concurrent_lanes;
  // The sum of reductions, each less what other collectives leave compute idle anyway.
  const auto reductions = [&](std::span<const LanePrice> BucketCosts::*behind, std::size_t count, Picoseconds idle) {
    Picoseconds sum = 0;
    for (std::size_t b = 0; b < count; ++b) {
      // Those on other lanes, as of experts, run beside each other.
      LaneTimes lanes{};
      for (const LanePrice& p : buckets[b].*behind) lanes[concurrent ? p.lane : 0] += p.price;
      sum += std::max<Picoseconds>(0, *std::max_element(lanes.begin(), lanes.end()) - idle);
    }
    return sum;
  };
  const bool splits = splits_backward(plan);
  const auto behind_backward = splits ? &BucketCosts::reduce_first : &BucketCosts::reduce;
  if (!concurrent) {
    // A table tied on one rank begins its copy once, for the embedding or the head.
    const bool tied_here = mesh.model.tied_embeddings && map.ranks == 1;
    const Picoseconds head = gathers && share.last && !tied_here ? state.head().gather_weights : 0;
    t.forward += (others + 1) * layer + embedding + head;
    t.backward +=
        (others + 1) * (layer + clear) + clear_embedding + head + reductions(behind_backward, buckets.size(), 0);
    if (splits) {
      t.weight += (others + 1) * common.clear_products + reductions(&BucketCosts::reduce, buckets.size(), 0);
    }
    return;
  }
  // What stands in front of a block delays its compute at most: collectives of the block may run beside it.
  const PerBlock<BlockCosts::Beginning>& begins = of.beginning();
  const PerBlock<Picoseconds>& busy = of.busy();
  const auto delay = [](Picoseconds what, Picoseconds idle) { return std::max<Picoseconds>(0, what - idle); };
  const Picoseconds idle_forward = common.idle_forward;
  const Picoseconds idle_backward = common.idle_backward;
  const Picoseconds idle_embedding = span.embedding_backward - busy.embedding_backward;
  const Picoseconds in_front = gathers ? common.gather_some : 0;
  const Picoseconds before_forward = common.forward_reads ? delay(in_front, idle_forward) : 0;
  const Picoseconds gather_backward = common.backward_reads ? in_front : 0;
  // Without overlap what a block begins with waits for the reductions before it: a layer's clears its gradients.
  const bool waits = !*plan.overlap_gradients;
  const bool into_embedding = buckets.back().layers == 0 && !begins.embedding_backward.computes;
  const std::size_t awaited = buckets.size() - std::min<std::size_t>(buckets.size(), into_embedding ? 2 : 1);
  // What is cleared first delays all that the block computes, whatever that leads to.
  const Picoseconds cleared = delay(clear, std::min(idle_backward, common.lead_backward));
  const bool ahead = plan.prefetch > 0;
  if (!ahead) t.forward += others * before_forward;
  // After the last reduction of a pass a message may leave before it ends.
  t.backward += std::max(
      {others * std::max(cleared, delay(ahead ? 0 : gather_backward, idle_backward)) +
           delay(clear_embedding, idle_embedding),
       waits ? reductions(behind_backward, awaited, std::max(idle_backward, share.first ? idle_embedding : 0)) : 0});
  if (splits) {
    // Behind the last bucket that holds layers no weight gradients follow.
    std::size_t before_last = 0;
    for (std::size_t b = 0; b < buckets.size(); ++b) before_last = buckets[b].layers > 0 ? b : before_last;
    t.weight += std::max((others + 1) * delay(common.clear_products, common.idle_weight),
                         waits ? reductions(&BucketCosts::reduce, before_last, common.idle_weight) : 0);
  }
  if (ahead && share.first) {
    t.before_forward +=
        begins.embedding_forward.reads_weights ? delay(embedding, span.embedding_forward - busy.embedding_forward) : 0;
  } else {
    t.before_forward += before_forward;
  }
  t.before_backward += std::max(cleared, delay(ahead && share.last ? 0 : gather_backward, idle_backward));
}

/// Where both say what a pass takes at least, from its message's arrival and from the pass before it on: the later.
void delay_until(StageTimes& t, const StageTimes& other) {
  const auto later = [](Picoseconds& before, Picoseconds& pass, Picoseconds other_before, Picoseconds other_pass) {
    const Picoseconds whole = std::max(before + pass, other_before + other_pass);
    pass = std::max(pass, other_pass);
    before = whole - pass;
  };
  later(t.before_forward, t.forward, other.before_forward, other.forward);
  later(t.before_backward, t.backward, other.before_backward, other.backward);
}

}  // namespace

Picoseconds less_in_chunks(const Plan& plan, const StageShare& share, const LayerCosts& costs, bool concurrent_lanes) {
  if (plan.parameter_chunk == Bytes()) return 0;
  // Of any case, so that layers that are recomputed besides take no less.
  Picoseconds beside = 0, behind = 0;
  for (std::size_t c = 0; c < costs.blocks.size(); ++c) {
    beside = std::max(beside, costs.blocks[c]->less_in_chunks(costs.times[c]->span.layer_backward));
    behind = std::max(behind, costs.blocks[c]->later_in_chunks());
  }
  return (concurrent_lanes ? static_cast<Picoseconds>(share.count()) * beside : 0) + (share.first ? 0 : behind);
}

CopyTimes copy_times(const Plan& plan, const LayerCosts& costs, const MeshCosts& mesh, StateCosts& state) {
  CopyTimes copies;
  if (*plan.offload_activations > 0) copies = activation_copies(plan, costs, mesh.costs());
  if (*plan.offload_parameters > 0) {
    const HostUpdate& layer = state.host_updates(mesh.costs()).layer;
    copies.gathered = layer.gather > 0;
    copies.weights = copies.gathered ? layer.gather : layer.up;
  }
  return copies;
}

void stage_times(std::vector<StageTimes>& stages, const Plan& plan, const StageMap& map,
                 const std::vector<StageShare>& shares, const LayerCosts& costs, MeshCosts& mesh, StateCosts& state) {
  const BlockCosts& of = costs.plain_blocks();
  const PerBlock<Picoseconds>& span = costs.plain_times().span;
  stages.assign(map.stages(), {});
  const bool copies = *plan.offload_activations > 0 || *plan.offload_parameters > 0;
  // Few boundaries differ in the levels that their messages take.
  struct Messages {
    std::uint32_t levels = 0;
    Picoseconds hidden = 0, gradient = 0;
  };
  std::optional<Messages> last;
  const auto messages = [&](std::uint32_t levels) {
    if (!last || last->levels != levels) {
      last = {levels, mesh.transfer(of.hidden_bytes(), levels), mesh.transfer(of.gradient_bytes(), levels)};
    }
    return *last;
  };
  const auto times_with = [&](const StageShare& share) {
    StageTimes t;
    const auto ends = [&](Picoseconds embedding, Picoseconds head) {
      return (share.first ? embedding : 0) + (share.last ? head : 0);
    };
    const auto times = [&](std::size_t c) -> const PerBlock<Picoseconds>& { return costs.times[c]->span; };
    t.forward = over_layers(share, [&](std::size_t c) { return times(c).layer_forward; }) +
                ends(span.embedding_forward, span.head_forward);
    t.backward = over_layers(share, [&](std::size_t c) { return times(c).layer_backward; }) +
                 ends(span.embedding_backward, span.head_backward);
    const auto move_before = [&](Picoseconds& pass, Picoseconds whole, Picoseconds since_arrival, Picoseconds& before) {
      pass -= whole - since_arrival;
      before += whole - since_arrival;
    };
    if (!share.first) {
      const BlockTimes& low = *costs.times[share.lowest()];
      move_before(t.forward, low.span.layer_forward, low.arrival.layer_forward, t.before_forward);
    }
    if (!share.last) {
      const BlockTimes& top = *costs.times[share.highest()];
      move_before(t.backward, top.span.layer_backward, top.arrival.layer_backward, t.before_backward);
    }
    t.weight = over_layers(share, [&](std::size_t c) { return times(c).layer_weight; }) + ends(0, span.head_weight);
    t.clear = over_layers(share, [&](std::size_t c) { return state.layer(static_cast<LayerCase>(c)).clear; }) +
              ends(state.embedding().clear, state.head().clear);
    t.backward -= less_in_chunks(plan, share, costs, mesh.cluster.device.concurrent_lanes);
    const StageTimes plain = t;
    add_sharding(plan, map, mesh, state, share, costs, t);
    if (!mesh.cluster.device.concurrent_lanes) return t;
    if (state.zero() >= 3 && plan.reshard_after_forward && plan.prefetch > 0) {
      StageTimes ahead = plain;
      const CopyTimes gathers{0, 0, common_layer(share, costs, state).gather, true, true};
      add_copies(ahead, share, 0, share.count(), costs, gathers);
      delay_until(t, ahead);
    }
    if (copies) {
      StageTimes copied = plain;
      add_copies(copied, share, offloaded_layers(share.count(), *plan.offload_activations),
                 offloaded_layers(share.count(), *plan.offload_parameters), costs,
                 copy_times(plan, costs, mesh, state));
      delay_until(t, copied);
    }
    return t;
  };
  // Most stages hold as much as the one before.
  StageShare share;
  StageTimes alike;
  for (std::uint32_t i = 0; i < stages.size(); ++i) {
    const StageShare& here = shares[i];
    if (i == 0 || here != share) share = here, alike = times_with(here);
    StageTimes& t = stages[i];
    t = alike;
    if (share.last || share.to_here) continue;
    const bool turns = map.placement == StagePlacement::v;
    const std::uint32_t levels = mesh.levels_after(turns ? std::min(map.rank(i), map.rank(i + 1)) : map.rank(i));
    Messages sent = messages(levels);
    if (map.two_way()) {
      // Or the other direction's.
      const Messages other = messages(mesh.levels_after(map.ranks - 2 - i));
      sent.hidden = std::min(sent.hidden, other.hidden);
      sent.gradient = std::min(sent.gradient, other.gradient);
    }
    t.send_hidden = sent.hidden;
    t.send_gradient = sent.gradient;
  }
}

}  // namespace orrery
