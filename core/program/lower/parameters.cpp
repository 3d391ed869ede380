#include <utility>

#include "core/program/base_weights.hpp"
#include "core/program/factored.hpp"
#include "core/program/flat_parts.hpp"
#include "core/program/lower/adapters.hpp"
#include "core/program/lower/base_weights.hpp"
#include "core/program/lower/parameter_tables.hpp"
#include "core/program/lower/state.hpp"
#include "core/program/moment_scales.hpp"

namespace orrery::lowering {
namespace {

/// The layers' matrices in few bits, each with a table of its own.
void declare_base(State& c) {
  const Adapters& a = *c.workload.adapters;
  for (const char* weight : layer_products) {
    BaseMatrix base;
    base.weight = weight;
    const std::string name = base_module(weight);
    base.table = static_cast<std::uint32_t>(c.program.parameter_tables.size());
    c.program.parameter_tables.push_back(product_table(c, name, weight));
    const ParameterTable& table = c.program.parameter_tables.back();
    const ShardDim& in = table.slices.front().shard.dims[0];
    base.rows = in.extent / size(c.program.mesh, in.split);
    base.columns = local_count(table.slices.front().shard, c.program.mesh) / base.rows;
    const auto declare = [&](const char* what, Role role, DType dtype, std::uint64_t count) {
      Buffer b;
      b.name = name + "." + what;
      b.role = role;
      b.scope = Scope::layer;
      b.dtype = dtype;
      b.count = count;
      if (role == Role::workspace) b.parameters = base.table;
      return c.declare(std::move(b));
    };
    const QuantizedSize size = quantized_size(a.base, a.double_quantization, base.rows, base.columns);
    base.codes = declare("codes", Role::weight, code_dtype(a.base), size.codes);
    base.scales = declare("scales", Role::weight, scale_dtype(a.double_quantization), size.scales);
    base.forward = declare("forward", Role::workspace, c.act, table.count);
    base.backward = declare("backward", Role::workspace, c.act, table.count);
    c.base.push_back(base);
  }
}

/// Where a module's states live, and with `all` its weights too; some layers' states are here, some there.
struct StatesOn {
  bool device, host, all;
};

void declare_module(State& c, Module& module, ParameterTable table, Scope scope, StatesOn on) {
  const std::string name = table.module;
  module.table = static_cast<std::uint32_t>(c.program.parameter_tables.size());
  c.program.parameter_tables.push_back(std::move(table));
  const auto persistent = [&](const char* what, Role role, DType dtype, bool sharded, Tier tier = Tier::device) {
    Buffer b;
    b.name = name + "." + what;
    b.role = role;
    b.scope = scope;
    b.dtype = dtype;
    if (sharded) b.flat_split = c.shard_axes;
    b.count = flat_count(c.program.parameter_tables[module.table], c.program.mesh, b.flat_split);
    b.parameters = module.table;
    b.tier = tier;
    return c.declare(std::move(b));
  };
  const auto scales = [&](const char* what, Role role, Tier tier) {
    Buffer b;
    b.name = name + "." + what;
    b.role = role;
    b.scope = scope;
    b.dtype = DType::f32;
    const AxisList split = c.shard_states ? c.shard_axes : AxisList{};
    for (const FlatPart& part : flat_parts(c.program.parameter_tables[module.table], c.program.mesh, split)) {
      b.count += moment_scales(part.count, moment_block(moment_dtype(c.workload)));
    }
    b.tier = tier;
    return c.declare(std::move(b));
  };
  const auto statistics = [&](const char* what, Role role, Tier tier) {
    Buffer b;
    b.name = name + "." + what;
    b.role = role;
    b.scope = scope;
    b.dtype = c.state;
    for (const ParameterSegment& s : c.program.parameter_tables[module.table].segments) {
      b.count += factored(c.program.parameter_tables[module.table], s, c.program.mesh).count;
    }
    b.tier = tier;
    return c.declare(std::move(b));
  };
  module.weights = module.whole_weights = persistent("weights", Role::weight, c.act, c.zero >= 3);
  if (!c.trains_weights() && &module != &c.adapters) {
    if (c.zero >= 3) module.whole_weights = persistent("weights.whole", Role::weight, c.act, false);
    module.gradients = module.whole_gradients = module.first_gradients = no_buffer;
    return;
  }
  module.gradients = persistent("gradients", Role::gradient, c.grad, c.zero >= 2);
  module.whole_gradients = module.gradients;
  if (c.zero >= 3) module.whole_weights = persistent("weights.whole", Role::weight, c.act, false);
  if (c.zero >= 2) module.whole_gradients = persistent("gradients.whole", Role::gradient, c.grad, false);
  module.first_gradients = module.whole_gradients;
  std::uint64_t first = 0;  // elements
  for (const ParameterSegment& s : c.program.parameter_tables[module.table].segments) {
    if (is_in(GradientPart::first, c.program.parameter_tables[module.table], s)) first = s.offset + s.count;
  }
  if (splits_copies(c) && first < c.program[module.whole_gradients].count && first > 0) {
    module.first_gradients = persistent("gradients.first", Role::gradient, c.grad, false);
    c.program.buffers[index(module.first_gradients)].count = first;
  }
  // A prediction module's weights are read after the head has added to a gradient of it.
  if (c.chunk > 0 && scope == Scope::layer && name != "prediction") {
    c.program.buffers[index(module.whole_gradients)].reuses = module.whole_weights;
  }
  static constexpr const char* moments[] = {"moment1", "moment2"};
  if (on.device) {
    if (has_master_weights(c.workload)) module.masters = persistent("masters", Role::master, c.state, c.shard_states);
    for (int i = 0; i < optimizer_moments(c.workload); ++i) {
      module.moments[i] = persistent(moments[i], Role::moment, moment_dtype(c.workload, i), c.shard_states);
    }
    if (has_scaled_moments(c.workload)) module.scales = scales("scales", Role::moment, Tier::device);
    if (has_factored_moments(c.workload)) module.moments[0] = statistics("moments", Role::moment, Tier::device);
  }
  if (!on.host && !on.all) return;
  HostStates& h = module.host;
  // Data on disk passes through host memory, one module at a time.
  const bool weights_on_disk = on.all && c.plan.parameters_tier == OffloadTier::disk;
  if (on.host || !weights_on_disk) {
    h.weights = persistent("weights.host", Role::weight, c.act, c.shard_states, Tier::host);
  }
  if (weights_on_disk) {
    h.passing_weights = persistent("weights.passing", Role::workspace, c.act, c.shard_states, Tier::host);
    h.disk_weights = persistent("weights.disk", Role::weight, c.act, c.shard_states, Tier::disk);
  }
  h.gradients = persistent("gradients.host", Role::workspace, c.grad, c.shard_states, Tier::host);
  const bool disk = c.plan.states_tier == OffloadTier::disk;
  const auto state = [&](const std::string& what, Role role, DType type, BufferId& host, BufferId& on_disk) {
    host = persistent((what + ".host").c_str(), disk ? Role::workspace : role, type, c.shard_states, Tier::host);
    if (disk) on_disk = persistent((what + ".disk").c_str(), role, type, c.shard_states, Tier::disk);
  };
  if (has_master_weights(c.workload)) state("masters", Role::master, c.state, h.masters, h.disk_masters);
  for (int i = 0; i < optimizer_moments(c.workload); ++i) {
    state(moments[i], Role::moment, moment_dtype(c.workload, i), h.moments[i], h.disk_moments[i]);
  }
  if (has_factored_moments(c.workload)) {
    h.moments[0] = statistics("moments.host", disk ? Role::workspace : Role::moment, Tier::host);
    if (disk) h.disk_moments[0] = statistics("moments.disk", Role::moment, Tier::disk);
  }
  if (!has_scaled_moments(c.workload)) return;
  h.scales = scales("scales.host", disk ? Role::workspace : Role::moment, Tier::host);
  if (disk) h.disk_scales = scales("scales.disk", Role::moment, Tier::disk);
}

}  // namespace

void declare_parameters(State& c) {
  const StatesOn ends{!c.ends_on_host, c.ends_on_host, false};
  declare_module(c, c.embedding, embedding_table(c), Scope::stage, ends);
  for (const LayerKind& kind : c.kinds) {
    if (!c.is_first_with_module(kind)) continue;
    StatesOn on{};
    for (const std::uint32_t l : c.layers_with_module(kind)) {
      const Home home = c.home_of(l);
      (home == Home::device ? on.device : home == Home::states_on_host ? on.host : on.all) = true;
    }
    declare_module(c, c.*kind.module, kind.prediction > 0 ? prediction_table(c) : layer_table(c, kind.mixture),
                   Scope::layer, on);
  }
  if (c.quantizes()) declare_base(c);
  if (!c.trains_weights()) declare_module(c, c.adapters, adapter_table(c), Scope::layer, {true, false, false});
  declare_module(c, c.head, head_table(c), Scope::stage, ends);
  c.shares = segment_shares(c);
  const auto scalar = [&](const char* name, std::uint64_t count, Tier tier = Tier::device) {
    Buffer b;
    b.name = name;
    b.role = Role::scalar;
    b.dtype = DType::f64;
    b.count = count;
    b.tier = tier;
    return c.declare(std::move(b));
  };
  c.scalar.steps = scalar("steps", 1);
  if (c.scaled) c.scalar.loss_scale = scalar("loss_scale", 2);
  c.scalar.loss = scalar("loss", 1);
  c.scalar.count = scalar("count", 1);
  if (c.predictions > 0) {
    c.scalar.prediction_loss = scalar("prediction.loss", c.predictions);
    c.scalar.prediction_count = scalar("prediction.count", c.predictions);
  }
  if (c.factor) {
    c.scalar.norm = scalar("norm", 1);
    c.scalar.factor = scalar("factor", 2);
  }
  if (c.offloads_states()) {
    c.scalar.host_steps = scalar("steps.host", 1, Tier::host);
    if (c.factor) c.scalar.host_factor = scalar("factor.host", 2, Tier::host);
  }
}

}  // namespace orrery::lowering
