#pragma once

#include <cmath>

#include "exec/kernels/device/elementwise.hpp"

/// Layer norm and RMS norm, with a block for each row.
namespace orrery::device {

/// Row statistics: {mean, 1/deviation}, or {1/rms}.
struct Statistics {
  Elements x;
  bool rms = false;
  template <class T>
  [[nodiscard]] ORRERY_ON_DEVICE T mean(std::uint64_t row) const {
    return rms ? T{0} : x.load<T>(2 * row);
  }
  template <class T>
  [[nodiscard]] ORRERY_ON_DEVICE T inverse(std::uint64_t row) const {
    return x.load<T>(rms ? row : 2 * row + 1);
  }
  template <class T>
  ORRERY_ON_DEVICE void put(std::uint64_t row, T mean_value, T inverse_value) const {
    if (!rms) x.store(2 * row, mean_value);
    x.store(rms ? row : 2 * row + 1, inverse_value);
  }
};

/// 1 where the norm has no weights.
template <class T>
[[nodiscard]] ORRERY_ON_DEVICE inline T weight_of(const Elements& gamma, std::uint64_t i) {
  return gamma.data != nullptr ? gamma.load<T>(i) : T{1};
}

/// Where an axis cuts the columns, sums over whole rows are operands.
template <class T>
struct NormForward {
  Elements x, gamma, beta, given_sums, given_squares, y;
  Statistics stats;
  std::uint64_t columns, width;
  T epsilon;
  bool cut;
  template <class Block>
  ORRERY_KERNEL_BODY void operator()(Block& b, std::uint64_t row) const {
    const std::uint64_t first = row * columns;
    const auto whole = static_cast<T>(width);
    T mean{0};
    if (!stats.rms) {
      T sum{0};
      if (!cut) {
        for (std::uint64_t i = b.thread(); i < columns; i += b.threads()) sum += x.load<T>(first + i);
      }
      mean = (cut ? given_sums.load<T>(row) : b.sum(sum)) / whole;
    }
    T squares{0};
    if (!cut) {
      for (std::uint64_t i = b.thread(); i < columns; i += b.threads()) {
        const T v = x.load<T>(first + i) - mean;
        squares += v * v;
      }
    }
    const T square = (cut ? given_squares.load<T>(row) : b.sum(squares)) / whole;
    const T inverse = T{1} / std::sqrt(square + epsilon);
    for (std::uint64_t i = b.thread(); i < columns; i += b.threads()) {
      T v = (x.load<T>(first + i) - mean) * inverse * weight_of<T>(gamma, i);
      if (beta.data != nullptr) v += beta.load<T>(i);
      y.store(first + i, v);
    }
    if (b.thread() == 0) stats.put(row, mean, inverse);
  }
};

// With z = (x - mean) / deviation and g = dy gamma:
//   dx = (g - mean(g) - z mean(g z)) / deviation;  RMS norm lacks the mean(g) term.
template <class T>
struct NormBackwardInput {
  Elements dy, x, gamma;
  Statistics stats;
  Elements given, from, dx;  ///< from: the gradient that is added to, dx itself or the residual gradient
  std::uint64_t columns, width;
  bool cut;
  template <class Block>
  ORRERY_KERNEL_BODY void operator()(Block& b, std::uint64_t row) const {
    const std::uint64_t first = row * columns;
    const T mean = stats.mean<T>(row);
    const T inverse = stats.inverse<T>(row);
    T sum_g{0};
    T sum_gz{0};
    if (cut) {
      sum_g = stats.rms ? T{0} : given.load<T>(2 * row);
      sum_gz = given.load<T>(stats.rms ? row : 2 * row + 1);
    } else {
      for (std::uint64_t i = b.thread(); i < columns; i += b.threads()) {
        const T g = dy.load<T>(first + i) * weight_of<T>(gamma, i);
        sum_g += g;
        sum_gz += g * ((x.load<T>(first + i) - mean) * inverse);
      }
      sum_g = b.sum(sum_g);
      sum_gz = b.sum(sum_gz);
    }
    const auto whole = static_cast<T>(width);
    const T mean_g = stats.rms ? T{0} : sum_g / whole;
    const T mean_gz = sum_gz / whole;
    for (std::uint64_t i = b.thread(); i < columns; i += b.threads()) {
      const T g = dy.load<T>(first + i) * weight_of<T>(gamma, i);
      const T z = (x.load<T>(first + i) - mean) * inverse;
      dx.store(first + i, from.load<T>(first + i) + inverse * (g - mean_g - z * mean_gz));
    }
  }
};

/// dy z is the term of gamma's gradient.
template <class T>
struct GammaTerm {
  Elements dy, x;
  Statistics stats;
  std::uint64_t columns;
  ORRERY_ON_DEVICE T operator()(std::uint64_t row, std::uint64_t column) const {
    const std::uint64_t i = row * columns + column;
    return dy.load<T>(i) * ((x.load<T>(i) - stats.mean<T>(row)) * stats.inverse<T>(row));
  }
};

/// Sums over the local columns of a row that an axis cuts.
template <class T>
struct NormSums {
  Elements x, sums;
  std::uint64_t columns;
  template <class Block>
  ORRERY_KERNEL_BODY void operator()(Block& b, std::uint64_t row) const {
    T sum{0};
    for (std::uint64_t i = b.thread(); i < columns; i += b.threads()) sum += x.load<T>(row * columns + i);
    sum = b.sum(sum);
    if (b.thread() == 0) sums.store(row, sum);
  }
};
template <class T>
struct NormSquares {
  Elements x, sums, squares;
  std::uint64_t columns, width;
  bool centered;
  template <class Block>
  ORRERY_KERNEL_BODY void operator()(Block& b, std::uint64_t row) const {
    const T mean = centered ? sums.load<T>(row) / static_cast<T>(width) : T{0};
    T sum{0};
    for (std::uint64_t i = b.thread(); i < columns; i += b.threads()) {
      const T v = x.load<T>(row * columns + i) - mean;
      sum += v * v;
    }
    sum = b.sum(sum);
    if (b.thread() == 0) squares.store(row, sum);
  }
};
template <class T>
struct NormGradientSums {
  Elements dy, x, gamma;
  Statistics stats;
  Elements sums;
  std::uint64_t columns;
  template <class Block>
  ORRERY_KERNEL_BODY void operator()(Block& b, std::uint64_t row) const {
    const T mean = stats.mean<T>(row);
    const T inverse = stats.inverse<T>(row);
    T sum_g{0};
    T sum_gz{0};
    for (std::uint64_t i = b.thread(); i < columns; i += b.threads()) {
      const T g = dy.load<T>(row * columns + i) * weight_of<T>(gamma, i);
      sum_g += g;
      sum_gz += g * ((x.load<T>(row * columns + i) - mean) * inverse);
    }
    sum_g = b.sum(sum_g);
    sum_gz = b.sum(sum_gz);
    if (b.thread() != 0) return;
    if (!stats.rms) sums.store(2 * row, sum_g);
    sums.store(stats.rms ? row : 2 * row + 1, sum_gz);
  }
};

template <class T, class Launcher>
void norm_forward(Launcher& l, const Kernel& k, const NamedOperands& o, bool rms) {
  const bool cut = k.options.cut;
  NormForward<T> f{};
  f.x = Elements(o[N::x]);
  f.gamma = elements_if(o, N::gamma);
  f.beta = elements_if(o, N::beta);
  f.given_sums = elements_if(o, N::sums);
  f.given_squares = elements_if(o, N::squares);
  f.y = Elements(o[N::y]);
  f.stats = {Elements(o[N::stats]), rms};
  f.columns = k.columns;
  f.width = cut ? k.depth : k.columns;
  f.epsilon = static_cast<T>(k.parameter);
  f.cut = cut;
  for_each_row(l, k.rows, f);
}

template <class T, class Launcher>
void norm_backward_input(Launcher& l, const Kernel& k, const NamedOperands& o, bool rms) {
  const bool cut = k.options.cut;
  NormBackwardInput<T> f{};
  f.dy = Elements(o[N::dy]);
  f.x = Elements(o[N::x]);
  f.gamma = elements_if(o, N::gamma);
  f.stats = {Elements(o[N::stats]), rms};
  f.given = elements_if(o, N::gradient_sums);
  f.from = Elements(o[k.options.residual ? N::residual : N::dx]);
  f.dx = Elements(o[N::dx]);
  f.columns = k.columns;
  f.width = cut ? k.depth : k.columns;
  f.cut = cut;
  for_each_row(l, k.rows, f);
}

template <class T, class Launcher>
void norm_backward_weight(Launcher& l, const Kernel& k, const NamedOperands& o, bool rms) {
  const GammaTerm<T> term{Elements(o[N::dy]), Elements(o[N::x]), {Elements(o[N::stats]), rms}, k.columns};
  add_column_sums<T>(l, term, Elements(o[N::dgamma]), k.rows, k.columns);
  if (o.find(N::dbeta) == nullptr) return;
  add_column_sums<T>(l, PlainTerm<T>{Elements(o[N::dy]), k.columns}, Elements(o[N::dbeta]), k.rows, k.columns);
}

template <class T, class Launcher>
bool run_norms(Launcher& l, const Kernel& k, const NamedOperands& o, const KernelContext&) {
  const bool centered = k.options.centered;
  switch (k.kind) {
    case KernelKind::layer_norm_forward: norm_forward<T>(l, k, o, false); return true;
    case KernelKind::rms_norm_forward: norm_forward<T>(l, k, o, true); return true;
    case KernelKind::layer_norm_backward_input: norm_backward_input<T>(l, k, o, false); return true;
    case KernelKind::rms_norm_backward_input: norm_backward_input<T>(l, k, o, true); return true;
    case KernelKind::layer_norm_backward_weight: norm_backward_weight<T>(l, k, o, false); return true;
    case KernelKind::rms_norm_backward_weight: norm_backward_weight<T>(l, k, o, true); return true;
    case KernelKind::norm_sums:
      for_each_row(l, k.rows, NormSums<T>{Elements(o[N::x]), Elements(o[N::sums]), k.columns});
      return true;
    case KernelKind::norm_squares:
      for_each_row(l, k.rows,
                   NormSquares<T>{Elements(o[N::x]), elements_if(o, N::sums), Elements(o[N::squares]), k.columns,
                                  k.depth, centered});
      return true;
    case KernelKind::norm_gradient_sums:
      for_each_row(l, k.rows,
                   NormGradientSums<T>{Elements(o[N::dy]),
                                       Elements(o[N::x]),
                                       elements_if(o, N::gamma),
                                       {Elements(o[N::stats]), !centered},
                                       Elements(o[N::sums]),
                                       k.columns});
      return true;
    default: return false;
  }
}

}  // namespace orrery::device
