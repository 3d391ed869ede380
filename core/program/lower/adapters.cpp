#include "core/program/lower/adapters.hpp"

#include "core/program/lower/base_weights.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace orrery::lowering {

ProductMatrices matrices_in(const State& c, std::string_view weight) {
  using enum AdaptedMatrix;
  if (weight == "attention.qkv.weight") return {{q, k, v}, c.kv_heads, c.heads / c.kv_heads, c.model.head_dim};
  if (weight == "attention.out.weight") return {{o}, 1, 1, c.hidden_width};
  if (weight == "ffn.down.weight") return {{down}, 1, 1, c.hidden_width};
  if (is_gated(c.model.activation)) return {{gate, up}, 1, 1, c.ffn};
  return {{up}, 1, 1, c.ffn};
}

std::uint8_t adapted_in(const State& c, const ProductMatrices& matrices) {
  std::uint8_t bits = 0;
  for (std::size_t i = 0; i < matrices.of.size(); ++i) {
    if (c.workload.adapters && c.workload.adapters->has(matrices.of[i]))
      bits = static_cast<std::uint8_t>(bits | 1U << i);
  }
  return bits;
}

std::string adapter_slice(std::string_view weight, char factor) {
  std::string name(weight.substr(0, weight.rfind('.')));
  return name + ".adapter." + factor;
}

AdaptedProducts::AdaptedProducts(State& c) : c_(c) {
  if (!c.workload.adapters) return;
  for (const char* weight : layer_products) {
    const std::uint8_t adapted = adapted_in(c, matrices_in(c, weight));
    if (adapted == 0) continue;
    const std::uint64_t width = c.workload.adapters->rank * static_cast<std::uint64_t>(std::popcount(adapted));
    const std::string name = adapter_slice(weight, 'u');
    const auto narrow = [&](const std::string& of, Role role) {
      return c.activation(of, role, Scope::layer_microbatch, c.act, {width, width, {}, false}, false);
    };
    narrow_.push_back({weight, narrow(name, Role::activation), narrow(name + ".gradient", Role::workspace)});
  }
}

const AdaptedProducts::Narrow* AdaptedProducts::beside(const Product& p) const {
  const auto found = std::find_if(narrow_.begin(), narrow_.end(),
                                  [&](const Narrow& n) { return std::string_view(n.weight) == p.weight; });
  return found == narrow_.end() ? nullptr : &*found;
}

namespace {

/// The kernel of a second factor.
Kernel second_factor(const State& c, const Product& p, KernelKind kind, Pass pass) {
  const ProductMatrices matrices = matrices_in(c, p.weight);
  Kernel k = c.kernel(kind, pass, c.tokens, p.out, c.workload.adapters->rank);
  k.batch = static_cast<std::uint32_t>(matrices.of.size());
  k.kv_heads = static_cast<std::uint32_t>(matrices.blocks);
  k.heads = static_cast<std::uint32_t>(matrices.first_members + matrices.of.size() - 1);
  k.head_dim = static_cast<std::uint32_t>(matrices.width);
  k.site = adapted_in(c, matrices);
  k.scale = c.workload.adapters->scale();
  return k;
}

/// Columns of A, which are those of u.
std::uint64_t narrow_width(const Kernel& second) { return second.depth * adapted_matrices_of(second); }

}  // namespace

void AdaptedProducts::forward(BlockBuilder& b, const Product& p, BufferId x, BufferId y) const {
  c_.sharding.forward(c_, b, with_full_weight(c_, b, p, Pass::forward), x, y);
  const Narrow* n = beside(p);
  if (n == nullptr) return;
  const Kernel second = second_factor(c_, p, KernelKind::adapter_forward, Pass::forward);
  b.compute(c_.kernel(KernelKind::gemm, Pass::forward, c_.tokens, narrow_width(second), p.in),
            {read(x), weight_of(c_, c_.adapters, adapter_slice(p.weight, 'a')), write(n->u)});
  b.compute(second, {read(n->u), weight_of(c_, c_.adapters, adapter_slice(p.weight, 'b')), update(y)});
}

void AdaptedProducts::input_gradient(BlockBuilder& b, const Product& p, Operand dy, BufferId dx) const {
  c_.sharding.input_gradient(c_, b, with_full_weight(c_, b, p, Pass::input_gradient), dy, dx);
  const Narrow* n = beside(p);
  if (n == nullptr) return;
  const Kernel second = second_factor(c_, p, KernelKind::adapter_backward_input, Pass::input_gradient);
  b.compute(second, {dy, weight_of(c_, c_.adapters, adapter_slice(p.weight, 'b')), write(n->du)});
  Kernel first = c_.kernel(KernelKind::gemm, Pass::input_gradient, c_.tokens, p.in, narrow_width(second));
  first.options.transpose_b = true;
  b.compute(first, {read(n->du), weight_of(c_, c_.adapters, adapter_slice(p.weight, 'a')), update(dx)});
}

void AdaptedProducts::weight_gradient(BlockBuilder& b, const Product& p, BufferId x, Operand dy) const {
  if (!c_.workload.adapters) return c_.sharding.weight_gradient(c_, b, p, x, dy);
  const Narrow* n = beside(p);
  if (n == nullptr) return;
  const Kernel second = second_factor(c_, p, KernelKind::adapter_backward_weight, Pass::weight_gradient);
  b.compute(second, {read(n->u), dy, gradient_of(c_, c_.adapters, adapter_slice(p.weight, 'b'))});
  Kernel first = c_.kernel(KernelKind::gemm, Pass::weight_gradient, p.in, narrow_width(second), c_.tokens);
  first.options.transpose_a = true;
  b.compute(first, {read(x), read(n->du), gradient_of(c_, c_.adapters, adapter_slice(p.weight, 'a'))});
}

bool AdaptedProducts::takes_input_again(const Product& p) const {
  return !c_.workload.adapters || beside(p) != nullptr;
}

}  // namespace orrery::lowering
