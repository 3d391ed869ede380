#include "sim/bound/lowered_states.hpp"

#include <algorithm>
#include <utility>

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

void add(LoweredStates::OfModule& sum, const LoweredStates::OfModule& other) {
  for (const auto member : {&ModuleState::persistent_bytes, &ModuleState::state_bytes, &ModuleState::weight_bytes,
                            &ModuleState::whole_weight_bytes, &ModuleState::whole_gradient_bytes}) {
    sum.state.*member += other.state.*member;
  }
  for (const auto member : {&ModuleState::clear, &ModuleState::clear_copy, &ModuleState::clear_products,
                            &ModuleState::norm, &ModuleState::update}) {
    sum.state.*member += other.state.*member;
  }
  sum.gather.insert(sum.gather.end(), other.gather.begin(), other.gather.end());
}

/// States do not depend on what is recomputed, and counts may still be open; those that live elsewhere are looked at
/// apart.
Plan without_counts(Plan plan) {
  plan.recompute_layers.reset();
  plan.offload_states = plan.offload_parameters = plan.offload_activations = 0;
  plan.states_tier = plan.parameters_tier = plan.activations_tier = OffloadTier::host;
  return plan;
}

/// Elements of a module's gradients that the first part of a split backward pass makes.
std::uint64_t first_count(const lowering::State& s, const lowering::Module& module) {
  std::uint64_t count = 0;
  const ParameterTable& table = s.program.parameter_tables[module.table];
  for (const ParameterSegment& segment : table.segments) {
    if (is_in(lowering::GradientPart::first, table, segment)) count = segment.offset + segment.count;
  }
  return count;
}

/// Of a module's whole weights, a message for each set of ranks that share parts of them; of every chunk those.
std::vector<StateCollective> gathers_of(lowering::State& s, const lowering::Module& module) {
  lowering::OperandsByAxes parts;
  const ParameterTable& table = s.program.parameter_tables[module.table];
  const std::uint64_t element = size_of(s.program[module.whole_weights].dtype);
  std::vector<StateCollective> gathers;
  const auto send = [&] {
    for (const auto& [axes, operands] : parts.all) {
      std::uint64_t count = 0;
      for (const lowering::Operand& o : operands) count += o.count;
      const GroupId group = share_group(s, axes);
      gathers.push_back({lowering::collective_lane(s.program, group).index, Collective::Kind::all_gather,
                         Bytes::of(static_cast<double>(count * element)), s.program[group], 0});
    }
    parts.all.clear();
  };
  for (const ParameterSegment& segment : table.segments) {
    if (begins_chunk(s, table, segment)) send();
    parts.over(own_axes(s, table, segment))
        .push_back({module.whole_weights, View::Use::write, 0, segment.offset, segment.count, {}});
  }
  send();
  return gathers;
}

/// Elements of a module's whole gradients that are cleared before its backward pass has ended: not what pads chunks.
std::uint64_t cleared_count(const Program& program, const lowering::Module& module) {
  const Buffer& copy = program[module.whole_gradients];
  if (!copy.reuses) return copy.count;
  std::uint64_t count = 0;
  for (const ParameterSlice& s : program.parameter_tables[module.table].slices) {
    count += local_count(s.shard, program.mesh);
  }
  return count;
}

}  // namespace

/// The lowering that buckets are built in; it refers to the plan.
struct LoweredStates::Lowering {
  Plan plan;
  lowering::State state;
  lowering::OptimizerBlocks optimizer;
  BlockId tied = lowering::no_block;
  Lowering(const ModelSpec& model, const Workload& workload, const Plan& p) : plan(p), state(model, workload, plan) {
    lowering::declare_parameters(state);
    lowering::build_clear(state);
    optimizer = lowering::build_optimizer(state);
    if (state.tied_apart) tied = lowering::build_tied_reduction(state, 0);
  }
};

LoweredStates::~LoweredStates() = default;

const StateCollective* LoweredStates::known(const StateCollective& wanted) {
  const auto at = std::find_if(collectives_.begin(), collectives_.end(), [&](const StateCollective& c) {
    return c.lane == wanted.lane && c.kind == wanted.kind && c.payload == wanted.payload && c.group == wanted.group;
  });
  if (at != collectives_.end()) return &*at;
  collectives_.push_back(wanted);
  collectives_.back().number = static_cast<std::uint32_t>(collectives_.size() - 1);
  return &collectives_.back();
}

StateCollectives LoweredStates::collectives_of(const Program& program, const Block& block) {
  StateCollectives out;
  for (const Op& op : block.ops) {
    const auto* c = std::get_if<Collective>(&op.action);
    if (c == nullptr) continue;
    out.push_back(known({lowering::collective_lane(program, c->group).index, c->kind,
                         Bytes::of(static_cast<double>(payload_bytes(program, block, op))), program[c->group], 0}));
  }
  return out;
}

