#pragma once

#include <cmath>

#include "exec/kernels/cpu/dropout_key.hpp"
#include "exec/kernels/device/global_place.hpp"
#include "exec/kernels/device/launcher.hpp"

/// Kernels that treat every element alike, and column sums.
namespace orrery::device {

// Functions of one element and their slopes, as in exec/kernels/cpu/activations.cpp, which has their sources.
template <class T>
struct Gelu {
  [[nodiscard]] static ORRERY_ON_DEVICE T exponential(T x) {
    const T u = static_cast<T>(0.79788456080286535588) * (x + static_cast<T>(0.044715) * x * x * x);
    const T power = T{-2} * u;
    return std::exp(power < T{80} ? power : T{80});  // below overflow
  }
  [[nodiscard]] static ORRERY_ON_DEVICE T value(T x) { return x / (T{1} + exponential(x)); }
  [[nodiscard]] static ORRERY_ON_DEVICE T slope(T x) {
    const T e = exponential(x);
    const T p = T{1} / (T{1} + e);
    const T du = static_cast<T>(0.79788456080286535588) * (T{1} + T{3} * static_cast<T>(0.044715) * x * x);
    return p + x * (p * (e * p)) * T{2} * du;  // 1 - p = e p, without cancellation
  }
};
template <class T>
struct Silu {
  [[nodiscard]] static ORRERY_ON_DEVICE T exponential(T x) { return std::exp(-x < T{80} ? -x : T{80}); }
  [[nodiscard]] static ORRERY_ON_DEVICE T value(T x) { return x / (T{1} + exponential(x)); }
  [[nodiscard]] static ORRERY_ON_DEVICE T slope(T x) {
    const T e = exponential(x);
    const T s = T{1} / (T{1} + e);
    return s * (T{1} + x * (e * s));
  }
};
template <class T>
struct Relu {
  [[nodiscard]] static ORRERY_ON_DEVICE T value(T x) { return x > T{0} ? x : T{0}; }
  [[nodiscard]] static ORRERY_ON_DEVICE T slope(T x) { return x > T{0} ? T{1} : T{0}; }
};
template <class T>
struct SquaredRelu {
  [[nodiscard]] static ORRERY_ON_DEVICE T value(T x) { return x > T{0} ? x * x : T{0}; }
  [[nodiscard]] static ORRERY_ON_DEVICE T slope(T x) { return x > T{0} ? T{2} * x : T{0}; }
};

/// x sigmoid(1.702 x), as on the host.
template <class T>
struct QuickGelu {
  static constexpr T steep = static_cast<T>(1.702L);
  [[nodiscard]] static ORRERY_ON_DEVICE T sigmoid(T x) { return T{1} / (T{1} + Silu<T>::exponential(steep * x)); }
  [[nodiscard]] static ORRERY_ON_DEVICE T value(T x) { return x * sigmoid(x); }
  [[nodiscard]] static ORRERY_ON_DEVICE T slope(T x) {
    const T s = sigmoid(x);
    return s * (T{1} + steep * x * (T{1} - s));
  }
};

template <class T, class F>
struct ActivationForward {
  Elements x, y;
  ORRERY_ON_DEVICE void operator()(std::uint64_t i) const { y.store(i, F::value(x.load<T>(i))); }
};
template <class T, class F>
struct ActivationBackward {
  Elements x, d;
  ORRERY_ON_DEVICE void operator()(std::uint64_t i) const { d.store(i, d.load<T>(i) * F::slope(x.load<T>(i))); }
};

/// pre[T, 2, f]: gate, then up.
template <class T, class F>
struct GatedForward {
  Elements pre, y;
  std::uint64_t columns;
  ORRERY_ON_DEVICE void operator()(std::uint64_t i) const {
    const std::uint64_t at_gate = i / columns * 2 * columns + i % columns;
    y.store(i, F::value(pre.load<T>(at_gate)) * pre.load<T>(at_gate + columns));
  }
};
template <class T, class F>
struct GatedBackward {
  Elements pre, dy, dpre;
  std::uint64_t columns;
  ORRERY_ON_DEVICE void operator()(std::uint64_t i) const {
    const std::uint64_t at_gate = i / columns * 2 * columns + i % columns;
    const T gate = pre.load<T>(at_gate);
    const T up = pre.load<T>(at_gate + columns);
    const T d = dy.load<T>(i);
    dpre.store(at_gate, d * up * F::slope(gate));
    dpre.store(at_gate + columns, d * F::value(gate));
  }
};

/// gpt-oss's gate, as on the host: (1 + clip(up, -L, L)) g sigmoid(1.702 g), g = min(gate, L).
template <class T>
struct LimitedGate {
  T limit;
  [[nodiscard]] ORRERY_ON_DEVICE T cut(T gate) const { return gate > limit ? limit : gate; }
  [[nodiscard]] ORRERY_ON_DEVICE T with(T up) const { return T{1} + (up > limit ? limit : up < -limit ? -limit : up); }
  [[nodiscard]] ORRERY_ON_DEVICE static T sigmoid(T g) { return T{1} / (T{1} + Silu<T>::exponential(slope * g)); }
  static constexpr T slope = static_cast<T>(1.702L);
};
template <class T>
struct LimitedGateForward {
  Elements pre, y;
  std::uint64_t columns;
  LimitedGate<T> f;
  ORRERY_ON_DEVICE void operator()(std::uint64_t i) const {
    const std::uint64_t at_gate = i / columns * 2 * columns + i % columns;
    const T g = f.cut(pre.load<T>(at_gate));
    y.store(i, g * f.sigmoid(g) * f.with(pre.load<T>(at_gate + columns)));
  }
};
template <class T>
struct LimitedGateBackward {
  Elements pre, dy, dpre;
  std::uint64_t columns;
  LimitedGate<T> f;
  ORRERY_ON_DEVICE void operator()(std::uint64_t i) const {
    const std::uint64_t at_gate = i / columns * 2 * columns + i % columns;
    const T gate = pre.load<T>(at_gate);
    const T up = pre.load<T>(at_gate + columns);
    const T d = dy.load<T>(i);
    const T g = f.cut(gate);
    const T s = f.sigmoid(g);
    dpre.store(at_gate, gate > f.limit ? T{0} : d * f.with(up) * s * (T{1} + f.slope * g * (T{1} - s)));
    dpre.store(at_gate + columns, up > f.limit || up < -f.limit ? T{0} : d * g * s);
  }
};

/// y = gamma x on every row.
template <class T>
struct ScaleFeatures {
  Elements x, gamma, y;
  std::uint64_t columns;
  ORRERY_ON_DEVICE void operator()(std::uint64_t i) const { y.store(i, gamma.load<T>(i % columns) * x.load<T>(i)); }
};
/// y = the mean over depth of x[depth][all elements of y].
template <class T>
struct MeanRowsForward {
  Elements x, y;
  std::uint64_t all, depth;
  ORRERY_ON_DEVICE void operator()(std::uint64_t i) const {
    T sum{0};
    for (std::uint64_t d = 0; d < depth; ++d) sum += x.load<T>(d * all + i);
    y.store(i, sum * (T{1} / static_cast<T>(depth)));
  }
};
template <class T>
struct MeanRowsBackward {
  Elements dy, dx;
  std::uint64_t all, depth;
  ORRERY_ON_DEVICE void operator()(std::uint64_t i) const {
    dx.store(i, dy.load<T>(i % all) * (T{1} / static_cast<T>(depth)));
  }
};

template <class T>
struct ClipForward {
  Elements x, y;
  T limit;
  ORRERY_ON_DEVICE void operator()(std::uint64_t i) const {
    const T v = x.load<T>(i);
    y.store(i, v > limit ? limit : v < -limit ? -limit : v);
  }
};
template <class T>
struct ClipBackward {
  Elements x, d;
  T limit;
  ORRERY_ON_DEVICE void operator()(std::uint64_t i) const {
    const T v = x.load<T>(i);
    if (v > limit || v < -limit) d.store(i, T{0});
  }
};

template <class T>
struct Multiply {
  Elements x, y;
  T scale;
  ORRERY_ON_DEVICE void operator()(std::uint64_t i) const { y.store(i, scale * x.load<T>(i)); }
};

template <class T>
struct AddRow {
  Elements row, x;
  std::uint64_t columns, step;  ///< `step` elements from one row of x to the next
  ORRERY_ON_DEVICE void operator()(std::uint64_t i) const {
    const std::uint64_t column = i % columns, at = i / columns * step + column;
    x.store(at, x.load<T>(at) + row.load<T>(column));
  }
};

template <class T>
struct AddTo {
  Elements x, sum;
  ORRERY_ON_DEVICE void operator()(std::uint64_t i) const { sum.store(i, sum.load<T>(i) + x.load<T>(i)); }
};

template <class T>
struct Convert {
  Elements x, y;
  ORRERY_ON_DEVICE void operator()(std::uint64_t i) const { y.store(i, x.load<T>(i)); }
};

/// Says which elements of rows of features a dropout site keeps.
struct RowDropout {
  cpu::DropoutKey key;
  GlobalIndex where;
  std::uint64_t first, columns;
  [[nodiscard]] ORRERY_ON_DEVICE bool keeps(std::uint64_t i) const {
    return key.keeps(where(first + i / columns * columns) + i % columns);
  }
};

// y = residual + scale dropout(x + bias).
template <class T>
struct Residual {
  Elements x, bias, residual, y;  ///< bias may be none
  std::uint64_t columns;
  T scale;
  ORRERY_ON_DEVICE void operator()(std::uint64_t i) const {
    T branch = x.load<T>(i);
    if (bias.data != nullptr) branch += bias.load<T>(i % columns);
    y.store(i, residual.load<T>(i) + scale * branch);
  }
};
template <class T>
struct ResidualDropout {
  Residual<T> plain;
  Elements mask;
  RowDropout dropout;
  T inverse;
  ORRERY_ON_DEVICE void operator()(std::uint64_t i) const {
    T branch = plain.x.template load<T>(i);
    if (plain.bias.data != nullptr) branch += plain.bias.template load<T>(i % plain.columns);
    const bool kept = dropout.keeps(i);
    mask.bytes()[i] = kept ? 1 : 0;
    plain.y.store(i, plain.residual.template load<T>(i) + (kept ? branch * inverse : T{0}));
  }
};
template <class T>
struct DropoutForward {
  Elements x, mask;
  RowDropout dropout;
  T inverse;
  ORRERY_ON_DEVICE void operator()(std::uint64_t i) const {
    const bool kept = dropout.keeps(i);
    mask.bytes()[i] = kept ? 1 : 0;
    x.store(i, kept ? x.load<T>(i) * inverse : T{0});
  }
};
template <class T>
struct DropoutBackward {
  Elements dy, mask, dx;
  T inverse;
  ORRERY_ON_DEVICE void operator()(std::uint64_t i) const {
    dx.store(i, mask.bytes()[i] != 0 ? dy.load<T>(i) * inverse : T{0});
  }
};

/// Sums over rows the values of `Term` for (row, column). First come sums of pieces of rows, with a thread for each
/// piece and column, then the sum of the pieces in their order.
inline constexpr std::uint64_t row_pieces = 64;

template <class T, class Term>
struct PieceSums {
  Term term;
  T* pieces;  ///< [row_pieces, columns]
  std::uint64_t rows, columns;
  ORRERY_ON_DEVICE void operator()(std::uint64_t i) const {
    const std::uint64_t piece = i / columns;
    const std::uint64_t column = i % columns;
    T sum{0};
    for (std::uint64_t row = rows * piece / row_pieces; row < rows * (piece + 1) / row_pieces; ++row) {
      sum += term(row, column);
    }
    pieces[i] = sum;
  }
};
template <class T>
struct AddPieces {
  const T* pieces;
  Elements sums;
  std::uint64_t columns;
  ORRERY_ON_DEVICE void operator()(std::uint64_t column) const {
    T sum{0};
    for (std::uint64_t piece = 0; piece < row_pieces; ++piece) sum += pieces[piece * columns + column];
    sums.store(column, sums.load<T>(column) + sum);
  }
};

/// sums[column] += the sum over rows of term(row, column).
template <class T, class Launcher, class Term>
void add_column_sums(Launcher& l, Term term, const Elements& sums, std::uint64_t rows, std::uint64_t columns) {
  auto* pieces = static_cast<T*>(l.scratch(row_pieces * columns * sizeof(T)));
  for_each(l, row_pieces * columns, PieceSums<T, Term>{term, pieces, rows, columns});
  for_each(l, columns, AddPieces<T>{pieces, sums, columns});
}

template <class T>
struct PlainTerm {
  Elements x;
  std::uint64_t columns;
  ORRERY_ON_DEVICE T operator()(std::uint64_t row, std::uint64_t column) const {
    return x.load<T>(row * columns + column);
  }
};

/// A term of the sum over rows of dy x.
template <class T>
struct ProductTerm {
  Elements dy, x;
  std::uint64_t columns;
  ORRERY_ON_DEVICE T operator()(std::uint64_t row, std::uint64_t column) const {
    return dy.load<T>(row * columns + column) * x.load<T>(row * columns + column);
  }
};

template <class T, class F, class Launcher>
void activate(Launcher& l, const NamedOperands& o) {
  for_each(l, o[N::y].count, ActivationForward<T, F>{Elements(o[N::pre]), Elements(o[N::y])});
}
template <class T, class F, class Launcher>
void activate_back(Launcher& l, const NamedOperands& o) {
  for_each(l, o[N::d].count, ActivationBackward<T, F>{Elements(o[N::pre]), Elements(o[N::d])});
}
template <class T, class F, class Launcher>
void gate(Launcher& l, const Kernel& k, const NamedOperands& o) {
  for_each(l, k.rows * k.columns, GatedForward<T, F>{Elements(o[N::pre]), Elements(o[N::y]), k.columns});
}
template <class T, class F, class Launcher>
void gate_back(Launcher& l, const Kernel& k, const NamedOperands& o) {
  for_each(l, k.rows * k.columns,
           GatedBackward<T, F>{Elements(o[N::pre]), Elements(o[N::dy]), Elements(o[N::dpre]), k.columns});
}

/// Launches the kernel if it is one of these; returns whether it was.
template <class T, class Launcher>
bool run_elementwise(Launcher& l, const Kernel& k, const NamedOperands& o, const KernelContext& c) {
  const auto x = [&](N name) { return Elements(o[name]); };
  const double scale = k.scale == 0.0 ? 1.0 : k.scale;  // of a branch
  const auto inverse = [&] { return static_cast<T>(scale / (1.0 - k.parameter)); };
  const auto row_dropout = [&](const Operand& mask, const Operand& other) {
    const Place& place = mask.place.shard != nullptr ? mask.place : other.place;
    return RowDropout{cpu::DropoutKey(k, c), GlobalIndex(place), place.first, k.columns};
  };
  switch (k.kind) {
    case KernelKind::fill:
      for (const Operand& each : o.all(N::x)) l.clear(each.data, each.count * size_of(each.dtype));
      return true;
    case KernelKind::bias_forward:
      for_each(l, k.rows * k.columns, AddRow<T>{x(N::bias), x(N::x), k.columns, k.columns});
      return true;
    case KernelKind::bias_backward:
      add_column_sums<T>(l, PlainTerm<T>{x(N::dy), k.columns}, x(N::dbias), k.rows, k.columns);
      return true;
    case KernelKind::add_to: for_each(l, o[N::sum].count, AddTo<T>{x(N::x), x(N::sum)}); return true;
    case KernelKind::convert: for_each(l, o[N::y].count, Convert<T>{x(N::x), x(N::y)}); return true;
    case KernelKind::multiply:
      for_each(l, o[N::y].count, Multiply<T>{x(N::x), x(N::y), static_cast<T>(scale)});
      return true;
    case KernelKind::gelu_forward: activate<T, Gelu<T>>(l, o); return true;
    case KernelKind::gelu_backward: activate_back<T, Gelu<T>>(l, o); return true;
    case KernelKind::relu_forward: activate<T, Relu<T>>(l, o); return true;
    case KernelKind::relu_backward: activate_back<T, Relu<T>>(l, o); return true;
    case KernelKind::squared_relu_forward: activate<T, SquaredRelu<T>>(l, o); return true;
    case KernelKind::squared_relu_backward: activate_back<T, SquaredRelu<T>>(l, o); return true;
    case KernelKind::quick_gelu_forward: activate<T, QuickGelu<T>>(l, o); return true;
    case KernelKind::quick_gelu_backward: activate_back<T, QuickGelu<T>>(l, o); return true;
    case KernelKind::scale_features_forward:
      for_each(l, k.rows * k.columns, ScaleFeatures<T>{x(N::x), x(N::gamma), x(N::y), k.columns});
      return true;
    case KernelKind::scale_features_backward_input:
      for_each(l, k.rows * k.columns, ScaleFeatures<T>{x(N::dy), x(N::gamma), x(N::dx), k.columns});
      return true;
    case KernelKind::scale_features_backward_weight:
      add_column_sums<T>(l, ProductTerm<T>{x(N::dy), x(N::x), k.columns}, x(N::dgamma), k.rows, k.columns);
      return true;
    case KernelKind::mean_rows_forward:
      for_each(l, k.rows * k.columns, MeanRowsForward<T>{x(N::x), x(N::y), k.rows * k.columns, k.depth});
      return true;
    case KernelKind::mean_rows_backward:
      for_each(l, k.depth * k.rows * k.columns, MeanRowsBackward<T>{x(N::dy), x(N::dx), k.rows * k.columns, k.depth});
      return true;
    case KernelKind::clip_forward:
      for_each(l, o[N::y].count, ClipForward<T>{x(N::pre), x(N::y), static_cast<T>(k.parameter)});
      return true;
    case KernelKind::clip_backward:
      for_each(l, o[N::d].count, ClipBackward<T>{x(N::pre), x(N::d), static_cast<T>(k.parameter)});
      return true;
    case KernelKind::swiglu_forward:
      if (k.parameter > 0.0) {
        for_each(l, k.rows * k.columns,
                 LimitedGateForward<T>{x(N::pre), x(N::y), k.columns, {static_cast<T>(k.parameter)}});
      } else {
        gate<T, Silu<T>>(l, k, o);
      }
      return true;
    case KernelKind::swiglu_backward:
      if (k.parameter > 0.0) {
        for_each(l, k.rows * k.columns,
                 LimitedGateBackward<T>{x(N::pre), x(N::dy), x(N::dpre), k.columns, {static_cast<T>(k.parameter)}});
      } else {
        gate_back<T, Silu<T>>(l, k, o);
      }
      return true;
    case KernelKind::geglu_forward: gate<T, Gelu<T>>(l, k, o); return true;
    case KernelKind::geglu_backward: gate_back<T, Gelu<T>>(l, k, o); return true;
    case KernelKind::residual_forward: {
      const Residual<T> plain{x(N::x),   elements_if(o, N::bias), x(N::residual), x(N::y),
                              k.columns, static_cast<T>(scale)};
      if (k.options.dropout) {
        for_each(l, k.rows * k.columns,
                 ResidualDropout<T>{plain, x(N::mask), row_dropout(o[N::mask], o[N::y]), inverse()});
      } else {
        for_each(l, k.rows * k.columns, plain);
      }
      return true;
    }
    case KernelKind::dropout_forward:
      for_each(l, k.rows * k.columns,
               DropoutForward<T>{x(N::x), x(N::mask), row_dropout(o[N::mask], o[N::x]), inverse()});
      return true;
    case KernelKind::dropout_backward:
      for_each(l, o[N::dx].count, DropoutBackward<T>{x(N::dy), x(N::mask), x(N::dx), inverse()});
      return true;
    default: return false;
  }
}

}  // namespace orrery::device
