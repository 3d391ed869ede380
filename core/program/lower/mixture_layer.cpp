#include "core/program/lower/mixture_layer.hpp"

#include <algorithm>

#include "core/program/lower/attention.hpp"
#include "core/spec/routing.hpp"

namespace orrery::lowering {
namespace {

/// Whether every expert gets equally many choices of a routing group, in every layer.
bool routes_alike(const Workload& w, const Mixture& m) {
  const ExpertGroups groups = expert_groups(m);
  const std::uint64_t tokens = routing_group(w);
  return w.routing.kind == Routing::Kind::balanced && tokens * groups.per_token % groups.count == 0 &&
         tokens * m.per_token % m.experts == 0;
}

constexpr ExpertMatrix up_matrix{"ffn.experts.up.weight", "ffn.experts.up.bias", true};
constexpr ExpertMatrix down_matrix{"ffn.experts.down.weight", "ffn.experts.down.bias", false};

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

double MixtureLayer::bias_scale(const ExpertMatrix& m) const {
  return m.widens || s_.tensor == 1 || folded_ ? 0.0 : 1.0 / s_.tensor;
}

// --- kernels -------------------------------------------------------------------

Kernel MixtureLayer::tokens_kernel(KernelKind kind, Pass pass, std::uint64_t width) const {
  Kernel k = s_.kernel(kind, pass, routed_, width, slots_);
  k.batch = m_.per_token;
  return k;
}

Kernel MixtureLayer::gates_kernel(KernelKind kind, Pass pass) const {
  Kernel k = s_.kernel(kind, pass, s_.rows, m_.experts);
  k.batch = m_.per_token;
  k.site = static_cast<std::uint8_t>(m_.scores);
  k.parameter = m_.scale;
  if (kind == KernelKind::gates_backward && !learned_) limit_groups(k);
  return k;
}

/// Tells the kernel from which groups of experts a token may choose, where that is limited.
void MixtureLayer::limit_groups(Kernel& k) const {
  const ExpertGroups groups = expert_groups(m_);
  if (groups.count == 1) return;
  k.kv_heads = groups.count;
  k.head_dim = groups.per_token;
}

/// The rows of this rank's own positions in a buffer of all tokens.
Operand MixtureLayer::own(BufferId buffer, std::uint64_t width) const {
  if (!gathers_) return read(buffer);
  return {buffer, View::Use::read, 0, 0, s_.rows * width, {Axis::tensor}};
}

Operand MixtureLayer::ids(BufferId buffer) const {
  if (!learned_ || !brings_all_) return read(buffer);
  return {buffer, View::Use::read, 0, 0, slots_, s_.expert_axes};
}

void MixtureLayer::gather(BlockBuilder& b, Operand own, BufferId all) {
  if (brings_all_) b.seam(Collective::Kind::all_gather, expert_group_, {own, write(all)});
}

void MixtureLayer::scatter(BlockBuilder& b, BufferId all, BufferId own) {
  if (brings_all_) b.seam(Collective::Kind::reduce_scatter, expert_group_, {read(all), write(own)});
}

void MixtureLayer::add(BlockBuilder& b, Pass pass, BufferId x, BufferId sum) const {
  b.compute(s_.kernel(KernelKind::add_to, pass, tokens_, s_.model.hidden), {read(x), update(sum)});
}

void MixtureLayer::send(BlockBuilder& b, BufferId from, BufferId to) {
  if (parts_ > 1 && !brings_all_) b.seam(Collective::Kind::all_to_all, expert_group_, {read(from), write(to)});
}

Kernel MixtureLayer::expert_kernel(Pass pass, std::uint64_t rows, std::uint64_t columns, std::uint64_t depth) const {
  Kernel k = s_.kernel(KernelKind::expert_gemm, pass, rows, columns, depth);
  k.compute = s_.product;
  k.batch = local_;
  k.parameter = filled_;
  k.options.transpose_a = pass == Pass::weight_gradient;
  k.options.transpose_b = pass == Pass::input_gradient;
  return k;
}

void MixtureLayer::expert_forward(BlockBuilder& b, const ExpertMatrix& m, BufferId x, BufferId y, std::uint64_t in,
                                  std::uint64_t out) {
  Kernel k = expert_kernel(Pass::forward, slots_, out, in);
  OperandArray operands{read(x), weight_of(s_, s_.layer, m.weight), ids(expert_ids_), write(y)};
  if (m_.expert_bias) {
    k.options.bias = true;
    k.scale = bias_scale(m);
    operands.add(weight_of(s_, s_.layer, m.bias));
  }
  b.compute(k, operands);
}

void MixtureLayer::expert_bias(BlockBuilder& b, const ExpertMatrix& m, BufferId dy, std::uint64_t out) {
  if (!m_.expert_bias) return;
  Kernel k = s_.kernel(KernelKind::expert_bias_backward, Pass::weight_gradient, slots_, out);
  k.batch = local_;
  k.scale = bias_scale(m);
  b.compute(k, {read(dy), ids(expert_ids_), gradient_of(s_, s_.layer, m.bias)});
}

void MixtureLayer::expert_input(BlockBuilder& b, const char* weight, BufferId dy, BufferId dx, std::uint64_t in,
                                std::uint64_t out) {
  b.compute(expert_kernel(Pass::input_gradient, slots_, in, out),
            {read(dy), weight_of(s_, s_.layer, weight), ids(expert_ids_), write(dx)});
}

void MixtureLayer::expert_weight(BlockBuilder& b, const char* weight, BufferId x, BufferId dy, std::uint64_t in,
                                 std::uint64_t out) {
  b.compute(expert_kernel(Pass::weight_gradient, in, out, slots_),
            {read(x), read(dy), ids(expert_ids_), gradient_of(s_, s_.layer, weight)});
}

void MixtureLayer::activate(BlockBuilder& b, std::uint64_t rows, std::uint64_t width, BufferId pre, BufferId act) {
  b.compute(activation_kernel(s_, Pass::forward, rows, width), {read(pre), write(act)});
}

BufferId MixtureLayer::activate_back(BlockBuilder& b, std::uint64_t rows, std::uint64_t width, BufferId pre,
                                     BufferId dact, BufferId dpre) {
  const Kernel k = activation_kernel(s_, Pass::input_gradient, rows, width);
  if (!gated_) {
    b.compute(k, {read(pre), update(dact)});
    return dact;
  }
  b.compute(k, {read(pre), read(dact), write(dpre)});
  return dpre;
}

Product MixtureLayer::shared_up() const {
  return {&s_.layer, "ffn.shared.up.weight", nullptr, s_.model.hidden, (gated_ ? 2 : 1) * shared_, true};
}
Product MixtureLayer::shared_down() const {
  return {&s_.layer, "ffn.shared.down.weight", nullptr, shared_, s_.model.hidden, false};
}

// --- forward -------------------------------------------------------------------

void MixtureLayer::route(BlockBuilder& b) {
  Kernel k = tokens_kernel(learned_ ? KernelKind::route_choices : KernelKind::route_tokens, Pass::forward, m_.experts);
  k.heads = parts_;
  if (!learned_ || brings_all_) {
    for (const Axis axis : s_.expert_axes) k.site |= axis == Axis::context ? 1 : axis == Axis::tensor ? 2 : 0;
  }
  if (brings_all_) k.site |= 4;
  if (!learned_) {
    limit_groups(k);
    k.rows = tokens_;
    b.compute(k, {write(choice_), write(slot_ids_), write(expert_ids_)});
    return;
  }
  Kernel choose = s_.kernel(KernelKind::choose_experts, Pass::forward, s_.rows, m_.experts);
  choose.batch = m_.per_token;
  limit_groups(choose);
  if (choose.kv_heads > 0 && m_.group_score == Mixture::GroupScore::two_best) {
    choose.site = m_.scores == Mixture::Scores::sigmoid ? 2 : 1;
  }
  b.compute(choose, {read(logits_), write(choice_part_)});
  if (gathers_) b.seam(Collective::Kind::all_gather, {read(choice_part_), write(choice_)});
  gather(b, read(choice_), all_choice_);
  if (brings_all_) k.depth = parts_ * slots_;
  const BufferId choices = brings_all_ ? all_choice_ : choice_;
  k.options.loads = s_.workload.routing.auxiliary_loss > 0.0;
  if (k.options.loads) {
    b.compute(k, {read(choices), write(slot_ids_), write(sent_ids_), write(loads_)});
  } else {
    b.compute(k, {read(choices), write(slot_ids_), write(sent_ids_)});
  }
  send(b, sent_ids_, expert_ids_);
}

void MixtureLayer::forward(BlockBuilder& b, BufferId x, BufferId y) {
  const std::uint64_t h = s_.model.hidden, k = m_.per_token, up = (gated_ ? 2 : 1) * width_;
  b.compute(s_.kernel(KernelKind::gemm, Pass::forward, s_.rows, m_.experts, s_.hidden_width),
            {read(norm2_out_), weight_of(s_, s_.layer, "ffn.router.weight"), write(logits_)});
  if (s_.grid) b.seam(Collective::Kind::all_reduce, s_.column_group, {update(logits_)});
  if (m_.router_bias) {
    b.compute(s_.kernel(KernelKind::bias_forward, Pass::forward, s_.rows, m_.experts),
              {weight_of(s_, s_.layer, "ffn.router.bias"), update(logits_)});
  }
  if (gate_) gate_->logits_forward(b);
  route(b);
  b.compute(gates_kernel(KernelKind::gates_forward, Pass::forward),
            {read(logits_), own(choice_, k), write(gates_part_)});
  if (gathers_) b.seam(Collective::Kind::all_gather, {read(gates_part_), write(gates_)});
  gather(b, read(gates_), all_gates_);
  const BufferId in = folded_ ? norm2_out_ : x;
  gather(b, read(in), all_in_);
  b.compute(tokens_kernel(KernelKind::dispatch_forward, Pass::forward, h),
            {read(brings_all_ ? all_in_ : in), ids(slot_ids_), write(sent_)});
  send(b, sent_, arrived_);
  if (shared_ > 0) {  // beside the messages
    shared_sharding().forward(s_, b, shared_up(), x, shared_pre_);
    activate(b, s_.tokens, shared_, shared_pre_, shared_act_);
    shared_sharding().forward(s_, b, shared_down(), shared_act_, shared_out_);
    if (gate_) gate_->forward(b, shared_out_);
    if (folded_) {
      b.seam(Collective::Kind::reduce_scatter, {read(gate_ ? gate_->gated() : shared_out_), write(shared_part_)});
    }
  }
  expert_forward(b, up_matrix, arrived_, pre_, h, up);
  activate(b, slots_, width_, pre_, act_);
  expert_forward(b, down_matrix, act_, made_, width_, h);
  send(b, made_, returned_);
  Kernel combine = tokens_kernel(KernelKind::combine_forward, Pass::forward, h);
  const BufferId shared = folded_ ? shared_part_ : gate_ ? gate_->gated() : shared_out_;
  if (brings_all_) {
    b.compute(combine, {read(returned_), ids(slot_ids_), read(all_gates_), write(all_out_)});
    scatter(b, all_out_, y);
    if (shared_ > 0) add(b, Pass::forward, shared, y);
  } else if (shared_ > 0) {
    combine.options.residual = true;
    b.compute(combine, {read(returned_), ids(slot_ids_), read(gates_), read(shared), write(y)});
  } else {
    b.compute(combine, {read(returned_), ids(slot_ids_), read(gates_), write(y)});
  }
}

// --- backward ------------------------------------------------------------------

void MixtureLayer::backward(BlockBuilder& b, BlockBuilder& w, Operand dy, Operand whole_dy, BufferId x, BufferId dx) {
  const std::uint64_t h = s_.model.hidden, up = (gated_ ? 2 : 1) * width_;
  gather(b, dy, all_out_gradient_);
  b.compute(tokens_kernel(KernelKind::combine_backward, Pass::input_gradient, h),
            {brings_all_ ? read(all_out_gradient_) : dy, read(returned_), ids(slot_ids_),
             read(brings_all_ ? all_gates_ : gates_), write(returned_gradient_),
             write(brings_all_ ? all_gates_gradient_ : gates_gradient_)});
  scatter(b, all_gates_gradient_, gates_gradient_);
  send(b, returned_gradient_, made_gradient_);
  // Experts' results are parts of a sum over tensor ranks, and so are the gates' gradients.
  if (gathers_) {
    b.seam(Collective::Kind::reduce_scatter, {read(gates_gradient_), write(gates_part_gradient_)});
  } else if (!folded_ && s_.is_several(sum_group())) {
    b.seam(Collective::Kind::all_reduce, sum_group(), {update(gates_gradient_)});
  }
  if (shared_ > 0) {
    const Operand dshared = gate_ ? gate_->backward(b, whole_dy, shared_out_) : whole_dy;
    shared_sharding().input_gradient(s_, b, shared_down(), dshared, shared_act_gradient_);
    shared_sharding().weight_gradient(s_, w, shared_down(), shared_act_, dshared);
    const BufferId dpre = activate_back(b, s_.tokens, shared_, shared_pre_, shared_act_gradient_, shared_pre_gradient_);
    shared_sharding().input_gradient(s_, b, shared_up(), read(dpre), shared_input_gradient_);
    shared_sharding().weight_gradient(s_, w, shared_up(), x, read(dpre));
    if (folded_) {
      b.seam(Collective::Kind::reduce_scatter, {read(shared_input_gradient_), write(shared_input_part_)});
    }
  }
  expert_input(b, down_matrix.weight, made_gradient_, act_gradient_, width_, h);
  expert_weight(w, down_matrix.weight, act_, made_gradient_, width_, h);
  expert_bias(b, down_matrix, made_gradient_, h);
  const BufferId dpre = activate_back(b, slots_, width_, pre_, act_gradient_, pre_gradient_);
  expert_input(b, up_matrix.weight, dpre, arrived_gradient_, h, up);
  send(b, arrived_gradient_, sent_gradient_);
  expert_weight(w, up_matrix.weight, arrived_, dpre, h, up);  // beside the messages
  expert_bias(b, up_matrix, dpre, up);
  Kernel dispatch = tokens_kernel(KernelKind::dispatch_backward, Pass::input_gradient, h);
  const BufferId shared = folded_ ? shared_input_part_ : shared_input_gradient_;
  if (brings_all_) {
    b.compute(dispatch, {read(sent_gradient_), ids(slot_ids_), write(all_in_gradient_)});
    scatter(b, all_in_gradient_, dx);
    if (shared_ > 0) add(b, Pass::input_gradient, shared, dx);
  } else if (shared_ > 0) {
    dispatch.options.residual = true;
    b.compute(dispatch, {read(sent_gradient_), ids(slot_ids_), read(shared), write(dx)});
  } else {
    b.compute(dispatch, {read(sent_gradient_), ids(slot_ids_), write(dx)});
  }
}

void MixtureLayer::router_gradients(BlockBuilder& b, BlockBuilder& w) {
  const std::uint64_t k = m_.per_token;
  Kernel gates = gates_kernel(KernelKind::gates_backward, Pass::input_gradient);
  const bool balances = s_.workload.routing.auxiliary_loss > 0.0;
  gates.options.scaled = s_.scaled && balances;
  gates.options.loads = learned_ && balances;
  Operand operands[6];
  std::size_t n = 0;
  operands[n++] = read(gates_part_gradient_);
  operands[n++] = read(logits_);
  operands[n++] = own(choice_, k);
  if (gates.options.scaled) operands[n++] = read(s_.scalar.loss_scale);
  if (gates.options.loads) {
    operands[n++] = read(loads_);
    if (brings_all_) {
      operands[n - 1].count = tokens_ / routing_group(s_.workload) * m_.experts;
      operands[n - 1].member_of = s_.expert_axes;
    }
  }
  operands[n++] = write(logits_gradient_);
  b.compute(gates, std::span<const Operand>(operands, n));
  if (m_.router_bias) {
    b.compute(s_.kernel(KernelKind::bias_backward, Pass::weight_gradient, s_.rows, m_.experts),
              {read(logits_gradient_), gradient_of(s_, s_.layer, "ffn.router.bias")});
  }
  // A gradient in the memory of the weight comes after the last op that reads the weight.
  if (!s_.program[s_.layer.whole_gradients].reuses) router_weight(w);
}

void MixtureLayer::router_weight(BlockBuilder& w) {
  if (gate_) gate_->weight_gradient(w);
  Kernel weight = s_.kernel(KernelKind::gemm, Pass::weight_gradient, s_.hidden_width, m_.experts, s_.rows);
  weight.options.transpose_a = true;
  w.compute(weight, {read(norm2_out_), read(logits_gradient_), gradient_of(s_, s_.layer, "ffn.router.weight")});
}

void MixtureLayer::router_backward(BlockBuilder& b, BlockBuilder& w, BufferId dx) {
  Kernel k = s_.kernel(KernelKind::gemm, Pass::input_gradient, s_.rows, s_.hidden_width, m_.experts);
  k.options.transpose_b = true;
  b.compute(k, {read(logits_gradient_), weight_of(s_, s_.layer, "ffn.router.weight"), update(dx)});
  if (gate_) gate_->input_gradient(b, dx);
  if (s_.program[s_.layer.whole_gradients].reuses) router_weight(w);
}

}  // namespace orrery::lowering
