#include "exec/kernels/device/product_types.hpp"

#include "exec/kernels/named_operands.hpp"

namespace orrery::device {

bool multiplies_types(const Kernel& k, std::span<const Operand> operands) {
  using N = OperandName;
  const NamedOperands o(k, operands);
  const auto type = [&](N name) { return o[name].dtype; };
  const auto alike = [&](N a, N b, N c) { return type(a) == type(b) && multiplies(type(a), type(c), k.compute); };
  switch (k.kind) {
    case KernelKind::gemm:
      return alike(N::a, N::b, N::c) || rounds_a_factor(type(N::a), type(N::b), type(N::c), k.compute);
    case KernelKind::adapter_forward: return alike(N::x, N::weight, N::y);
    case KernelKind::adapter_backward_input: return alike(N::dy, N::weight, N::dx);
    case KernelKind::adapter_backward_weight: return alike(N::x, N::dy, N::dweights);
    case KernelKind::attention_scores_forward: return alike(N::qkv, N::keys, N::scores);
    case KernelKind::attention_values_forward: return alike(N::weights, N::values, N::context);
    case KernelKind::attention_values_backward: return alike(N::dcontext, N::values, N::dweights);
    case KernelKind::attention_scores_backward: return alike(N::dscores, N::keys, N::dq);
    case KernelKind::attention_pairs_backward:
      return alike(N::dscores, N::qkv, N::dscores) && alike(N::weights, N::dcontext, N::weights);
    case KernelKind::attention_unfused_forward:
      return alike(N::qkv, N::probabilities, N::context) && type(N::qkv) == type(N::context);
    case KernelKind::attention_unfused_backward:
      return alike(N::dcontext, N::qkv, N::dqkv) && alike(N::dcontext, N::probabilities, N::dscores) &&
             type(N::dcontext) == type(N::dqkv) && type(N::dcontext) == type(N::dscores);
    default: return true;
  }
}

}  // namespace orrery::device
