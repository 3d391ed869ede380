#include "core/program/lower/branch_end.hpp"

#include <utility>

namespace orrery::lowering {

BufferId BranchEnds::summed(BlockBuilder& b, BufferId partial, BufferId part) const {
  if (c_.tensor == 1) return partial;
  if (!c_.sequence_parallel) {
    b.seam(Collective::Kind::all_reduce, {update(partial)});
    return partial;
  }
  b.seam(Collective::Kind::reduce_scatter, {read(partial), write(part)});
  return part;
}

Kernel BranchEnds::kernel(KernelKind kind, Pass pass, const BranchEnd& end) const {
  Kernel k = c_.kernel(kind, pass, c_.rows, c_.hidden_width);
  if (c_.model.residual_scale != 1.0) k.scale = c_.model.residual_scale;
  if (drops()) {
    k.options.dropout = true;
    k.parameter = c_.workload.hidden_dropout;
    k.site = end.site;
  }
  return k;
}

void BranchEnds::close(BlockBuilder& b, const Module& module, const BranchEnd& end, const BranchBiases& biases,
                       Operand residual, Operand out) const {
  // The product is row-parallel and gives partial sums; the bias is added after the sum.
  const auto sum = [&] { return summed(b, end.out, end.part); };
  const auto sum_in_module = [&] {
    const BlockBuilder::Part part(b, *end.module);
    return sum();
  };
  BufferId x = end.summed ? end.part : end.module ? sum_in_module() : sum();
  // The sum with the stream takes the last bias, unless a norm or weights of features stand between.
  const char* last = nullptr;
  for (const char* bias : biases.of) {
    if (bias == nullptr) continue;
    const char* now = end.norm || end.gamma != nullptr ? bias : std::exchange(last, bias);
    if (now == nullptr) continue;
    b.compute(c_.kernel(KernelKind::bias_forward, Pass::forward, c_.rows, c_.hidden_width),
              {weight_of(c_, module, now), update(x)});
  }
  if (end.norm) {
    c_.sharding.norm_forward(c_, b, *end.norm, read(x), write(end.normed), write(end.stats));
    x = end.normed;
  }
  if (end.gamma != nullptr) {
    b.compute(c_.kernel(KernelKind::scale_features_forward, Pass::forward, c_.rows, c_.hidden_width),
              {read(x), weight_of(c_, module, end.gamma), write(end.normed)});
    x = end.normed;
  }
  Kernel k = kernel(KernelKind::residual_forward, Pass::forward, end);
  OperandArray operands{read(x)};
  if (last != nullptr) {
    k.options.bias = true;
    operands.add(weight_of(c_, module, last));
  }
  operands.add(residual);
  operands.add(out);
  if (drops()) operands.add(write(end.mask));
  b.compute(k, operands);
}

Operand BranchEnds::open(BlockBuilder& b, const Module& module, const BranchEnd& end, const BranchBiases& biases,
                         Operand gradient) const {
  Operand dy = gradient;
  if (drops()) {
    b.compute(kernel(KernelKind::dropout_backward, Pass::input_gradient, end),
              {gradient, read(end.mask), write(end.dropped)});
    dy = read(end.dropped);
  } else if (c_.model.residual_scale != 1.0) {
    b.compute(kernel(KernelKind::multiply, Pass::input_gradient, end), {gradient, write(end.dropped)});
    dy = read(end.dropped);
  }
  if (end.norm) {
    const BufferId x = c_.sequence_parallel ? end.part : end.out;
    b.compute(c_.kernel(KernelKind::fill, Pass::input_gradient, c_.rows, c_.hidden_width),
              {write(end.normed_gradient)});
    c_.sharding.norm_backward(c_, b, *end.norm, dy, read(x), read(end.stats), update(end.normed_gradient),
                              std::nullopt);
    dy = read(end.normed_gradient);
  }
  if (end.gamma != nullptr) dy = unscaled(b, module, end, dy);
  for (const char* bias : biases.of) {
    if (bias == nullptr || !c_.trains_weights()) continue;
    b.compute(c_.kernel(KernelKind::bias_backward, Pass::weight_gradient, c_.rows, c_.hidden_width),
              {dy, gradient_of(c_, module, bias)});
  }
  return end.summed ? dy : gathered(b, end, dy);
}

Operand BranchEnds::unscaled(BlockBuilder& b, const Module& module, const BranchEnd& end, Operand dy) const {
  b.compute(c_.kernel(KernelKind::scale_features_backward_input, Pass::input_gradient, c_.rows, c_.hidden_width),
            {dy, weight_of(c_, module, end.gamma), write(end.normed_gradient)});
  // After it, since the gradient may lie in the memory of the weight.
  if (c_.trains_weights()) {
    b.compute(c_.kernel(KernelKind::scale_features_backward_weight, Pass::weight_gradient, c_.rows, c_.hidden_width),
              {dy, read(c_.sequence_parallel ? end.part : end.out), gradient_of(c_, module, end.gamma)});
  }
  return read(end.normed_gradient);
}

Operand BranchEnds::gathered(BlockBuilder& b, const BranchEnd& end, Operand dy) const {
  if (!c_.sequence_parallel) return dy;
  // Nothing before it on the compute lane produces what the next stage sent.
  if (c_.pipeline > 1 && dy.buffer == c_.hidden_gradient) {
    b.after_tail(receive_lane(TransferLane::backward_receive));
  }
  b.seam(Collective::Kind::all_gather, {dy, write(end.whole)});
  return read(end.whole);
}

}  // namespace orrery::lowering
