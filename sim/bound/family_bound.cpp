// Long: the facts about blocks and states that bounds of families are made of stand beside them, as nothing else asks
// for them.
#include "sim/bound/family_bound.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/plan/schedule_rules.hpp"
#include "sim/bound/stage_memory.hpp"

namespace orrery {
namespace {

/// Of layers, the lesser of each.
void lessen_layers(PerBlock<Picoseconds>& of, const PerBlock<Picoseconds>& other) {
  of.layer_forward = std::min(of.layer_forward, other.layer_forward);
  of.layer_backward = std::min(of.layer_backward, other.layer_backward);
  of.layer_weight = std::min(of.layer_weight, other.layer_weight);
}

/// Of a layer's two passes, what its forward pass is at least in nearly all models.
constexpr double forward_share = 0.24;

}  // namespace

Keeping keeping_of(const Plan& plan) {
  if (plan.zero_stage < 2) return Keeping::plain;
  if (plan.zero_stage == 2) return Keeping::zero_2;
  if (plan.parameter_chunk > Bytes()) return Keeping::zero_3_chunks;
  return plan.reshard_after_forward ? Keeping::zero_3_anew : Keeping::zero_3_kept;
}

FamilyBounds::FamilyBounds(MeshCosts& mesh) : mesh_(&mesh), facts_(std::make_shared<Facts>()) {}

FamilyBounds FamilyBounds::beside(MeshCosts& mesh) const {
  FamilyBounds other(mesh);
  other.facts_ = facts_;
  return other;
}

void FamilyBounds::enter(const Plan& plan) {
  mesh_->enter(plan);
  if (best_place_) return;
  best_place_.emplace(mesh_->costs());
  down_ = mesh_->costs().tier_rate(Tier::device, Tier::host);
  up_ = mesh_->costs().tier_rate(Tier::host, Tier::device);
}

FamilyBounds::Lead FamilyBounds::lead_of(const BlockCosts& of, const PerBlock<Picoseconds>& span,
                                         const BlockCosts::Behind& behind) {
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

FamilyBounds::Lead FamilyBounds::compute_lead_of(const PerBlock<Picoseconds>& span, const BlockCosts::Behind& behind) {
  return {span.layer_forward - behind.compute_forward, span.layer_backward - behind.compute_backward};
}

FamilyBounds::Lead FamilyBounds::longer(const Lead& a, const Lead& b) {
  return {std::max(a.forward, b.forward), std::max(a.backward, b.backward)};
}

FamilyBounds::BlockFacts FamilyBounds::facts_of(const Plan& plan, LayerCase which) {
  const BlockKey key = block_key(plan, mesh_->model, which);
  {
    const std::lock_guard<std::mutex> lock(facts_->mutex);
    const auto known = facts_->blocks.find(key);
    if (known != facts_->blocks.end()) return known->second;
  }
  // Prices of kernels depend on no mesh.
  if (!best_place_) enter(plan);
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
  const std::lock_guard<std::mutex> lock(facts_->mutex);
  facts_->blocks.try_emplace(key, found);
  return found;
}

Picoseconds FamilyBounds::between(const Plan& plan, LayerCase which, LayerCase begins) {
  const BlockFacts of = facts_of(plan, which), other = facts_of(plan, begins);
  return of.span.layer_forward - std::min(of.arrival.layer_forward, other.arrival.layer_forward) +
         of.span.layer_backward - std::min(of.arrival.layer_backward, other.arrival.layer_backward);
}

FamilyBounds::BlockFacts FamilyBounds::least_facts_of(const Plan& plan, LayerCase which) {
  BlockFacts least = facts_of(plan, which);
  const auto layers = [](const PerBlock<Picoseconds>& b) {
    return b.layer_forward + b.layer_backward + b.layer_weight;
  };
  const auto dense = static_cast<Picoseconds>(mesh_->dense_layers());
  const auto others = static_cast<Picoseconds>(mesh_->model.layers) - dense;
  least.all_layers = others * layers(least.span);
  least.all_products = others * layers(least.products);
  if (dense == 0) return least;
  const BlockFacts below = facts_of(plan, which == LayerCase::plain ? LayerCase::dense : LayerCase::recomputed_dense);
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
FamilyBounds::LayerTimes FamilyBounds::relaxed(const Plan& plan, LayerCase which, Free what) {
  auto& known = facts_->relaxed[what == Free::ring ? 0 : 1];
  const BlockKey key = block_key(plan, mesh_->model, which);
  {
    const std::lock_guard<std::mutex> lock(facts_->mutex);
    const auto at = known.find(key);
    if (at != known.end()) return at->second;
  }
  if (!best_place_) enter(plan);
  const BlockCosts& of = mesh_->blocks_of(plan, which);
  BlockCosts::Prices prices;
  for (const BlockCollective& c : of.collectives()) {
    prices.push_back(contains(c.group.axes, Axis::context) ? 0 : best_place_->price(c));
  }
  const auto counts = what == Free::ring ? OpChain::Counts::without_packing : OpChain::Counts::without_attention;
  LayerTimes found;
  found.span = of.spans(prices, mesh_->cluster.device.concurrent_lanes, counts);
  // Whatever begins ahead of a block's entry, products do not.
  found.busy_forward = of.products().layer_forward;
  found.between = std::max<Picoseconds>(0, found.span.layer_forward - of.products().layer_forward +
                                               found.span.layer_backward - of.products().layer_backward);
  const std::lock_guard<std::mutex> lock(facts_->mutex);
  known.try_emplace(key, found);
  return found;
}

FamilyBounds::LayerTimes FamilyBounds::times_without(const Plan& plan, Free what) {
  if (what == Free::nothing) {
    const BlockFacts known = least_facts_of(plan, LayerCase::plain);
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

FamilyBounds::LayerState FamilyBounds::layer_state(const Plan& of, std::uint32_t zero_stage) {
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
  {
    const std::lock_guard<std::mutex> lock(facts_->mutex);
    const auto known = facts_->layer_states.find(key);
    if (known != facts_->layer_states.end()) return known->second;
  }
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
  const std::lock_guard<std::mutex> lock(facts_->mutex);
  return facts_->layer_states.try_emplace(key, found).first->second;
}

FamilyBounds::Parts FamilyBounds::parts_of(const Plan& plan, std::uint32_t plain_zero,
                                           std::span<const FamilyPipeline> pipelines) {
  const bool shards = std::any_of(pipelines.begin(), pipelines.end(), [](const auto& with) { return with.shards; });
  Parts parts;
  parts.plain = layer_state(plan, plain_zero);
  parts.zero_2 = shards ? layer_state(plan, 2) : parts.plain;
  parts.zero_3 = shards ? layer_state(plan, 3) : parts.plain;
  if (shards && parts.zero_2.gradients > 0) {
    if (!best_place_) enter(plan);  // another thread may have known the states
    const std::uint64_t members = size(plan.mesh, shard_axes_of(plan));
    parts.reduce =
        in_buckets(plan, parts.zero_2.gradients, [&](std::uint64_t bytes) { return reduction(bytes, members); });
    parts.pair = parts.zero_2.gradients / members;
  }
  if (parts.plain.away > 0 && !mesh_->model.mixture) {
    const bool in_parts = plain_zero > 0 || shards;
    set_come(parts, plan, in_parts ? layer_state(plan, 3).gather : std::numeric_limits<Picoseconds>::max());
  }
  return parts;
}

void FamilyBounds::set_come(Parts& parts, const Plan& plan, Picoseconds gather) {
  if (!best_place_) enter(plan);  // another thread may have known the states
  const Picoseconds whole = picoseconds(Bytes::of(static_cast<double>(parts.plain.away)) / up_);
  parts.come = std::min(whole, gather);
}

template <class Price>
Picoseconds FamilyBounds::in_buckets(const Plan& plan, std::uint64_t of_layer, Price&& price) const {
  const std::uint64_t p = plan.mesh.size(Axis::pipeline);
  const std::uint64_t all = (mesh_->model.layers + p - 1) / p * of_layer;
  // A bucket is closed as soon as it is large enough, so none holds more than this: several messages take no less time
  // than one of all, nor than their share of the largest's.
  const std::uint64_t most = of_layer + static_cast<std::uint64_t>(plan.gradient_bucket->base());
  if (all <= most) return price(all);
  return static_cast<Picoseconds>(static_cast<double>(all) / static_cast<double>(most) *
                                  static_cast<double>(price(most)));
}

Picoseconds FamilyBounds::reduction(std::uint64_t bytes, std::uint64_t members, Collective::Kind kind) {
  const std::array<std::uint64_t, 3> key = {bytes, members, static_cast<std::uint64_t>(kind)};
  {
    const std::lock_guard<std::mutex> lock(facts_->mutex);
    const auto known = facts_->reductions.find(key);
    if (known != facts_->reductions.end()) return known->second;
  }
  const Picoseconds time =
      best_place_->price(kind, Bytes::of(static_cast<double>(bytes)), static_cast<std::uint32_t>(members));
  const std::lock_guard<std::mutex> lock(facts_->mutex);
  facts_->reductions.try_emplace(key, time);
  return time;
}

double FamilyBounds::waits_for(const Coming& weights, const Lead& longest) {
  // As add_copies says, one layer ahead; not ahead they wait longer.
  const auto way = [&](Picoseconds whole, Picoseconds lead, double opened) {
    if (weights.each <= lead) return 0.0;
    const double openings = std::max(0.0, opened) * static_cast<double>(weights.each - lead);
    const double beside =
        (weights.layers - weights.stages) * static_cast<double>(std::max<Picoseconds>(0, weights.each - whole));
    return openings + std::max(0.0, beside - static_cast<double>(lead));
  };
  // Of every rank's chunks one at most is the first or the last of all, which begin otherwise; the rank's first pass
  // follows no other.
  return way(longest.forward, weights.lead.forward, weights.opened - 1) +
         way(longest.backward, weights.lead.backward, weights.stages - 1);
}

FamilyBound FamilyBounds::family(const Plan& plan, const Parts& parts, std::span<const FamilyPipeline> pipelines,
                                 std::uint64_t capacity, std::optional<Keeping> only, Picoseconds enough) {
  const PerBlock<Picoseconds>& span = parts.span;
  const std::uint64_t kept = parts.kept;
  const bool copies = !plan.offload_activations;
  const auto but_copied = [](std::uint64_t of, std::uint64_t copied) { return of - std::min(of, copied); };
  const std::uint64_t stays = but_copied(kept, parts.copied);
  const std::uint64_t stays_again = std::min(kept, but_copied(parts.kept_recomputed, parts.copied_recomputed));
  // Of every stage, rounded up; beside copies the counts are fixed.
  const std::uint32_t eighths = copies ? pipelines.front().recomputed_eighths : 0;
  const bool open = plan.recompute_layers && eighths == 0;
  const std::uint64_t least_kept = eighths > 0 ? std::min(stays, stays_again)
                                   : open      ? std::min(kept, parts.kept_recomputed)
                                   : copies    ? stays
                                               : kept;
  const auto p = static_cast<double>(plan.mesh.size(Axis::pipeline));
  const auto layers_of_model = static_cast<double>(mesh_->model.layers);
  const double most = std::ceil(layers_of_model / p);
  const auto m = static_cast<double>(microbatches(plan, mesh_->workload));
  const auto less_of = [&](Keeping keeping) {
    if (keeping != Keeping::zero_3_chunks) return 0.0;
    return static_cast<double>(eighths > 0 ? std::max(parts.less_in_chunks, parts.less_again) : parts.less_in_chunks);
  };
  const auto later_of = [&](Keeping keeping) {
    return keeping == Keeping::zero_3_chunks && p > 1 ? static_cast<double>(parts.later_in_chunks) : 0.0;
  };
  // At least so much longer by what is recomputed.
  const double again = eighths / 8.0 * static_cast<double>(parts.again);
  const double whole_layer = static_cast<double>(span.layer_forward + span.layer_backward + span.layer_weight) + again;
  const auto ends =
      static_cast<double>(span.embedding_forward + span.embedding_backward + span.head_forward + span.head_backward);
  const double all_layers = static_cast<double>(parts.all_layers) + layers_of_model * again;
  const bool forward_counts = static_cast<double>(span.layer_forward) >= forward_share * whole_layer;
  const bool any_is_enough = enough < any_step;
  const bool any_chunks = plan.parameter_chunk != Bytes() || only == Keeping::zero_3_chunks;
  const Keeping shortest = any_chunks ? Keeping::zero_3_chunks : Keeping::plain;
  if (const double average =
          m * (all_layers - layers_of_model * less_of(shortest) + ends) / p -
          most * (static_cast<double>(std::max(parts.between, parts.between_again)) + later_of(shortest));
      any_is_enough && average * (1.0 - 1e-12) >= static_cast<double>(enough) + 1) {
    return {0, static_cast<Picoseconds>(average * (1.0 - 1e-12))};
  }
  FamilyBound best{~std::uint64_t{0}, 0};
  double least = -1;
  const auto consider = [&](const FamilyPipeline& with, Keeping keeping, double after_pipes) {
    if (only && keeping != *only) return;
    const bool chunks = keeping == Keeping::zero_3_chunks, anew = chunks || keeping == Keeping::zero_3_anew;
    const double less = less_of(keeping);
    const double layer = std::max(0.0, whole_layer - less);
    const double shared = m * (all_layers - layers_of_model * less + ends) / p;
    const double fullest = m * most * layer;
    const LayerState& state = keeping == Keeping::plain    ? parts.plain
                              : keeping == Keeping::zero_2 ? parts.zero_2
                                                           : parts.zero_3;
    // Of two pipes each rank runs a part of either, of half of the microbatches.
    const bool two_way = rules_of(with.schedule).placement == StagePlacement::two_way;
    double lane = 0;
    if (keeping != Keeping::plain) {
      // Nothing is reduced before the first backward pass.
      const double follow = std::max(0.0, with.ahead - with.stages);  // others may begin ahead of their messages
      const double before = follow * static_cast<double>(span.layer_forward) +
                            (with.ahead - follow) * static_cast<double>(parts.busy_forward);
      // Nor before a microbatch has gone up all layers.
      const double begun = std::min(layers_of_model, with.stages * p / (two_way ? 2 : 1));
      const double turn = (layers_of_model - begun) * static_cast<double>(span.layer_forward) +
                          begun * static_cast<double>(parts.busy_forward) +
                          static_cast<double>(span.embedding_forward + span.head_forward);
      // Then it comes down again; of a stage's first pass a part may run before its message arrives.
      const double back = std::max(
          0.0, with.above * static_cast<double>(span.layer_backward) - (p - 1) * static_cast<double>(parts.between));
      lane = std::max(std::max(before, turn) + m * with.reduced * static_cast<double>(parts.reduce),
                      turn + back + m * with.reduced_any * static_cast<double>(parts.reduce));
    }
    const double fullest_layers = two_way ? std::ceil(2 * layers_of_model / p) / 2 : most;
    if (anew) {
      lane = std::max(lane, 2 * m * fullest_layers * static_cast<double>(state.gather));
    }
    const double weights =
        keeping == Keeping::zero_3_kept && with.keeps_all ? with.layers * static_cast<double>(state.weights) : 0;
    const double peak = std::max(
        {most * static_cast<double>(state.bytes + least_kept), static_cast<double>(state.all) / p,
         weights + with.layers * static_cast<double>(state.bytes) + with.kept * static_cast<double>(least_kept)});
    best.peak = std::min(best.peak, static_cast<std::uint64_t>(peak));
    if (peak > static_cast<double>(capacity)) return;
    const double passes = forward_counts ? std::max(with.passes, with.entered) : with.passes;
    // What does not fit is recomputed: each layer saves at most what all its microbatches in flight would keep.
    // Beside copies recomputed layers are the first that are copied; what then is missing are plain ones.
    const double kept_activations =
        eighths > 0 ? with.kept * static_cast<double>(stays_again) +
                          with.kept_plain[eighths] * (static_cast<double>(kept) - static_cast<double>(stays_again))
                    : with.kept * static_cast<double>(kept);
    const double shortage =
        weights + with.layers * static_cast<double>(state.bytes) + kept_activations - static_cast<double>(capacity);
    const double saved = with.in_flight * static_cast<double>(parts.saved);
    const double recomputed = open && shortage > 0 && saved > 0 ? std::ceil(shortage / saved * (1.0 - 1e-12)) : 0.0;
    // Of a stage's first passes a part may run before their messages arrive.
    const bool wholly_again = eighths > 0 && with.smallest * (8 - eighths) < 8;  // some stage may be
    const double early = static_cast<double>(wholly_again ? parts.between_again : parts.between) + later_of(keeping);
    const double on_compute = std::max(passes * layer - std::min(with.stages * p, layers_of_model) * early,
                                       std::max(shared, two_way ? 0.0 : fullest) - with.stages * early);
    const double each = two_way ? m / 2 : m;  // microbatches of a stage
    double away = 0, delay = 0;
    if (copies) {
      // An eighth of every stage at least; and each layer in host memory saves at most what all its microbatches in
      // flight would keep.
      const double one = eighths > 0 ? 0 : std::max<double>(with.stages, std::ceil(with.layers / 8.0));
      away = one;
      if (shortage > 0 && with.in_flight > 0 && parts.copied > 0) {
        away =
            std::max(one, std::ceil(shortage / (with.in_flight * static_cast<double>(parts.copied)) * (1.0 - 1e-12)));
      }
      // What is copied for the first microbatch may be so ahead of its turn.
      delay = away == 0 ? 0
                        : std::max(0.0, each - 1) * ((away - 1) * static_cast<double>(parts.delay) +
                                                     static_cast<double>(parts.delay_at_head));
    }
    // Every rank recomputes what the one with the least in flight does, which holds so much beside its activations.
    const auto recomputing = [&](double held) {
      if (!open || saved <= 0) return 0.0;
      const double missing = held + with.held * static_cast<double>(kept) - static_cast<double>(capacity);
      const double layers = std::ceil(std::max(0.0, missing) / saved * (1.0 - 1e-12));
      // In chunks what a recomputed layer's passes take less counts too.
      const double longer = static_cast<double>(parts.again) -
                            (chunks ? std::max(0.0, static_cast<double>(parts.less_again) - less) : 0.0);
      return std::max(0.0,
                      each * layers * longer - with.stages * static_cast<double>(parts.between_again - parts.between));
    };
    const double here = weights + with.layers * static_cast<double>(state.bytes);
    const auto stages = static_cast<double>(with.stages);
    const double recompute = recomputing(here);
    double besides = recompute;  // of any rank
    double gathered = 0;
    if (anew && parts.lead) {
      gathered = each * waits_for({state.gather, static_cast<double>(with.layers), stages, stages, *parts.lead},
                                  parts.longest);
    } else if (state.away > 0 && keeping != Keeping::zero_3_kept) {
      const auto coming = [&](double layers, double opened) {
        return parts.lead ? each * waits_for({parts.come, layers, stages, opened, parts.compute}, parts.longest) : 0.0;
      };
      // Of weights that come for every pass every stage has some.
      const double some = recompute + coming(stages, 0);
      const double room = static_cast<double>(capacity) - here - with.kept * static_cast<double>(least_kept);
      const double stay = std::floor(std::max(0.0, room) / static_cast<double>(state.away) * (1.0 + 1e-12));
      if (stay < with.layers) {
        const double layers = std::max(with.layers - stay, stages);
        lane = std::max(lane, 2 * each * layers * static_cast<double>(parts.come));
        gathered = coming(layers, stages - stay);
        besides = some;
      } else {
        besides = std::min(some, recomputing(here + with.layers * static_cast<double>(state.away)));
      }
    }
    double step = std::max(on_compute + std::max(std::max(delay, gathered) + recompute, besides), lane);
    if (state.together) {
      // What does not fit of states and weights is updated by the host, behind all passes, of every stage some.
      const double over = with.layers * static_cast<double>(state.bytes + state.moved) +
                          with.kept * static_cast<double>(least_kept) - static_cast<double>(capacity);
      const double layers = std::ceil(over / static_cast<double>(state.moved) * (1.0 - 1e-12));
      if (layers > 0) {
        const double behind = std::max<double>(layers, with.stages) * static_cast<double>(state.host);
        step += behind;
        besides += behind;
      }
    }
    if (only) best.besides = static_cast<Picoseconds>(besides * (1.0 - 1e-12));
    if (recomputed > 0) {
      const double either = chunks ? whole_layer - static_cast<double>(parts.less_again) : layer;
      const double work = each * (with.layers * either + recomputed * static_cast<double>(parts.again)) + gathered;
      const double early_again = static_cast<double>(parts.between_again + (chunks ? parts.later_in_chunks : 0));
      step = std::max(step, work - with.stages * early_again);
    }
    if (copies) step = std::max(step, each * away * static_cast<double>(parts.copy));
    step += after_pipes;
    least = least < 0 ? step : std::min(least, step);
  };
  for (const FamilyPipeline& with : pipelines) {
    double after_pipes = 0;
    if (parts.pair > 0 && rules_of(with.schedule).placement == StagePlacement::two_way) {
      // Behind all else both pipes' gradients are summed, of each rank's stages.
      const std::uint64_t bytes = std::uint64_t{with.layers} * parts.pair;
      after_pipes = static_cast<double>(reduction(bytes, 2, Collective::Kind::all_reduce));
    }
    consider(with, Keeping::plain, after_pipes);
    if (with.shards) {
      for (const Keeping k : {Keeping::zero_2, Keeping::zero_3_kept, Keeping::zero_3_anew}) {
        consider(with, k, after_pipes);
      }
      if (any_chunks) consider(with, Keeping::zero_3_chunks, after_pipes);
    }
    if (any_is_enough && least >= 0 && least <= static_cast<double>(enough)) return {0, 0};
  }
  // Rounded down, and a little more than doubles may have rounded up.
  best.step = static_cast<Picoseconds>(std::max(0.0, least) * (1.0 - 1e-12));
  return best;
}

void FamilyBounds::weigh(std::vector<FamilyPipeline>& pipelines, const Plan& plan) {
  const std::uint64_t m = microbatches(plan, mesh_->workload);
  const std::lock_guard<std::mutex> lock(facts_->mutex);
  for (FamilyPipeline& with : pipelines) {
    const std::array<std::uint64_t, 4> key = {static_cast<std::uint64_t>(with.schedule), with.chunks,
                                              plan.mesh.size(Axis::pipeline), m};
    const auto [at, fresh] = facts_->pipelines.try_emplace(key, with);
    if (fresh) {
      Plan on = plan;
      on.schedule = with.schedule;
      on.chunks = with.chunks;
      const StageMap map = stage_map(on);
      const bool whole = !splits_backward(on);
      FamilyPipeline& known = at->second;
      bool first = true;
      known.keeps_all = true;
      known.smallest = 0;
      const std::uint64_t most = (mesh_->model.layers + map.ranks - 1) / map.ranks;
      known.ahead = std::numeric_limits<double>::max();
      for (const std::vector<std::uint32_t>& split : *with.splits) {
        // Where backward is whole a microbatch takes a pass of all layers.
        double passes = whole ? static_cast<double>(mesh_->model.layers) : 0, entered = passes, kept = 0;
        std::uint32_t fewest = ~std::uint32_t{0};
        const double each = static_cast<double>(m) / map.pipes();
        double in_flight_most = 0, held_least = std::numeric_limits<double>::max();
        std::array<double, 8> kept_plain{};  // of the rank that keeps the most
        double reduced = 0, reduced_any = std::numeric_limits<double>::max(), above = 0;
        std::vector<double> layers_above(split.size() + 1, 0);
        for (std::size_t s = split.size(); s-- > 0;) layers_above[s] = layers_above[s + 1] + split[s];
        double entry = 0;  // layers before the rank's lowest stage
        for (std::uint32_t r = 0; r < map.ranks; ++r) {
          const std::vector<std::uint64_t> in_flight = microbatches_in_flight(on, r, m);
          std::uint32_t layers = 0;
          std::array<double, 8> held_plain{};
          double held = 0, of_most = 0, above_all = std::numeric_limits<double>::max();
          for (std::uint32_t c = 0; c < map.chunks; ++c) {
            const std::uint32_t n = split[map.stage(r, c)];
            layers += n;
            held += static_cast<double>(in_flight[c]) * n;
            for (std::uint32_t e = 0; e < 8; ++e)
              held_plain[e] += static_cast<double>(in_flight[c]) * (n * (8 - e) / 8);
            known.smallest = known.smallest == 0 ? n : std::min(known.smallest, n);
            // A message takes at least as long as that of the most layers times its share of them.
            of_most += std::min(1.0, n / static_cast<double>(most)) / map.pipes();
            above_all = std::min(above_all, layers_above[map.stage(r, c) + 1]);
            in_flight_most = std::max(in_flight_most, static_cast<double>(in_flight[c]));
            known.keeps_all = known.keeps_all && in_flight[c] > 0;
          }
          // A rank enters after a forward pass of those layers, and where backward is whole their backward follows it.
          passes = std::max(passes, each * layers + (whole ? entry : 0.0));
          entered = std::max(entered, each * layers + forward_share * entry);
          if (held > kept) kept = held, kept_plain = held_plain;
          held_least = std::min(held_least, held);
          reduced = std::max(reduced, map.two_way() ? of_most : 1.0);
          reduced_any = std::min(reduced_any, of_most);
          above = std::max(above, above_all);
          if (map.two_way()) {
            known.ahead = 0;
          } else if (layers >= most) {
            known.ahead = std::min(known.ahead, held);
          }
          fewest = std::min(fewest, layers);
          if (!map.two_way()) entry += split[r];
        }
        known.passes = first ? passes : std::min(known.passes, passes);
        known.entered = first ? entered : std::min(known.entered, entered);
        known.kept = first ? kept : std::min(known.kept, kept);
        known.held = first ? held_least : std::min(known.held, held_least);
        for (std::uint32_t e = 0; e < 8; ++e) {
          known.kept_plain[e] = first ? kept_plain[e] : std::min(known.kept_plain[e], kept_plain[e]);
        }
        known.reduced = first ? reduced : std::min(known.reduced, reduced);
        known.reduced_any = first ? reduced_any : std::min(known.reduced_any, reduced_any);
        known.above = first ? above : std::min(known.above, above);
        known.layers = first ? fewest : std::min(known.layers, fewest);
        known.in_flight = in_flight_most;
        known.stages = map.chunks;
        first = false;
      }
    }
    with.passes = at->second.passes;
    with.entered = at->second.entered;
    with.kept = at->second.kept;
    with.held = at->second.held;
    with.ahead = at->second.ahead;
    with.reduced = at->second.reduced;
    with.reduced_any = at->second.reduced_any;
    with.above = at->second.above;
    with.layers = at->second.layers;
    with.in_flight = at->second.in_flight;
    with.keeps_all = at->second.keeps_all;
    with.stages = at->second.stages;
    with.kept_plain = at->second.kept_plain;
    with.smallest = at->second.smallest;
  }
}

FamilyBound FamilyBounds::any_block(const Plan& plan, std::uint32_t plain_zero,
                                    const std::vector<FamilyPipeline>& pipelines, std::uint64_t capacity) {
  // Where not even the states fit no block need be lowered.
  Parts parts = parts_of(plan, plain_zero, pipelines);
  const FamilyBound states = family(plan, parts, pipelines, capacity);
  if (states.peak > capacity) return states;
  const BlockFacts known = least_facts_of(plan, LayerCase::plain);
  parts.span = known.products;
  parts.all_layers = known.all_products;
  parts.busy_forward = known.products.layer_forward;
  return family(plan, parts, pipelines, capacity);
}

Plan FamilyBounds::with_whole_backward(Plan plan) {
  plan.schedule = ScheduleName::one_f_one_b;
  plan.chunks = 1;
  return plan;
}

FamilyBound FamilyBounds::without_recompute(const Plan& plan, std::uint32_t plain_zero,
                                            const std::vector<FamilyPipeline>& pipelines, std::uint64_t capacity,
                                            Picoseconds enough, Free what) {
  Plan plain = plan;
  plain.recompute = Recompute::none;
  plain.recompute_layers.reset();
  plain.offload_activations = 0;
  return least_of_kinds(plain, pipelines, capacity, [&](const Plan& on, std::span<const FamilyPipeline> with) {
    if (splits_backward(on)) {
      // The forward pass is that of a whole backward pass, whose kernels the parts have too.
      const Plan whole = with_whole_backward(on);
      const LayerTimes times = times_without(whole, what);
      const Picoseconds products = least_facts_of(whole, LayerCase::plain).products.layer_backward;
      Parts parts = parts_of(on, plain_zero, with);
      parts.span = times.span;
      parts.span.layer_backward = std::min(parts.span.layer_backward, products);
      parts.span.head_backward = 0;
      parts.span.embedding_backward = 0;
      parts.between = times.between;
      parts.busy_forward = times.busy_forward;
      add_chunks(parts, whole);
      const FamilyBound bound = family(on, parts, with, capacity, std::nullopt, enough);
      if (bound.peak > capacity || bound.step > enough) return bound;
    }
    const LayerTimes times = times_without(on, what);
    Parts parts = parts_of(on, plain_zero, with);
    parts.span = times.span;
    parts.all_layers = times.all_layers;
    parts.between = times.between;
    parts.busy_forward = times.busy_forward;
    add_chunks(parts, on);
    return family(on, parts, with, capacity, std::nullopt, enough);
  });
}

FamilyBound FamilyBounds::any_attention(const Plan& plan, std::uint32_t plain_zero,
                                        const std::vector<FamilyPipeline>& pipelines, std::uint64_t capacity,
                                        Picoseconds enough) {
  return without_recompute(plan, plain_zero, pipelines, capacity, enough, Free::attention);
}

FamilyBound FamilyBounds::any_recompute(const Plan& plan, std::uint32_t plain_zero,
                                        const std::vector<FamilyPipeline>& pipelines, std::uint64_t capacity,
                                        Picoseconds enough) {
  // A ring of rings attends to as many pairs, piece by piece, and adds up as many gradients as one ring does.
  if (plan.inner_ring > 0) {
    Plan ring = plan;
    ring.inner_ring = 0;
    const FamilyBound bound = without_recompute(ring, plain_zero, pipelines, capacity, enough, Free::ring);
    if (bound.peak > capacity || bound.step > enough) return bound;
  }
  return without_recompute(plan, plain_zero, pipelines, capacity, enough, Free::nothing);
}

void FamilyBounds::add_offloaded_beside(Parts& parts, const BlockFacts& facts, const BlockFacts& recomputed,
                                        const PerBlock<Picoseconds>& span) const {
  const Picoseconds backward = parts.span.layer_backward;
  BlockFacts longest = facts;
  // Longest passes with the longest lead.
  const Picoseconds lead = std::max(backward - facts.behind_backward, span.layer_backward - recomputed.behind_backward);
  parts.span.layer_backward = std::max(backward, span.layer_backward);
  longest.behind_backward = parts.span.layer_backward - lead;
  add_offloaded(parts, longest);
  parts.span.layer_backward = backward;
  parts.copied_recomputed = recomputed.copied;
}

void FamilyBounds::add_chunks(Parts& parts, const Plan& plan) {
  if (plan.parameter_chunk == Bytes()) return;
  parts.later_in_chunks = least_facts_of(plan, LayerCase::plain).later;
  const bool cut = std::any_of(block_axes.begin(), block_axes.end(), [&](Axis a) { return plan.mesh.size(a) > 1; });
  parts.less_in_chunks = cut ? parts.later_in_chunks : 0;
}

void FamilyBounds::add_offloaded(Parts& parts, const BlockFacts& facts) const {
  const Bytes bytes = Bytes::of(static_cast<double>(facts.copied));
  const Picoseconds down = picoseconds(bytes / down_);
  const Picoseconds up = picoseconds(bytes / up_);
  parts.copied = facts.copied;
  parts.copy = std::min(down, up);
  // As add_copies says: beside the passes of a layer below the stage's highest, or in front of the highest's.
  const PerBlock<Picoseconds>& span = parts.span;
  const Picoseconds lead = std::max<Picoseconds>(0, span.layer_backward - facts.behind_backward);
  const auto above = [](Picoseconds copy, Picoseconds pass) { return std::max<Picoseconds>(0, copy - pass); };
  const Picoseconds beside = above(down, span.layer_forward) + above(up, span.layer_backward + lead);
  parts.delay = std::min(beside, above(up, lead));
  parts.delay_at_head = std::min(parts.delay, above(up, lead + span.head_backward));
}

void FamilyBounds::add_recomputed(Parts& parts, const Plan& plan, const PerBlock<Picoseconds>& span,
                                  Picoseconds between) {
  parts.between_again = std::max(parts.between, between);
  parts.kept_recomputed = least_facts_of(plan, LayerCase::recomputed).kept;
  const auto saved = [&](LayerCase plain, LayerCase again) {
    const std::uint64_t before = facts_of(plan, plain).kept, after = facts_of(plan, again).kept;
    return before - std::min(before, after);
  };
  parts.saved = saved(LayerCase::plain, LayerCase::recomputed);
  if (mesh_->dense_layers() > 0) {
    parts.saved = std::max(parts.saved, saved(LayerCase::dense, LayerCase::recomputed_dense));
  }
  parts.again = std::max<Picoseconds>(
      0, span.layer_backward + span.layer_weight - parts.span.layer_backward - parts.span.layer_weight);
}

template <class Bound>
FamilyBound FamilyBounds::least_of_kinds(const Plan& plan, const std::vector<FamilyPipeline>& pipelines,
                                         std::uint64_t capacity, Bound&& bound) {
  // With 1D tensors a backward pass in two parts takes as long as a whole one, or longer.  On grids its sums of weight
  // gradients run beside other work.
  // Under latent attention with sequence parallelism what it gathers for them runs beside other work, too.
  const bool gathers_again = mesh_->model.latent && plan.sequence_parallel;
  if (plan.tensor == TensorAlgorithm::one_d && !gathers_again) return bound(plan, pipelines);
  std::vector<std::pair<Plan, std::vector<FamilyPipeline>>> kinds;
  for (const FamilyPipeline& with : pipelines) {
    Plan on = plan;
    on.schedule = with.schedule;
    on.chunks = with.chunks;
    auto at = std::find_if(kinds.begin(), kinds.end(), [&](const auto& kind) {
      return block_key(kind.first, mesh_->model) == block_key(on, mesh_->model);
    });
    if (at == kinds.end()) at = kinds.insert(at, {on, {}});
    at->second.push_back(with);
  }
  FamilyBound least{~std::uint64_t{0}, 0};
  bool any = false;
  for (const auto& [on, with] : kinds) {
    const FamilyBound of = bound(on, with);
    least.peak = std::min(least.peak, of.peak);
    if (of.peak > capacity) continue;
    least.step = any ? std::min(least.step, of.step) : of.step;
    any = true;
  }
  return least;
}

FamilyBound FamilyBounds::any_order(const Plan& plan, std::uint32_t plain_zero,
                                    const std::vector<FamilyPipeline>& pipelines, std::uint64_t capacity) {
  return least_of_kinds(plan, pipelines, capacity, [&](const Plan& on, std::span<const FamilyPipeline> with) {
    return any_order_of_kind(on, plain_zero, with, capacity);
  });
}

FamilyBound FamilyBounds::any_order_of_kind(const Plan& plan, std::uint32_t plain_zero,
                                            std::span<const FamilyPipeline> pipelines, std::uint64_t capacity) {
  const BlockFacts known = least_facts_of(plan, LayerCase::plain);
  Parts parts = parts_of(plan, plain_zero, pipelines);
  parts.span = known.span;
  parts.all_layers = known.all_layers;
  parts.between = known.between;
  parts.busy_forward = known.busy.layer_forward;
  parts.kept = known.kept;
  parts.lead = known.lead;
  parts.compute = known.compute;
  parts.longest = known.longest;
  parts.later_in_chunks = known.later;
  parts.less_in_chunks = known.less;
  if (!plan.offload_activations) {
    if (!best_place_) enter(plan);  // copies take as long on any mesh
    add_offloaded(parts, known);
  }
  if (plan.recompute_layers) {
    const BlockFacts again = least_facts_of(plan, LayerCase::recomputed);
    parts.between = std::max(parts.between, between(plan, LayerCase::plain, LayerCase::recomputed));
    if (mesh_->dense_layers() > 0) {
      parts.between = std::max(parts.between, between(plan, LayerCase::dense, LayerCase::recomputed_dense));
    }
    add_recomputed(parts, plan, again.span, again.between);
    if (!plan.offload_activations) add_offloaded_beside(parts, known, again, again.span);
    parts.lead = longer(known.lead, again.lead);
    parts.compute = longer(known.compute, again.compute);
    parts.longest = longer(known.longest, again.longest);
    parts.less_again = std::max(known.less, again.less);
  }
  return family(plan, parts, pipelines, capacity);
}

const FamilyBounds::Parts& FamilyBounds::parts_on_mesh(const Plan& plan, std::uint32_t plain_zero,
                                                       std::span<const FamilyPipeline> pipelines, bool own_shards) {
  // A mesh is looked at for all schedules, then for each, then for each with all states on the device.
  if (plan.collective_algorithm || last_mesh_ != plan.mesh || last_placement_ != plan.placement ||
      last_bucket_ != plan.gradient_bucket) {
    on_mesh_.clear();
    last_mesh_ = plan.mesh;
    last_placement_ = plan.placement;
    last_bucket_ = plan.gradient_bucket;
  }
  const bool shards = std::any_of(pipelines.begin(), pipelines.end(), [](const auto& with) { return with.shards; });
  const BlockKey block = block_key(plan, mesh_->model);
  const PartsKey key{block,
                     plan.recompute_layers ? block_key(plan, mesh_->model, LayerCase::recomputed) : block,
                     plan.tensor,
                     plain_zero,
                     {plan.recompute_layers.has_value(), !plan.offload_states, !plan.offload_parameters,
                      !plan.offload_activations, shards, own_shards}};
  const auto known = std::find_if(on_mesh_.begin(), on_mesh_.end(), [&](const auto& k) { return k.first == key; });
  if (known != on_mesh_.end()) return known->second;
  Parts parts =
      own_shards ? parts_on_mesh(plan, plain_zero, pipelines) : new_parts_on_mesh(plan, plain_zero, pipelines);
  if (own_shards) price_shards(parts, plan);
  return on_mesh_.emplace_back(key, std::move(parts)).second;
}

FamilyBounds::Parts FamilyBounds::new_parts_on_mesh(const Plan& plan, std::uint32_t plain_zero,
                                                    std::span<const FamilyPipeline> pipelines) {
  // These may enter another mesh.
  const BlockFacts facts = least_facts_of(plan, LayerCase::plain);
  if (plan.recompute_layers) least_facts_of(plan, LayerCase::recomputed);
  Parts parts = parts_of(plan, plain_zero, pipelines);
  enter(plan);
  const LayerCosts costs = mesh_->layers_of(plan);
  const auto of = [&](LayerCase c) -> const BlockTimes& { return *costs.times[index(c)]; };
  const auto layers = [&](LayerCase c) {
    return of(c).span.layer_forward + of(c).span.layer_backward + of(c).span.layer_weight;
  };
  // Of passes that take as long as those of one case and begin as of another.
  const auto between = [&](LayerCase c, LayerCase other) {
    return of(c).span.layer_forward - std::min(of(c).arrival.layer_forward, of(other).arrival.layer_forward) +
           of(c).span.layer_backward - std::min(of(c).arrival.layer_backward, of(other).arrival.layer_backward);
  };
  const auto dense = static_cast<Picoseconds>(mesh_->dense_layers());
  parts.span = of(LayerCase::plain).span;
  parts.all_layers = (static_cast<Picoseconds>(mesh_->model.layers) - dense) * layers(LayerCase::plain);
  parts.between = between(LayerCase::plain, LayerCase::recomputed);
  PerBlock<Picoseconds> again = of(LayerCase::recomputed).span;
  Picoseconds between_again = between(LayerCase::recomputed, LayerCase::recomputed);
  if (dense > 0) {
    lessen_layers(parts.span, of(LayerCase::dense).span);
    lessen_layers(again, of(LayerCase::recomputed_dense).span);
    parts.all_layers += dense * layers(LayerCase::dense);
    parts.between = std::max(parts.between, between(LayerCase::dense, LayerCase::recomputed_dense));
    between_again = std::max(between_again, between(LayerCase::recomputed_dense, LayerCase::recomputed_dense));
  }
  parts.busy_forward = facts.busy.layer_forward;
  parts.kept = facts.kept;
  parts.lead = lead_of(costs.plain_blocks(), costs.plain_times().span, costs.plain_times().behind);
  for (std::size_t c = 0; c < costs.times.size(); ++c) {
    const PerBlock<Picoseconds>& layer = costs.times[c]->span;
    parts.lead = longer(*parts.lead, lead_of(*costs.blocks[c], layer, costs.times[c]->behind));
    parts.compute = longer(parts.compute, compute_lead_of(layer, costs.times[c]->behind));
    parts.longest = longer(parts.longest, {layer.layer_forward, layer.layer_backward});
    const bool recomputed = c == index(LayerCase::recomputed) || c == index(LayerCase::recomputed_dense);
    const Picoseconds less = costs.blocks[c]->less_in_chunks(layer.layer_backward);
    parts.later_in_chunks = std::max(parts.later_in_chunks, costs.blocks[c]->later_in_chunks());
    if (!recomputed) parts.less_in_chunks = std::max(parts.less_in_chunks, less);
    parts.less_again = std::max(parts.less_again, less);
  }
  if (!plan.offload_activations) add_offloaded(parts, facts);
  if (plan.recompute_layers) add_recomputed(parts, plan, again, between_again);
  if (plan.recompute_layers && !plan.offload_activations) {
    add_offloaded_beside(parts, facts, least_facts_of(plan, LayerCase::recomputed), again);
  }
  return parts;
}

FamilyBound FamilyBounds::any_recompute_on_mesh(const Plan& plan, std::uint32_t plain_zero,
                                                const std::vector<FamilyPipeline>& pipelines, std::uint64_t capacity,
                                                Picoseconds enough) {
  Plan plain = plan;
  plain.recompute = Recompute::none;
  plain.recompute_layers.reset();
  plain.offload_activations = 0;
  return least_of_kinds(plain, pipelines, capacity, [&](const Plan& on, std::span<const FamilyPipeline> with) {
    Parts parts = parts_of(on, plain_zero, with);
    add_chunks(parts, with_whole_backward(on));
    enter(on);
    const auto layers = [](const PerBlock<Picoseconds>& b) {
      return b.layer_forward + b.layer_backward + b.layer_weight;
    };
    const auto dense = static_cast<Picoseconds>(mesh_->dense_layers());
    if (splits_backward(on)) {
      const Plan whole = with_whole_backward(on);
      const PerBlock<Picoseconds> busy = least_facts_of(whole, LayerCase::plain).busy;
      enter(on);
      const LayerSpan layer = mesh_->layer_span_of(whole);
      parts.span = layer.span;
      parts.between = layer.beyond_busy;
      if (dense > 0) {
        const LayerSpan below = mesh_->layer_span_of(whole, LayerCase::dense);
        lessen_layers(parts.span, below.span);
        parts.between = std::max(parts.between, below.beyond_busy);
      }
      parts.span.layer_backward = std::min(parts.span.layer_backward, busy.layer_backward);
      const FamilyBound bound = family(on, parts, with, capacity, std::nullopt, enough);
      if (bound.peak > capacity || bound.step > enough) return bound;
    }
    const LayerSpan layer = mesh_->layer_span_of(on);
    parts.span = layer.span;
    parts.between = layer.beyond_busy;
    parts.all_layers = (static_cast<Picoseconds>(mesh_->model.layers) - dense) * layers(layer.span);
    if (dense > 0) {
      const LayerSpan below = mesh_->layer_span_of(on, LayerCase::dense);
      lessen_layers(parts.span, below.span);
      parts.between = std::max(parts.between, below.beyond_busy);
      parts.all_layers += dense * layers(below.span);
    }
    return family(on, parts, with, capacity, std::nullopt, enough);
  });
}

FamilyBound FamilyBounds::any_schedule(const Plan& plan, std::uint32_t plain_zero,
                                       const std::vector<FamilyPipeline>& pipelines, std::uint64_t capacity,
                                       Picoseconds enough) {
  const FamilyBound layers = any_recompute_on_mesh(plan, plain_zero, pipelines, capacity, enough);
  if (layers.peak > capacity || layers.step > enough) return layers;
  return least_of_kinds(plan, pipelines, capacity, [&](const Plan& on, std::span<const FamilyPipeline> with) {
    return family(on, parts_on_mesh(on, plain_zero, with), with, capacity);
  });
}

void FamilyBounds::price_shards(Parts& parts, const Plan& plan) {
  if (mesh_->model.mixture) return;
  Plan sharded = plan;
  sharded.zero_stage = 3;
  sharded.parameter_chunk = Bytes();
  enter(plan);
  parts.zero_3.gather = mesh_->states_of(sharded).layer().gather_weights;
  if (parts.come > 0) set_come(parts, plan, parts.zero_3.gather);
  const Group shards{shard_axes_of(plan), {}};
  const Picoseconds here = in_buckets(plan, parts.zero_2.gradients, [&](std::uint64_t bytes) {
    return picoseconds(
        mesh_->costs().collective(Collective::Kind::reduce_scatter, Bytes::of(static_cast<double>(bytes)), shards));
  });
  parts.reduce = std::max(parts.reduce, here);
}

std::array<FamilyBound, keepings> FamilyBounds::each_keeping(const Plan& plan, std::uint32_t plain_zero,
                                                             const FamilyPipeline& with, std::uint64_t capacity) {
  Plan on = plan;
  on.schedule = with.schedule;
  on.chunks = with.chunks;
  const Parts& parts = parts_on_mesh(on, plain_zero, {&with, 1}, with.shards);
  std::array<FamilyBound, keepings> bounds;
  for (std::size_t k = 0; k < keepings; ++k) {
    bounds[k] = family(on, parts, {&with, 1}, capacity, static_cast<Keeping>(k));
  }
  return bounds;
}

std::vector<FamilyBound> FamilyBounds::each_schedule(const Plan& plan, std::uint32_t plain_zero,
                                                     const std::vector<FamilyPipeline>& pipelines,
                                                     std::uint64_t capacity) {
  std::vector<FamilyBound> bounds;
  bounds.reserve(pipelines.size());
  Plan on = plan;
  // Few schedules differ in their blocks.
  std::vector<std::pair<BlockKey, Parts>> known;
  for (const FamilyPipeline& with : pipelines) {
    on.schedule = with.schedule;
    on.chunks = with.chunks;
    const BlockKey key = block_key(on, mesh_->model);
    auto at = std::find_if(known.begin(), known.end(), [&](const auto& k) { return k.first == key; });
    if (at == known.end()) at = known.insert(at, {key, parts_on_mesh(on, plain_zero, pipelines)});
    bounds.push_back(family(on, at->second, {&with, 1}, capacity));
  }
  return bounds;
}

}  // namespace orrery
