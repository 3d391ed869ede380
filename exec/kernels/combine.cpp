#include "exec/kernels/combine.hpp"

#include <algorithm>

#include "core/base/diagnostics.hpp"
#include "exec/kernels/convert.hpp"

namespace orrery {
namespace {

template <class Stored, class Load, class Store>
void combine_as(Collective::Reduction reduction, void* sum_bytes, const void* part_bytes, std::uint64_t count,
                Load load, Store store) {
  auto* sum = static_cast<Stored*>(sum_bytes);
  const auto* part = static_cast<const Stored*>(part_bytes);
  switch (reduction) {
    case Collective::Reduction::sum:
      for (std::uint64_t i = 0; i < count; ++i) sum[i] = store(load(sum[i]) + load(part[i]));
      return;
    case Collective::Reduction::max:
      for (std::uint64_t i = 0; i < count; ++i) sum[i] = store(std::max(load(sum[i]), load(part[i])));
      return;
  }
}

constexpr auto same = [](auto x) { return x; };

}  // namespace

void combine(DType dtype, Collective::Reduction reduction, void* sum, const void* part, std::uint64_t count) {
  switch (dtype) {
    case DType::f64: return combine_as<double>(reduction, sum, part, count, same, same);
    case DType::f32: return combine_as<float>(reduction, sum, part, count, same, same);
    case DType::bf16: return combine_as<std::uint16_t>(reduction, sum, part, count, from_bf16, bf16_of);
    case DType::f16: return combine_as<std::uint16_t>(reduction, sum, part, count, from_f16, f16_of);
    case DType::i32:
    case DType::u8:
    case DType::f8: break;
  }
  ORRERY_ASSERT(false, dtype);
}

}  // namespace orrery
