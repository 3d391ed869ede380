#pragma once

#include <cmath>

#include "core/program/operand_elements.hpp"
#include "exec/kernels/cpu/heads.hpp"
#include "exec/kernels/device/norm.hpp"

/// RMS norms of queries and of keys (exec/kernels/cpu/query_key_norm.cpp has the formulas). A row has a norm for each
/// of its heads, queries first, or one for all queries and one for all keys.
namespace orrery::device {

struct QueryKeyShape {
  std::uint64_t kv_heads, group, dim, value, group_width;
  bool each;                      ///< a norm for each head
  double query_width, key_width;  ///< features that a norm takes together, those of all ranks

  QueryKeyShape(const Kernel& k, bool each_head) : each(each_head) {
    const cpu::Heads s(k);
    kv_heads = s.kv_heads;
    group = s.group;
    dim = s.dim;
    value = s.value;
    group_width = s.group_width();
    query_width = static_cast<double>(each ? s.dim : k.depth);
    key_width = each ? query_width : query_width * static_cast<double>(s.kv_heads) / static_cast<double>(s.heads);
  }
  [[nodiscard]] ORRERY_ON_DEVICE std::uint64_t heads(bool keys) const { return keys ? kv_heads : kv_heads * group; }
  /// Norms of a row.
  [[nodiscard]] ORRERY_ON_DEVICE std::uint64_t norms() const { return each ? heads(false) + kv_heads : 2; }
  [[nodiscard]] ORRERY_ON_DEVICE bool of_keys(std::uint64_t norm) const { return norm >= (each ? heads(false) : 1); }
  /// Features here that a norm takes.
  [[nodiscard]] ORRERY_ON_DEVICE std::uint64_t features(bool keys) const { return each ? dim : heads(keys) * dim; }
  /// Where feature i of a norm lies in packed rows.
  [[nodiscard]] ORRERY_ON_DEVICE std::uint64_t place(std::uint64_t row, std::uint64_t norm, std::uint64_t i) const {
    const bool keys = of_keys(norm);
    const std::uint64_t head = each ? norm - (keys ? heads(false) : 0) : i / dim;
    const std::uint64_t column =
        keys ? head * group_width + group * dim : head / group * group_width + head % group * dim;
    return row * kv_heads * group_width + column + i % dim;
  }
  template <class T>
  [[nodiscard]] ORRERY_ON_DEVICE T width(bool keys) const {
    return static_cast<T>(keys ? key_width : query_width);
  }
};

/// Weights of queries and of keys; without memory where the norms have none.
struct QueryKeyWeights {
  Elements query, key;
  template <class T>
  [[nodiscard]] ORRERY_ON_DEVICE T of(bool keys, std::uint64_t i) const {
    return keys ? weight_of<T>(key, i) : weight_of<T>(query, i);
  }
};

/// y = x of the values, which have no norm; i counts (row, key head, feature).
template <class T>
struct CopyValues {
  QueryKeyShape s;
  Elements x, y;
  ORRERY_ON_DEVICE void operator()(std::uint64_t i) const {
    const std::uint64_t at = i / s.value * s.group_width + s.group_width - s.value + i % s.value;
    y.store(at, x.load<T>(at));
  }
};

template <class T>
struct QueryKeyForward {
  QueryKeyShape s;
  Elements x;
  QueryKeyWeights gamma;
  Elements given, stats, y;  ///< given: sums of squares over whole rows, where an axis cuts them
  T epsilon;
  template <class Block>
  ORRERY_KERNEL_BODY void operator()(Block& b, std::uint64_t number) const {
    const std::uint64_t row = number / s.norms(), norm = number % s.norms();
    const bool keys = s.of_keys(norm);
    const std::uint64_t n = s.features(keys);
    T square{0};
    if (given.data != nullptr) {
      square = given.load<T>(number);
    } else {
      for (std::uint64_t i = b.thread(); i < n; i += b.threads()) {
        const T v = x.load<T>(s.place(row, norm, i));
        square += v * v;
      }
      square = b.sum(square);
    }
    const T inverse = T{1} / std::sqrt(square / s.width<T>(keys) + epsilon);
    for (std::uint64_t i = b.thread(); i < n; i += b.threads()) {
      const std::uint64_t at = s.place(row, norm, i);
      y.store(at, x.load<T>(at) * inverse * gamma.of<T>(keys, i));
    }
    if (b.thread() == 0) stats.store(number, inverse);
  }
};

/// The sum over a norm's features of g z, with g = dy gamma and z = x / rms.
template <class T>
struct QueryKeyGradients {
  QueryKeyShape s;
  Elements dy, x;
  QueryKeyWeights gamma;
  Elements stats;
  template <class Block>
  ORRERY_KERNEL_BODY T product_sum(Block& b, std::uint64_t number) const {
    const std::uint64_t row = number / s.norms(), norm = number % s.norms();
    const bool keys = s.of_keys(norm);
    const T inverse = stats.load<T>(number);
    T sum{0};
    for (std::uint64_t i = b.thread(); i < s.features(keys); i += b.threads()) {
      const std::uint64_t at = s.place(row, norm, i);
      sum += dy.load<T>(at) * gamma.of<T>(keys, i) * (x.load<T>(at) * inverse);
    }
    return b.sum(sum);
  }
};

template <class T>
struct QueryKeyBackwardInput {
  QueryKeyGradients<T> g;
  Elements given, dx;  ///< given: sums over whole rows, where an axis cuts them
  template <class Block>
  ORRERY_KERNEL_BODY void operator()(Block& b, std::uint64_t number) const {
    const QueryKeyShape& s = g.s;
    const std::uint64_t row = number / s.norms(), norm = number % s.norms();
    const bool keys = s.of_keys(norm);
    const T sum = given.data != nullptr ? given.load<T>(number) : g.product_sum(b, number);
    const T mean = sum / s.width<T>(keys);
    const T inverse = g.stats.template load<T>(number);
    for (std::uint64_t i = b.thread(); i < s.features(keys); i += b.threads()) {
      const std::uint64_t at = s.place(row, norm, i);
      const T of_row = g.dy.template load<T>(at) * g.gamma.template of<T>(keys, i);
      dx.store(at, inverse * (of_row - g.x.template load<T>(at) * inverse * mean));
    }
  }
};

/// dy z for add_column_sums: where each head has a norm, all heads of a row are rows of their own.
template <class T>
struct QueryKeyGammaTerm {
  QueryKeyShape s;
  Elements dy, x, stats;
  bool keys;
  ORRERY_ON_DEVICE T operator()(std::uint64_t line, std::uint64_t column) const {
    const std::uint64_t each_row = s.each ? s.heads(keys) : 1;
    const std::uint64_t row = line / each_row;
    const std::uint64_t norm = s.each ? line % each_row + (keys ? s.heads(false) : 0) : keys ? 1 : 0;
    const std::uint64_t at = s.place(row, norm, column);
    return dy.load<T>(at) * (x.load<T>(at) * stats.load<T>(row * s.norms() + norm));
  }
};

template <class T>
struct QueryKeySquares {
  QueryKeyShape s;
  Elements x, squares;
  template <class Block>
  ORRERY_KERNEL_BODY void operator()(Block& b, std::uint64_t number) const {
    const std::uint64_t row = number / 2, norm = number % 2;
    T sum{0};
    for (std::uint64_t i = b.thread(); i < s.features(s.of_keys(norm)); i += b.threads()) {
      const T v = x.load<T>(s.place(row, norm, i));
      sum += v * v;
    }
    sum = b.sum(sum);
    if (b.thread() == 0) squares.store(number, sum);
  }
};

template <class T>
struct QueryKeyGradientSums {
  QueryKeyGradients<T> g;
  Elements sums;
  template <class Block>
  ORRERY_KERNEL_BODY void operator()(Block& b, std::uint64_t number) const {
    const T sum = g.product_sum(b, number);
    if (b.thread() == 0) sums.store(number, sum);
  }
};

[[nodiscard]] inline bool is_query_key_norm(KernelKind kind) {
  switch (kind) {
    case KernelKind::query_key_norm_forward:
    case KernelKind::query_key_norm_backward_input:
    case KernelKind::query_key_norm_backward_weight:
    case KernelKind::query_key_squares:
    case KernelKind::query_key_gradient_sums: return true;
    default: return false;
  }
}

template <class T, class Launcher>
bool run_query_key_norms(Launcher& l, const Kernel& k, const NamedOperands& o, const KernelContext&) {
  if (!is_query_key_norm(k.kind)) return false;
  const auto x = [&](N name) { return Elements(o[name]); };
  const QueryKeyWeights gamma{elements_if(o, N::query_gamma), elements_if(o, N::key_gamma)};
  // What a norm takes together lies on several ranks only where it is that of all heads.
  QueryKeyShape s(k, elements::norms_each_head(k) && k.kind != KernelKind::query_key_squares &&
                         k.kind != KernelKind::query_key_gradient_sums);
  const auto cut = [&](N name) { return k.options.cut && !s.each ? x(name) : Elements{}; };
  // A head has fewer features than a usual block has threads.
  const std::uint32_t threads = s.each ? 64 : usual_threads;
  const auto for_each_norm = [&](auto f) { for_each_row(l, k.rows * s.norms(), f, threads); };
  switch (k.kind) {
    case KernelKind::query_key_norm_forward:
      for_each(l, k.rows * s.kv_heads * s.value, CopyValues<T>{s, x(N::x), x(N::y)});
      for_each_norm(
          QueryKeyForward<T>{s, x(N::x), gamma, cut(N::squares), x(N::stats), x(N::y), static_cast<T>(k.parameter)});
      return true;
    case KernelKind::query_key_norm_backward_input:
      for_each(l, k.rows * s.kv_heads * s.value, CopyValues<T>{s, x(N::dy), x(N::dx)});
      for_each_norm(
          QueryKeyBackwardInput<T>{{s, x(N::dy), x(N::x), gamma, x(N::stats)}, cut(N::gradient_sums), x(N::dx)});
      return true;
    case KernelKind::query_key_norm_backward_weight:
      for (const bool keys : {false, true}) {
        add_column_sums<T>(l, QueryKeyGammaTerm<T>{s, x(N::dy), x(N::x), x(N::stats), keys},
                           x(keys ? N::dkey_gamma : N::dquery_gamma), s.each ? k.rows * s.heads(keys) : k.rows,
                           s.features(keys));
      }
      return true;
    case KernelKind::query_key_squares: for_each_norm(QueryKeySquares<T>{s, x(N::x), x(N::squares)}); return true;
    case KernelKind::query_key_gradient_sums:
      for_each_norm(QueryKeyGradientSums<T>{{s, x(N::dy), x(N::x), gamma, x(N::stats)}, x(N::sums)});
      return true;
    default: return false;
  }
}

}  // namespace orrery::device
