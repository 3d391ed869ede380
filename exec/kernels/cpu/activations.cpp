#include <algorithm>
#include <cmath>

#include "exec/kernels/cpu/eigen_here.hpp"
#include "exec/kernels/cpu/kernels.hpp"

// Activations and their gradients.  A function of one element has a value and a slope; both are made from the element
// and an exponential of it, so that exponentials are made for many elements at once.
namespace orrery::cpu {
namespace {

// gelu(x) = x/2 (1 + tanh(u)),  u = c (x + a x^3),  c = sqrt(2 / pi).  Source: Hendrycks and Gimpel, "Gaussian error
// linear units", 2016, the tanh form.  With e = exp(-2 u) and p = (1 + tanh u) / 2 = 1 / (1 + e):
//   gelu' = p + x p (1 - p) 2 u'
template <class T>
struct Gelu {
  static constexpr T scale = static_cast<T>(0.79788456080286535588L);
  static constexpr T cubic = static_cast<T>(0.044715L);
  static void prepare(const T* x, std::uint64_t n, T* e) {
    for (std::uint64_t i = 0; i < n; ++i) {
      const T u = scale * (x[i] + cubic * x[i] * x[i] * x[i]);
      e[i] = std::min(T{-2} * u, T{80});  // below overflow
    }
    exponentials(e, n);
  }
  static T value(T x, T e) { return x / (T{1} + e); }
  static T slope(T x, T e) {
    const T p = T{1} / (T{1} + e);
    const T du = scale * (T{1} + T{3} * cubic * x * x);
    return p + x * (p * (e * p)) * T{2} * du;  // 1 - p = e p, without cancellation
  }
};

// silu(x) = x s with the logistic function s = 1 / (1 + e), e = exp(-x);  silu' = s (1 + x (1 - s)).
template <class T>
struct Silu {
  static void prepare(const T* x, std::uint64_t n, T* e) {
    for (std::uint64_t i = 0; i < n; ++i) e[i] = std::min(-x[i], T{80});
    exponentials(e, n);
  }
  static T value(T x, T e) { return x / (T{1} + e); }
  static T slope(T x, T e) {
    const T s = T{1} / (T{1} + e);
    return s * (T{1} + x * (e * s));
  }
};

// x s with s = 1 / (1 + e), e = exp(-1.702 x), which is near gelu; its slope is s (1 + 1.702 x (1 - s)). Source: the
// released code of CLIP (Radford et al., 2021), QuickGELU.
template <class T>
struct QuickGelu {
  static constexpr T steep = static_cast<T>(1.702L);
  static void prepare(const T* x, std::uint64_t n, T* e) {
    for (std::uint64_t i = 0; i < n; ++i) e[i] = std::min(-steep * x[i], T{80});
    exponentials(e, n);
  }
  static T value(T x, T e) { return x / (T{1} + e); }
  static T slope(T x, T e) {
    const T s = T{1} / (T{1} + e);
    return s * (T{1} + steep * x * (e * s));
  }
};

template <class T>
struct Relu {
  static void prepare(const T*, std::uint64_t, T*) {}
  static T value(T x, T) { return std::max(x, T{0}); }
  static T slope(T x, T) { return x > T{0} ? T{1} : T{0}; }
};

// relu(x)^2 (So et al., "Primer", 2021).
template <class T>
struct SquaredRelu {
  static void prepare(const T*, std::uint64_t, T*) {}
  static T value(T x, T) {
    const T positive = std::max(x, T{0});
    return positive * positive;
  }
  static T slope(T x, T) { return T{2} * std::max(x, T{0}); }
};

/// y = f(pre).
template <class T, template <class> class F>
void forward(const Kernel&, const Operands& o, const KernelContext&) {
  T in[tile];
  T out[tile];
  T e[tile] = {};
  for (std::uint64_t at = 0; at < o[N::y].count; at += tile) {
    const std::uint64_t n = std::min(tile, o[N::y].count - at);
    const T* x = read(o[N::pre], at, n, in);
    T* y = target(o[N::y], at, out);
    F<T>::prepare(x, n, e);
#pragma GCC ivdep
    for (std::uint64_t i = 0; i < n; ++i) y[i] = F<T>::value(x[i], e[i]);
    finish(o[N::y], at, n, y);
  }
}

/// d *= f'(pre).
template <class T, template <class> class F>
void backward(const Kernel&, const Operands& o, const KernelContext&) {
  T in[tile];
  T out[tile];
  T e[tile] = {};
  for (std::uint64_t at = 0; at < o[N::d].count; at += tile) {
    const std::uint64_t n = std::min(tile, o[N::d].count - at);
    const T* x = read(o[N::pre], at, n, in);
    T* d = update(o[N::d], at, n, out);
    F<T>::prepare(x, n, e);
#pragma GCC ivdep
    for (std::uint64_t i = 0; i < n; ++i) d[i] *= F<T>::slope(x[i], e[i]);
    finish(o[N::d], at, n, d);
  }
}

/// A gate f(gate) up. `prepare` keeps what both passes make of a tile of gates.
template <class T, template <class> class F>
struct Gate {
  T e[tile];

