#include <algorithm>
#include <cmath>

#include "exec/kernels/cpu/kernels.hpp"

// Biases of experts, and the gate of the experts that every token visits.
namespace orrery::cpu {
namespace {

enum : std::size_t { row_in, row_more, row_out, row_sums };

template <class T>
T sigmoid(T x) {
  return T{1} / (T{1} + std::exp(-x));
}

template <class T>
void expert_bias_backward(const Kernel& k, const Operands& o, const KernelContext& context) {
  KernelScratch& scratch = *context.scratch;
  const std::uint64_t n = k.columns, all = k.batch * n;
  const auto* experts = static_cast<const std::int32_t*>(o[N::experts].data);
  T* in = scratch.get<T>(row_in, n);
  T* sums = scratch.get<T>(row_sums, all);
  std::fill_n(sums, all, T{0});
  for (std::uint64_t row = 0; row < k.rows; ++row) {
    if (experts[row] < 0) continue;
    const T* dy = read(o[N::dy], row * n, n, in);
    T* sum = sums + static_cast<std::uint64_t>(experts[row]) * n;
    for (std::uint64_t i = 0; i < n; ++i) sum[i] += dy[i];
  }
  T* total = update(o[N::dbias], 0, all, scratch.get<T>(row_out, all));
  const auto scale = static_cast<T>(k.scale == 0.0 ? 1.0 : k.scale);
  for (std::uint64_t i = 0; i < all; ++i) total[i] += scale * sums[i];
  finish(o[N::dbias], 0, all, total);
}

template <class T>
void gate_forward(const Kernel& k, const Operands& o, const KernelContext& context) {
  KernelScratch& scratch = *context.scratch;
  const std::uint64_t n = k.columns;
  T* in = scratch.get<T>(row_in, n);
  T* out = scratch.get<T>(row_out, n);
  for (std::uint64_t row = 0; row < k.rows; ++row) {
    const T gate = sigmoid(static_cast<T>(read_scalar(o[N::logits], row)));
    const T* x = read(o[N::x], row * n, n, in);
    T* y = target(o[N::y], row * n, out);
    for (std::uint64_t i = 0; i < n; ++i) y[i] = gate * x[i];
    finish(o[N::y], row * n, n, y);
  }
}

// With the gate s = sigmoid(a):  dx = s dy,  da = s (1 - s) sum of dy x.
template <class T>
void gate_backward(const Kernel& k, const Operands& o, const KernelContext& context) {
  KernelScratch& scratch = *context.scratch;
  const std::uint64_t n = k.columns;
  T* in_dy = scratch.get<T>(row_in, n);
  T* in_x = scratch.get<T>(row_more, n);
  T* out = scratch.get<T>(row_out, n);
  for (std::uint64_t row = 0; row < k.rows; ++row) {
    const T gate = sigmoid(static_cast<T>(read_scalar(o[N::logits], row)));
    const T* dy = read(o[N::dy], row * n, n, in_dy);
    const T* x = read(o[N::x], row * n, n, in_x);
    const T sum = sum_over<T>(n, [&](std::uint64_t i) { return dy[i] * x[i]; });
    T* dx = target(o[N::dx], row * n, out);
    for (std::uint64_t i = 0; i < n; ++i) dx[i] = gate * dy[i];
    finish(o[N::dx], row * n, n, dx);
    write_scalar(o[N::dlogits], static_cast<double>(gate * (T{1} - gate) * sum), row);
  }
}

}  // namespace

std::span<const HostKernel> expert_row_kernels() {
  static constexpr HostKernel list[] = {
      {KernelKind::expert_bias_backward, expert_bias_backward<float>, expert_bias_backward<double>},
      {KernelKind::gate_forward, gate_forward<float>, gate_forward<double>},
      {KernelKind::gate_backward, gate_backward<float>, gate_backward<double>},
  };
  return list;
}

}  // namespace orrery::cpu
