#include "sim/bound/block_costs.hpp"

#include <algorithm>

#include "core/plan/context_check.hpp"
#include "core/plan/schedule_rules.hpp"
#include "core/program/lower/passes.hpp"
#include "core/program/lower/tensor_1d.hpp"

namespace orrery {
namespace {

/// Far enough in the past that a lane which waits for nothing delays nothing.
constexpr Picoseconds long_ago = -(Picoseconds{1} << 60);

/// A schedule of the kind that decides blocks: whole or split backward, last stage on the last or the first rank.
ScheduleName kind_of(const Plan& plan) {
  const ScheduleRules& rules = rules_of(plan.schedule);
  if (!splits_backward(plan)) return ScheduleName::one_f_one_b;
  return rules.placement == StagePlacement::v ? ScheduleName::zb_v : ScheduleName::zb_h1;
}

/// The plan without data parallelism and with the shortest pipeline of its kind, all layers of which recompute alike.
Plan block_plan(const Plan& plan, LayerCase which) {
  Plan out;
  if (plan.mesh.size(Axis::pipeline) > 1) out.mesh.axes.push_back({Axis::pipeline, 2});
  for (const Axis axis : block_axes) {
    if (plan.mesh.size(axis) > 1) out.mesh.axes.push_back({axis, plan.mesh.size(axis)});
  }
  out.microbatch_size = plan.microbatch_size;
  out.tensor = plan.tensor;
  out.save_gathered = plan.save_gathered;
  out.context = plan.context;
  out.zigzag = plan.zigzag;
  out.inner_ring = plan.inner_ring;
  out.schedule = kind_of(plan);
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

BlockKey block_key(const Plan& plan, LayerCase which) {
  BlockKey key;
  key.sizes.fill(1);
  bool pipeline = false;
  for (const MeshAxis& a : plan.mesh.axes) {
    pipeline = pipeline || (a.axis == Axis::pipeline && a.size > 1);
    for (std::size_t i = 0; i < key.sizes.size(); ++i) {
      if (block_axes[i] == a.axis) key.sizes[i] = a.size;
    }
  }
  key.microbatch_size = plan.microbatch_size;
  const auto add = [&](std::uint32_t values, auto value) {
    key.choices = key.choices * values + static_cast<std::uint32_t>(value);
  };
  add(2, pipeline);
  add(4, plan.tensor);
  add(2, plan.save_gathered);
  add(4, plan.context);
  add(2, plan.zigzag);
  add(ring_limit + 1, plan.inner_ring);
  add(2, plan.sequence_parallel);
  add(4, recompute_of(plan, which));
  add(2, is_dense(which));
  add(2, *plan.attention);
  add(16, kind_of(plan));
  return key;
}

BlockCosts::BlockCosts(const ModelSpec& model, const Workload& workload, const Plan& plan, LayerCase which,
                       const CostModel& costs) {
  const Plan reduced = block_plan(plan, which);
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
  program_ = lowering::program_of(std::move(state));  // nothing else is in it, so blocks keep their numbers
  const auto block_at = [&](const std::vector<BlockId>& of) { return of.empty() ? nullptr : &program_[of.front()]; };
  copied_bytes_ = bytes_to_copy(program_, program_[ids.layer_forward.front()],
                                {block_at(ids.layer_backward), block_at(ids.layer_weight)});
  parts_ = per_block<Parts>(ids, [&](const std::vector<BlockId>& of) {
    Parts parts;
    for (const BlockId id : of) parts.push_back(part_of(id, costs));
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
  memory_ = per_block<MemoryChange>(parts_, [&](const Parts& parts) {
    MemoryChange change;
    for (const Part& p : parts) add_memory_change(change, program_, program_[p.id]);
    return change;
  });
  beginning_ = per_block<Beginning>(parts_, [&](const Parts& parts) { return beginning_of(parts); });
  keep_collectives();
}

/// Collectives alone are priced again, and many of these are remembered: gives up what other ops were priced by.
void BlockCosts::keep_collectives() {
  program_.parameter_tables = std::vector<ParameterTable>();
  for (Block& block : program_.blocks) {
    block.kernels = std::vector<Kernel>();
    std::vector<View> views;
    for (std::uint32_t i = 0; i < block.ops.size(); ++i) {
      const bool priced = std::any_of(collectives_.begin(), collectives_.end(),
                                      [&](const Collected& c) { return &program_[c.block] == &block && c.op == i; });
      Range& of = block.ops[i].views;
      const auto begin = block.views.begin() + of.first;
      of = {static_cast<std::uint32_t>(views.size()), priced ? of.count : 0};
      views.insert(views.end(), begin, begin + of.count);
    }
    views.shrink_to_fit();
    block.views = std::move(views);
  }
}

/// Of the collective: the place of the one that stands for its like.
std::uint32_t BlockCosts::place_of(BlockId id, std::uint32_t op) {
  const auto collective = [&](BlockId block, std::uint32_t at) -> const Collective& {
    return std::get<Collective>(program_[block].ops[at].action);
  };
  const Collective& c = collective(id, op);
  const std::uint64_t payload = payload_bytes(program_, program_[id], program_[id].ops[op]);
  const auto same = std::find_if(collectives_.begin(), collectives_.end(), [&](const Collected& known) {
    const Collective& k = collective(known.block, known.op);
    return k.kind == c.kind && k.group == c.group && k.width == c.width && known.payload == payload;
  });
  const auto place = static_cast<std::uint32_t>(same - collectives_.begin());
  if (same == collectives_.end()) collectives_.push_back({id, op, payload});
  return place;
}

BlockCosts::Part BlockCosts::part_of(BlockId id, const CostModel& costs) {
  const Block& block = program_[id];
  Part part;
  part.id = id;
  part.compute_prices.resize(block.ops.size());
  part.collectives.assign(block.ops.size(), no_collective);
  part.weights.resize(block.ops.size());
  for (std::uint32_t i = 0; i < block.ops.size(); ++i) {
    if (std::holds_alternative<Collective>(block.ops[i].action)) part.collectives[i] = place_of(id, i);
    part.weights[i] = reads_weights(program_, block, block.ops[i]);
    const auto* compute = std::get_if<Compute>(&block.ops[i].action);
    if (compute == nullptr) continue;
    part.compute_prices[i] = picoseconds(costs.compute(program_, block, block.ops[i]));
    part.busy += part.compute_prices[i];
    const KernelKind kind = block.kernels[compute->kernel].kind;
    if (kind == KernelKind::gemm || kind == KernelKind::expert_gemm) part.products += part.compute_prices[i];
  }
  return part;
}

BlockCosts::Beginning BlockCosts::beginning_of(const Parts& parts) const {
  if (parts.empty()) return {};
  const Block& block = program_[parts.front().id];
  const auto first = std::find_if(block.ops.begin(), block.ops.end(), [](const Op& op) {
    return !std::holds_alternative<Alloc>(op.action) && !std::holds_alternative<Free>(op.action);
  });
  Beginning begins;
  begins.computes = first != block.ops.end() && std::holds_alternative<Compute>(first->action);
  begins.reads_weights = begins.computes && reads_weights(program_, block, *first);
  return begins;
}

BlockCosts::Prices BlockCosts::prices(const Price& price) const {
  Prices out;
  for (const Collected& c : collectives_) {
    out.push_back(price(program_, program_[c.block], program_[c.block].ops[c.op]));
  }
  return out;
}

BlockCosts::Prices BlockCosts::prices(const CostModel& costs) const {
  return prices([&costs](const Program& program, const Block& block, const Op& op) {
    return picoseconds(costs.collective(program, block, op));
  });
}

PerBlock<Picoseconds> BlockCosts::spans(const Prices& prices, bool concurrent_lanes) const {
  return per_block<Picoseconds>(parts_,
                                [&](const Parts& parts) { return span(parts, prices, concurrent_lanes, false); });
}

PerBlock<Picoseconds> BlockCosts::arrival_spans(const Prices& prices, bool concurrent_lanes) const {
  PerBlock<Picoseconds> out;
  out.layer_forward = span(parts_.layer_forward, prices, concurrent_lanes, true);
  out.layer_backward = span(parts_.layer_backward, prices, concurrent_lanes, true);
  return out;
}

template <class Awaits>
Picoseconds BlockCosts::span_behind(const Parts& parts, const Prices& prices, Awaits&& awaits) const {
  if (parts.size() != 1) return 0;
  const Part& part = parts.front();
  const Block& block = program_[part.id];
  std::array<Picoseconds, lane_count> lane;
  lane.fill(long_ago);
  std::vector<Picoseconds> end(block.ops.size(), long_ago);
  for (std::size_t i = 0; i < block.ops.size(); ++i) {
    const Op& op = block.ops[i];
    if (std::holds_alternative<Alloc>(op.action) || std::holds_alternative<Free>(op.action)) continue;
    Picoseconds& at = lane[lane_number(op.lane)];
    for (std::uint32_t w = 0; w < op.waits.count; ++w) {
      const Wait& wait = block.waits[op.waits.first + w];
      if (wait.kind == Wait::Kind::op) at = std::max(at, end[wait.op]);
    }
    if (awaits(part, i)) at = std::max(at, Picoseconds{0});
    at += part.collectives[i] != no_collective ? prices[part.collectives[i]] : part.compute_prices[i];
    end[i] = at;
  }
  return std::max<Picoseconds>(0, lane[0]);
}

BlockCosts::Behind BlockCosts::behind(const Prices& prices) const {
  const auto lane = [&](const Part& part, std::size_t op) { return program_[part.id].ops[op].lane; };
  const auto weights = [](const Part& part, std::size_t op) { return part.weights[op]; };
  const auto tensor = [&](const Part& part, std::size_t op) {
    const Lane on = lane(part, op);
    return on.kind == LaneKind::collective && on.index == index(Axis::tensor);
  };
  const auto compute = [&](const Part& part, std::size_t op) { return lane(part, op) == Lane{}; };
  return {span_behind(parts_.layer_forward, prices, compute), span_behind(parts_.layer_backward, prices, compute),
          span_behind(parts_.layer_forward, prices, weights), span_behind(parts_.layer_backward, prices, weights),
          span_behind(parts_.layer_backward, prices, tensor)};
}

PerBlock<LaneTimes> BlockCosts::lanes(const Prices& prices) const {
  return per_block<LaneTimes>(parts_, [&](const Parts& parts) {
    LaneTimes times{};
    for (const Part& part : parts) {
      const Block& block = program_[part.id];
      for (std::size_t i = 0; i < part.collectives.size(); ++i) {
        if (part.collectives[i] != no_collective) times[block.ops[i].lane.index] += prices[part.collectives[i]];
      }
    }
    return times;
  });
}

/// Of blocks that follow each other the sum: each begins when the last compute op of the one before has ended.
Picoseconds BlockCosts::span(const Parts& parts, const Prices& prices, bool concurrent_lanes, bool arrival) const {
  Picoseconds sum = 0;
  for (const Part& part : parts) sum += span(part, prices, concurrent_lanes, arrival);
  return sum;
}

Picoseconds BlockCosts::span(const Part& part, const Prices& prices, bool concurrent_lanes, bool arrival) const {
  const Block& block = program_[part.id];
  std::array<Picoseconds, lane_count> lane;
  lane.fill(long_ago);
  if (!arrival) lane[0] = 0;
  std::vector<Picoseconds> end(block.ops.size(), long_ago);
  Picoseconds sum = 0;
  // The block's first op and its first compute op wait for the message.
  bool first = true, entered = false;
  for (std::size_t i = 0; i < block.ops.size(); ++i) {
    const Op& op = block.ops[i];
    Picoseconds price = part.compute_prices[i];
    if (std::holds_alternative<Alloc>(op.action) || std::holds_alternative<Free>(op.action)) continue;
    if (part.collectives[i] != no_collective) price = prices[part.collectives[i]];
    sum += price;
    Picoseconds& at = lane[lane_number(op.lane)];
    for (std::uint32_t w = 0; w < op.waits.count; ++w) {
      const Wait& wait = block.waits[op.waits.first + w];
      if (wait.kind == Wait::Kind::op) {
        at = std::max(at, end[wait.op]);
      } else if (wait.lane == Lane{} && !arrival) {
        at = std::max(at, Picoseconds{0});  // compute was busy until the block's entry
      }
    }
    const bool compute = op.lane == Lane{};
    if (first || (compute && !entered)) at = std::max(at, Picoseconds{0});
    first = false;
    entered = entered || compute;
    at += price;
    end[i] = at;
  }
  return concurrent_lanes ? lane[0] : sum;
}

}  // namespace orrery