  explicit Gate(const Kernel&) {}
  void prepare(const T* gate, std::uint64_t n) { F<T>::prepare(gate, n, e); }
  T value(std::uint64_t i, T gate) const { return F<T>::value(gate, e[i]); }
  T slope(std::uint64_t i, T gate) const { return F<T>::slope(gate, e[i]); }
  static T factor(T up) { return up; }
  static bool cuts(T) { return false; }
};

// gpt-oss's gate: y = (1 + clip(up, -L, L)) g s, g = min(gate, L), s = 1 / (1 + e), e = exp(-1.702 g), L the limit.
// Source: the released model's code (openai/gpt-oss, gpt_oss/torch/model.py, swiglu). What is cut passes no gradient.
template <class T>
struct LimitedGate {
  static constexpr T steep = static_cast<T>(1.702L);
  T limit;
  T g[tile];
  T e[tile];

  explicit LimitedGate(const Kernel& k) : limit(static_cast<T>(k.parameter)) {}
  void prepare(const T* gate, std::uint64_t n) {
    for (std::uint64_t i = 0; i < n; ++i) {
      g[i] = std::min(gate[i], limit);
      e[i] = std::min(-steep * g[i], T{80});  // below overflow
    }
    exponentials(e, n);
  }
  T value(std::uint64_t i, T) const { return g[i] / (T{1} + e[i]); }
  T slope(std::uint64_t i, T gate) const {
    const T s = T{1} / (T{1} + e[i]);
    return gate > limit ? T{0} : s * (T{1} + steep * g[i] * (e[i] * s));
  }
  T factor(T up) const { return T{1} + std::clamp(up, -limit, limit); }
  bool cuts(T up) const { return std::abs(up) > limit; }
};

/// pre[T, 2, columns]: gate, then up.
template <class T, class G>
void gated_forward(const Kernel& k, const Operands& o, const KernelContext&) {
  G f(k);
  T in_gate[tile];
  T in_up[tile];
  T out[tile];
  for (std::uint64_t row = 0; row < k.rows; ++row) {
    for (std::uint64_t c = 0; c < k.columns; c += tile) {
      const std::uint64_t n = std::min(tile, k.columns - c);
      const T* gate = read(o[N::pre], 2 * row * k.columns + c, n, in_gate);
      const T* up = read(o[N::pre], (2 * row + 1) * k.columns + c, n, in_up);
      T* y = target(o[N::y], row * k.columns + c, out);
      f.prepare(gate, n);
#pragma GCC ivdep
      for (std::uint64_t i = 0; i < n; ++i) y[i] = f.value(i, gate[i]) * f.factor(up[i]);
      finish(o[N::y], row * k.columns + c, n, y);
    }
  }
}

template <class T, class G>
void gated_backward(const Kernel& k, const Operands& o, const KernelContext&) {
  G f(k);
  T in_gate[tile];
  T in_up[tile];
  T in_dy[tile];
  T out_gate[tile];
  T out_up[tile];
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
      f.prepare(gate, n);
#pragma GCC ivdep
      for (std::uint64_t i = 0; i < n; ++i) {
        const T dup_i = f.cuts(up[i]) ? T{0} : dy[i] * f.value(i, gate[i]);
        dgate[i] = dy[i] * f.factor(up[i]) * f.slope(i, gate[i]);
        dup[i] = dup_i;
      }
      finish(o[N::dpre], at_gate, n, dgate);
      finish(o[N::dpre], at_up, n, dup);
    }
  }
}

