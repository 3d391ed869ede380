#include "core/program/lower/base_weights.hpp"

#include <algorithm>

#include "core/program/base_weights.hpp"

namespace orrery::lowering {
namespace {

Kernel kernel_of(const State& c, const BaseMatrix& base, KernelKind kind, Pass pass) {
  const Adapters& a = *c.workload.adapters;
  Kernel k = c.kernel(kind, pass, base.rows, base.columns);
  k.site = static_cast<std::uint8_t>(a.base);
  k.options.scaled = a.double_quantization;
  return k;
}

}  // namespace

std::string base_module(std::string_view weight) { return "base." + std::string(weight.substr(0, weight.rfind('.'))); }

void quantize_base(const State& c, BlockBuilder& b, const BaseMatrix& base) {
  b.compute(kernel_of(c, base, KernelKind::quantize_weight, Pass::setup),
            {read(base.forward), write(base.codes), write(base.scales)});
}

Product with_full_weight(const State& c, BlockBuilder& b, const Product& p, Pass pass) {
  const auto base =
      std::find_if(c.base.begin(), c.base.end(), [&](const BaseMatrix& m) { return m.weight == p.weight; });
  if (base == c.base.end()) return p;
  Product full = p;
  full.brought = pass == Pass::forward ? base->forward : base->backward;
  b.compute(kernel_of(c, *base, KernelKind::dequantize_weight, pass),
            {read(base->codes), read(base->scales), write(full.brought)});
  return full;
}

}  // namespace orrery::lowering
