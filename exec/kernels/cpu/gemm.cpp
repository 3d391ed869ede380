#include "exec/kernels/cpu/eigen_here.hpp"
#include "exec/kernels/cpu/kernels.hpp"

namespace orrery::cpu {
namespace {

// Scratch places of this file.
enum : std::size_t { factor_a, factor_b, product_c, bias_row };

template <class T, class A, class B>
void multiply(bool add, const A& a, const B& b, MatrixMap<T>& c) {
  if (add) {
    c.noalias() += a * b;
  } else {
    c.noalias() = a * b;
  }
}

template <class T>
void gemm(const Kernel& k, const Operands& o, const KernelContext& context) {
  KernelScratch& scratch = *context.scratch;
  const Operand& out = o[N::c];
  const std::uint64_t m = k.rows;
  const std::uint64_t n = k.columns;
  const std::uint64_t d = k.depth;
  // The buffer of a factor that needs no conversion stays empty.
  const auto factor = [&](const Operand& x, std::size_t place) {
    return read(x, 0, x.count, x.dtype == dtype_of<T> ? nullptr : scratch.get<T>(place, x.count));
  };
  ORRERY_ASSERT(o[N::a].count == m * d && o[N::b].count == d * n && out.count == m * n, o[N::a].count, o[N::b].count,
                out.count);
  const T* a = factor(o[N::a], factor_a);
  const T* b = factor(o[N::b], factor_b);
  T* c = out.dtype == dtype_of<T> ? static_cast<T*>(out.data) : scratch.get<T>(product_c, m * n);
  const bool add = out.accumulate;
  if (add && out.dtype != dtype_of<T>) load_elements(out.dtype, out.data, 0, m * n, c);
  MatrixMap<T> product = matrix(c, m, n, n);
  if (k.options.transpose_a && k.options.transpose_b) {
    multiply(add, matrix(a, d, m, m).transpose(), matrix(b, n, d, d).transpose(), product);
  } else if (k.options.transpose_a) {
    multiply(add, matrix(a, d, m, m).transpose(), matrix(b, d, n, n), product);
  } else if (k.options.transpose_b) {
    multiply(add, matrix(a, m, d, d), matrix(b, n, d, d).transpose(), product);
  } else {
    multiply(add, matrix(a, m, d, d), matrix(b, d, n, n), product);
  }
  if (k.options.bias) {
    const T* bias = read(o[N::bias], 0, n, scratch.get<T>(bias_row, n));
    for (std::uint64_t row = 0; row < m; ++row) {
      T* r = c + row * n;
#pragma GCC ivdep
      for (std::uint64_t i = 0; i < n; ++i) r[i] += bias[i];
    }
  }
  finish(out, 0, m * n, c);
}

}  // namespace

std::span<const HostKernel> product_kernels() {
  static constexpr HostKernel list[] = {
      {KernelKind::gemm, gemm<float>, gemm<double>},
  };
  return list;
}

}  // namespace orrery::cpu
