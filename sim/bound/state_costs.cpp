#include "sim/bound/state_costs.hpp"

#include "core/program/lower/gathers_and_reductions.hpp"
#include "core/program/lower/optimizer.hpp"

namespace orrery {
namespace {

Picoseconds compute_time(const Program& program, const Block& block, const CostModel& costs) {
  Picoseconds sum = 0;
  for (const Op& op : block.ops) {
    if (std::holds_alternative<Compute>(op.action)) sum += picoseconds(costs.compute(program, block, op));
  }
  return sum;
}

Picoseconds collective_time(const Program& program, const Block& block, const CostModel& costs) {
  Picoseconds sum = 0;
  for (const Op& op : block.ops) {
    if (std::holds_alternative<Collective>(op.action)) sum += picoseconds(costs.collective(program, block, op));
  }
  return sum;
}

}  // namespace

StateCosts::StateCosts(const ModelSpec& model, const Workload& workload, const Plan& plan, const CostModel& costs) {
  using lowering::Phase;
  lowering::State lowered(model, workload, plan);
  lowering::declare_parameters(lowered);
  lowering::build_clear(lowered);
  const lowering::OptimizerBlocks optimizer = lowering::build_optimizer(lowered);
  factor_ = lowered.factor;
  sharded_ = lowered.shard_states;
  const Program& program = lowered.program;
  const auto block = [&](BlockId id) -> const Block& { return lowered[id].block; };
  for (const Buffer& b : program.buffers) {
    if (b.role == Role::scalar) scalar_bytes_ += bytes_of(b);
  }
  const auto state = [&](const lowering::Module& module, BlockId lowering::ModuleBlocks::*kind) {
    ModuleState s;
    for (const Buffer& b : program.buffers) {
      if (b.parameters == module.table) s.persistent_bytes += bytes_of(b);
    }
    s.weight_bytes = bytes_of(program[module.weights]);
    s.gradient_bytes = bytes_of(program[module.gradients]);
    for (const ParameterSegment& segment : program.parameter_tables[module.table].segments) {
      if (segment.replicated) s.replicated_gradient_bytes += segment.count * size_of(lowered.grad);
    }
    s.clear = compute_time(program, block(lowered.blocks(Phase::clear).*kind), costs);
    if (factor_) s.norm = compute_time(program, block(lowered.blocks(Phase::norm).*kind), costs);
    s.update = compute_time(program, block(lowered.blocks(Phase::update).*kind), costs);
    return s;
  };
  embedding_ = state(lowered.embedding, &lowering::ModuleBlocks::embedding);
  layer_ = state(lowered.layer, &lowering::ModuleBlocks::layer);
  head_ = state(lowered.head, &lowering::ModuleBlocks::head);
  if (factor_) norm_reduction_ = collective_time(program, block(optimizer.reduce_norm), costs);
  if (model.tied_embeddings && lowered.pipeline > 1) {
    const BlockId tied = lowering::build_tied_reduction(lowered, 0);
    tied_reduction_ = collective_time(program, block(tied), costs);
  }
}

Picoseconds StateCosts::price(Prices& known, Collective::Kind kind, Axis axis, std::uint64_t bytes,
                              const CostModel& costs) {
  if (bytes == 0) return 0;
  const auto [at, fresh] = known.try_emplace(bytes, 0);
  if (fresh) at->second = picoseconds(costs.collective(kind, Bytes::of(static_cast<double>(bytes)), Group{{axis}, {}}));
  return at->second;
}

Picoseconds StateCosts::reduce_gradients(std::uint64_t bytes, const CostModel& costs) {
  return price(reduce_, sharded_ ? Collective::Kind::reduce_scatter : Collective::Kind::all_reduce, Axis::data, bytes,
               costs);
}

Picoseconds StateCosts::gather_weights(std::uint64_t bytes, const CostModel& costs) {
  return price(gather_, Collective::Kind::all_gather, Axis::data, bytes, costs);
}

Picoseconds StateCosts::sum_replicated(std::uint64_t bytes, const CostModel& costs) {
  return price(replicated_, Collective::Kind::all_reduce, Axis::tensor, bytes, costs);
}

}  // namespace orrery