LoweredStates::LoweredStates(const ModelSpec& model, const Workload& workload, const Plan& plan, const CostModel& costs)
    : model_(model),
      workload_(workload),
      plan_(without_counts(plan)),
      lowering_(std::make_unique<Lowering>(model_, workload_, plan_)) {
  using lowering::Phase;
  lowering::State& lowered = lowering_->state;
  factor = lowered.factor;
  zero = lowered.zero;
  pipeline = lowered.pipeline;
  const Program& program = lowered.program;
  const auto block = [&](BlockId id) -> const Block& { return lowered[id].block; };
  for (const Buffer& b : program.buffers) {
    if (b.role == Role::scalar) scalar_bytes += bytes_of(b);
  }
  const auto of_module = [&](const lowering::Module& module, auto&& of) {
    OfModule out;
    ModuleState& s = out.state;
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
    if (zero >= 2) {
      const Buffer& copy = program[module.whole_gradients];
      const auto clearing = [&](std::uint64_t count) {
        return picoseconds(costs.kernel(lowered.kernel(KernelKind::fill, Pass::weight_gradient, 1, count),
                                        Bytes::of(static_cast<double>(count * size_of(copy.dtype)))));
      };
      const std::uint64_t first = lowering::splits_copies(lowered) ? first_count(lowered, module) : copy.count;
      if (first < copy.count) {
        // Products lie behind what is made first.
        s.clear_copy = first > 0 ? clearing(first) : 0;
        s.clear_products = clearing(copy.count - first);
      } else {
        s.clear_copy = clearing(cleared_count(program, module));
      }
    }
    if (zero >= 3) {
      for (const StateCollective& c : gathers_of(lowered, module)) out.gather.push_back(known(c));
    }
    if (factor) s.norm = compute_time(program, block(of(lowered.blocks(Phase::norm))), costs);
    s.update = compute_time(program, block(of(lowered.blocks(Phase::update))), costs);
    return out;
  };
  using Blocks = lowering::ModuleBlocks;
  embedding = of_module(lowered.embedding, [](const Blocks& b) { return b.embedding; });
  layer = of_module(lowered.layer, [&](const Blocks& b) { return b[lowered.main_kind()].plain; });
  if (mixes_kinds(model)) {
    dense_layer = of_module(lowered.dense_layer, [&](const Blocks& b) { return b[lowered.kinds.front()].plain; });
  }
  head = of_module(lowered.head, [](const Blocks& b) { return b.head; });
  for (auto l = static_cast<std::uint32_t>(model.layers); l < program.layers; ++l) {
    const lowering::LayerKind& kind = lowered.kind_of(l);
    add(head, of_module(lowered.*kind.module, [&](const Blocks& b) { return b[kind].plain; }));
  }
  head_apart =
      lowered.reduce_gradients && static_cast<double>(head.state.whole_gradient_bytes) >= plan_.gradient_bucket->base();
  if (factor) norm = collectives_of(program, block(lowering_->optimizer.reduce_norm));
  if (lowered.tied_apart) tied = collectives_of(program, block(lowering_->tied));
}

const LoweredStates::HostModules& LoweredStates::host_updates(const CostModel& costs) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (host_updates_) return *host_updates_;
  Plan plan = plan_;
  plan.offload_states = 8;
  lowering::State s(model_, workload_, plan);
  lowering::declare_parameters(s);
  static_cast<void>(lowering::build_optimizer(s));
  const lowering::ModuleBlocks& updates = s.blocks(lowering::Phase::update);
  const auto updated = [&](BlockId id, const lowering::Module& of) {
    OfHost out;
    const Block& block = s[id].block;
    for (const Op& op : block.ops) {
      if (std::holds_alternative<Compute>(op.action)) {
        // Lanes are not settled yet: the host's kernels are priced as CostModel::compute does.
        out.update.update +=
            picoseconds(Bytes::of(static_cast<double>(touched_bytes(s.program, block, op))) / costs.host_rate());
      } else if (const auto* copy = std::get_if<Copy>(&op.action)) {
        (copy->to == Tier::device ? out.update.up : out.update.down) += picoseconds(costs.copy(s.program, block, op));
      }
    }
    for (const Buffer& b : s.program.buffers) {
      if (b.parameters != of.table || b.tier != Tier::host) continue;
      (b.role == Role::weight                             ? out.update.weight_bytes
       : b.role == Role::master || b.role == Role::moment ? out.update.state_bytes
                                                          : out.update.gradient_bytes) += bytes_of(b);
    }
    if (has_scaled_moments(workload_)) out.update.state_bytes += bytes_of(s.program[of.host.scales]);
    const auto moving = [&](std::uint64_t bytes, Tier from, Tier to) {
      return picoseconds(Bytes::of(static_cast<double>(bytes)) / costs.tier_rate(from, to));
    };
    out.update.read_states = moving(out.update.state_bytes, Tier::disk, Tier::host);
    out.update.write_states = moving(out.update.state_bytes, Tier::host, Tier::disk);
    out.update.read_weights = moving(out.update.weight_bytes, Tier::disk, Tier::host);
    out.update.write_weights = moving(out.update.weight_bytes, Tier::host, Tier::disk);
    if (s.shard_states) {
      for (const StateCollective& c : gathers_of(s, of)) out.gather.push_back(known(c));
    }
    return out;
  };
  host_updates_ = {updated(updates.embedding, s.embedding),
                   updated(updates[s.main_kind()].plain, s.layer),
                   {},
                   updated(updates.head, s.head)};
  if (mixes_kinds(model_)) host_updates_->dense_layer = updated(updates[s.kinds.front()].plain, s.dense_layer);
  return *host_updates_;
}

