#include "core/program/lower/tensor_1d.hpp"

namespace orrery::lowering {

// In 1D every tensor rank has the whole matrix and works on its own rows.  Its
// gradient over cut rows is summed as a norm's.
//
// On a grid the result must lie as the stream does, which a product that widens
// does not give in 3D.  So the matrix is cut by its outputs, along columns alone:
//
//     forward   the features of a row of ranks are gathered, each makes its own outputs
//     backward  each makes a part of every input's gradient, and these are summed and scattered

HeadTransform declare_head_transform(State& c) {
  const ShardDim feature{c.model.hidden, c.model.hidden, c.layout.stream_features, false};
  const auto rows = [&](const char* name, Role role, const ShardDim& columns) {
    return c.activation(name, role, Scope::microbatch, c.act, columns, c.sequence_parallel);
  };
  HeadTransform t;
  t.pre = rows("head.pre", Role::activation, feature);
  t.act = rows("head.act", Role::activation, feature);
  t.act_gradient = rows("head.act.gradient", Role::workspace, feature);
  t.pre_gradient = t.act_gradient;  // in place
  if (!c.grid) {
    t.input = c.hidden;
    t.input_gradient = c.hidden_gradient;
    return t;
  }
  t.gathered = declare_all_features(c, "head.hidden", Scope::microbatch);
  t.summed = declare_all_features(c, "head.hidden.gradient", Scope::microbatch);
  t.input = t.gathered.rows;
  t.input_gradient = t.summed.rows;
  return t;
}

void head_transform_forward(State& c, BlockBuilder& b, const HeadTransform& t) {
  if (c.grid) gather_features(c, b, Pass::forward, read(c.hidden), t.gathered);
  Kernel k = c.kernel(KernelKind::gemm, Pass::forward, c.rows, c.hidden_width, c.model.hidden);
  k.options.bias = true;
  b.compute(k, {read(t.input), weight_of(c, c.head, "dense.weight"), write(t.pre), weight_of(c, c.head, "dense.bias")});
  b.compute(c.kernel(KernelKind::gelu_forward, Pass::forward, c.rows, c.hidden_width), {read(t.pre), write(t.act)});
}

void head_transform_backward(State& c, BlockBuilder& b, const HeadTransform& t) {
  const std::uint64_t h = c.model.hidden, own = c.hidden_width;
  b.compute(c.kernel(KernelKind::gelu_backward, Pass::input_gradient, c.rows, own),
            {read(t.pre), update(t.pre_gradient)});
  Kernel input = c.kernel(KernelKind::gemm, Pass::input_gradient, c.rows, h, own);
  input.options.transpose_b = true;
  b.compute(input, {read(t.pre_gradient), weight_of(c, c.head, "dense.weight"), write(t.input_gradient)});
  if (c.grid) {
    sum_features(c, b, Pass::input_gradient, t.summed, c.hidden_gradient);
    gather_features(c, b, Pass::weight_gradient, read(c.hidden), t.gathered);
  }
  Kernel weight = c.kernel(KernelKind::gemm, Pass::weight_gradient, h, own, c.rows);
  weight.options.transpose_a = true;
  b.compute(weight, {read(t.input), read(t.pre_gradient), gradient_of(c, c.head, "dense.weight")});
  b.compute(c.kernel(KernelKind::bias_backward, Pass::weight_gradient, c.rows, own),
            {read(t.pre_gradient), gradient_of(c, c.head, "dense.bias")});
}

}  // namespace orrery::lowering
