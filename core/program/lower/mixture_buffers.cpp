#include <algorithm>

#include "core/program/lower/attention.hpp"
#include "core/program/lower/mixture_layer.hpp"
#include "core/spec/routing.hpp"

// What a layer of experts holds.
namespace orrery::lowering {
namespace {

/// Whether every expert gets equally many choices of a routing group, in every layer.
bool routes_alike(const Workload& w, const Mixture& m) {
  const ExpertGroups groups = expert_groups(m);
  const std::uint64_t tokens = routing_group(w);
  return w.routing.kind == Routing::Kind::balanced && tokens * groups.per_token % groups.count == 0 &&
         tokens * m.per_token % m.experts == 0;
}

}  // namespace

MixtureLayer::MixtureLayer(State& s, BufferId norm2_out)
    : s_(s),
      m_(*s.model.mixture),
      gated_(is_gated(s.model.activation)),
      folded_(folds_tensor(s.plan)),
      gathers_(s.sequence_parallel && !folded_),
      brings_all_(s.plan.expert_dispatch == ExpertDispatch::all_gather && size(s.plan.mesh, s.expert_axes) > 1),
      learned_(s.workload.routing.kind == Routing::Kind::learned),
      parts_(static_cast<std::uint32_t>(size(s.plan.mesh, s.expert_axes))),
      local_(m_.experts / parts_),
      tokens_(folded_ ? s.rows : s.tokens),
      routed_(brings_all_ ? parts_ * tokens_ : tokens_),
      width_(m_.ffn / (s.grid    ? s.plan.mesh.size(Axis::column)
                       : folded_ ? 1
                                 : s.tensor)),
      shared_(m_.shared_ffn / (s.grid ? s.plan.mesh.size(Axis::column) : s.tensor)),
      expert_group_(s.group(s.expert_axes)),
      norm2_out_(norm2_out) {
  const std::uint64_t groups = tokens_ / routing_group(s.workload);
  std::uint64_t most = 0;
  double kept = 0.0;  // mean over layers
  if (learned_) {
    most = most_kept_of_any(s.workload, m_.experts, m_.per_token, local_);
    kept = static_cast<double>(most_kept_of_any(s.workload, m_.experts, m_.per_token, m_.experts));
  } else {
    std::vector<std::uint32_t> layers;
    for (std::uint32_t l = 0; l < numbered_layers(s.model); ++l) {
      if (s.kind_of(l).mixture) layers.push_back(l);
    }
    const bool alike = routes_alike(s.workload, m_);
    std::uint64_t of_layer = 0;
    for (const std::uint32_t layer : layers) {
      if (!alike || layer == layers.front()) {
        const LayerRouting routing(s.workload, m_.experts, m_.per_token, layer, expert_groups(m_));
        most = std::max(most, routing.most_kept(parts_));
        of_layer = routing.kept();
      }
      kept += static_cast<double>(of_layer) / static_cast<double>(layers.size());
    }
  }
  slots_ = parts_ * groups * most;
  filled_ = static_cast<double>(groups) * kept;

  const std::uint64_t h = s.model.hidden, k = m_.per_token, up = (gated_ ? 2 : 1) * width_;
  const auto by_token = [&](const char* name, Role role, DType dtype, std::uint64_t width, bool cut) {
    return s.activation(name, role, Scope::layer_microbatch, dtype, {width, width, {}, false}, cut);
  };
  // The rows that ranks send are no part of a tensor of the model; the shard says which ranks have other rows.
  ShardDim rows = {0, 0, s.batch_split, true};
  if (s.context > 1) rows.split.axis[rows.split.count++] = Axis::context;
  if (folded_) rows.split.axis[rows.split.count++] = Axis::tensor;
  for (const Axis axis : s.layout.stream_sequences) rows.split.axis[rows.split.count++] = axis;
  rows.extent = rows.valid = slots_ * size(s.plan.mesh, rows.split) * s.program.microbatches;
  const auto by_slot = [&](const char* name, Role role, std::uint64_t width) {
    const BufferId id = layer_buffer(s, name, role, s.act, slots_ * width);
    s.program.buffers[index(id)].shard = Shard{rows, {width, width, {}, false}};
    return id;
  };
  // Gathered tokens stand rank by rank. So they are no box of the batch, but have as many positions as all ranks do.
  const auto by_gathered = [&](const char* name, Role role, DType dtype, std::uint64_t width) {
    const BufferId id = layer_buffer(s, name, role, dtype, routed_ * width);
    Shard shard{position_dim(s, folded_ ? Rows::sequence_parallel : Rows::context),
                stream_sequences(s),
                {width, width, {}, false}};
    shard.dims[0].zigzag = 0;
    for (ShardDim& dim : shard.dims) {
      AxisList left;
      for (const Axis axis : dim.split) {
        if (contains(s.expert_axes, axis)) {
          dim.extent /= s.plan.mesh.size(axis);
        } else {
          left.axis[left.count++] = axis;
        }
      }
      dim.split = left;
    }
    shard.dims[0].extent *= parts_;
    for (ShardDim& dim : shard.dims) dim.valid = dim.extent;
    s.program.buffers[index(id)].shard = shard;
    return id;
  };
  const bool sp = s.sequence_parallel;
  const bool several = parts_ > 1 && !brings_all_;  // rows travel
  logits_ = by_token("router.logits", Role::activation, s.state, m_.experts, sp);
  choice_ = by_token("router.choice", Role::statistic, DType::i32, k, folded_);
  if (learned_) {
    choice_part_ = gathers_ ? by_token("router.choice.part", Role::workspace, DType::i32, k, true) : choice_;
    if (s.workload.routing.auxiliary_loss > 0.0) {
      loads_ = layer_buffer(s, "router.loads", Role::statistic, DType::i32, routed_ / tokens_ * groups * m_.experts);
    }
  }
  // Where scores choose and tokens are gathered, a rank knows of each row of all ranks which choice stands in it.
  const std::uint64_t known = learned_ && brings_all_ ? parts_ * slots_ : slots_;
  slot_ids_ = layer_buffer(s, "experts.slots", Role::statistic, DType::i32, known);
  expert_ids_ = layer_buffer(s, "experts.numbers", Role::statistic, DType::i32, known);
  sent_ids_ =
      learned_ && several ? layer_buffer(s, "experts.numbers.sent", Role::workspace, DType::i32, slots_) : expert_ids_;
  gates_ = by_token("router.gates", brings_all_ ? Role::workspace : Role::statistic, s.state, k, folded_);
  if (brings_all_) {
    if (learned_) all_choice_ = by_gathered("router.choice.all", Role::workspace, DType::i32, k);
    all_gates_ = by_gathered("router.gates.all", Role::statistic, s.state, k);
    all_in_ = by_gathered("experts.all.in", Role::workspace, s.act, h);
    all_out_ = by_gathered("experts.all.out", Role::workspace, s.act, h);
    if (shared_ > 0) sums_ = by_token("experts.sums", Role::workspace, s.act, h, folded_);
    all_out_gradient_ = by_gathered("experts.all.out.gradient", Role::workspace, s.act, h);
    all_in_gradient_ = by_gathered("experts.all.in.gradient", Role::workspace, s.act, h);
    all_gates_gradient_ = by_gathered("router.gates.all.gradient", Role::workspace, s.state, k);
  }
  gates_part_ = gathers_ ? by_token("router.gates.part", Role::workspace, s.state, k, true) : gates_;
  arrived_ = by_slot("experts.in", Role::activation, h);
  sent_ = several ? by_slot("experts.sent", Role::workspace, h) : arrived_;
  pre_ = by_slot("experts.pre", Role::activation, up);
  act_ = by_slot("experts.act", Role::activation, width_);
  returned_ = by_slot("experts.returned", Role::activation, h);
  made_ = several ? by_slot("experts.out", Role::workspace, h) : returned_;
  const auto workspace = [&](const char* name, std::uint64_t width) {
    return layer_buffer(s, name, Role::workspace, s.act, s.tokens * width);
  };
  if (shared_ > 0) {
    const std::uint64_t shared_up = (gated_ ? 2 : 1) * shared_;
    shared_pre_ = layer_buffer(s, "shared.pre", Role::activation, s.act, s.tokens * shared_up);
    shared_act_ = layer_buffer(s, "shared.act", Role::activation, s.act, s.tokens * shared_);
    shared_out_ =
        layer_buffer(s, "shared.out", m_.shared_gate ? Role::activation : Role::workspace, s.act, s.tokens * h);
    shared_act_gradient_ = workspace("shared.act.gradient", shared_);
    if (gated_) shared_pre_gradient_ = workspace("shared.pre.gradient", shared_up);
    shared_input_gradient_ = workspace("shared.input.gradient", h);
    if (folded_) {
      shared_part_ = by_token("shared.part", Role::workspace, s.act, h, true);
      shared_input_part_ = by_token("shared.input.gradient.part", Role::workspace, s.act, h, true);
    }
  }
  returned_gradient_ = by_slot("experts.returned.gradient", Role::workspace, h);
  made_gradient_ = several ? by_slot("experts.out.gradient", Role::workspace, h) : returned_gradient_;
  act_gradient_ = by_slot("experts.act.gradient", Role::workspace, width_);
  if (gated_) pre_gradient_ = by_slot("experts.pre.gradient", Role::workspace, up);
  arrived_gradient_ = by_slot("experts.in.gradient", Role::workspace, h);
  sent_gradient_ = several ? by_slot("experts.sent.gradient", Role::workspace, h) : arrived_gradient_;
  gates_gradient_ = by_token("router.gates.gradient", Role::workspace, s.state, k, folded_);
  gates_part_gradient_ =
      gathers_ ? by_token("router.gates.part.gradient", Role::workspace, s.state, k, true) : gates_gradient_;
  logits_gradient_ = by_token("router.logits.gradient", Role::workspace, s.state, m_.experts, sp);
  if (m_.shared_gate) gate_ = std::make_unique<SharedGate>(s, norm2_out);
}

}  // namespace orrery::lowering
