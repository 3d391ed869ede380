#include "core/program/lower/mixture_layer.hpp"

#include "core/spec/routing.hpp"

namespace orrery::lowering {
namespace {

constexpr ExpertMatrix up_matrix{"ffn.experts.up.weight", "ffn.experts.up.bias", true};
constexpr ExpertMatrix down_matrix{"ffn.experts.down.weight", "ffn.experts.down.bias", false};

}  // namespace

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

void MixtureLayer::scatter_beside(BlockBuilder& b, Pass pass, BufferId all, BufferId shared, BufferId own) {
  if (shared_ == 0) return scatter(b, all, own);
  scatter(b, all, sums_);
  b.compute(s_.kernel(KernelKind::residual_forward, pass, tokens_, s_.model.hidden),
            {read(sums_), read(shared), write(own)});
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
    const BlockBuilder::Part part(b, RecomputeModule::shared_experts);
    shared_sharding().forward(s_, b, shared_up(), x, shared_pre_);
    activate(b, s_.tokens, shared_, shared_pre_, shared_act_);
    shared_sharding().forward(s_, b, shared_down(), shared_act_, shared_out_);
    if (gate_) gate_->forward(b, shared_out_);
    if (folded_) {
      b.seam(Collective::Kind::reduce_scatter, {read(gate_ ? gate_->gated() : shared_out_), write(shared_part_)});
    }
  }
  expert_forward(b, up_matrix, arrived_, pre_, h, up);
  {
    const BlockBuilder::Part part(b, RecomputeModule::moe_act);
    activate(b, slots_, width_, pre_, act_);
  }
  expert_forward(b, down_matrix, act_, made_, width_, h);
  send(b, made_, returned_);
  Kernel combine = tokens_kernel(KernelKind::combine_forward, Pass::forward, h);
  const BufferId shared = folded_ ? shared_part_ : gate_ ? gate_->gated() : shared_out_;
  if (brings_all_) {
    b.compute(combine, {read(returned_), ids(slot_ids_), read(all_gates_), write(all_out_)});
    scatter_beside(b, Pass::forward, all_out_, shared, y);
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
    scatter_beside(b, Pass::input_gradient, all_in_gradient_, shared, dx);
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
