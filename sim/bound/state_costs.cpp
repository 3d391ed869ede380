#include "sim/bound/state_costs.hpp"

#include <algorithm>

#include "core/program/lower/buckets.hpp"
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

std::vector<LanePrice> collectives_of(const Program& program, const Block& block, const CostModel& costs) {
  std::vector<LanePrice> prices;
  for (const Op& op : block.ops) {
    const auto* c = std::get_if<Collective>(&op.action);
    if (c == nullptr) continue;
    prices.push_back(
        {lowering::collective_lane(program, c->group).index, picoseconds(costs.collective(program, block, op))});
  }
  return prices;
}

Picoseconds sum(const std::vector<LanePrice>& prices) {
  Picoseconds all = 0;
  for (const LanePrice& p : prices) all += p.price;
  return all;
}

void add(ModuleState& sum, const ModuleState& other) {
  for (const auto member : {&ModuleState::persistent_bytes, &ModuleState::state_bytes, &ModuleState::weight_bytes,
                            &ModuleState::whole_weight_bytes, &ModuleState::whole_gradient_bytes}) {
    sum.*member += other.*member;
  }
  for (const auto member : {&ModuleState::clear, &ModuleState::clear_copy, &ModuleState::gather_weights,
                            &ModuleState::norm, &ModuleState::update}) {
    sum.*member += other.*member;
  }
}

/// States do not depend on what is recomputed, and counts may still be open; those that live elsewhere are looked at
/// apart.
Plan without_counts(Plan plan) {
  plan.recompute_layers.reset();
  plan.offload_states = plan.offload_parameters = plan.offload_activations = 0;
  return plan;
}

/// Of a module's whole weights, in a message for each set of ranks that share parts of them.
Picoseconds gather_time(lowering::State& s, const lowering::Module& module, const CostModel& costs) {
  lowering::OperandsByAxes parts;
  const ParameterTable& table = s.program.parameter_tables[module.table];
  for (const ParameterSegment& segment : table.segments) {
    parts.over(own_axes(s, table, segment))
        .push_back({module.whole_weights, View::Use::write, 0, segment.offset, segment.count, {}});
  }
  const std::uint64_t element = size_of(s.program[module.whole_weights].dtype);
  Picoseconds sum{};
  for (const auto& [axes, operands] : parts.all) {
    std::uint64_t count = 0;
    for (const lowering::Operand& o : operands) count += o.count;
    sum += picoseconds(costs.collective(Collective::Kind::all_gather, Bytes::of(static_cast<double>(count * element)),
                                        s.program[share_group(s, axes)]));
  }
  return sum;
}

}  // namespace

/// The lowering that buckets are built in; it refers to the plan.
struct StateCosts::Lowered {
  Plan plan;
  lowering::State state;
  lowering::OptimizerBlocks optimizer;
  BlockId tied = lowering::no_block;
  Lowered(const ModelSpec& model, const Workload& workload, const Plan& p) : plan(p), state(model, workload, plan) {
    lowering::declare_parameters(state);
    lowering::build_clear(state);
    optimizer = lowering::build_optimizer(state);
    if (state.tied_apart) tied = lowering::build_tied_reduction(state, 0);
  }
};

StateCosts::~StateCosts() = default;
StateCosts::StateCosts(StateCosts&&) noexcept = default;
StateCosts& StateCosts::operator=(StateCosts&&) noexcept = default;

StateCosts::StateCosts(const ModelSpec& model, const Workload& workload, const Plan& plan, const CostModel& costs)
    : model_(&model),
      workload_(&workload),
      plan_(without_counts(plan)),
      lowered_(std::make_unique<Lowered>(model, workload, plan_)) {
  using lowering::Phase;
  lowering::State& lowered = lowered_->state;
  const lowering::OptimizerBlocks& optimizer = lowered_->optimizer;
  factor_ = lowered.factor;
  zero_ = lowered.zero;
  const Program& program = lowered.program;
  const auto block = [&](BlockId id) -> const Block& { return lowered[id].block; };
  for (const Buffer& b : program.buffers) {
    if (b.role == Role::scalar) scalar_bytes_ += bytes_of(b);
  }
  const auto state = [&](const lowering::Module& module, auto&& of) {
    ModuleState s;
    for (std::uint32_t i = 0; i < program.buffers.size(); ++i) {
      const Buffer& b = program.buffers[i];
      if (b.parameters != module.table || lowering::is_copy(lowered, BufferId{i})) continue;
      s.persistent_bytes += bytes_of(b);
      if (b.role == Role::master || b.role == Role::moment) s.state_bytes += bytes_of(b);
      if (b.role == Role::weight) s.weight_bytes += bytes_of(b);
    }
    if (has_factored_moments(workload)) s.persistent_bytes += bytes_of(program[module.moments[0]]);
    if (has_scaled_moments(workload)) {
      s.persistent_bytes += bytes_of(program[module.scales]);
      s.state_bytes += bytes_of(program[module.scales]);
    }
    s.whole_weight_bytes = bytes_of(program[module.whole_weights]);
    s.whole_gradient_bytes = bytes_of(program[module.whole_gradients]);
    s.clear = compute_time(program, block(of(lowered.blocks(Phase::clear))), costs);
    if (zero_ >= 2) {
      const Buffer& copy = program[module.whole_gradients];
      s.clear_copy = picoseconds(costs.kernel(lowered.kernel(KernelKind::fill, Pass::weight_gradient, 1, copy.count),
                                              Bytes::of(static_cast<double>(bytes_of(copy)))));
    }
    if (zero_ >= 3) {
      s.gather_weights = gather_time(lowered, module, costs);
    }
    if (factor_) s.norm = compute_time(program, block(of(lowered.blocks(Phase::norm))), costs);
    s.update = compute_time(program, block(of(lowered.blocks(Phase::update))), costs);
    return s;
  };
  using Blocks = lowering::ModuleBlocks;
  embedding_ = state(lowered.embedding, [](const Blocks& b) { return b.embedding; });
  layer_ = state(lowered.layer, [&](const Blocks& b) { return b[lowered.main_kind()].plain; });
  if (mixes_kinds(model)) {
    dense_layer_ = state(lowered.dense_layer, [&](const Blocks& b) { return b[lowered.kinds.front()].plain; });
  }
  head_ = state(lowered.head, [](const Blocks& b) { return b.head; });
  for (auto l = static_cast<std::uint32_t>(model.layers); l < program.layers; ++l) {
    const lowering::LayerKind& kind = lowered.kind_of(l);
    add(head_, state(lowered.*kind.module, [&](const Blocks& b) { return b[kind].plain; }));
  }
  head_apart_ =
      lowered.reduce_gradients && static_cast<double>(head_.whole_gradient_bytes) >= plan_.gradient_bucket->base();
  if (factor_) norm_reduction_ = sum(collectives_of(program, block(optimizer.reduce_norm), costs));
  if (lowered.tied_apart) {
    tied_reduction_ = sum(collectives_of(program, block(lowered_->tied), costs));
  }
}

