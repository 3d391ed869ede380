#include "core/program/lower/tensor_1d.hpp"

namespace orrery::lowering {

// Every tensor rank has the whole matrix and works on its own rows.  Its
// gradient over cut rows is summed as a norm's.

HeadTransform declare_head_transform(State& c) {
  const ShardDim feature{c.model.hidden, c.model.hidden, {}, false};
  const auto rows = [&](const char* name, Role role) {
    return c.activation(name, role, Scope::microbatch, c.act, feature, c.sequence_parallel);
  };
  HeadTransform t;
  t.pre = rows("head.pre", Role::activation);
  t.act = rows("head.act", Role::activation);
  t.act_gradient = rows("head.act.gradient", Role::workspace);
  t.pre_gradient = t.act_gradient;  // in place
  return t;
}

void head_transform_forward(State& c, BlockBuilder& b, const HeadTransform& t) {
  Kernel k = c.kernel(KernelKind::gemm, Pass::forward, c.rows, c.model.hidden, c.model.hidden);
  k.options.bias = true;
  b.compute(k,
            {read(c.hidden), weight_of(c, c.head, "dense.weight"), write(t.pre), weight_of(c, c.head, "dense.bias")});
  b.compute(c.kernel(KernelKind::gelu_forward, Pass::forward, c.rows, c.model.hidden), {read(t.pre), write(t.act)});
}

void head_transform_backward(State& c, BlockBuilder& b, const HeadTransform& t) {
  const std::uint64_t h = c.model.hidden;
  b.compute(c.kernel(KernelKind::gelu_backward, Pass::input_gradient, c.rows, h),
            {read(t.pre), update(t.pre_gradient)});
  Kernel input = c.kernel(KernelKind::gemm, Pass::input_gradient, c.rows, h, h);
  input.options.transpose_b = true;
  b.compute(input, {read(t.pre_gradient), weight_of(c, c.head, "dense.weight"), write(c.hidden_gradient)});
  Kernel weight = c.kernel(KernelKind::gemm, Pass::weight_gradient, h, h, c.rows);
  weight.options.transpose_a = true;
  b.compute(weight, {read(c.hidden), read(t.pre_gradient), gradient_of(c, c.head, "dense.weight")});
  b.compute(c.kernel(KernelKind::bias_backward, Pass::weight_gradient, c.rows, h),
            {read(t.pre_gradient), gradient_of(c, c.head, "dense.bias")});
}

}  // namespace orrery::lowering
