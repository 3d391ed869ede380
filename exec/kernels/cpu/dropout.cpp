#include <algorithm>

#include "exec/kernels/cpu/dropout_key.hpp"
#include "exec/kernels/cpu/kernels.hpp"

namespace orrery::cpu {
namespace {

/// What a branch is multiplied by.
double scale_of(const Kernel& k) { return k.scale == 0.0 ? 1.0 : k.scale; }

/// Global element index of the first element of a row of features.
std::uint64_t row_index(const Place& place, std::uint64_t row, std::uint64_t columns) {
  const std::uint64_t local = place.first + row * columns;
  return place.shard == nullptr ? local : global_index(*place.shard, place.box, local);
}

void decide(const DropoutKey& key, std::uint64_t element, std::uint64_t count, std::uint8_t* mask) {
  for (std::uint64_t i = 0; i < count; ++i) mask[i] = key.keeps(element + i) ? 1 : 0;
}

template <class T>
void residual_forward(const Kernel& k, const Operands& o, const KernelContext& context) {
  const std::uint64_t n = k.columns;
  KernelScratch& scratch = *context.scratch;
  const T* bias = k.options.bias ? read(o[N::bias], 0, n, scratch.get<T>(0, n)) : nullptr;
  const Operand& residual = o[N::residual];
  const Operand& y = o[N::y];
  T* in_x = scratch.get<T>(1, n);
  T* in_residual = scratch.get<T>(2, n);
  T* out = scratch.get<T>(3, n);
  const auto scale = static_cast<T>(scale_of(k));
  const auto inverse = static_cast<T>(scale_of(k) / (1.0 - k.parameter));
  for (std::uint64_t row = 0; row < k.rows; ++row) {
    const T* x = read(o[N::x], row * n, n, in_x);
    const T* r = read(residual, row * n, n, in_residual);
    T* sum = target(y, row * n, out);
    if (k.options.dropout) {
      const DropoutKey key(k, context);
      const Operand& mask_operand = o[N::mask];
      auto* mask = static_cast<std::uint8_t*>(mask_operand.data) + row * n;
      decide(key, row_index(mask_operand.place.shard != nullptr ? mask_operand.place : y.place, row, n), n, mask);
      for (std::uint64_t i = 0; i < n; ++i) {
        const T branch = bias != nullptr ? x[i] + bias[i] : x[i];
        sum[i] = r[i] + (mask[i] != 0 ? branch * inverse : T{0});
      }
    } else if (bias != nullptr) {
#pragma GCC ivdep
      for (std::uint64_t i = 0; i < n; ++i) sum[i] = r[i] + scale * (x[i] + bias[i]);
    } else {
#pragma GCC ivdep
      for (std::uint64_t i = 0; i < n; ++i) sum[i] = r[i] + scale * x[i];
    }
    finish(y, row * n, n, sum);
  }
}

template <class T>
void dropout_forward(const Kernel& k, const Operands& o, const KernelContext& context) {
  const std::uint64_t n = k.columns;
  const DropoutKey key(k, context);
  T* buffer = context.scratch->get<T>(0, n);
  const auto inverse = static_cast<T>(1.0 / (1.0 - k.parameter));
  for (std::uint64_t row = 0; row < k.rows; ++row) {
    auto* mask = static_cast<std::uint8_t*>(o[N::mask].data) + row * n;
    decide(key, row_index(o[N::mask].place.shard != nullptr ? o[N::mask].place : o[N::x].place, row, n), n, mask);
    T* x = update(o[N::x], row * n, n, buffer);
    for (std::uint64_t i = 0; i < n; ++i) x[i] = mask[i] != 0 ? x[i] * inverse : T{0};
    finish(o[N::x], row * n, n, x);
  }
}

template <class T>
void dropout_backward(const Kernel& k, const Operands& o, const KernelContext&) {
  T in[tile];
  T out[tile];
  const auto inverse = static_cast<T>(scale_of(k) / (1.0 - k.parameter));
  for (std::uint64_t at = 0; at < o[N::dx].count; at += tile) {
    const std::uint64_t n = std::min(tile, o[N::dx].count - at);
    const T* dy = read(o[N::dy], at, n, in);
    const auto* mask = static_cast<const std::uint8_t*>(o[N::mask].data) + at;
    T* dx = target(o[N::dx], at, out);
#pragma GCC ivdep
    for (std::uint64_t i = 0; i < n; ++i) dx[i] = mask[i] != 0 ? dy[i] * inverse : T{0};
    finish(o[N::dx], at, n, dx);
  }
}

}  // namespace

std::span<const HostKernel> dropout_kernels() {
  static constexpr HostKernel list[] = {
      {KernelKind::residual_forward, residual_forward<float>, residual_forward<double>},
      {KernelKind::dropout_forward, dropout_forward<float>, dropout_forward<double>},
      {KernelKind::dropout_backward, dropout_backward<float>, dropout_backward<double>},
  };
  return list;
}

}  // namespace orrery::cpu