template <class T>
void swiglu_forward(const Kernel& k, const Operands& o, const KernelContext& context) {
  k.parameter > 0.0 ? gated_forward<T, LimitedGate<T>>(k, o, context) : gated_forward<T, Gate<T, Silu>>(k, o, context);
}

template <class T>
void swiglu_backward(const Kernel& k, const Operands& o, const KernelContext& context) {
  k.parameter > 0.0 ? gated_backward<T, LimitedGate<T>>(k, o, context)
                    : gated_backward<T, Gate<T, Silu>>(k, o, context);
}

/// y = x, cut to -limit .. limit.
template <class T>
void clip_forward(const Kernel& k, const Operands& o, const KernelContext&) {
  T in[tile];
  T out[tile];
  const auto limit = static_cast<T>(k.parameter);
  for (std::uint64_t at = 0; at < o[N::y].count; at += tile) {
    const std::uint64_t n = std::min(tile, o[N::y].count - at);
    const T* x = read(o[N::pre], at, n, in);
    T* y = target(o[N::y], at, out);
    for (std::uint64_t i = 0; i < n; ++i) y[i] = std::clamp(x[i], -limit, limit);
    finish(o[N::y], at, n, y);
  }
}

template <class T>
void clip_backward(const Kernel& k, const Operands& o, const KernelContext&) {
  T in[tile];
  T out[tile];
  const auto limit = static_cast<T>(k.parameter);
  for (std::uint64_t at = 0; at < o[N::d].count; at += tile) {
    const std::uint64_t n = std::min(tile, o[N::d].count - at);
    const T* x = read(o[N::pre], at, n, in);
    T* d = update(o[N::d], at, n, out);
    for (std::uint64_t i = 0; i < n; ++i) d[i] = std::abs(x[i]) <= limit ? d[i] : T{0};
    finish(o[N::d], at, n, d);
  }
}

}  // namespace

std::span<const HostKernel> activation_kernels() {
  static constexpr HostKernel list[] = {
      {KernelKind::gelu_forward, forward<float, Gelu>, forward<double, Gelu>},
      {KernelKind::gelu_backward, backward<float, Gelu>, backward<double, Gelu>},
      {KernelKind::swiglu_forward, swiglu_forward<float>, swiglu_forward<double>},
      {KernelKind::swiglu_backward, swiglu_backward<float>, swiglu_backward<double>},
      {KernelKind::geglu_forward, gated_forward<float, Gate<float, Gelu>>, gated_forward<double, Gate<double, Gelu>>},
      {KernelKind::geglu_backward, gated_backward<float, Gate<float, Gelu>>,
       gated_backward<double, Gate<double, Gelu>>},
      {KernelKind::relu_forward, forward<float, Relu>, forward<double, Relu>},
      {KernelKind::relu_backward, backward<float, Relu>, backward<double, Relu>},
      {KernelKind::squared_relu_forward, forward<float, SquaredRelu>, forward<double, SquaredRelu>},
      {KernelKind::squared_relu_backward, backward<float, SquaredRelu>, backward<double, SquaredRelu>},
      {KernelKind::quick_gelu_forward, forward<float, QuickGelu>, forward<double, QuickGelu>},
      {KernelKind::quick_gelu_backward, backward<float, QuickGelu>, backward<double, QuickGelu>},
      {KernelKind::clip_forward, clip_forward<float>, clip_forward<double>},
      {KernelKind::clip_backward, clip_backward<float>, clip_backward<double>},
  };
  return list;
}

}  // namespace orrery::cpu
