#include "exec/kernels/convert.hpp"
#include "exec/kernels/named_operands.hpp"
#include "exec/kernels/reference/reference_kernels.hpp"

namespace orrery::reference {
namespace {

double element(const Operand& x, std::uint64_t at) {
  double value = 0.0;
  load_elements(x.dtype, x.data, at, 1, &value);
  return value;
}

}  // namespace

void gemm(const Kernel& k, std::span<const Operand> operands) {
  const NamedOperands o(k, operands);
  const Operand& c = o[OperandName::c];
  for (std::uint64_t i = 0; i < k.rows; ++i) {
    for (std::uint64_t j = 0; j < k.columns; ++j) {
      double sum = c.accumulate ? element(c, i * k.columns + j) : 0.0;
      for (std::uint64_t d = 0; d < k.depth; ++d) {
        const double a = element(o[OperandName::a], k.options.transpose_a ? d * k.rows + i : i * k.depth + d);
        const double b = element(o[OperandName::b], k.options.transpose_b ? j * k.depth + d : d * k.columns + j);
        sum += a * b;
      }
      if (k.options.bias) sum += element(o[OperandName::bias], j);
      store_elements(c.dtype, c.data, i * k.columns + j, 1, &sum);
    }
  }
}

}  // namespace orrery::reference
