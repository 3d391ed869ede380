#include "core/program/lower/tensor_1d.hpp"

namespace orrery::lowering {

Operand weight_of(const State& c, const Module& module, std::string_view slice) {
  const auto p = c.parameter(module, slice);
  return {module.whole_weights, View::Use::read, 0, p.offset, p.count, {}};
}

Operand gradient_of(const State& c, const Module& module, std::string_view slice) {
  const auto p = c.parameter(module, slice);
  return {module.whole_gradients, View::Use::accumulate, 0, p.offset, p.count, {}};
}

void norm_forward(const State& c, BlockBuilder& b, const NormSite& site, Operand x, Operand y, Operand stats) {
  const bool layer = c.model.norm == Norm::layer_norm;
  Kernel k = c.kernel(layer ? KernelKind::layer_norm_forward : KernelKind::rms_norm_forward, Pass::forward, c.rows,
                      c.model.hidden);
  k.parameter = c.model.norm_epsilon;
  const Operand gamma = weight_of(c, *site.module, site.weight);
  if (layer) {
    b.compute(k, {x, gamma, weight_of(c, *site.module, site.bias), y, stats});
  } else {
    b.compute(k, {x, gamma, y, stats});
  }
}

void norm_backward(const State& c, BlockBuilder& b, const NormSite& site, Operand dy, Operand x, Operand stats,
                   Operand dx) {
  const bool layer = c.model.norm == Norm::layer_norm;
  const Operand dgamma = gradient_of(c, *site.module, site.weight);
  Kernel weight = c.kernel(layer ? KernelKind::layer_norm_backward_weight : KernelKind::rms_norm_backward_weight,
                           Pass::weight_gradient, c.rows, c.model.hidden);
  if (layer) {
    b.compute(weight, {dy, x, stats, dgamma, gradient_of(c, *site.module, site.bias)});
  } else {
    b.compute(weight, {dy, x, stats, dgamma});
  }
  Kernel input = c.kernel(layer ? KernelKind::layer_norm_backward_input : KernelKind::rms_norm_backward_input,
                          Pass::input_gradient, c.rows, c.model.hidden);
  b.compute(input, {dy, x, weight_of(c, *site.module, site.weight), stats, dx});
}

void build_tensor_1d(State& c) {
  const ShardDim feature{c.model.hidden, c.model.hidden, {}, false};
  c.hidden = c.activation("hidden", Role::activation, Scope::layer_microbatch, c.act, feature, c.sequence_parallel);
  c.hidden_gradient =
      c.activation("hidden.gradient", Role::workspace, Scope::microbatch, c.act, feature, c.sequence_parallel);
  build_embedding(c);
  build_layer(c);
  build_head(c);
}

}  // namespace orrery::lowering
