#include "sim/bound/stage_times.hpp"

#include <algorithm>
#include <optional>

namespace orrery {
namespace {

void add_sharding(const Plan& plan, const StageMap& map, MeshCosts& mesh, StateCosts& state, const StageShare& share,
                  const BlockCosts& of, const PerBlock<Picoseconds>& span, StageTimes& t) {
  if (state.zero() < 2) return;
  const bool gathers = state.zero() >= 3 && plan.reshard_after_forward;  // kept weights come once a step: not counted
  const auto others = static_cast<Picoseconds>(share.layers) - 1;
  const Picoseconds layer = gathers ? state.layer().gather_weights : 0;
  const Picoseconds embedding = gathers && share.first ? state.embedding().gather_weights : 0;
  const Picoseconds clear = state.layer().clear_copy;
  const Picoseconds clear_embedding = share.first ? state.embedding().clear_copy : 0;
  const std::vector<BucketCosts>& buckets = state.buckets(share.layers, share.first, share.last, mesh.costs());
  // The sum of reductions, each less what other collectives leave compute idle anyway.
  const auto reductions = [&](std::size_t count, Picoseconds idle) {
    Picoseconds sum = 0;
    for (std::size_t b = 0; b < count; ++b) {
      Picoseconds reduce = 0;
      for (const LanePrice& p : buckets[b].reduce) reduce += p.price;
      sum += std::max<Picoseconds>(0, reduce - idle);
    }
    return sum;
  };
  if (!mesh.cluster.device.concurrent_lanes) {
    // A table tied on one rank begins its copy once, for the embedding or the head.
    const bool tied_here = mesh.model.tied_embeddings && map.ranks == 1;
    const Picoseconds head = gathers && share.last && !tied_here ? state.head().gather_weights : 0;
    t.forward += (others + 1) * layer + embedding + head;
    t.backward += (others + 1) * (layer + clear) + clear_embedding + head + reductions(buckets.size(), 0);
    return;
  }
  // What stands in front of a block delays its compute at most: collectives of the block may run beside it.
  const PerBlock<BlockCosts::Beginning>& begins = of.beginning();
  const PerBlock<Picoseconds>& busy = of.busy();
  const auto delay = [](Picoseconds in_front, Picoseconds idle) { return std::max<Picoseconds>(0, in_front - idle); };
  const Picoseconds idle_forward = span.layer_forward - busy.layer_forward;
  const Picoseconds idle_backward = span.layer_backward - busy.layer_backward;
  const Picoseconds idle_embedding = span.embedding_backward - busy.embedding_backward;
  const Picoseconds before_forward = begins.layer_forward.reads_weights ? delay(layer, idle_forward) : 0;
  const Picoseconds gather_backward = begins.layer_backward.reads_weights ? layer : 0;
  const bool waits = !*plan.overlap_gradients && begins.layer_backward.computes && begins.embedding_backward.computes;
  const bool ahead = plan.prefetch > 0;
  if (!ahead) t.forward += others * before_forward;
  // After the last reduction of a pass a message may leave before it ends.
  t.backward +=
      std::max({others * delay(std::max(clear, ahead ? 0 : gather_backward), idle_backward) +
                    delay(clear_embedding, idle_embedding),
                waits ? reductions(buckets.size() - 1, std::max(idle_backward, share.first ? idle_embedding : 0)) : 0});
  if (ahead && share.first) {
    t.before_forward +=
        begins.embedding_forward.reads_weights ? delay(embedding, span.embedding_forward - busy.embedding_forward) : 0;
  } else {
    t.before_forward += before_forward;
  }
  t.before_backward += delay(std::max(clear, ahead && share.last ? 0 : gather_backward), idle_backward);
}

}  // namespace

void stage_times(std::vector<StageTimes>& stages, const Plan& plan, const StageMap& map, MeshCosts& mesh,
                 StateCosts& state) {
  const BlockCosts& of = mesh.blocks_of(plan);
  const BlockTimes& times = mesh.times_of(plan);
  const PerBlock<Picoseconds>& span = times.span;
  const PerBlock<Picoseconds>& arrival = times.arrival;
  stages.assign(map.stages(), {});
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
    const auto layers = static_cast<Picoseconds>(share.layers);
    const auto all = [&](Picoseconds layer, Picoseconds embedding, Picoseconds head) {
      return layers * layer + (share.first ? embedding : 0) + (share.last ? head : 0);
    };
    t.forward = all(span.layer_forward, span.embedding_forward, span.head_forward);
    t.backward = all(span.layer_backward, span.embedding_backward, span.head_backward);
    const auto move_before = [&](Picoseconds& pass, Picoseconds whole, Picoseconds since_arrival, Picoseconds& before) {
      pass -= whole - since_arrival;
      before += whole - since_arrival;
    };
    if (!share.first) move_before(t.forward, span.layer_forward, arrival.layer_forward, t.before_forward);
    if (!share.last) move_before(t.backward, span.layer_backward, arrival.layer_backward, t.before_backward);
    t.weight = layers * span.layer_weight;
    t.clear = all(state.layer().clear, state.embedding().clear, state.head().clear);
    add_sharding(plan, map, mesh, state, share, of, span, t);
    return t;
  };
  // Most stages hold as much as the one before.
  StageShare share;
  StageTimes alike;
  for (std::uint32_t i = 0; i < stages.size(); ++i) {
    const StageShare here = share_of(plan, map, i);
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
