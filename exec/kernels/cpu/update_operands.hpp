#pragma once

#include <algorithm>
#include <cmath>

#include "core/program/moment_scales.hpp"
#include "exec/kernels/cpu/operand_access.hpp"
#include "exec/kernels/dynamic_map.hpp"

/// Code that kernels that update parameters share.
namespace orrery::cpu {

/// The clip factor {multiplier, skip}: gradients are multiplied, or the update is skipped.
struct Factor {
  double multiplier = 1.0;
  bool skip = false;
  explicit Factor(const Operands& o) {
    const Operand* operand = o.find(N::factor);
    if (operand == nullptr) return;
    multiplier = read_scalar(*operand, 0);
    skip = read_scalar(*operand, 1) != 0.0;
  }
};

/// What is updated: the master where there is one, and the stored weight is its rounded copy.
struct Update {
  const Operand& weight;
  const Operand* master;
  const Operand& exact;

  explicit Update(const Operands& o)
      : weight(o[N::weight]), master(o.find(N::master)), exact(master != nullptr ? *master : weight) {}
  /// Rounds elements [at, at + n), which are `w` now.
  template <class T>
  void round(std::uint64_t at, std::uint64_t n, const T* w) const {
    if (master != nullptr) store_elements(weight.dtype, weight.data, at, n, w);
  }
};

/// Calls `step(gradient, weight, first, count)` for tile after tile.
template <class T, class Step>
void for_each_tile(const Update& u, const Operand& gradient, T multiplier, Step step) {
  T g_buffer[tile];
  T w_buffer[tile];
  T scaled[tile];
  for (std::uint64_t at = 0; at < gradient.count; at += tile) {
    const std::uint64_t n = std::min(tile, gradient.count - at);
    const T* g = read(gradient, at, n, g_buffer);
    for (std::uint64_t i = 0; i < n; ++i) scaled[i] = g[i] * multiplier;
    T* w = update(u.exact, at, n, w_buffer);
    step(scaled, w, at, n);
    finish(u.exact, at, n, w);
    u.round(at, n, w);
  }
}

/// There are two scales for each block of moments (core/program/moment_scales.hpp).
class MomentScales {
 public:
  /// `type` is the first moment's.
  MomentScales(const Operand& scales, DType type) : scales_(scales), block_(moment_block(type)) {}

  /// Turns stored values [at, at + n) of moment 0 or 1, in place, into what they mean.
  template <class T>
  void apply(int moment, DType stored, std::uint64_t at, std::uint64_t n, T* x) const {
    for_each_block(at, n, [&](std::uint64_t block, std::uint64_t first, std::uint64_t end) {
      const auto scale = static_cast<T>(read_scalar(scales_, 2 * block + static_cast<std::uint64_t>(moment)));
      for (std::uint64_t i = first; i < end; ++i) x[i] = moment_of_stored(stored, moment == 1, x[i]) * scale;
    });
  }

  /// Finds new scales for these values, and scales the values.
  template <class T>
  void divide(int moment, DType stored, std::uint64_t at, std::uint64_t n, T* x) const {
    for_each_block(at, n, [&](std::uint64_t block, std::uint64_t first, std::uint64_t end) {
      T most = 0;
      for (std::uint64_t i = first; i < end; ++i) most = std::max(most, std::abs(x[i]));
      // The stored number is the value divided by the scale as it is kept.
      const auto scale = static_cast<float>(static_cast<double>(most) / largest_of(stored));
      write_scalar(scales_, static_cast<double>(scale), 2 * block + static_cast<std::uint64_t>(moment));
      for (std::uint64_t i = first; i < end; ++i) {
        x[i] = scale > 0.0F ? stored_of_moment(stored, moment == 1, x[i] / static_cast<T>(scale)) : T{0};
      }
    });
  }

 private:
  /// `at` is the beginning of a block.
  template <class Visit>
  void for_each_block(std::uint64_t at, std::uint64_t n, Visit&& visit) const {
    for (std::uint64_t first = 0; first < n; first += block_) {
      visit((at + first) / block_, first, std::min(n, first + block_));
    }
  }
  const Operand& scales_;
  std::uint64_t block_;
};

}  // namespace orrery::cpu
