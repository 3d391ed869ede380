#include "tests/unit/exec/kernel_memory.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/random.hpp"

namespace orrery::test {

Memory Memory::random(DType dtype, std::uint64_t count, std::uint64_t stream, double scale) {
  Memory m(dtype, count);
  for (std::uint64_t i = 0; i < count; ++i) m.set(i, scale * random_normal(11, stream, i));
  return m;
}

Memory Memory::of(DType dtype, const std::vector<double>& values) {
  Memory m(dtype, values.size());
  for (std::uint64_t i = 0; i < values.size(); ++i) m.set(i, values[i]);
  return m;
}

Memory whole_numbers(const std::vector<std::int32_t>& x) {
  Memory m(DType::i32, x.size());
  std::copy(x.begin(), x.end(), static_cast<std::int32_t*>(m.operand().data));
  return m;
}

double error(const Memory& a, const Memory& b, double least) {
  double difference = a.count() == b.count() ? 0.0 : std::numeric_limits<double>::infinity();
  double largest = least;
  for (std::uint64_t i = 0; i < std::min(a.count(), b.count()); ++i) {
    const double d = std::abs(a[i] - b[i]);
    difference = std::isnan(d) ? std::numeric_limits<double>::infinity() : std::max(difference, d);
    largest = std::max(largest, std::abs(b[i]));
  }
  return difference == 0.0 ? 0.0 : difference / largest;
}

void run(const Kernel& k, std::vector<Operand> operands, KernelContext context) {
  KernelScratch scratch;
  context.scratch = &scratch;
  run_kernel(k, operands, context);
}

Kernel kernel(KernelKind kind, DType t, std::uint64_t rows, std::uint64_t columns, std::uint64_t depth) {
  Kernel k;
  k.kind = kind;
  k.compute = t;
  k.rows = rows;
  k.columns = columns;
  k.depth = depth;
  return k;
}

double tolerance(DType t) {
  switch (t) {
    case DType::f64: return 100 * 0x1p-53;
    case DType::f32: return 100 * 0x1p-24;
    case DType::bf16: return 4 * 0x1p-8;
    case DType::f16: return 4 * 0x1p-11;
    case DType::i32:
    case DType::u8:
    case DType::f8: break;
  }
  return 0.0;
}

}  // namespace orrery::test
