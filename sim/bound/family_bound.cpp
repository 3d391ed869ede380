#include "sim/bound/family_bound.hpp"

#include <algorithm>

#include "core/plan/schedule_rules.hpp"
#include "sim/bound/family_step.hpp"

namespace orrery {
namespace {

/// Rounded down, and a little more than doubles may have rounded up.
constexpr double rounding = 1.0 - 1e-12;

/// The plan with nothing recomputed, and no activations in host memory.
Plan without_copies(Plan plan) {
  plan.recompute = Recompute::none;
  plan.recompute_layers.reset();
  plan.offload_activations = 0;
  return plan;
}

bool any_shards(std::span<const FamilyPipeline> pipelines) {
  return std::any_of(pipelines.begin(), pipelines.end(), [](const auto& with) { return with.shards; });
}

}  // namespace

FamilyBounds::FamilyBounds(MeshCosts& mesh) : mesh_(&mesh), facts_(mesh) {}

FamilyBounds FamilyBounds::beside(MeshCosts& mesh) const {
  FamilyBounds other(mesh);
  other.facts_ = facts_.beside(mesh);
  return other;
}

void FamilyBounds::weigh(std::vector<FamilyPipeline>& pipelines, const Plan& plan) { facts_.weigh(pipelines, plan); }

FamilyParts FamilyBounds::parts_of(const Plan& plan, std::uint32_t plain_zero, bool shards) {
  FamilyParts parts;
  parts.plain = facts_.layer_state(plan, plain_zero);
  parts.zero_2 = shards ? facts_.layer_state(plan, 2) : parts.plain;
  parts.zero_3 = shards ? facts_.layer_state(plan, 3) : parts.plain;
  if (shards && parts.zero_2.gradients > 0) {
    const std::uint64_t members = size(plan.mesh, shard_axes_of(plan));
    parts.reduce = in_buckets(plan, parts.zero_2.gradients,
                              [&](std::uint64_t bytes) { return facts_.reduction(plan, bytes, members); });
    parts.pair = parts.zero_2.gradients / members;
  }
  if (parts.plain.away > 0 && !mesh_->model.mixture) {
    const bool in_parts = plain_zero > 0 || shards;
    set_come(parts, plan, in_parts ? facts_.layer_state(plan, 3).gather : std::numeric_limits<Picoseconds>::max());
  }
  return parts;
}

void FamilyBounds::set_come(FamilyParts& parts, const Plan& plan, Picoseconds gather) {
  parts.come = std::min(facts_.up(parts.plain.away, plan), gather);
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

Picoseconds FamilyBounds::after_pipes(const FamilyParts& parts, const Plan& plan, const FamilyPipeline& with) {
  if (parts.pair == 0 || !with.two_way) return 0;
  // Behind all else both pipes' gradients are summed, of each rank's stages.
  return facts_.reduction(plan, std::uint64_t{with.layers} * parts.pair, 2, Collective::Kind::all_reduce);
}

FamilyBound FamilyBounds::family(const Plan& plan, const FamilyParts& parts, const Pipelines& pipelines,
                                 std::uint64_t capacity, Picoseconds enough, bool stops) {
  const FamilyStep steps(plan, parts, mesh_->model, mesh_->workload, pipelines.all.front().recomputed_eighths,
                         capacity);
  const bool by_time = enough < any_step;
  const bool any_chunks = plan.parameter_chunk != Bytes();
  if (by_time) {
    const double average = steps.average(any_chunks ? Keeping::zero_3_chunks : Keeping::plain) * rounding;
    if (average >= static_cast<double>(enough) + 1) return {0, static_cast<Picoseconds>(average)};
  }
  FamilyBound best{~std::uint64_t{0}, 0};
  double least = std::numeric_limits<double>::infinity();
  const auto is_one = [&](const FamilyPipeline& with) { return !pipelines.blocks || with.blocks == *pipelines.blocks; };
  const auto look_at = [&](const FamilyPipeline& with) {
    const Picoseconds behind = after_pipes(parts, plan, with);
    for (std::size_t k = 0; k < (with.shards ? keepings : 1); ++k) {
      const auto keeping = static_cast<Keeping>(k);
      if (keeping == Keeping::zero_3_chunks && !any_chunks) continue;
      const FamilyStep::Needs needs = steps.of(with, keeping, behind, least);
      best.peak = std::min(best.peak, static_cast<std::uint64_t>(needs.peak));
      if (needs.peak <= static_cast<double>(capacity)) least = std::min(least, needs.step);
    }
    return by_time && stops && least <= static_cast<double>(enough);
  };
  // The one with the shortest passes leaves out most of the others.
  const bool passes_alone = by_time && !any_chunks;
  const FamilyPipeline* first = nullptr;
  double shortest = std::numeric_limits<double>::infinity();
  for (const FamilyPipeline& with : pipelines.all) {
    if (!passes_alone || !is_one(with)) continue;
    if (const double passes = steps.passes_of(with); passes < shortest) first = &with, shortest = passes;
  }
  if (first != nullptr && look_at(*first)) return {0, 0};
  for (const FamilyPipeline& with : pipelines.all) {
    if (!is_one(with) || &with == first) continue;
    if (passes_alone && steps.passes_of(with) >= least) {
      best.peak = 0;  // another fits
      continue;
    }
    if (look_at(with)) return {0, 0};
  }
  if (least < std::numeric_limits<double>::infinity()) {
    best.step = static_cast<Picoseconds>(std::max(0.0, least) * rounding);
  }
  return best;
}

FamilyBound FamilyBounds::any_block(const Plan& plan, std::uint32_t plain_zero,
                                    const std::vector<FamilyPipeline>& pipelines, std::uint64_t capacity,
                                    Picoseconds enough) {
  // Where not even the states fit no block need be lowered.
  FamilyParts parts = parts_of(plan, plain_zero, any_shards(pipelines));
  const FamilyBound states = family(plan, parts, {pipelines, {}}, capacity);
  if (states.peak > capacity) return states;
  const BlockFacts known = facts_.least_block(plan, LayerCase::plain);
  parts.span = known.products;
  parts.all_layers = known.all_products;
  parts.busy_forward = known.products.layer_forward;
  return family(plan, parts, {pipelines, {}}, capacity, enough);
}

FamilyBound FamilyBounds::without_recompute(const Plan& plan, std::uint32_t plain_zero,
                                            const std::vector<FamilyPipeline>& pipelines, std::uint64_t capacity,
                                            Picoseconds enough, Relaxed what) {
  return least_of_kinds(without_copies(plan), pipelines, capacity, [&](const Plan& on, const Pipelines& with) {
    if (splits_backward(on)) {
      // The forward pass is that of a whole backward pass, whose kernels the parts have too.
      const Plan whole = with_whole_backward(on);
      const LayerTimes times = facts_.times_without(whole, what);
      const Picoseconds products = facts_.least_block(whole, LayerCase::plain).products.layer_backward;
      FamilyParts parts = parts_of(on, plain_zero, any_shards(with.all));
      parts.span = times.span;
      parts.span.layer_backward = std::min(parts.span.layer_backward, products);
      parts.span.head_backward = 0;
      parts.span.embedding_backward = 0;
      parts.between = times.between;
      parts.busy_forward = times.busy_forward;
      add_chunks(parts, whole);
      const FamilyBound bound = family(on, parts, with, capacity, enough);
      if (bound.peak > capacity || bound.step > enough) return bound;
    }
    const LayerTimes times = facts_.times_without(on, what);
    FamilyParts parts = parts_of(on, plain_zero, any_shards(with.all));
    parts.span = times.span;
    parts.all_layers = times.all_layers;
    parts.between = times.between;
    parts.busy_forward = times.busy_forward;
    add_chunks(parts, on);
    return family(on, parts, with, capacity, enough);
  });
}

FamilyBound FamilyBounds::any_attention(const Plan& plan, std::uint32_t plain_zero,
                                        const std::vector<FamilyPipeline>& pipelines, std::uint64_t capacity,
                                        Picoseconds enough) {
  return without_recompute(plan, plain_zero, pipelines, capacity, enough, Relaxed::attention);
}

FamilyBound FamilyBounds::any_recompute(const Plan& plan, std::uint32_t plain_zero,
                                        const std::vector<FamilyPipeline>& pipelines, std::uint64_t capacity,
                                        Picoseconds enough) {
  // A ring of rings attends to as many pairs, piece by piece, and adds up as many gradients as one ring does.
  if (plan.inner_ring > 0) {
    Plan ring = plan;
    ring.inner_ring = 0;
    const FamilyBound bound = without_recompute(ring, plain_zero, pipelines, capacity, enough, Relaxed::ring);
    if (bound.peak > capacity || bound.step > enough) return bound;
  }
  return without_recompute(plan, plain_zero, pipelines, capacity, enough, Relaxed::nothing);
}

void FamilyBounds::add_offloaded_beside(FamilyParts& parts, const Plan& plan, const BlockFacts& facts,
                                        const BlockFacts& recomputed, const PerBlock<Picoseconds>& span) {
  const Picoseconds backward = parts.span.layer_backward;
  BlockFacts longest = facts;
  // Longest passes with the longest lead.
  const Picoseconds lead = std::max(backward - facts.behind_backward, span.layer_backward - recomputed.behind_backward);
  parts.span.layer_backward = std::max(backward, span.layer_backward);
  longest.behind_backward = parts.span.layer_backward - lead;
  add_offloaded(parts, plan, longest);
  parts.span.layer_backward = backward;
  parts.copied_recomputed = recomputed.copied;
}

void FamilyBounds::add_chunks(FamilyParts& parts, const Plan& plan) {
  if (plan.parameter_chunk == Bytes()) return;
  parts.later_in_chunks = facts_.least_block(plan, LayerCase::plain).later;
  const bool cut = std::any_of(block_axes.begin(), block_axes.end(), [&](Axis a) { return plan.mesh.size(a) > 1; });
  parts.less_in_chunks = cut ? parts.later_in_chunks : 0;
}

void FamilyBounds::add_offloaded(FamilyParts& parts, const Plan& plan, const BlockFacts& facts) {
  const Picoseconds down = facts_.down(facts.copied, plan);
  const Picoseconds up = facts_.up(facts.copied, plan);
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

void FamilyBounds::add_recomputed(FamilyParts& parts, const Plan& plan, const PerBlock<Picoseconds>& span,
                                  Picoseconds between) {
  parts.between_again = std::max(parts.between, between);
  parts.kept_recomputed = facts_.least_block(plan, LayerCase::recomputed).kept;
  const auto saved = [&](LayerCase plain, LayerCase again) {
    const std::uint64_t before = facts_.block(plan, plain).kept, after = facts_.block(plan, again).kept;
    return before - std::min(before, after);
  };
  parts.saved = saved(LayerCase::plain, LayerCase::recomputed);
  if (mesh_->dense_layers() > 0) {
    parts.saved = std::max(parts.saved, saved(LayerCase::dense, LayerCase::recomputed_dense));
  }
  parts.again = std::max<Picoseconds>(
      0, span.layer_backward + span.layer_weight - parts.span.layer_backward - parts.span.layer_weight);
}

bool FamilyBounds::whole_is_least(const Plan& plan) const {
  // With 1D tensors a backward pass in two parts takes as long as a whole one, or longer.  On grids its sums of weight
  // gradients run beside other work.
  // Under latent attention with sequence parallelism what it gathers for them runs beside other work, too.
  const bool gathers_again = mesh_->model.latent && plan.sequence_parallel;
  return plan.tensor == TensorAlgorithm::one_d && !gathers_again;
}

template <class Bound>
FamilyBound FamilyBounds::least_of_kinds(const Plan& plan, const std::vector<FamilyPipeline>& pipelines,
                                         std::uint64_t capacity, Bound&& bound) {
  if (whole_is_least(plan)) return bound(plan, Pipelines{pipelines, {}});
  FamilyBound least{~std::uint64_t{0}, 0};
  bool any = false;
  Plan on = plan;
  std::vector<ScheduleName> kinds;
  for (const FamilyPipeline& with : pipelines) {
    if (std::find(kinds.begin(), kinds.end(), with.blocks) != kinds.end()) continue;
    kinds.push_back(with.blocks);
    on.schedule = with.schedule;
    on.chunks = with.chunks;
    const FamilyBound of = bound(on, Pipelines{pipelines, with.blocks});
    least.peak = std::min(least.peak, of.peak);
    if (of.peak > capacity) continue;
    least.step = any ? std::min(least.step, of.step) : of.step;
    any = true;
  }
  return least;
}

FamilyBound FamilyBounds::any_order(const Plan& plan, std::uint32_t plain_zero,
                                    const std::vector<FamilyPipeline>& pipelines, std::uint64_t capacity,
                                    Picoseconds enough) {
  return least_of_kinds(plan, pipelines, capacity, [&](const Plan& on, const Pipelines& with) {
    return any_order_of_kind(on, plain_zero, with, capacity, enough);
  });
}

FamilyBound FamilyBounds::any_order_of_kind(const Plan& plan, std::uint32_t plain_zero, const Pipelines& pipelines,
                                            std::uint64_t capacity, Picoseconds enough) {
  const BlockFacts known = facts_.least_block(plan, LayerCase::plain);
  FamilyParts parts = parts_of(plan, plain_zero, any_shards(pipelines.all));
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
    add_offloaded(parts, plan, known);
  }
  if (plan.recompute_layers) {
    const BlockFacts again = facts_.least_block(plan, LayerCase::recomputed);
    parts.between = std::max(parts.between, facts_.between(plan, LayerCase::plain, LayerCase::recomputed));
    if (mesh_->dense_layers() > 0) {
      parts.between = std::max(parts.between, facts_.between(plan, LayerCase::dense, LayerCase::recomputed_dense));
    }
    add_recomputed(parts, plan, again.span, again.between);
    if (!plan.offload_activations) add_offloaded_beside(parts, plan, known, again, again.span);
    parts.lead = longer(known.lead, again.lead);
    parts.compute = longer(known.compute, again.compute);
    parts.longest = longer(known.longest, again.longest);
    parts.less_again = std::max(known.less, again.less);
  }
  return family(plan, parts, pipelines, capacity, enough, false);
}

const FamilyParts& FamilyBounds::parts_on_mesh(const Plan& plan, std::uint32_t plain_zero, bool shards) {
  facts_.enter(plan);
  // Of each shape first all schedules are looked at on each layout, then each schedule.
  std::array<std::uint32_t, axis_count> sizes{};
  for (const MeshAxis& axis : plan.mesh.axes) sizes[index(axis.axis)] = axis.size;
  if (plan.collective_algorithm || !plan.placement.empty() || last_sizes_ != sizes ||
      last_bucket_ != plan.gradient_bucket) {
    on_mesh_.clear();
    last_sizes_ = sizes;
    last_bucket_ = plan.gradient_bucket;
  }
  const BlockKey block = block_key(plan, mesh_->model);
  const PartsKey key{mesh_->block_layout(),
                     block,
                     plan.recompute_layers ? block_key(plan, mesh_->model, LayerCase::recomputed) : block,
                     plan.tensor,
                     plain_zero,
                     {plan.recompute_layers.has_value(), !plan.offload_states, !plan.offload_parameters,
                      !plan.offload_activations, shards}};
  const auto known = std::find_if(on_mesh_.rbegin(), on_mesh_.rend(), [&](const auto& k) { return k.first == key; });
  if (known != on_mesh_.rend()) return known->second;
  return on_mesh_.emplace_back(key, new_parts_on_mesh(plan, plain_zero, shards)).second;
}

FamilyParts FamilyBounds::new_parts_on_mesh(const Plan& plan, std::uint32_t plain_zero, bool shards) {
  // These may enter another mesh.
  const BlockFacts facts = facts_.least_block(plan, LayerCase::plain);
  if (plan.recompute_layers) static_cast<void>(facts_.least_block(plan, LayerCase::recomputed));
  FamilyParts parts = parts_of(plan, plain_zero, shards);
  facts_.enter(plan);
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
  if (!plan.offload_activations) add_offloaded(parts, plan, facts);
  if (plan.recompute_layers) add_recomputed(parts, plan, again, between_again);
  if (plan.recompute_layers && !plan.offload_activations) {
    add_offloaded_beside(parts, plan, facts, facts_.least_block(plan, LayerCase::recomputed), again);
  }
  return parts;
}

FamilyBound FamilyBounds::any_recompute_on_mesh(const Plan& plan, std::uint32_t plain_zero,
                                                const std::vector<FamilyPipeline>& pipelines, std::uint64_t capacity,
                                                Picoseconds enough) {
  return least_of_kinds(without_copies(plan), pipelines, capacity, [&](const Plan& on, const Pipelines& with) {
    return layers_of_kind(on, plain_zero, with, capacity, enough);
  });
}

FamilyBound FamilyBounds::layers_of_kind(const Plan& on, std::uint32_t plain_zero, const Pipelines& with,
                                         std::uint64_t capacity, Picoseconds enough) {
  FamilyParts parts = parts_of(on, plain_zero, any_shards(with.all));
  add_chunks(parts, with_whole_backward(on));
  facts_.enter(on);
  const auto layers = [](const PerBlock<Picoseconds>& b) {
    return b.layer_forward + b.layer_backward + b.layer_weight;
  };
  const auto dense = static_cast<Picoseconds>(mesh_->dense_layers());
  if (splits_backward(on)) {
    const Plan whole = with_whole_backward(on);
    const PerBlock<Picoseconds> busy = facts_.least_block(whole, LayerCase::plain).busy;
    facts_.enter(on);
    const LayerSpan layer = mesh_->layer_span_of(whole);
    parts.span = layer.span;
    parts.between = layer.beyond_busy;
    if (dense > 0) {
      const LayerSpan below = mesh_->layer_span_of(whole, LayerCase::dense);
      lessen_layers(parts.span, below.span);
      parts.between = std::max(parts.between, below.beyond_busy);
    }
    parts.span.layer_backward = std::min(parts.span.layer_backward, busy.layer_backward);
    const FamilyBound bound = family(on, parts, with, capacity, enough);
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
  return family(on, parts, with, capacity, enough);
}

FamilyBound FamilyBounds::any_schedule(const Plan& plan, std::uint32_t plain_zero,
                                       const std::vector<FamilyPipeline>& pipelines, std::uint64_t capacity,
                                       Picoseconds enough) {
  const FamilyBound layers = any_recompute_on_mesh(plan, plain_zero, pipelines, capacity, enough);
  if (layers.peak > capacity || layers.step > enough) return layers;
  return least_of_kinds(plan, pipelines, capacity, [&](const Plan& on, const Pipelines& with) {
    return family(on, parts_on_mesh(on, plain_zero, any_shards(with.all)), with, capacity);
  });
}

ShardPrices FamilyBounds::shard_prices(const Plan& plan) {
  if (mesh_->model.mixture) return {};
  const std::uint64_t gradients = facts_.layer_state(plan, 2).gradients;
  Plan sharded = with_whole_backward(plan);
  sharded.zero_stage = 3;
  sharded.parameter_chunk = Bytes();
  sharded.sequence_parallel = false;
  facts_.enter(plan);
  const Group shards{shard_axes_of(plan), {}};
  return {mesh_->states_of(sharded).layer().gather_weights, in_buckets(plan, gradients, [&](std::uint64_t bytes) {
            return picoseconds(mesh_->costs().collective(Collective::Kind::reduce_scatter,
                                                         Bytes::of(static_cast<double>(bytes)), shards));
          })};
}

void FamilyBounds::set_prices(FamilyParts& parts, const Plan& plan, const ShardPrices& prices) {
  if (mesh_->model.mixture) return;
  parts.zero_3.gather = prices.gather;
  parts.reduce = std::max(parts.reduce, prices.reduce);
  if (parts.come > 0) set_come(parts, plan, prices.gather);
}

std::vector<FamilyBounds::ByKeeping> FamilyBounds::each_keeping(const Plan& plan, std::uint32_t plain_zero,
                                                                std::span<const FamilyPipeline> pipelines,
                                                                const ShardPrices& prices, std::uint64_t capacity,
                                                                Picoseconds enough) {
  std::vector<ByKeeping> bounds;
  bounds.reserve(pipelines.size());
  Plan on = plan;
  // Above `enough` even when it is rounded down.
  const double too_much =
      enough < any_step ? static_cast<double>(enough) * (1.0 + 1e-9) : std::numeric_limits<double>::infinity();
  // Few schedules differ in their blocks.
  struct Kind {
    ScheduleName blocks;
    FamilyParts parts;
    std::optional<FamilyStep> steps;
    std::optional<FamilyBound> left_out;
  };
  std::deque<Kind> known;
  const bool shards = any_shards(pipelines), any_chunks = plan.parameter_chunk != Bytes();
  for (const FamilyPipeline& with : pipelines) {
    ByKeeping& of = bounds.emplace_back();
    of.fill({~std::uint64_t{0}, 0});
    const auto leave_out = [&](const FamilyBound& bound) {
      std::fill(of.begin(), of.begin() + (with.shards ? keepings : 1), bound);
    };
    auto at = std::find_if(known.begin(), known.end(), [&](const Kind& k) { return k.blocks == with.blocks; });
    if (at == known.end()) {
      const bool splits = with.blocks != ScheduleName::one_f_one_b;  // these go without chunks of parameters
      const bool whole_is_known = !known.empty() && known.front().blocks == ScheduleName::one_f_one_b;
      if (splits && whole_is_known && whole_is_least(plan)) {
        // The blocks of a split pass need not be lowered where those of a whole one say enough.
        if (const double passes = known.front().steps->passes_of(with); passes >= too_much) {
          leave_out({0, static_cast<Picoseconds>(passes * rounding)});
          continue;
        }
      }
      on.schedule = with.schedule;
      on.chunks = with.chunks;
      known.push_back({with.blocks, {}, {}, {}});
      at = known.end() - 1;
      if (splits && enough < any_step && !whole_is_least(plan)) {
        const FamilyBound layers =
            layers_of_kind(without_copies(on), plain_zero, {pipelines, with.blocks}, capacity, enough);
        if (layers.peak > capacity || layers.step > enough) at->left_out = layers;
      }
      if (!at->left_out) {
        at->parts = parts_on_mesh(on, plain_zero, shards);
        if (shards) set_prices(at->parts, on, prices);
        at->steps.emplace(on, at->parts, mesh_->model, mesh_->workload, with.recomputed_eighths, capacity);
      }
    }
    if (at->left_out) {
      leave_out(*at->left_out);
      continue;
    }
    const FamilyStep& steps = *at->steps;
    const double passes = steps.passes_of(with);
    const Picoseconds behind = after_pipes(at->parts, on, with);
    for (std::size_t k = 0; k < (with.shards ? keepings : 1); ++k) {
      const auto keeping = static_cast<Keeping>(k);
      if (keeping == Keeping::zero_3_chunks) {
        if (!any_chunks) continue;
      } else if (passes >= too_much) {
        of[k] = {0, static_cast<Picoseconds>(passes * rounding)};
        continue;
      }
      const FamilyStep::Needs needs = steps.of(with, keeping, behind, too_much);
      of[k].peak = static_cast<std::uint64_t>(needs.peak);
      if (needs.peak > static_cast<double>(capacity)) continue;
      of[k].step = static_cast<Picoseconds>(std::max(0.0, needs.step) * rounding);
      of[k].besides = static_cast<Picoseconds>(needs.besides * rounding);
    }
  }
  return bounds;
}

}  // namespace orrery
