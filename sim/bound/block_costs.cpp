#include "sim/bound/block_costs.hpp"

#include <algorithm>

#include "core/plan/context_check.hpp"
#include "core/plan/schedule_rules.hpp"
#include "core/program/lower/passes.hpp"
#include "core/program/lower/tensor_1d.hpp"

namespace orrery {
namespace {

/// By axis its place among block_axes; the number of those where it cuts no block.
constexpr auto place_of = [] {
  std::array<std::size_t, axis_count> places{};
  places.fill(block_axes.size());
  for (std::size_t i = 0; i < block_axes.size(); ++i) places[static_cast<std::size_t>(block_axes[i])] = i;
  return places;
}();

/// Whether a pipeline changes what blocks do besides what they send and receive: tables that lie on its two ends.
bool pipeline_counts(const Plan& plan, const ModelSpec& model) {
  return plan.mesh.size(Axis::pipeline) > 1 && (model.tied_embeddings || model.prediction_modules > 0);
}

/// The plan without data parallelism and with the shortest pipeline of its kind, all layers of which recompute alike.
Plan block_plan(const Plan& plan, const ModelSpec& model, LayerCase which) {
  Plan out;
  if (pipeline_counts(plan, model) || splits_backward(plan)) out.mesh.axes.push_back({Axis::pipeline, 2});
  for (const Axis axis : block_axes) {
    if (plan.mesh.size(axis) > 1) out.mesh.axes.push_back({axis, plan.mesh.size(axis)});
  }
  out.microbatch_size = plan.microbatch_size;
  out.tensor = plan.tensor;
  out.save_gathered = plan.save_gathered;
  out.context = plan.context;
  out.zigzag = plan.zigzag;
  out.inner_ring = plan.inner_ring;
  out.schedule = block_schedule(plan);
  out.chunks = rules_of(out.schedule).least_chunks;
  out.sequence_parallel = plan.sequence_parallel;
  out.recompute = recompute_of(plan, which);
  out.attention = plan.attention;
  return out;
}

bool reads_weights(const Program& program, const Block& block, const Op& op) {
  for (std::uint32_t v = 0; v < op.views.count; ++v) {
    if (program[block.views[op.views.first + v].buffer].role == Role::weight) return true;
  }
  return false;
}

/// What the block changes after what `change` says.
void add_memory_change(MemoryChange& change, const Program& program, const Block& block) {
  for (const Op& op : block.ops) {
    if (reads_weights(program, block, op)) change.weights_peak = change.peak;
    if (const auto* alloc = std::get_if<Alloc>(&op.action)) {
      change.net += static_cast<std::int64_t>(bytes_of(program[alloc->what]));
      change.peak = std::max(change.peak, change.net);
    } else if (const auto* free = std::get_if<Free>(&op.action)) {
      change.net -= static_cast<std::int64_t>(bytes_of(program[free->what]));
    }
  }
}

/// Whether the op makes the gradient of a weight that is read behind it.
bool is_later_in_chunks(const Program& program, const Block& block, const Op& op) {
  const auto* compute = std::get_if<Compute>(&op.action);
  if (compute == nullptr) return false;
  const Kernel& kernel = block.kernels[compute->kernel];
  if (kernel.kind == KernelKind::layer_norm_backward_weight || kernel.kind == KernelKind::rms_norm_backward_weight) {
    return true;
  }
  if (kernel.kind != KernelKind::gemm || kernel.pass != Pass::weight_gradient) return false;
  const auto is_router = [&](const View& v) {
    const Buffer& b = program[v.buffer];
    if (b.role != Role::gradient || !b.parameters) return false;
    const std::vector<ParameterSlice>& slices = program.parameter_tables[*b.parameters].slices;
    return std::any_of(slices.begin(), slices.end(),
                       [&](const ParameterSlice& s) { return s.offset == v.offset && s.name == "ffn.router.weight"; });
  };
  for (std::uint32_t v = 0; v < op.views.count; ++v) {
    if (is_router(block.views[op.views.first + v])) return true;
  }
  return false;
}

/// Blocks that a pass runs one after the other, without those that it does not have.
std::vector<BlockId> in_turn(std::vector<BlockId> ids) {
  std::erase(ids, lowering::no_block);
  return ids;
}

/// The head's blocks and those of the prediction modules, in the order in which a pass runs them.
std::vector<BlockId> head_blocks(const lowering::State& s, lowering::Phase phase) {
  const lowering::ModuleBlocks& blocks = s.blocks(phase);
  std::vector<BlockId> ids = {blocks.head};
  for (std::uint32_t k = 0; k < s.predictions; ++k) {
    const auto low = static_cast<std::uint32_t>(s.model.layers) + 2 * k;
    for (const std::uint32_t l : {low, low + 1}) ids.push_back(blocks[s.kind_of(l)].plain);
    ids.push_back(blocks.prediction_heads[k]);
  }
  if (phase != lowering::Phase::forward) std::reverse(ids.begin(), ids.end());
  return in_turn(std::move(ids));
}

/// Of buffers that a layer's forward block uses and keeps, and a later block of the layer frees.
std::uint64_t bytes_to_copy(const Program& program, const Block& forward, std::initializer_list<const Block*> later) {
  const auto frees = [](const Block* in, BufferId what) {
    return in != nullptr && std::any_of(in->ops.begin(), in->ops.end(), [&](const Op& op) {
             const auto* free = std::get_if<Free>(&op.action);
             return free != nullptr && free->what == what && free->layer_shift == 0;
           });
  };
  std::vector<BufferId> seen;
  std::uint64_t bytes = 0;
  for (const View& v : forward.views) {
    if (program[v.buffer].scope != Scope::layer_microbatch || v.layer_shift != 0) continue;
    if (std::find(seen.begin(), seen.end(), v.buffer) != seen.end()) continue;
    seen.push_back(v.buffer);
    const bool kept = std::any_of(later.begin(), later.end(), [&](const Block* b) { return frees(b, v.buffer); });
    if (kept && !frees(&forward, v.buffer)) bytes += bytes_of(program[v.buffer]);
  }
  return bytes;
}

}  // namespace

std::size_t BlockKeyHash::operator()(const BlockKey& key) const {
  std::uint64_t h = key.choices;
  const auto mix = [&](std::uint64_t n) { h = (h ^ n) * 0x9E3779B97F4A7C15U, h ^= h >> 29; };
  for (const std::uint32_t n : key.sizes) mix(n);
  mix(key.microbatch_size);
  return static_cast<std::size_t>(h);
}

Recompute recompute_of(const Plan& plan, LayerCase which) {
  const bool counted = which == LayerCase::recomputed || which == LayerCase::recomputed_dense;
  return plan.recompute_layers && !counted ? Recompute::none : plan.recompute;
}

ScheduleName block_schedule(const Plan& plan) {
  const ScheduleRules& rules = rules_of(plan.schedule);
  if (!splits_backward(plan)) return ScheduleName::one_f_one_b;
  return rules.placement == StagePlacement::v ? ScheduleName::zb_v : ScheduleName::zb_h1;
}

BlockKey block_key(const Plan& plan, const ModelSpec& model, LayerCase which) {
  BlockKey key;
  key.sizes.fill(1);
  for (const MeshAxis& a : plan.mesh.axes) {
    if (const std::size_t at = place_of[static_cast<std::size_t>(a.axis)]; at < key.sizes.size())
      key.sizes[at] = a.size;
  }
  key.microbatch_size = plan.microbatch_size;
  const auto add = [&](std::uint32_t values, auto value) {
    key.choices = key.choices * values + static_cast<std::uint32_t>(value);
  };
  add(2, pipeline_counts(plan, model));
  add(4, plan.tensor);
  add(2, plan.save_gathered);
  add(4, plan.context);
  add(2, plan.zigzag);
  add(ring_limit + 1, plan.inner_ring);
  add(2, plan.sequence_parallel);
  add(4, recompute_of(plan, which));
  add(2, is_dense(which));
  add(2, *plan.attention);
  add(16, block_schedule(plan));
  return key;
}

BlockCosts::BlockCosts(const ModelSpec& model, const Workload& workload, const Plan& plan, LayerCase which,
                       const CostModel& costs) {
  const Plan reduced = block_plan(plan, model, which);
  lowering::State state(model, workload, reduced);
  lowering::declare_parameters(state);
  lowering::build_model(state);
  for (const lowering::LoweringPass& pass :
       {lowering::recomputation(), lowering::sharding_collectives(), lowering::lifetimes(), lowering::lanes()}) {
    pass.run(state);
  }
  hidden_bytes_ = bytes_of(state.program[state.hidden]);
  gradient_bytes_ = bytes_of(state.program[state.hidden_gradient]);
  using lowering::Phase;
  const lowering::LayerKind& layer = is_dense(which) ? state.kinds.front() : state.main_kind();
  const lowering::ModuleBlocks &forward = state.blocks(Phase::forward), &backward = state.blocks(Phase::backward);
  PerBlock<std::vector<BlockId>> ids;
  ids.embedding_forward = in_turn({forward.embedding});
  ids.embedding_backward = in_turn({backward.embedding});
  ids.layer_forward = in_turn({forward[layer].plain});
  ids.layer_backward = in_turn({backward[layer].plain});
  ids.head_forward = head_blocks(state, Phase::forward);
  ids.head_backward = head_blocks(state, Phase::backward);
  if (state.split_backward) {
    ids.layer_weight = in_turn({state.blocks(Phase::weight)[layer].plain});
    ids.head_weight = head_blocks(state, Phase::weight);
  }
  // Nothing else is in it, so blocks keep their numbers.
  const Program program = lowering::program_of(std::move(state));
  const auto block_at = [&](const std::vector<BlockId>& of) { return of.empty() ? nullptr : &program[of.front()]; };
  copied_bytes_ = bytes_to_copy(program, program[ids.layer_forward.front()],
                                {block_at(ids.layer_backward), block_at(ids.layer_weight)});
  parts_ = per_block<Parts>(ids, [&](const std::vector<BlockId>& of) {
    Parts parts;
    for (const BlockId id : of) parts.push_back(part_of(program, program[id], costs));
    return parts;
  });
  const auto sum = [](Picoseconds Part::*member) {
    return [member](const Parts& parts) {
      Picoseconds all = 0;
      for (const Part& p : parts) all += p.*member;
      return all;
    };
  };
  busy_ = per_block<Picoseconds>(parts_, sum(&Part::busy));
  products_ = per_block<Picoseconds>(parts_, sum(&Part::products));
  memory_ = per_block<MemoryChange>(ids, [&](const std::vector<BlockId>& of) {
    MemoryChange change;
    for (const BlockId id : of) add_memory_change(change, program, program[id]);
    return change;
  });
  for (const BlockId id : ids.layer_backward) {
    for (const Op& op : program[id].ops) {
      if (is_later_in_chunks(program, program[id], op)) {
        later_in_chunks_ += picoseconds(costs.compute(program, program[id], op));
      }
    }
  }
  beginning_ = per_block<Beginning>(
      parts_, [](const Parts& parts) { return parts.empty() ? Beginning{} : parts.front().begins; });
}

std::uint32_t BlockCosts::number_of(const Program& program, const Block& block, const Op& op) {
  const auto* c = std::get_if<Collective>(&op.action);
  if (c == nullptr) return OpChain::no_collective;
  const Group& group = program[c->group];
  const BlockCollective wanted{c->kind, Bytes::of(static_cast<double>(payload_bytes(program, block, op))), group,
                               c->width, group_size(group, program.mesh)};
  const auto same = std::find(collectives_.begin(), collectives_.end(), wanted);
  const auto number = static_cast<std::uint32_t>(same - collectives_.begin());
  if (same == collectives_.end()) collectives_.push_back(wanted);
  return number;
}

BlockCosts::Part BlockCosts::part_of(const Program& program, const Block& block, const CostModel& costs) {
  Part part;
  const auto price = [&](std::uint32_t i) -> Picoseconds {
    const auto* compute = std::get_if<Compute>(&block.ops[i].action);
    if (compute == nullptr) return 0;
    const Picoseconds time = picoseconds(costs.compute(program, block, block.ops[i]));
    part.busy += time;
    const KernelKind kind = block.kernels[compute->kernel].kind;
    if (kind == KernelKind::gemm || kind == KernelKind::expert_gemm) part.products += time;
    return time;
  };
  part.ops = OpChain::of(
      block, price, [&](std::uint32_t i) { return number_of(program, block, block.ops[i]); },
      [&](std::uint32_t i) { return reads_weights(program, block, block.ops[i]); });
  const auto first = std::find_if(block.ops.begin(), block.ops.end(), [](const Op& op) {
    return !std::holds_alternative<Alloc>(op.action) && !std::holds_alternative<Free>(op.action);
  });
  part.begins.computes = first != block.ops.end() && std::holds_alternative<Compute>(first->action);
  part.begins.reads_weights = part.begins.computes && reads_weights(program, block, *first);
  return part;
}

std::size_t BlockCosts::size() const {
  std::size_t bytes = sizeof(BlockCosts) + collectives_.size() * sizeof(BlockCollective);
  static_cast<void>(per_block<int>(parts_, [&](const Parts& parts) {
    for (const Part& p : parts) bytes += sizeof(Part) + p.ops.bytes();
    return 0;
  }));
  return bytes;
}

BlockCosts::Prices BlockCosts::prices(const CostModel& costs) const {
  Prices out;
  out.reserve(collectives_.size());
  for (const BlockCollective& c : collectives_) {
    out.push_back(picoseconds(costs.collective(c.kind, c.payload, c.group, c.width)));
  }
  return out;
}

namespace {

/// Of blocks that follow each other the sum: each begins when the last compute op of the one before has ended.
template <class Parts>
Picoseconds span(const Parts& parts, const OpChain::Prices& prices, bool concurrent_lanes, bool arrival,
                 OpChain::Storage& storage, OpChain::Counts counts = OpChain::Counts::all) {
  Picoseconds sum = 0;
  for (const auto& part : parts) sum += part.ops.span(prices, concurrent_lanes, arrival, storage, counts);
  return sum;
}

}  // namespace

PerBlock<Picoseconds> BlockCosts::spans(const Prices& prices, bool concurrent_lanes, OpChain::Counts counts) const {
  OpChain::Storage storage;
  return per_block<Picoseconds>(
      parts_, [&](const Parts& parts) { return span(parts, prices, concurrent_lanes, false, storage, counts); });
}

PerBlock<Picoseconds> BlockCosts::layer_spans(const Prices& prices, bool concurrent_lanes) const {
  OpChain::Storage storage;
  PerBlock<Picoseconds> out;
  out.layer_forward = span(parts_.layer_forward, prices, concurrent_lanes, false, storage);
  out.layer_backward = span(parts_.layer_backward, prices, concurrent_lanes, false, storage);
  out.layer_weight = span(parts_.layer_weight, prices, concurrent_lanes, false, storage);
  return out;
}

PerBlock<Picoseconds> BlockCosts::arrival_spans(const Prices& prices, bool concurrent_lanes) const {
  OpChain::Storage storage;
  PerBlock<Picoseconds> out;
  out.layer_forward = span(parts_.layer_forward, prices, concurrent_lanes, true, storage);
  out.layer_backward = span(parts_.layer_backward, prices, concurrent_lanes, true, storage);
  return out;
}

BlockCosts::Behind BlockCosts::behind(const Prices& prices) const {
  OpChain::Storage storage;
  const auto behind = [&](const Parts& parts, OpChain::Awaits awaits) {
    return parts.size() == 1 ? parts.front().ops.span_behind(prices, awaits, storage) : 0;
  };
  using Awaits = OpChain::Awaits;
  return {behind(parts_.layer_forward, Awaits::compute), behind(parts_.layer_backward, Awaits::compute),
          behind(parts_.layer_forward, Awaits::weights), behind(parts_.layer_backward, Awaits::weights),
          behind(parts_.layer_backward, Awaits::tensor)};
}

PerBlock<LaneTimes> BlockCosts::lanes(const Prices& prices) const {
  return per_block<LaneTimes>(parts_, [&](const Parts& parts) {
    LaneTimes times{};
    for (const Part& part : parts) part.ops.add_lanes(prices, times);
    return times;
  });
}

}  // namespace orrery
