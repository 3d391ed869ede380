#include "core/program/lower/tensor.hpp"

#include "core/base/diagnostics.hpp"

namespace orrery::lowering {

const TensorSharding& tensor_sharding(TensorAlgorithm algorithm) {
  switch (algorithm) {
    case TensorAlgorithm::one_d: return tensor_1d();
    case TensorAlgorithm::two_d: return tensor_2d();
    case TensorAlgorithm::two_half_d: return tensor_2_5d();
    case TensorAlgorithm::three_d: return tensor_3d();
  }
  ORRERY_ASSERT(false, algorithm);
  return tensor_1d();
}

namespace {

Operand at(const NormSite& site, Operand parameter) {
  parameter.layer_shift = site.layer_shift;
  return parameter;
}

}  // namespace

void note_norm_parameters(const ModelSpec& m, Kernel& k) {
  k.options.unweighted = !m.norm_weight;
  k.options.unbiased = m.norm_weight && m.norm == Norm::layer_norm && !m.norm_bias;
}

Operand norm_gamma(const State& c, const NormSite& site) { return at(site, weight_of(c, *site.module, site.weight)); }

void add_norm_weights(const State& c, const NormSite& site, OperandArray& operands) {
  if (c.model.norm_weight) operands.add(norm_gamma(c, site));
  if (norms_shift(c.model)) operands.add(at(site, weight_of(c, *site.module, site.bias)));
}

void add_norm_gradients(const State& c, const NormSite& site, OperandArray& operands) {
  if (c.model.norm_weight) operands.add(at(site, gradient_of(c, *site.module, site.weight)));
  if (norms_shift(c.model)) operands.add(at(site, gradient_of(c, *site.module, site.bias)));
}

bool shares_gradient(const State& c, const NormSite& site) {
  return c.model.norm_weight && c.trains_weights() &&
         c.program[gradient_of(c, *site.module, site.weight).buffer].reuses.has_value();
}

namespace {

KernelKind activation_kind(Activation activation, bool backward) {
  switch (activation) {
    case Activation::gelu: return backward ? KernelKind::gelu_backward : KernelKind::gelu_forward;
    case Activation::swiglu: return backward ? KernelKind::swiglu_backward : KernelKind::swiglu_forward;
    case Activation::geglu: return backward ? KernelKind::geglu_backward : KernelKind::geglu_forward;
    case Activation::relu: return backward ? KernelKind::relu_backward : KernelKind::relu_forward;
    case Activation::squared_relu:
      return backward ? KernelKind::squared_relu_backward : KernelKind::squared_relu_forward;
    case Activation::quick_gelu: return backward ? KernelKind::quick_gelu_backward : KernelKind::quick_gelu_forward;
  }
  ORRERY_ASSERT(false, activation);
  return KernelKind::gelu_forward;
}

}  // namespace

Kernel activation_kernel(const State& c, Pass pass, std::uint64_t rows, std::uint64_t width) {
  Kernel k = c.kernel(activation_kind(c.model.activation, pass != Pass::forward), pass, rows, width);
  k.parameter = c.model.gate_limit;
  return k;
}

Operand weight_of(const State& c, const Module& module, std::string_view slice) {
  const auto p = c.parameter(module, slice);
  return {module.whole_weights, View::Use::read, 0, p.offset, p.count, {}};
}

Operand gradient_of(const State& c, const Module& module, std::string_view slice) {
  const auto p = c.parameter(module, slice);
  const BufferId first = module.first_gradients;
  const bool in_first = p.offset + p.count <= c.program[first].count;
  return {in_first ? first : module.whole_gradients, View::Use::accumulate, 0, p.offset, p.count, {}};
}

BufferId flat_buffer(State& c, std::string name, Role role, Scope scope, DType dtype, std::uint64_t count) {
  Buffer b;
  b.name = std::move(name);
  b.role = role;
  b.scope = scope;
  b.dtype = dtype;
  b.count = count;
  return c.declare(std::move(b));
}

std::string stem(const Product& p) {
  const std::string name = p.weight;
  return name.substr(0, name.rfind('.'));
}

}  // namespace orrery::lowering