const HostUpdates& StateCosts::host_updates(const CostModel& costs) {
  if (host_updates_) return *host_updates_;
  Plan plan = plan_;
  plan.offload_states = 8;
  lowering::State s(*model_, *workload_, plan);
  lowering::declare_parameters(s);
  static_cast<void>(lowering::build_optimizer(s));
  const lowering::ModuleBlocks& updates = s.blocks(lowering::Phase::update);
  const auto updated = [&](BlockId id, const lowering::Module& of) {
    HostUpdate out;
    const Block& block = s[id].block;
    for (const Op& op : block.ops) {
      if (std::holds_alternative<Compute>(op.action)) {
        // Lanes are not settled yet: the host's kernels are priced as CostModel::compute does.
        out.update +=
            picoseconds(Bytes::of(static_cast<double>(touched_bytes(s.program, block, op))) / costs.host_rate());
      } else if (const auto* copy = std::get_if<Copy>(&op.action)) {
        (copy->to == Tier::device ? out.up : out.down) += picoseconds(costs.copy(s.program, block, op));
      }
    }
    if (s.shard_states) {
      out.gather = gather_time(s, of, costs);
    }
    return out;
  };
  host_updates_ = {updated(updates.embedding, s.embedding),
                   updated(updates[s.main_kind()].plain, s.layer),
                   {},
                   updated(updates.head, s.head)};
  if (mixes_kinds(*model_)) host_updates_->dense_layer = updated(updates[s.kinds.front()].plain, s.dense_layer);
  return *host_updates_;
}

void StateCosts::rest() { lowered_.reset(); }

const std::vector<BucketCosts>& StateCosts::buckets(const StageShare& stage, const CostModel& costs) {
  const std::uint32_t layers = stage.count();
  const std::uint64_t key = std::uint64_t{stage.low_layer} << 34 | std::uint64_t{layers} << 2 |
                            std::uint64_t{stage.first} << 1 | std::uint64_t{stage.last};
  const auto [at, fresh] = buckets_.try_emplace(key);
  if (!fresh) return at->second;
  const bool rests = lowered_ == nullptr;
  if (rests) lowered_ = std::make_unique<Lowered>(*model_, *workload_, plan_);
  lowering::State& s = lowered_->state;
  if (!s.reduce_gradients) {
    at->second.push_back({stage.last, stage.first, layers, stage.dense(), {}, {}, 0});
    if (rests) rest();
    return at->second;
  }
  lowering::Chunk chunk;
  chunk.embedding = stage.first;
  // Prediction modules lie right above the last layer.
  chunk.low_layer = stage.last ? static_cast<std::uint32_t>(model_->layers) - layers : stage.low_layer;
  chunk.layers = layers;
  chunk.head = stage.last;
  const auto priced = [&](BlockId id) { return collectives_of(s.program, s[id].block, costs); };
  for (const lowering::Chunk& bucket : lowering::build_buckets(s, 0, chunk)) {
    const auto dense = [&](std::uint32_t layer) { return mixes_kinds(*model_) && !is_mixture(*model_, layer); };
    std::uint32_t of_them = 0;
    for (std::uint32_t l = 0; l < bucket.layers; ++l) of_them += dense(bucket.low_layer + l) ? 1 : 0;
    BucketCosts b{bucket.head, bucket.embedding, bucket.layers, of_them, priced(bucket.reduce), {}, 0};
    if (lowering::combines(s)) b.combine = priced(bucket.combine);
    if (lowering::gathers_updated(s)) b.gather = sum(priced(bucket.gather));
    at->second.push_back(std::move(b));
  }
  if (rests) rest();
  return at->second;
}

}  // namespace orrery
