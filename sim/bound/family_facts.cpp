#include "sim/bound/family_facts.hpp"

#include <algorithm>
#include <limits>

#include "core/plan/schedule_rules.hpp"

namespace orrery {

void lessen_layers(PerBlock<Picoseconds>& of, const PerBlock<Picoseconds>& other) {
  of.layer_forward = std::min(of.layer_forward, other.layer_forward);
  of.layer_backward = std::min(of.layer_backward, other.layer_backward);
  of.layer_weight = std::min(of.layer_weight, other.layer_weight);
}

FamilyFacts::FamilyFacts(MeshCosts& mesh) : mesh_(&mesh) {}

FamilyFacts FamilyFacts::beside(MeshCosts& mesh) const {
  FamilyFacts other(mesh);
  other.blocks_ = blocks_.beside();
  for (std::size_t i = 0; i < relaxed_.size(); ++i) other.relaxed_[i] = relaxed_[i].beside();
  other.layer_states_ = layer_states_.beside();
  other.pipelines_ = pipelines_.beside();
  other.reductions_ = reductions_.beside();
  return other;
}

void FamilyFacts::enter(const Plan& plan) {
  mesh_->enter(plan);
  know_places(plan);
}

void FamilyFacts::know_places(const Plan& plan) {
  if (best_place_) return;
  mesh_->enter(plan);
  best_place_.emplace(mesh_->costs());
  down_ = mesh_->costs().tier_rate(Tier::device, Tier::host);
  up_ = mesh_->costs().tier_rate(Tier::host, Tier::device);
}

Lead lead_of(const BlockCosts& of, const PerBlock<Picoseconds>& span, const BlockCosts::Behind& behind) {
  // Gathered ahead they come in front of what reads them, else in front of all that computes (stage_times.cpp).
  constexpr Picoseconds all = std::numeric_limits<Picoseconds>::max();
  const PerBlock<BlockCosts::Beginning>& begins = of.beginning();
  return {begins.layer_forward.reads_weights
              ? span.layer_forward - std::min(behind.weights_forward, of.busy().layer_forward)
              : all,
          begins.layer_backward.reads_weights
              ? span.layer_backward - std::min(behind.weights_backward, of.busy().layer_backward)
              : all};
}

Lead compute_lead_of(const PerBlock<Picoseconds>& span, const BlockCosts::Behind& behind) {
  return {span.layer_forward - behind.compute_forward, span.layer_backward - behind.compute_backward};
}

Lead longer(const Lead& a, const Lead& b) { return {std::max(a.forward, b.forward), std::max(a.backward, b.backward)}; }

const BlockFacts& FamilyFacts::block(const Plan& plan, LayerCase which) {
  const BlockKey key = block_key(plan, mesh_->model, which);
  if (const auto* known = blocks_.find(key)) return *known;
  // Prices of kernels depend on no mesh.
  know_places(plan);
  const BlockCosts& of = mesh_->blocks_of(plan, which);
  BlockFacts found;
  BlockCosts::Prices prices;
  for (const BlockCollective& c : of.collectives()) prices.push_back(best_place_->price(c));
  found.span = of.spans(prices, mesh_->cluster.device.concurrent_lanes);
  const BlockCosts::Behind behind = of.behind(prices);
  found.behind_backward = behind.compute_backward;
  found.later = of.later_in_chunks();
  found.less = of.less_in_chunks(found.span.layer_backward);
  found.lead = lead_of(of, found.span, behind);
  found.compute = compute_lead_of(found.span, behind);
  found.longest = {found.span.layer_forward, found.span.layer_backward};
  found.products = of.products();
  found.busy = of.busy();
  found.arrival = of.arrival_spans(prices, mesh_->cluster.device.concurrent_lanes);
  found.between =
      found.span.layer_forward - found.arrival.layer_forward + found.span.layer_backward - found.arrival.layer_backward;
  found.kept = static_cast<std::uint64_t>(std::max<std::int64_t>(0, of.memory().layer_forward.net));
  found.copied = of.copied_bytes();
  return blocks_.add(key, found);
}

Picoseconds FamilyFacts::between(const Plan& plan, LayerCase which, LayerCase begins) {
  const BlockFacts &of = block(plan, which), &other = block(plan, begins);
  return of.span.layer_forward - std::min(of.arrival.layer_forward, other.arrival.layer_forward) +
         of.span.layer_backward - std::min(of.arrival.layer_backward, other.arrival.layer_backward);
}

BlockFacts FamilyFacts::least_block(const Plan& plan, LayerCase which) {
  BlockFacts least = block(plan, which);
  const auto layers = [](const PerBlock<Picoseconds>& b) {
    return b.layer_forward + b.layer_backward + b.layer_weight;
  };
  const auto dense = static_cast<Picoseconds>(mesh_->dense_layers());
  const auto others = static_cast<Picoseconds>(mesh_->model.layers) - dense;
  least.all_layers = others * layers(least.span);
  least.all_products = others * layers(least.products);
  if (dense == 0) return least;
  const BlockFacts& below = block(plan, which == LayerCase::plain ? LayerCase::dense : LayerCase::recomputed_dense);
  least.all_layers += dense * layers(below.span);
  least.all_products += dense * layers(below.products);
  lessen_layers(least.span, below.span);
  lessen_layers(least.products, below.products);
  lessen_layers(least.busy, below.busy);
  least.between = std::max(least.between, below.between);
  least.lead = longer(least.lead, below.lead);
  least.compute = longer(least.compute, below.compute);
  least.longest = longer(least.longest, below.longest);
  least.kept = std::min(least.kept, below.kept);
  least.later = std::max(least.later, below.later);
  least.less = std::max(least.less, below.less);
  return least;
}

/// Of one layer of that case.
LayerTimes FamilyFacts::relaxed(const Plan& plan, LayerCase which, Relaxed what) {
  auto& known = relaxed_[what == Relaxed::ring ? 0 : 1];
  const BlockKey key = block_key(plan, mesh_->model, which);
  if (const LayerTimes* at = known.find(key)) return *at;
  know_places(plan);
  const BlockCosts& of = mesh_->blocks_of(plan, which);
  BlockCosts::Prices prices;
  for (const BlockCollective& c : of.collectives()) {
    prices.push_back(contains(c.group.axes, Axis::context) ? 0 : best_place_->price(c));
  }
  const auto counts = what == Relaxed::ring ? OpChain::Counts::without_packing : OpChain::Counts::without_attention;
  LayerTimes found;
  found.span = of.spans(prices, mesh_->cluster.device.concurrent_lanes, counts);
  // Whatever begins ahead of a block's entry, products do not.
  found.busy_forward = of.products().layer_forward;
  found.between = std::max<Picoseconds>(0, found.span.layer_forward - of.products().layer_forward +
                                               found.span.layer_backward - of.products().layer_backward);
  return known.add(key, found);
}

LayerTimes FamilyFacts::times_without(const Plan& plan, Relaxed what) {
  if (what == Relaxed::nothing) {
    const BlockFacts known = least_block(plan, LayerCase::plain);
    return {known.span, known.all_layers, known.between, known.busy.layer_forward};
  }
  LayerTimes out = relaxed(plan, LayerCase::plain, what);
  const auto layers = [](const LayerTimes& t) {
    return t.span.layer_forward + t.span.layer_backward + t.span.layer_weight;
  };
  const auto dense = static_cast<Picoseconds>(mesh_->dense_layers());
  out.all_layers = (static_cast<Picoseconds>(mesh_->model.layers) - dense) * layers(out);
  if (dense == 0) return out;
  const LayerTimes below = relaxed(plan, LayerCase::dense, what);
  out.all_layers += dense * layers(below);
  lessen_layers(out.span, below.span);
  out.between = std::max(out.between, below.between);
  out.busy_forward = std::min(out.busy_forward, below.busy_forward);
  return out;
}

const LayerState& FamilyFacts::layer_state(const Plan& of, std::uint32_t zero_stage) {
  const bool states_away = !of.offload_states, weights_away = !of.offload_parameters;
  const std::array<std::uint32_t, 10> key = {static_cast<std::uint32_t>(of.tensor),
                                             of.mesh.size(Axis::tensor),
                                             of.mesh.size(Axis::row),
                                             of.mesh.size(Axis::depth),
                                             of.mesh.size(Axis::data),
                                             of.mesh.size(Axis::context),
                                             of.mesh.size(Axis::expert),
                                             zero_stage,
                                             states_away ? 1U : 0U,
                                             weights_away ? 1U : 0U};
  if (const auto* known = layer_states_.find(key)) return *known;
  // A split backward pass lays parameters in another order, but has as many.
  Plan plan = with_whole_backward(of);
  plan.zero_stage = zero_stage;
  plan.parameter_chunk = Bytes();  // chunks pad layers: they are no smaller
  plan.sequence_parallel = false;
  enter(plan);
  LoweredStates states(mesh_->model, mesh_->workload, plan, mesh_->costs());
  const ModuleState& layer = states.layer.state;
  const std::uint64_t dense = mesh_->dense_layers();
  const auto bytes = [&](const ModuleState& module) {
    return module.persistent_bytes - (states_away ? module.state_bytes : 0) - (weights_away ? module.weight_bytes : 0);
  };
  const std::uint64_t dense_bytes = bytes(dense > 0 ? states.dense_layer.state : layer);
  LayerState found{std::min(bytes(layer), dense_bytes),
                   dense * dense_bytes + (mesh_->model.layers - dense) * bytes(layer),
                   dense > 0 ? std::min(layer.whole_weight_bytes, states.dense_layer.state.whole_weight_bytes)
                             : layer.whole_weight_bytes,
                   0,
                   0,
                   !weights_away ? 0
                   : dense > 0   ? std::min(layer.weight_bytes, states.dense_layer.state.weight_bytes)
                                 : layer.weight_bytes};
  if (states_away) {
    const HostUpdate& on_host = states.host_updates(mesh_->costs()).layer.update;
    found.moved = found.away + layer.state_bytes;
    found.host = std::max(on_host.down, on_host.update);
    found.together = states.factor;
  }
  // Experts are reduced and gathered over other ranks than the rest.
  if (zero_stage >= 2 && !mesh_->model.mixture) found.gradients = layer.whole_gradient_bytes;
  if (zero_stage == 3 && !mesh_->model.mixture) {
    for (const StateCollective* c : states.layer.gather) {
      found.gather += best_place_->price(c->kind, c->payload, group_size(c->group, plan.mesh));
    }
  }
  return layer_states_.add(key, found);
}

Picoseconds FamilyFacts::reduction(const Plan& plan, std::uint64_t bytes, std::uint64_t members,
                                   Collective::Kind kind) {
  const std::array<std::uint64_t, 3> key = {bytes, members, static_cast<std::uint64_t>(kind)};
  if (const auto* known = reductions_.find(key)) return *known;
  know_places(plan);
  const Picoseconds time =
      best_place_->price(kind, Bytes::of(static_cast<double>(bytes)), static_cast<std::uint32_t>(members));
  return reductions_.add(key, time);
}

Picoseconds FamilyFacts::down(std::uint64_t bytes, const Plan& plan) {
  know_places(plan);
  return picoseconds(Bytes::of(static_cast<double>(bytes)) / down_);
}

Picoseconds FamilyFacts::up(std::uint64_t bytes, const Plan& plan) {
  know_places(plan);
  return picoseconds(Bytes::of(static_cast<double>(bytes)) / up_);
}

void FamilyFacts::weigh(std::vector<FamilyPipeline>& pipelines, const Plan& plan) {
  const std::uint64_t m = microbatches(plan, mesh_->workload);
  for (FamilyPipeline& with : pipelines) {
    const std::array<std::uint64_t, 4> key = {static_cast<std::uint64_t>(with.schedule), with.chunks,
                                              plan.mesh.size(Axis::pipeline), m};
    const FamilyPipeline* at = pipelines_.find(key);
    if (at == nullptr) {
      FamilyPipeline weighed = with;
      orrery::weigh(weighed, plan, mesh_->model, mesh_->workload);
      at = &pipelines_.add(key, weighed);
    }
    FamilyPipeline known = *at;
    known.splits = with.splits;
    known.shards = with.shards;
    known.recomputed_eighths = with.recomputed_eighths;
    with = known;
  }
}

Plan with_whole_backward(Plan plan) {
  plan.schedule = ScheduleName::one_f_one_b;
  plan.chunks = 1;
  return plan;
}

}  // namespace orrery
