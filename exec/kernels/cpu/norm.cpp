#include <algorithm>
#include <cmath>

#include "exec/kernels/cpu/kernels.hpp"

namespace orrery::cpu {
namespace {

// Scratch places of this file.
enum : std::size_t { row_a, row_b, row_c, row_d, row_e, sums };

/// The operands of the two norms differ only in those that RMS norm leaves out.
struct Statistics {
  const Operand* operand;
  bool rms;
  template <class T>
  void put(std::uint64_t row, T mean, T inverse) const {
    if (!rms) write_scalar(*operand, static_cast<double>(mean), 2 * row);
    write_scalar(*operand, static_cast<double>(inverse), rms ? row : 2 * row + 1);
  }
  template <class T>
  [[nodiscard]] T mean(std::uint64_t row) const {
    return rms ? T{0} : static_cast<T>(read_scalar(*operand, 2 * row));
  }
  template <class T>
  [[nodiscard]] T inverse(std::uint64_t row) const {
    return static_cast<T>(read_scalar(*operand, rms ? row : 2 * row + 1));
  }
};

/// Ones where the norm has no weights.
template <class T>
const T* gamma_of(const Operands& o, std::uint64_t n, T* buffer) {
  if (const Operand* gamma = o.find(N::gamma)) return read(*gamma, 0, n, buffer);
  std::fill_n(buffer, n, T{1});
  return buffer;
}

/// RMS norm has no mean and no beta; a layer norm may have no beta.
bool is_rms(const Kernel& k) {
  return k.kind == KernelKind::rms_norm_forward || k.kind == KernelKind::rms_norm_backward_input ||
         k.kind == KernelKind::rms_norm_backward_weight;
}

template <class T>
void norm_forward(const Kernel& k, const Operands& o, const KernelContext& context) {
  KernelScratch& scratch = *context.scratch;
  const std::uint64_t n = k.columns;
  const bool cut = k.options.cut;
  const bool rms = is_rms(k);
  const Operand& y = o[N::y];
  const Statistics stats{&o[N::stats], rms};
  const T* gamma = gamma_of(o, n, scratch.get<T>(row_a, n));
  const Operand* shift = o.find(N::beta);
  const T* beta = shift == nullptr ? nullptr : read(*shift, 0, n, scratch.get<T>(row_b, n));
  T* in = scratch.get<T>(row_c, n);
  T* out = scratch.get<T>(row_d, n);
  const auto width = static_cast<T>(cut ? k.depth : n);
  // For a cut row the sums over all its parts are operands.
  const auto sum_of = [&](const T* x) { return sum_over<T>(n, [&](std::uint64_t i) { return x[i]; }); };
  const auto squares_of = [&](const T* x, T mean) {
    return sum_over<T>(n, [&](std::uint64_t i) { return (x[i] - mean) * (x[i] - mean); });
  };
  const auto given = [&](N operand, std::uint64_t row) { return static_cast<T>(read_scalar(o[operand], row)); };
  for (std::uint64_t row = 0; row < k.rows; ++row) {
    const T* x = read(o[N::x], row * n, n, in);
    const T mean = rms ? T{0} : (cut ? given(N::sums, row) : sum_of(x)) / width;
    const T square = (cut ? given(N::squares, row) : squares_of(x, mean)) / width;
    const T inverse = T{1} / std::sqrt(square + static_cast<T>(k.parameter));
    T* r = target(y, row * n, out);
#pragma GCC ivdep
    for (std::uint64_t i = 0; i < n; ++i) r[i] = (x[i] - mean) * inverse * gamma[i];
    if (beta != nullptr) {
#pragma GCC ivdep
      for (std::uint64_t i = 0; i < n; ++i) r[i] += beta[i];
    }
    finish(y, row * n, n, r);
    stats.put(row, mean, inverse);
  }
}

// With z = (x - mean) / deviation and g = dy gamma:
//   dx = (g - mean(g) - z mean(g z)) / deviation;  RMS norm lacks the mean(g) term.
template <class T>
void norm_backward_input(const Kernel& k, const Operands& o, const KernelContext& context) {
  KernelScratch& scratch = *context.scratch;
  const std::uint64_t n = k.columns;
  const bool cut = k.options.cut;
  const bool rms = is_rms(k);
  const Statistics stats{&o[N::stats], rms};
  const bool add = !k.options.residual;  // to dx itself, else to the residual gradient
  const Operand& dx = o[N::dx];
  const T* gamma = gamma_of(o, n, scratch.get<T>(row_a, n));
  T* in_dy = scratch.get<T>(row_b, n);
  T* in_x = scratch.get<T>(row_c, n);
  T* out = scratch.get<T>(row_d, n);
  T* in_residual = scratch.get<T>(row_e, n);
  const auto width = static_cast<T>(cut ? k.depth : n);
  const auto given = [&](std::uint64_t row, bool z) {
    return static_cast<T>(read_scalar(o[N::gradient_sums], rms ? row : 2 * row + (z ? 1 : 0)));
  };
  for (std::uint64_t row = 0; row < k.rows; ++row) {
    const T* dy = read(o[N::dy], row * n, n, in_dy);
    const T* x = read(o[N::x], row * n, n, in_x);
    const T mean = stats.mean<T>(row);
    const T inverse = stats.inverse<T>(row);
    const auto sum_g = [&] { return sum_over<T>(n, [&](std::uint64_t i) { return dy[i] * gamma[i]; }); };
    const auto sum_gz = [&] {
      return sum_over<T>(n, [&](std::uint64_t i) { return dy[i] * gamma[i] * ((x[i] - mean) * inverse); });
    };
    const T mean_g = rms ? T{0} : (cut ? given(row, false) : sum_g()) / width;
    const T mean_gz = (cut ? given(row, true) : sum_gz()) / width;
    T* d = add ? update(dx, row * n, n, out) : target(dx, row * n, out);
    const T* from = add ? d : read(o[N::residual], row * n, n, in_residual);
#pragma GCC ivdep
    for (std::uint64_t i = 0; i < n; ++i) {
      d[i] = from[i] + inverse * (dy[i] * gamma[i] - mean_g - (x[i] - mean) * inverse * mean_gz);
    }
    finish(dx, row * n, n, d);
  }
}

template <class T>
void norm_backward_weight(const Kernel& k, const Operands& o, const KernelContext& context) {
  KernelScratch& scratch = *context.scratch;
  const std::uint64_t n = k.columns;
  const bool rms = is_rms(k);
  const Statistics stats{&o[N::stats], rms};
  T* in_dy = scratch.get<T>(row_b, n);
  T* in_x = scratch.get<T>(row_c, n);
  T* gamma_sum = scratch.get<T>(sums, 2 * n);
  T* beta_sum = gamma_sum + n;
  std::fill_n(gamma_sum, 2 * n, T{0});
  for (std::uint64_t row = 0; row < k.rows; ++row) {
    const T* dy = read(o[N::dy], row * n, n, in_dy);
    const T* x = read(o[N::x], row * n, n, in_x);
    const T mean = stats.mean<T>(row);
    const T inverse = stats.inverse<T>(row);
#pragma GCC ivdep
    for (std::uint64_t i = 0; i < n; ++i) {
      gamma_sum[i] += dy[i] * ((x[i] - mean) * inverse);
      beta_sum[i] += dy[i];
    }
  }
  T* out = scratch.get<T>(row_d, n);
  const auto add = [&](const Operand& gradient, const T* sum) {
    T* d = update(gradient, 0, n, out);
    for (std::uint64_t i = 0; i < n; ++i) d[i] += sum[i];
    finish(gradient, 0, n, d);
  };
  add(o[N::dgamma], gamma_sum);
  if (const Operand* dbeta = o.find(N::dbeta)) add(*dbeta, beta_sum);
}

template <class T>
void norm_sums(const Kernel& k, const Operands& o, const KernelContext& context) {
  KernelScratch& scratch = *context.scratch;
  const std::uint64_t n = k.columns;
  T* in = scratch.get<T>(row_c, n);
  for (std::uint64_t row = 0; row < k.rows; ++row) {
    const T* x = read(o[N::x], row * n, n, in);
    write_scalar(o[N::sums], static_cast<double>(sum_over<T>(n, [&](std::uint64_t i) { return x[i]; })), row);
  }
}

template <class T>
void norm_squares(const Kernel& k, const Operands& o, const KernelContext& context) {
  KernelScratch& scratch = *context.scratch;
  const std::uint64_t n = k.columns;
  const bool centered = k.options.centered;
  T* in = scratch.get<T>(row_c, n);
  for (std::uint64_t row = 0; row < k.rows; ++row) {
    const T* x = read(o[N::x], row * n, n, in);
    const T mean = centered ? static_cast<T>(read_scalar(o[N::sums], row)) / static_cast<T>(k.depth) : T{0};
    const T sum = sum_over<T>(n, [&](std::uint64_t i) { return (x[i] - mean) * (x[i] - mean); });
    write_scalar(o[N::squares], static_cast<double>(sum), row);
  }
}

template <class T>
void norm_gradient_sums(const Kernel& k, const Operands& o, const KernelContext& context) {
  KernelScratch& scratch = *context.scratch;
  const std::uint64_t n = k.columns;
  const bool rms = !k.options.centered;
  const Statistics stats{&o[N::stats], rms};
  const T* gamma = gamma_of(o, n, scratch.get<T>(row_a, n));
  T* in_dy = scratch.get<T>(row_b, n);
  T* in_x = scratch.get<T>(row_c, n);
  for (std::uint64_t row = 0; row < k.rows; ++row) {
    const T* dy = read(o[N::dy], row * n, n, in_dy);
    const T* x = read(o[N::x], row * n, n, in_x);
    const T mean = stats.mean<T>(row);
    const T inverse = stats.inverse<T>(row);
    if (!rms) {
      const T g = sum_over<T>(n, [&](std::uint64_t i) { return dy[i] * gamma[i]; });
      write_scalar(o[N::sums], static_cast<double>(g), 2 * row);
    }
    const T gz = sum_over<T>(n, [&](std::uint64_t i) { return dy[i] * gamma[i] * ((x[i] - mean) * inverse); });
    write_scalar(o[N::sums], static_cast<double>(gz), rms ? row : 2 * row + 1);
  }
}

}  // namespace

std::span<const HostKernel> norm_kernels() {
  static constexpr HostKernel list[] = {
      {KernelKind::layer_norm_forward, norm_forward<float>, norm_forward<double>},
      {KernelKind::layer_norm_backward_input, norm_backward_input<float>, norm_backward_input<double>},
      {KernelKind::layer_norm_backward_weight, norm_backward_weight<float>, norm_backward_weight<double>},
      {KernelKind::rms_norm_forward, norm_forward<float>, norm_forward<double>},
      {KernelKind::rms_norm_backward_input, norm_backward_input<float>, norm_backward_input<double>},
      {KernelKind::rms_norm_backward_weight, norm_backward_weight<float>, norm_backward_weight<double>},
      {KernelKind::norm_sums, norm_sums<float>, norm_sums<double>},
      {KernelKind::norm_squares, norm_squares<float>, norm_squares<double>},
      {KernelKind::norm_gradient_sums, norm_gradient_sums<float>, norm_gradient_sums<double>},
  };
  return list;
}

}  // namespace orrery::cpu
