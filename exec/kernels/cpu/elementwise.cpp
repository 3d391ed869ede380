#include <algorithm>

#include "exec/kernels/cpu/eigen_here.hpp"
#include "exec/kernels/cpu/kernels.hpp"

namespace orrery::cpu {
namespace {

// gelu(x) = x/2 (1 + tanh(u)),  u = c (x + a x^3).  Source: Hendrycks and
// Gimpel, "Gaussian error linear units", 2016, the tanh form.
template <class T>
constexpr T gelu_scale = static_cast<T>(0.79788456080286535588L);  // c = sqrt(2 / pi)
template <class T>
constexpr T gelu_cubic = static_cast<T>(0.044715L);

/// e[i] = exp(-2 u(x[i])), held below overflow: (1 + tanh u) / 2 = 1 / (1 + e).
template <class T>
void gelu_exponentials(const T* x, std::uint64_t n, T* e) {
  for (std::uint64_t i = 0; i < n; ++i) {
    const T u = gelu_scale<T> * (x[i] + gelu_cubic<T> * x[i] * x[i] * x[i]);
    e[i] = std::min(T{-2} * u, T{80});
  }
  exponentials(e, n);
}

/// e[i] = exp(-x[i]), held below overflow: the logistic function is 1 / (1 + e).
template <class T>
void logistic_exponentials(const T* x, std::uint64_t n, T* e) {
  for (std::uint64_t i = 0; i < n; ++i) e[i] = std::min(-x[i], T{80});
  exponentials(e, n);
}

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

template <class T>
void gelu_forward(const Kernel&, const Operands& o, const KernelContext&) {
  T in[tile];
  T out[tile];
  T e[tile];
  for (std::uint64_t at = 0; at < o[N::y].count; at += tile) {
    const std::uint64_t n = std::min(tile, o[N::y].count - at);
    const T* x = read(o[N::pre], at, n, in);
    T* y = target(o[N::y], at, out);
    gelu_exponentials(x, n, e);
#pragma GCC ivdep
    for (std::uint64_t i = 0; i < n; ++i) y[i] = x[i] / (T{1} + e[i]);
    finish(o[N::y], at, n, y);
  }
}

// With p = (1 + tanh u) / 2:  gelu' = p + x p (1 - p) 2 u'.
template <class T>
void gelu_backward(const Kernel&, const Operands& o, const KernelContext&) {
  T in[tile];
  T out[tile];
  T e[tile];
  for (std::uint64_t at = 0; at < o[N::d].count; at += tile) {
    const std::uint64_t n = std::min(tile, o[N::d].count - at);
    const T* x = read(o[N::pre], at, n, in);
    T* d = update(o[N::d], at, n, out);
    gelu_exponentials(x, n, e);
#pragma GCC ivdep
    for (std::uint64_t i = 0; i < n; ++i) {
      const T p = T{1} / (T{1} + e[i]);
      const T du = gelu_scale<T> * (T{1} + T{3} * gelu_cubic<T> * x[i] * x[i]);
      d[i] *= p + x[i] * (p * (e[i] * p)) * T{2} * du;  // 1 - p = e p, without cancellation
    }
    finish(o[N::d], at, n, d);
  }
}

template <class T>
void swiglu_forward(const Kernel& k, const Operands& o, const KernelContext&) {
  T in_gate[tile];
  T in_up[tile];
  T out[tile];
  T e[tile];
  for (std::uint64_t row = 0; row < k.rows; ++row) {
    for (std::uint64_t c = 0; c < k.columns; c += tile) {
      const std::uint64_t n = std::min(tile, k.columns - c);
      const T* gate = read(o[N::pre], 2 * row * k.columns + c, n, in_gate);
      const T* up = read(o[N::pre], (2 * row + 1) * k.columns + c, n, in_up);
      T* y = target(o[N::y], row * k.columns + c, out);
      logistic_exponentials(gate, n, e);
#pragma GCC ivdep
      for (std::uint64_t i = 0; i < n; ++i) y[i] = gate[i] / (T{1} + e[i]) * up[i];
      finish(o[N::y], row * k.columns + c, n, y);
    }
  }
}

// silu' = s (1 + x (1 - s)), where s is the logistic function.
template <class T>
void swiglu_backward(const Kernel& k, const Operands& o, const KernelContext&) {
  T in_gate[tile];
  T in_up[tile];
  T in_dy[tile];
  T out_gate[tile];
  T out_up[tile];
  T e[tile];
  for (std::uint64_t row = 0; row < k.rows; ++row) {
    for (std::uint64_t c = 0; c < k.columns; c += tile) {
      const std::uint64_t n = std::min(tile, k.columns - c);
      const std::uint64_t at_gate = 2 * row * k.columns + c;
      const std::uint64_t at_up = at_gate + k.columns;
      const T* gate = read(o[N::pre], at_gate, n, in_gate);
      const T* up = read(o[N::pre], at_up, n, in_up);
      const T* dy = read(o[N::dy], row * k.columns + c, n, in_dy);
      T* dgate = target(o[N::dpre], at_gate, out_gate);
      T* dup = target(o[N::dpre], at_up, out_up);
      logistic_exponentials(gate, n, e);
#pragma GCC ivdep
      for (std::uint64_t i = 0; i < n; ++i) {
        const T s = T{1} / (T{1} + e[i]);
        const T dup_i = dy[i] * gate[i] * s;
        dgate[i] = dy[i] * up[i] * s * (T{1} + gate[i] * (e[i] * s));
        dup[i] = dup_i;
      }
      finish(o[N::dpre], at_gate, n, dgate);
      finish(o[N::dpre], at_up, n, dup);
    }
  }
}

}  // namespace

std::span<const HostKernel> elementwise_kernels() {
  static constexpr HostKernel list[] = {
      {KernelKind::bias_forward, bias_forward<float>, bias_forward<double>},
      {KernelKind::bias_backward, bias_backward<float>, bias_backward<double>},
      {KernelKind::gelu_forward, gelu_forward<float>, gelu_forward<double>},
      {KernelKind::gelu_backward, gelu_backward<float>, gelu_backward<double>},
      {KernelKind::swiglu_forward, swiglu_forward<float>, swiglu_forward<double>},
      {KernelKind::swiglu_backward, swiglu_backward<float>, swiglu_backward<double>},
  };
  return list;
}

}  // namespace orrery::cpu
