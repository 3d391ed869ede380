#include <algorithm>
#include <cmath>

#include "core/program/operand_elements.hpp"
#include "exec/kernels/cpu/heads.hpp"
#include "exec/kernels/cpu/kernels.hpp"

// RMS norms of queries and of keys.  With z = x / rms and g = dy gamma, over the features that have one root mean
// square:  dx = (g - z mean(g z)) / rms  (Zhang and Sennrich, "Root mean square layer normalization", 2019).
namespace orrery::cpu {
namespace {

/// The norms of a row: of every head, or of all queries and of all keys.
struct Shape {
  explicit Shape(const Kernel& k)
      : heads(k),
        each(elements::norms_each_head(k)),
        query_width(static_cast<double>(k.depth)),
        key_width(query_width * k.kv_heads / k.heads) {}
  Heads heads;
  bool each;
  double query_width, key_width;  ///< features that one norm of all heads takes together, those of all ranks

  [[nodiscard]] std::uint64_t statistics() const { return each ? heads.heads + heads.kv_heads : 2; }
  [[nodiscard]] std::uint64_t count(bool keys) const { return keys ? heads.kv_heads : heads.heads; }
  [[nodiscard]] std::uint64_t column(bool keys, std::uint64_t head) const {
    return keys ? heads.key_column(head) : heads.query_column(head);
  }
  [[nodiscard]] std::uint64_t statistic(std::uint64_t row, bool keys, std::uint64_t head) const {
    if (!each) return 2 * row + (keys ? 1 : 0);
    return row * statistics() + (keys ? heads.heads : 0) + head;
  }
  [[nodiscard]] std::uint64_t gamma(std::uint64_t head) const { return each ? 0 : head * heads.dim; }
  [[nodiscard]] std::uint64_t weights(bool keys) const { return each ? heads.dim : count(keys) * heads.dim; }
  template <class T>
  [[nodiscard]] T width(bool keys) const {
    return static_cast<T>(each ? static_cast<double>(heads.dim) : keys ? key_width : query_width);
  }
};

enum : std::size_t { row_x, row_dy, row_out, query_weights, key_weights };

/// Weights of queries and of keys; ones where the norms have none.
template <class T>
struct Gammas {
  Gammas(const Shape& s, const Operands& o, KernelScratch& scratch) {
    for (const bool keys : {false, true}) {
      const std::uint64_t n = s.weights(keys);
      T* buffer = scratch.get<T>(keys ? key_weights : query_weights, n);
      const Operand* gamma = o.find(keys ? N::key_gamma : N::query_gamma);
      of[keys ? 1 : 0] = gamma != nullptr ? read(*gamma, 0, n, buffer) : std::fill_n(buffer, n, T{1}) - n;
    }
  }
  const T* of[2];
};

/// The sum of squares of one head.
template <class T>
T square_sum(std::uint64_t d, const T* x) {
  return sum_over<T>(d, [&](std::uint64_t i) { return x[i] * x[i]; });
}

template <class T>
void forward(const Kernel& k, const Operands& o, const KernelContext& context) {
  const Shape s(k);
  const std::uint64_t n = s.heads.qkv_width(), d = s.heads.dim;
  KernelScratch& scratch = *context.scratch;
  const Gammas<T> gammas(s, o, scratch);
  T* in = scratch.get<T>(row_x, n);
  T* out = scratch.get<T>(row_out, n);
  for (std::uint64_t row = 0; row < k.rows; ++row) {
    const T* x = read(o[N::x], row * n, n, in);
    T* y = target(o[N::y], row * n, out);
    std::copy_n(x, n, y);
    for (const bool keys : {false, true}) {
      const auto squares = [&](std::uint64_t head) { return square_sum(d, x + s.column(keys, head)); };
      T inverse{};
      const auto finish_statistic = [&](T square, std::uint64_t head) {
        inverse = T{1} / std::sqrt(square / s.width<T>(keys) + static_cast<T>(k.parameter));
        write_scalar(o[N::stats], static_cast<double>(inverse), s.statistic(row, keys, head));
      };
      if (!s.each) {
        T square{0};
        if (k.options.cut) {
          square = static_cast<T>(read_scalar(o[N::squares], 2 * row + (keys ? 1 : 0)));
        } else {
          for (std::uint64_t h = 0; h < s.count(keys); ++h) square += squares(h);
        }
        finish_statistic(square, 0);
      }
      for (std::uint64_t h = 0; h < s.count(keys); ++h) {
        if (s.each) finish_statistic(squares(h), h);
        const T* gamma = gammas.of[keys ? 1 : 0] + s.gamma(h);
        const std::uint64_t at = s.column(keys, h);
        for (std::uint64_t i = 0; i < d; ++i) y[at + i] = x[at + i] * inverse * gamma[i];
      }
    }
    finish(o[N::y], row * n, n, y);
  }
}

/// The sum of g z over one head.
template <class T>
T product_sum(std::uint64_t d, const T* dy, const T* x, const T* gamma, T inverse) {
  return sum_over<T>(d, [&](std::uint64_t i) { return dy[i] * gamma[i] * (x[i] * inverse); });
}

template <class T>
void backward_input(const Kernel& k, const Operands& o, const KernelContext& context) {
  const Shape s(k);
  const std::uint64_t n = s.heads.qkv_width(), d = s.heads.dim;
  KernelScratch& scratch = *context.scratch;
  const Gammas<T> gammas(s, o, scratch);
  T* in_x = scratch.get<T>(row_x, n);
  T* in_dy = scratch.get<T>(row_dy, n);
  T* out = scratch.get<T>(row_out, n);
  for (std::uint64_t row = 0; row < k.rows; ++row) {
    const T* x = read(o[N::x], row * n, n, in_x);
    const T* dy = read(o[N::dy], row * n, n, in_dy);
    T* dx = target(o[N::dx], row * n, out);
    std::copy_n(dy, n, dx);
    for (const bool keys : {false, true}) {
      const T* gamma = gammas.of[keys ? 1 : 0];
      const auto inverse = [&](std::uint64_t h) {
        return static_cast<T>(read_scalar(o[N::stats], s.statistic(row, keys, h)));
      };
      const auto sum = [&](std::uint64_t h) {
        const std::uint64_t at = s.column(keys, h);
        return product_sum(d, dy + at, x + at, gamma + s.gamma(h), inverse(h));
      };
      T mean{0};
      if (k.options.cut) {
        mean = static_cast<T>(read_scalar(o[N::gradient_sums], 2 * row + (keys ? 1 : 0))) / s.width<T>(keys);
      } else if (!s.each) {
        for (std::uint64_t h = 0; h < s.count(keys); ++h) mean += sum(h);
        mean /= s.width<T>(keys);
      }
      for (std::uint64_t h = 0; h < s.count(keys); ++h) {
        if (s.each) mean = sum(h) / s.width<T>(keys);
        const std::uint64_t at = s.column(keys, h);
        const T* g = gamma + s.gamma(h);
        const T r = inverse(h);
        for (std::uint64_t i = 0; i < d; ++i) dx[at + i] = r * (dy[at + i] * g[i] - x[at + i] * r * mean);
      }
    }
    finish(o[N::dx], row * n, n, dx);
  }
}

template <class T>
void backward_weight(const Kernel& k, const Operands& o, const KernelContext& context) {
  const Shape s(k);
  const std::uint64_t n = s.heads.qkv_width(), d = s.heads.dim;
  KernelScratch& scratch = *context.scratch;
  T* in_x = scratch.get<T>(row_x, n);
  T* in_dy = scratch.get<T>(row_dy, n);
  for (const bool keys : {false, true}) {
    const std::uint64_t weights = s.weights(keys);
    T* sums = scratch.get<T>(query_weights, weights);
    std::fill_n(sums, weights, T{0});
    for (std::uint64_t row = 0; row < k.rows; ++row) {
      const T* x = read(o[N::x], row * n, n, in_x);
      const T* dy = read(o[N::dy], row * n, n, in_dy);
      for (std::uint64_t h = 0; h < s.count(keys); ++h) {
        const auto inverse = static_cast<T>(read_scalar(o[N::stats], s.statistic(row, keys, h)));
        const std::uint64_t at = s.column(keys, h);
        T* sum = sums + s.gamma(h);
        for (std::uint64_t i = 0; i < d; ++i) sum[i] += dy[at + i] * (x[at + i] * inverse);
      }
    }
    const Operand& gradient = o[keys ? N::dkey_gamma : N::dquery_gamma];
    T* total = update(gradient, 0, weights, scratch.get<T>(row_out, weights));
    for (std::uint64_t i = 0; i < weights; ++i) total[i] += sums[i];
    finish(gradient, 0, weights, total);
  }
}

template <class T>
void squares(const Kernel& k, const Operands& o, const KernelContext& context) {
  const Shape s(k);
  const std::uint64_t n = s.heads.qkv_width(), d = s.heads.dim;
  T* in = context.scratch->get<T>(row_x, n);
  for (std::uint64_t row = 0; row < k.rows; ++row) {
    const T* x = read(o[N::x], row * n, n, in);
    for (const bool keys : {false, true}) {
      T sum{0};
      for (std::uint64_t h = 0; h < s.count(keys); ++h) sum += square_sum(d, x + s.column(keys, h));
      write_scalar(o[N::squares], static_cast<double>(sum), 2 * row + (keys ? 1 : 0));
    }
  }
}

template <class T>
void gradient_sums(const Kernel& k, const Operands& o, const KernelContext& context) {
  const Shape s(k);
  const std::uint64_t n = s.heads.qkv_width(), d = s.heads.dim;
  KernelScratch& scratch = *context.scratch;
  const Gammas<T> gammas(s, o, scratch);
  T* in_x = scratch.get<T>(row_x, n);
  T* in_dy = scratch.get<T>(row_dy, n);
  for (std::uint64_t row = 0; row < k.rows; ++row) {
    const T* x = read(o[N::x], row * n, n, in_x);
    const T* dy = read(o[N::dy], row * n, n, in_dy);
    for (const bool keys : {false, true}) {
      const auto inverse = static_cast<T>(read_scalar(o[N::stats], s.statistic(row, keys, 0)));
      T sum{0};
      for (std::uint64_t h = 0; h < s.count(keys); ++h) {
        const std::uint64_t at = s.column(keys, h);
        sum += product_sum(d, dy + at, x + at, gammas.of[keys ? 1 : 0] + s.gamma(h), inverse);
      }
      write_scalar(o[N::sums], static_cast<double>(sum), 2 * row + (keys ? 1 : 0));
    }
  }
}

}  // namespace

std::span<const HostKernel> query_key_norm_kernels() {
  static constexpr HostKernel list[] = {
      {KernelKind::query_key_norm_forward, forward<float>, forward<double>},
      {KernelKind::query_key_norm_backward_input, backward_input<float>, backward_input<double>},
      {KernelKind::query_key_norm_backward_weight, backward_weight<float>, backward_weight<double>},
      {KernelKind::query_key_squares, squares<float>, squares<double>},
      {KernelKind::query_key_gradient_sums, gradient_sums<float>, gradient_sums<double>},
  };
  return list;
}

}  // namespace orrery::cpu
