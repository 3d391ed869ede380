#include "sim/bound/block_costs.hpp"

#include <algorithm>

#include "core/program/lower/passes.hpp"
#include "core/program/lower/tensor_1d.hpp"

namespace orrery {
namespace {

/// The plan without data parallelism and with the shortest pipeline of its kind.
Plan block_plan(const Plan& plan) {
  Plan out;
  if (plan.mesh.size(Axis::pipeline) > 1) out.mesh.axes.push_back({Axis::pipeline, 2});
  if (plan.mesh.size(Axis::tensor) > 1) out.mesh.axes.push_back({Axis::tensor, plan.mesh.size(Axis::tensor)});
  out.microbatch_size = plan.microbatch_size;
  out.sequence_parallel = plan.sequence_parallel;
  out.recompute = plan.recompute;
  out.attention = plan.attention;
  return out;
}

MemoryChange memory_change(const Program& program, const Block& block) {
  MemoryChange change;
  for (const Op& op : block.ops) {
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

BlockCosts::BlockCosts(const ModelSpec& model, const Workload& workload, const Plan& plan, const CostModel& costs) {
  const Plan reduced = block_plan(plan);
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
  program_ = lowering::program_of(std::move(state));  // nothing else is in it, so blocks keep their numbers
  const auto enter = [&](BlockId id, BlockId& to, std::vector<Picoseconds>& prices, MemoryChange& memory,
                         Picoseconds& busy) {
    const Block& block = program_[id];
    to = id;
    memory = memory_change(program_, block);
    prices.resize(block.ops.size());
    for (std::size_t i = 0; i < block.ops.size(); ++i) {
      if (std::holds_alternative<Compute>(block.ops[i].action)) {
        prices[i] = picoseconds(costs.compute(program_, block, block.ops[i]));
        busy += prices[i];
      }
    }
  };
  enter(forward.embedding, ids_.embedding_forward, compute_prices_.embedding_forward, memory_.embedding_forward,
        busy_.embedding_forward);
  enter(backward.embedding, ids_.embedding_backward, compute_prices_.embedding_backward, memory_.embedding_backward,
        busy_.embedding_backward);
  enter(forward.layer, ids_.layer_forward, compute_prices_.layer_forward, memory_.layer_forward, busy_.layer_forward);
  enter(backward.layer, ids_.layer_backward, compute_prices_.layer_backward, memory_.layer_backward,
        busy_.layer_backward);
  enter(forward.head, ids_.head_forward, compute_prices_.head_forward, memory_.head_forward, busy_.head_forward);
  enter(backward.head, ids_.head_backward, compute_prices_.head_backward, memory_.head_backward, busy_.head_backward);
}

PerBlock<Picoseconds> BlockCosts::spans(const CostModel& costs) const {
  return {span(ids_.embedding_forward, compute_prices_.embedding_forward, costs),
          span(ids_.embedding_backward, compute_prices_.embedding_backward, costs),
          span(ids_.layer_forward, compute_prices_.layer_forward, costs),
          span(ids_.layer_backward, compute_prices_.layer_backward, costs),
          span(ids_.head_forward, compute_prices_.head_forward, costs),
          span(ids_.head_backward, compute_prices_.head_backward, costs)};
}

Picoseconds BlockCosts::span(BlockId id, const std::vector<Picoseconds>& prices, const CostModel& costs) const {
  const Block& block = program_[id];
  const bool serial = !costs.cluster().device.concurrent_lanes;
  // Far enough in the past that a lane which waits for nothing delays nothing.
  constexpr Picoseconds long_ago = -(Picoseconds{1} << 60);
  std::array<Picoseconds, lane_count> lane;
  lane.fill(long_ago);
  lane[0] = 0;
  std::vector<Picoseconds> end(block.ops.size(), long_ago);
  Picoseconds sum = 0;
  for (std::size_t i = 0; i < block.ops.size(); ++i) {
    const Op& op = block.ops[i];
    Picoseconds price = prices[i];
    if (std::holds_alternative<Alloc>(op.action) || std::holds_alternative<Free>(op.action)) continue;
    if (std::holds_alternative<Collective>(op.action)) price = picoseconds(costs.collective(program_, block, op));
    sum += price;
    Picoseconds& at = lane[lane_number(op.lane)];
    for (std::uint32_t w = 0; w < op.waits.count; ++w) {
      const Wait& wait = block.waits[op.waits.first + w];
      if (wait.kind == Wait::Kind::op) {
        at = std::max(at, end[wait.op]);
      } else if (wait.lane == Lane{}) {
        at = std::max(at, Picoseconds{0});  // compute was busy until the block's entry
      }
    }
    at += price;
    end[i] = at;
  }
  return serial ? sum : lane[0];
}

}  // namespace orrery