void LoweredStates::rest() {
  const std::lock_guard<std::mutex> lock(mutex_);
  lowering_.reset();
}

const std::vector<LoweredStates::Bucket>& LoweredStates::buckets(const StageShare& stage) {
  const std::uint32_t layers = stage.count();
  const std::uint64_t key = std::uint64_t{stage.low_layer} << 34 | std::uint64_t{layers} << 2 |
                            std::uint64_t{stage.first} << 1 | std::uint64_t{stage.last};
  const std::lock_guard<std::mutex> lock(mutex_);
  if (const auto at = buckets_.find(key); at != buckets_.end()) return at->second;
  std::vector<Bucket> made;
  const auto messages = [&](Messages sent) {
    const auto same = std::find(messages_.begin(), messages_.end(), sent);
    if (same != messages_.end()) return &*same;
    messages_.push_back(std::move(sent));
    return &messages_.back();
  };
  const bool rests = lowering_ == nullptr;
  if (rests) lowering_ = std::make_unique<Lowering>(model_, workload_, plan_);
  lowering::State& s = lowering_->state;
  if (!s.reduce_gradients) {
    made.push_back({stage.last, stage.first, layers, stage.dense(), messages({})});
    if (rests) lowering_.reset();
    return buckets_.emplace(key, std::move(made)).first->second;
  }
  lowering::Chunk chunk;
  chunk.embedding = stage.first;
  // Prediction modules lie right above the last layer.
  chunk.low_layer = stage.last ? static_cast<std::uint32_t>(model_.layers) - layers : stage.low_layer;
  chunk.layers = layers;
  chunk.head = stage.last;
  const auto sent = [&](BlockId id) {
    return id == lowering::no_block ? StateCollectives{} : collectives_of(s.program, s[id].block);
  };
  for (const lowering::Chunk& bucket : lowering::build_buckets(s, 0, chunk)) {
    const auto dense = [&](std::uint32_t l) { return mixes_kinds(model_) && !is_mixture(model_, l); };
    std::uint32_t of_them = 0;
    for (std::uint32_t l = 0; l < bucket.layers; ++l) of_them += dense(bucket.low_layer + l) ? 1 : 0;
    Messages of{sent(bucket.reduce), {}, {}, {}, {}};
    if (lowering::splits_copies(s)) of.reduce_first = sent(bucket.reduce_first);
    if (lowering::combines(s)) of.combine = sent(bucket.combine);
    if (s.two_way) of.sum_pipes = sent(bucket.sum_pipes);
    if (lowering::gathers_updated(s)) of.gather = sent(bucket.gather);
    made.push_back({bucket.head, bucket.embedding, bucket.layers, of_them, messages(std::move(of))});
  }
  if (rests) lowering_.reset();
  return buckets_.emplace(key, std::move(made)).first->second;
}

std::shared_ptr<LoweredStates> KnownStates::of(const Key& key, const ModelSpec& model, const Workload& workload,
                                               const Plan& plan, const CostModel& costs) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto at = known_.find(key);
    if (at != known_.end() && at->second.bucket == *plan.gradient_bucket) return at->second.states;
  }
  const auto made = std::make_shared<LoweredStates>(model, workload, plan, costs);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (known_.size() >= most) known_.clear();
  Entry& entry = known_[key];
  if (entry.states && entry.bucket == *plan.gradient_bucket) return entry.states;  // another thread was faster
  entry = {*plan.gradient_bucket, made};
  lowered_.push_back(made);
  if (lowered_.size() > most_lowered) {
    lowered_.front()->rest();
    lowered_.pop_front();
  }
  return made;
}

}  // namespace orrery
