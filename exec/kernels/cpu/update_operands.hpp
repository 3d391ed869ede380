#pragma once

#include <algorithm>

#include "exec/kernels/cpu/operand_access.hpp"

/// What the kernels that update parameters share.
namespace orrery::cpu {

/// Factor {multiplier, skip}: gradients times the multiplier, or no update.
struct Factor {
  double multiplier = 1.0;
  bool skip = false;
  explicit Factor(const Operand* operand) {
    if (operand == nullptr) return;
    multiplier = read_scalar(*operand, 0);
    skip = read_scalar(*operand, 1) != 0.0;
  }
};

/// Operands of an update after the optional ones are sorted out.
struct Update {
  const Operand* factor = nullptr;
  const Operand* weight = nullptr;
  const Operand* master = nullptr;
  const Operand* moments = nullptr;

  Update(const Kernel& k, Operands o) {
    std::size_t next = 2;  // gradient, steps
    if (k.options.factor) factor = &o[next++];
    weight = &o[next++];
    if (k.options.master) master = &o[next++];
    if (next < o.size()) moments = &o[next];
  }
};

/// Calls `step(gradient, weight, first, count)` for tile after tile; the weight
/// is the master where there is one, and the stored weight its rounded copy.
template <class T, class Step>
void for_each_tile(const Update& u, const Operand& gradient, T multiplier, Step step) {
  T g_buffer[tile];
  T w_buffer[tile];
  T scaled[tile];
  const Operand& exact = u.master != nullptr ? *u.master : *u.weight;
  for (std::uint64_t at = 0; at < gradient.count; at += tile) {
    const std::uint64_t n = std::min(tile, gradient.count - at);
    const T* g = read(gradient, at, n, g_buffer);
    for (std::uint64_t i = 0; i < n; ++i) scaled[i] = g[i] * multiplier;
    T* w = update(exact, at, n, w_buffer);
    step(scaled, w, at, n);
    finish(exact, at, n, w);
    if (u.master != nullptr) store_elements(u.weight->dtype, u.weight->data, at, n, w);
  }
}

}  // namespace orrery::cpu
