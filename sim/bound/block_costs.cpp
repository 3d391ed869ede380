#include "sim/bound/block_costs.hpp"

#include <algorithm>

#include "core/plan/context_check.hpp"
#include "core/plan/schedule_rules.hpp"
#include "core/program/lower/passes.hpp"
#include "core/program/lower/tensor_1d.hpp"

namespace orrery {
namespace {

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

MemoryChange memory_change(const Program& program, const Block& block) {
  MemoryChange change;
  for (const Op& op : block.ops) {
    if (reads_weights(program, block, op)) change.weights_peak = change.peak;
    if (const auto* alloc = std::get_if<Alloc>(&op.action)) {
      change.net += static_cast<std::int64_t>(bytes_of(program[alloc->what]));
      change.peak = std::max(change.peak, change.net);
    } else if (const auto* free = std::get_if<Free>(&op.action)) {
      change.net -= static_cast<std::int64_t>(bytes_of(program[free->what]));
    }
  }
  return change;
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
  for (std::size_t i = 0; i < key.sizes.size(); ++i) key.sizes[i] = plan.mesh.size(block_axes[i]);
  key.microbatch_size = plan.microbatch_size;
  const auto add = [&](std::uint32_t values, auto value) {
    key.choices = key.choices * values + static_cast<std::uint32_t>(value);
  };
  add(2, plan.mesh.size(Axis::pipeline) > 1);
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
  const lowering::ModuleBlocks forward = state.blocks(lowering::Phase::forward);
  const lowering::ModuleBlocks backward = state.blocks(lowering::Phase::backward);
  const lowering::LayerKind& layer = is_dense(which) ? state.kinds.front() : state.main_kind();
  const BlockId layer_forward = forward[layer].plain, layer_backward = backward[layer].plain;
  const BlockId weight = state.split_backward ? state.blocks(lowering::Phase::weight)[layer].plain : lowering::no_block;
  program_ = lowering::program_of(std::move(state));  // nothing else is in it, so blocks keep their numbers
  const auto enter = [&](BlockId id, auto&& of) {
    of(ids_) = id;
    if (id == lowering::no_block) return;
    const Block& block = program_[id];
    const auto first = std::find_if(block.ops.begin(), block.ops.end(), [](const Op& op) {
      return !std::holds_alternative<Alloc>(op.action) && !std::holds_alternative<Free>(op.action);
    });
    Beginning& begins = of(beginning_);
    begins.computes = first != block.ops.end() && std::holds_alternative<Compute>(first->action);
    begins.reads_weights = begins.computes && reads_weights(program_, block, *first);
    of(memory_) = memory_change(program_, block);
    std::vector<Picoseconds>& prices = of(compute_prices_);
    prices.resize(block.ops.size());
    for (std::size_t i = 0; i < block.ops.size(); ++i) {
      const auto* compute = std::get_if<Compute>(&block.ops[i].action);
      if (compute == nullptr) continue;
      prices[i] = picoseconds(costs.compute(program_, block, block.ops[i]));
      of(busy_) += prices[i];
      const KernelKind kind = block.kernels[compute->kernel].kind;
      if (kind == KernelKind::gemm || kind == KernelKind::expert_gemm) of(products_) += prices[i];
    }
  };
  enter(
      forward.embedding, [](auto& p) -> auto& { return p.embedding_forward; });
  enter(
      backward.embedding, [](auto& p) -> auto& { return p.embedding_backward; });
  enter(
      layer_forward, [](auto& p) -> auto& { return p.layer_forward; });
  enter(
      layer_backward, [](auto& p) -> auto& { return p.layer_backward; });
  enter(
      forward.head, [](auto& p) -> auto& { return p.head_forward; });
  enter(
      backward.head, [](auto& p) -> auto& { return p.head_backward; });
  enter(
      weight, [](auto& p) -> auto& { return p.layer_weight; });
}

namespace {

BlockCosts::Price price_of(const CostModel& costs) {
  return [&costs](const Program& program, const Block& block, const Op& op) {
    return picoseconds(costs.collective(program, block, op));
  };
}

}  // namespace

PerBlock<Picoseconds> BlockCosts::spans(const CostModel& costs) const {
  return spans(price_of(costs), costs.cluster().device.concurrent_lanes);
}

PerBlock<Picoseconds> BlockCosts::spans(const Price& price, bool concurrent_lanes) const {
  const auto of = [&](BlockId id, const std::vector<Picoseconds>& prices) {
    return span(id, prices, price, concurrent_lanes, false);
  };
  return {of(ids_.embedding_forward, compute_prices_.embedding_forward),
          of(ids_.embedding_backward, compute_prices_.embedding_backward),
          of(ids_.layer_forward, compute_prices_.layer_forward),
          of(ids_.layer_backward, compute_prices_.layer_backward),
          of(ids_.head_forward, compute_prices_.head_forward),
          of(ids_.head_backward, compute_prices_.head_backward),
          of(ids_.layer_weight, compute_prices_.layer_weight)};
}

PerBlock<Picoseconds> BlockCosts::arrival_spans(const CostModel& costs) const {
  const Price price = price_of(costs);
  const bool concurrent = costs.cluster().device.concurrent_lanes;
  PerBlock<Picoseconds> out;
  out.layer_forward = span(ids_.layer_forward, compute_prices_.layer_forward, price, concurrent, true);
  out.layer_backward = span(ids_.layer_backward, compute_prices_.layer_backward, price, concurrent, true);
  return out;
}

PerBlock<LaneTimes> BlockCosts::lanes(const CostModel& costs) const {
  return {lane_times(ids_.embedding_forward, costs), lane_times(ids_.embedding_backward, costs),
          lane_times(ids_.layer_forward, costs),     lane_times(ids_.layer_backward, costs),
          lane_times(ids_.head_forward, costs),      lane_times(ids_.head_backward, costs),
          lane_times(ids_.layer_weight, costs)};
}

LaneTimes BlockCosts::lane_times(BlockId id, const CostModel& costs) const {
  LaneTimes times{};
  if (id == lowering::no_block) return times;
  const Block& block = program_[id];
  for (const Op& op : block.ops) {
    if (!std::holds_alternative<Collective>(op.action)) continue;
    times[op.lane.index] += picoseconds(costs.collective(program_, block, op));
  }
  return times;
}

Picoseconds BlockCosts::span(BlockId id, const std::vector<Picoseconds>& prices, const Price& collective,
                             bool concurrent_lanes, bool arrival) const {
  if (id == lowering::no_block) return 0;
  const Block& block = program_[id];
  // Far enough in the past that a lane which waits for nothing delays nothing.
  constexpr Picoseconds long_ago = -(Picoseconds{1} << 60);
  std::array<Picoseconds, lane_count> lane;
  lane.fill(long_ago);
  if (!arrival) lane[0] = 0;
  std::vector<Picoseconds> end(block.ops.size(), long_ago);
  Picoseconds sum = 0;
  // The block's first op and its first compute op wait for the message.
  bool first = true, entered = false;
  for (std::size_t i = 0; i < block.ops.size(); ++i) {
    const Op& op = block.ops[i];
    Picoseconds price = prices[i];
    if (std::holds_alternative<Alloc>(op.action) || std::holds_alternative<Free>(op.action)) continue;
    if (std::holds_alternative<Collective>(op.action)) price = collective(program_, block, op);
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
