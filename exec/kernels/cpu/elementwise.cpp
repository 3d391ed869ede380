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

/// out = gamma in, on every row.
template <class T>
void scale_rows(const Kernel& k, const Operand& in, const Operand& gamma, const Operand& out, KernelScratch& scratch) {
  const std::uint64_t n = k.columns;
  const T* g = read(gamma, 0, n, scratch.get<T>(0, n));
  T* from = scratch.get<T>(1, 2 * n);
  for (std::uint64_t row = 0; row < k.rows; ++row) {
    const T* x = read(in, row * n, n, from);
    T* y = target(out, row * n, from + n);
    for (std::uint64_t i = 0; i < n; ++i) y[i] = g[i] * x[i];
    finish(out, row * n, n, y);
  }
}

template <class T>
void scale_features_forward(const Kernel& k, const Operands& o, const KernelContext& context) {
  scale_rows<T>(k, o[N::x], o[N::gamma], o[N::y], *context.scratch);
}

template <class T>
void scale_features_backward_input(const Kernel& k, const Operands& o, const KernelContext& context) {
  scale_rows<T>(k, o[N::dy], o[N::gamma], o[N::dx], *context.scratch);
}

template <class T>
void scale_features_backward_weight(const Kernel& k, const Operands& o, const KernelContext& context) {
  KernelScratch& scratch = *context.scratch;
  const std::uint64_t n = k.columns;
  T* in = scratch.get<T>(0, 2 * n);
  T* sum = scratch.get<T>(1, n);
  std::fill_n(sum, n, T{0});
  for (std::uint64_t row = 0; row < k.rows; ++row) {
    const T* dy = read(o[N::dy], row * n, n, in);
    const T* x = read(o[N::x], row * n, n, in + n);
    for (std::uint64_t i = 0; i < n; ++i) sum[i] += dy[i] * x[i];
  }
  T* d = update(o[N::dgamma], 0, n, in);
  for (std::uint64_t i = 0; i < n; ++i) d[i] += sum[i];
  finish(o[N::dgamma], 0, n, d);
}

/// y[row] = the mean over depth of x[depth][row].
template <class T>
void mean_rows_forward(const Kernel& k, const Operands& o, const KernelContext& context) {
  KernelScratch& scratch = *context.scratch;
  const std::uint64_t n = k.columns;
  T* in = scratch.get<T>(0, 2 * n);
  T* sum = scratch.get<T>(1, n);
  const T share = T{1} / static_cast<T>(k.depth);
  for (std::uint64_t row = 0; row < k.rows; ++row) {
    std::fill_n(sum, n, T{0});
    for (std::uint64_t d = 0; d < k.depth; ++d) {
      const T* x = read(o[N::x], (d * k.rows + row) * n, n, in);
      for (std::uint64_t i = 0; i < n; ++i) sum[i] += x[i];
    }
    T* y = target(o[N::y], row * n, in + n);
    for (std::uint64_t i = 0; i < n; ++i) y[i] = sum[i] * share;
    finish(o[N::y], row * n, n, y);
  }
}

template <class T>
void mean_rows_backward(const Kernel& k, const Operands& o, const KernelContext& context) {
  KernelScratch& scratch = *context.scratch;
  const std::uint64_t n = k.columns;
  T* in = scratch.get<T>(0, n);
  T* out = scratch.get<T>(1, n);
  const T share = T{1} / static_cast<T>(k.depth);
  for (std::uint64_t row = 0; row < k.depth * k.rows; ++row) {
    const T* dy = read(o[N::dy], row % k.rows * n, n, in);
    T* dx = target(o[N::dx], row * n, out);
    for (std::uint64_t i = 0; i < n; ++i) dx[i] = dy[i] * share;
    finish(o[N::dx], row * n, n, dx);
  }
}

}  // namespace

std::span<const HostKernel> elementwise_kernels() {
  static constexpr HostKernel list[] = {
      {KernelKind::bias_forward, bias_forward<float>, bias_forward<double>},
      {KernelKind::bias_backward, bias_backward<float>, bias_backward<double>},
      {KernelKind::multiply, multiply<float>, multiply<double>},
      {KernelKind::scale_features_forward, scale_features_forward<float>, scale_features_forward<double>},
      {KernelKind::scale_features_backward_input, scale_features_backward_input<float>,
       scale_features_backward_input<double>},
      {KernelKind::scale_features_backward_weight, scale_features_backward_weight<float>,
       scale_features_backward_weight<double>},
      {KernelKind::mean_rows_forward, mean_rows_forward<float>, mean_rows_forward<double>},
      {KernelKind::mean_rows_backward, mean_rows_backward<float>, mean_rows_backward<double>},
  };
  return list;
}

}  // namespace orrery::cpu
