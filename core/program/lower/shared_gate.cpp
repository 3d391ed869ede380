#include "core/program/lower/shared_gate.hpp"

namespace orrery::lowering {
namespace {

constexpr const char* gate_weight = "ffn.shared.gate.weight";

}  // namespace

SharedGate::SharedGate(State& s, BufferId x) : s_(s), x_(x) {
  const bool sp = s.sequence_parallel;
  const auto by_token = [&](const char* name, Role role, DType dtype, std::uint64_t width, bool cut) {
    return s.activation(name, role, Scope::layer_microbatch, dtype, {width, width, {}, false}, cut);
  };
  logits_ = by_token("shared.gate", Role::statistic, s.state, 1, false);
  logits_part_ = sp ? by_token("shared.gate.part", Role::workspace, s.state, 1, true) : logits_;
  gated_ = by_token("shared.gated", Role::workspace, s.act, s.model.hidden, false);
  shared_gradient_ = by_token("shared.out.gradient", Role::workspace, s.act, s.model.hidden, false);
  logits_gradient_ = by_token("shared.gate.gradient", Role::workspace, s.state, 1, false);
  logits_part_gradient_ =
      sp ? by_token("shared.gate.part.gradient", Role::workspace, s.state, 1, true) : logits_gradient_;
}

void SharedGate::logits_forward(BlockBuilder& b) {
  b.compute(s_.kernel(KernelKind::gemm, Pass::forward, s_.rows, 1, s_.hidden_width),
            {read(x_), weight_of(s_, s_.layer, gate_weight), write(logits_part_)});
  if (s_.sequence_parallel) b.seam(Collective::Kind::all_gather, {read(logits_part_), write(logits_)});
}

void SharedGate::forward(BlockBuilder& b, BufferId shared) {
  b.compute(s_.kernel(KernelKind::gate_forward, Pass::forward, s_.tokens, s_.model.hidden),
            {read(shared), read(logits_), write(gated_)});
}

Operand SharedGate::backward(BlockBuilder& b, Operand dy, BufferId shared) {
  b.compute(s_.kernel(KernelKind::gate_backward, Pass::input_gradient, s_.tokens, s_.model.hidden),
            {dy, read(shared), read(logits_), write(shared_gradient_), write(logits_gradient_)});
  if (s_.sequence_parallel) {
    b.seam(Collective::Kind::reduce_scatter, {read(logits_gradient_), write(logits_part_gradient_)});
  } else if (s_.tensor > 1) {
    b.seam(Collective::Kind::all_reduce, {update(logits_gradient_)});
  }
  return read(shared_gradient_);
}

void SharedGate::weight_gradient(BlockBuilder& w) {
  Kernel k = s_.kernel(KernelKind::gemm, Pass::weight_gradient, s_.hidden_width, 1, s_.rows);
  k.options.transpose_a = true;
  w.compute(k, {read(x_), read(logits_part_gradient_), gradient_of(s_, s_.layer, gate_weight)});
}

void SharedGate::input_gradient(BlockBuilder& b, BufferId dx) {
  Kernel k = s_.kernel(KernelKind::gemm, Pass::input_gradient, s_.rows, s_.hidden_width, 1);
  k.options.transpose_b = true;
  b.compute(k, {read(logits_part_gradient_), weight_of(s_, s_.layer, gate_weight), update(dx)});
}

}  // namespace orrery::lowering
