#include <algorithm>

#include "exec/kernels/cpu/kernels.hpp"

namespace orrery::cpu {
namespace {

template <class T>
void bias_forward(const Kernel& k, const Operands& o, const KernelContext& context) {
  KernelScratch& scratch = *context.scratch;
  const std::uint64_t n = k.columns;
  const T* bias = read(o[N::bias], 0, n, scratch.get<T>(0, n));
  T* in = scratch.get<T>(1, n);
  for (std::uint64_t row = 0; row < k.rows; ++row) {
    T* x = update(o[N::x], row * n, n, in);
    for (std::uint64_t i = 0; i < n; ++i) x[i] += bias[i];
    finish(o[N::x], row * n, n, x);
  }
}

template <class T>
void bias_backward(const Kernel& k, const Operands& o, const KernelContext& context) {
  KernelScratch& scratch = *context.scratch;
  const std::uint64_t n = k.columns;
  T* in = scratch.get<T>(0, n);
  T* sum = scratch.get<T>(1, n);
  std::fill_n(sum, n, T{0});
  for (std::uint64_t row = 0; row < k.rows; ++row) {
    const T* dy = read(o[N::dy], row * n, n, in);
    for (std::uint64_t i = 0; i < n; ++i) sum[i] += dy[i];
  }
  T* d = update(o[N::dbias], 0, n, in);
  for (std::uint64_t i = 0; i < n; ++i) d[i] += sum[i];
  finish(o[N::dbias], 0, n, d);
}

/// y = scale x.
template <class T>
void multiply(const Kernel& k, const Operands& o, const KernelContext&) {
  T in[tile];
  T out[tile];
  const auto scale = static_cast<T>(k.scale);
  for (std::uint64_t at = 0; at < o[N::y].count; at += tile) {
    const std::uint64_t n = std::min(tile, o[N::y].count - at);
    const T* x = read(o[N::x], at, n, in);
    T* y = target(o[N::y], at, out);
    for (std::uint64_t i = 0; i < n; ++i) y[i] = scale * x[i];
    finish(o[N::y], at, n, y);
  }
}

}  // namespace

std::span<const HostKernel> elementwise_kernels() {
  static constexpr HostKernel list[] = {
      {KernelKind::bias_forward, bias_forward<float>, bias_forward<double>},
      {KernelKind::bias_backward, bias_backward<float>, bias_backward<double>},
      {KernelKind::multiply, multiply<float>, multiply<double>},
  };
  return list;
}

}  // namespace orrery::cpu
