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

}  // namespace

template <class T>
void norm_forward(const Kernel& k, Operands o, bool rms, KernelScratch& scratch) {
  const std::uint64_t n = k.columns;
  const bool cut = k.options.cut;
  const Operand& y = o[(rms ? 2 : 3) + (cut ? (rms ? 1 : 2) : 0)];
  const Statistics stats{&o[(rms ? 3 : 4) + (cut ? (rms ? 1 : 2) : 0)], rms};
  const T* gamma = read(o[1], 0, n, scratch.get<T>(row_a, n));
  const T* beta = rms ? nullptr : read(o[2], 0, n, scratch.get<T>(row_b, n));
  T* in = scratch.get<T>(row_c, n);
  T* out = scratch.get<T>(row_d, n);
  const auto width = static_cast<T>(cut ? k.depth : n);
  // For a cut row the sums over all its parts are operands.
  const auto sum_of = [&](const T* x) { return sum_over<T>(n, [&](std::uint64_t i) { return x[i]; }); };
  const auto squares_of = [&](const T* x, T mean) {
    return sum_over<T>(n, [&](std::uint64_t i) { return (x[i] - mean) * (x[i] - mean); });
  };
  const auto given = [&](std::size_t operand, std::uint64_t row) {
    return static_cast<T>(read_scalar(o[operand], row));
  };
  for (std::uint64_t row = 0; row < k.rows; ++row) {
    const T* x = read(o[0], row * n, n, in);
    const T mean = rms ? T{0} : (cut ? given(3, row) : sum_of(x)) / width;
    const T square = (cut ? given(rms ? 2 : 4, row) : squares_of(x, mean)) / width;
    const T inverse = T{1} / std::sqrt(square + static_cast<T>(k.parameter));
    T* r = target(y, row * n, out);
#pragma GCC ivdep
    for (std::uint64_t i = 0; i < n; ++i) r[i] = (x[i] - mean) * inverse * gamma[i];
    if (!rms) {
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
void norm_backward_input(const Kernel& k, Operands o, bool rms, KernelScratch& scratch) {
  const std::uint64_t n = k.columns;
  const bool cut = k.options.cut;
  const Statistics stats{&o[3], rms};
  const bool add = !k.options.residual;  // to dx itself, else to the residual gradient
  const std::size_t behind = cut ? 5 : 4;
  const Operand& dx = o[add ? behind : behind + 1];
  const T* gamma = read(o[2], 0, n, scratch.get<T>(row_a, n));
  T* in_dy = scratch.get<T>(row_b, n);
  T* in_x = scratch.get<T>(row_c, n);
  T* out = scratch.get<T>(row_d, n);
  T* in_residual = scratch.get<T>(row_e, n);
  const auto width = static_cast<T>(cut ? k.depth : n);
  const auto given = [&](std::uint64_t row, bool z) {
    return static_cast<T>(read_scalar(o[4], rms ? row : 2 * row + (z ? 1 : 0)));
  };
  for (std::uint64_t row = 0; row < k.rows; ++row) {
    const T* dy = read(o[0], row * n, n, in_dy);
    const T* x = read(o[1], row * n, n, in_x);
    const T mean = stats.mean<T>(row);
    const T inverse = stats.inverse<T>(row);
    const auto sum_g = [&] { return sum_over<T>(n, [&](std::uint64_t i) { return dy[i] * gamma[i]; }); };
    const auto sum_gz = [&] {
      return sum_over<T>(n, [&](std::uint64_t i) { return dy[i] * gamma[i] * ((x[i] - mean) * inverse); });
    };
    const T mean_g = rms ? T{0} : (cut ? given(row, false) : sum_g()) / width;
    const T mean_gz = (cut ? given(row, true) : sum_gz()) / width;
    T* d = add ? update(dx, row * n, n, out) : target(dx, row * n, out);
    const T* from = add ? d : read(o[behind], row * n, n, in_residual);
#pragma GCC ivdep
    for (std::uint64_t i = 0; i < n; ++i) {
      d[i] = from[i] + inverse * (dy[i] * gamma[i] - mean_g - (x[i] - mean) * inverse * mean_gz);
    }
    finish(dx, row * n, n, d);
  }
}

template <class T>
void norm_backward_weight(const Kernel& k, Operands o, bool rms, KernelScratch& scratch) {
  const std::uint64_t n = k.columns;
  const Statistics stats{&o[2], rms};
  T* in_dy = scratch.get<T>(row_b, n);
  T* in_x = scratch.get<T>(row_c, n);
  T* gamma_sum = scratch.get<T>(sums, 2 * n);
  T* beta_sum = gamma_sum + n;
  std::fill_n(gamma_sum, 2 * n, T{0});
  for (std::uint64_t row = 0; row < k.rows; ++row) {
    const T* dy = read(o[0], row * n, n, in_dy);
    const T* x = read(o[1], row * n, n, in_x);
    const T mean = stats.mean<T>(row);
    const T inverse = stats.inverse<T>(row);
#pragma GCC ivdep
    for (std::uint64_t i = 0; i < n; ++i) {
      gamma_sum[i] += dy[i] * ((x[i] - mean) * inverse);
      beta_sum[i] += dy[i];
    }
  }
  T* out = scratch.get<T>(row_d, n);
  for (std::size_t which = 0; which < (rms ? 1U : 2U); ++which) {
    const Operand& gradient = o[3 + which];
    const T* sum = gamma_sum + which * n;
    T* d = update(gradient, 0, n, out);
    for (std::uint64_t i = 0; i < n; ++i) d[i] += sum[i];
    finish(gradient, 0, n, d);
  }
}

template <class T>
void norm_sums(const Kernel& k, Operands o, KernelScratch& scratch) {
  const std::uint64_t n = k.columns;
  T* in = scratch.get<T>(row_c, n);
  for (std::uint64_t row = 0; row < k.rows; ++row) {
    const T* x = read(o[0], row * n, n, in);
    write_scalar(o[1], static_cast<double>(sum_over<T>(n, [&](std::uint64_t i) { return x[i]; })), row);
  }
}

template <class T>
void norm_squares(const Kernel& k, Operands o, KernelScratch& scratch) {
  const std::uint64_t n = k.columns;
  const bool centered = k.options.centered;
  T* in = scratch.get<T>(row_c, n);
  for (std::uint64_t row = 0; row < k.rows; ++row) {
    const T* x = read(o[0], row * n, n, in);
    const T mean = centered ? static_cast<T>(read_scalar(o[1], row)) / static_cast<T>(k.depth) : T{0};
    const T sum = sum_over<T>(n, [&](std::uint64_t i) { return (x[i] - mean) * (x[i] - mean); });
    write_scalar(o[centered ? 2 : 1], static_cast<double>(sum), row);
  }
}

template <class T>
void norm_gradient_sums(const Kernel& k, Operands o, KernelScratch& scratch) {
  const std::uint64_t n = k.columns;
  const bool rms = !k.options.centered;
  const Statistics stats{&o[3], rms};
  const T* gamma = read(o[2], 0, n, scratch.get<T>(row_a, n));
  T* in_dy = scratch.get<T>(row_b, n);
  T* in_x = scratch.get<T>(row_c, n);
  for (std::uint64_t row = 0; row < k.rows; ++row) {
    const T* dy = read(o[0], row * n, n, in_dy);
    const T* x = read(o[1], row * n, n, in_x);
    const T mean = stats.mean<T>(row);
    const T inverse = stats.inverse<T>(row);
    if (!rms) {
      const T g = sum_over<T>(n, [&](std::uint64_t i) { return dy[i] * gamma[i]; });
      write_scalar(o[4], static_cast<double>(g), 2 * row);
    }
    const T gz = sum_over<T>(n, [&](std::uint64_t i) { return dy[i] * gamma[i] * ((x[i] - mean) * inverse); });
    write_scalar(o[4], static_cast<double>(gz), rms ? row : 2 * row + 1);
  }
}

template void norm_sums<float>(const Kernel&, Operands, KernelScratch&);
template void norm_sums<double>(const Kernel&, Operands, KernelScratch&);
template void norm_squares<float>(const Kernel&, Operands, KernelScratch&);
template void norm_squares<double>(const Kernel&, Operands, KernelScratch&);
template void norm_gradient_sums<float>(const Kernel&, Operands, KernelScratch&);
template void norm_gradient_sums<double>(const Kernel&, Operands, KernelScratch&);
template void norm_forward<float>(const Kernel&, Operands, bool, KernelScratch&);
template void norm_forward<double>(const Kernel&, Operands, bool, KernelScratch&);
template void norm_backward_input<float>(const Kernel&, Operands, bool, KernelScratch&);
template void norm_backward_input<double>(const Kernel&, Operands, bool, KernelScratch&);
template void norm_backward_weight<float>(const Kernel&, Operands, bool, KernelScratch&);
template void norm_backward_weight<double>(const Kernel&, Operands, bool, KernelScratch&);

}  // namespace orrery::cpu
