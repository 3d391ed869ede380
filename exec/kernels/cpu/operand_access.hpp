#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <type_traits>

#include "core/base/diagnostics.hpp"
#include "exec/kernels/convert.hpp"
#include "exec/kernels/kernel_runner.hpp"
#include "exec/kernels/named_operands.hpp"

namespace orrery::cpu {

using Operands = NamedOperands;
using N = OperandName;

template <class T>
inline constexpr DType dtype_of = std::is_same_v<T, double> ? DType::f64 : DType::f32;

/// Elements of a piece of a long vector that stays in the first-level cache.
inline constexpr std::uint64_t tile = 1024;

/// Elements [first, first + count) as T: in place where the operand stores T, otherwise converted into `buffer`.
template <class T>
[[nodiscard]] const T* read(const Operand& operand, std::uint64_t first, std::uint64_t count, T* buffer) {
  if (operand.dtype == dtype_of<T>) return static_cast<const T*>(operand.data) + first;
  load_elements(operand.dtype, operand.data, first, count, buffer);
  return buffer;
}

/// Where to compute elements [first, ...) of an output: in place or in `buffer`.
/// `finish` then rounds the buffer into the operand.
template <class T>
[[nodiscard]] T* target(const Operand& operand, std::uint64_t first, T* buffer) {
  return operand.dtype == dtype_of<T> ? static_cast<T*>(operand.data) + first : buffer;
}
template <class T>
[[nodiscard]] T* update(const Operand& operand, std::uint64_t first, std::uint64_t count, T* buffer) {
  if (operand.dtype == dtype_of<T>) return static_cast<T*>(operand.data) + first;
  load_elements(operand.dtype, operand.data, first, count, buffer);
  return buffer;
}
template <class T>
void finish(const Operand& operand, std::uint64_t first, std::uint64_t count, const T* buffer) {
  if (operand.dtype != dtype_of<T>) store_elements(operand.dtype, operand.data, first, count, buffer);
}

/// Global position of local row group `i` (the rows of one position stand together).
[[nodiscard]] inline std::uint64_t position_at(const Place& place, std::uint64_t i) {
  return place.shard == nullptr ? i : coordinate_of(place.shard->dims[0], place.box.offset[0] + i);
}

[[nodiscard]] inline double read_scalar(const Operand& operand, std::uint64_t at = 0) {
  double value = 0.0;
  load_elements(operand.dtype, operand.data, at, 1, &value);
  return value;
}
inline void write_scalar(const Operand& operand, double value, std::uint64_t at = 0) {
  store_elements(operand.dtype, operand.data, at, 1, &value);
}

/// Sum with a fixed order of additions that a compiler can vectorise: 16
/// running sums, then a tree.
template <class T>
[[nodiscard]] T sum16(const std::array<T, 16>& part) {
  std::array<T, 16> s = part;
  for (std::size_t width = 8; width > 0; width /= 2) {
    for (std::size_t i = 0; i < width; ++i) s[i] += s[i + width];
  }
  return s[0];
}

/// Sum of f(i) over i < count.
template <class T, class Function>
[[nodiscard]] T sum_over(std::uint64_t count, Function f) {
  std::array<T, 16> part{};
  const std::uint64_t whole = count - count % 16;
  for (std::uint64_t i = 0; i < whole; i += 16) {
    for (std::uint64_t j = 0; j < 16; ++j) part[j] += f(i + j);
  }
  for (std::uint64_t i = whole; i < count; ++i) part[i - whole] += f(i);
  return sum16(part);
}

/// The largest of `least` and x[i] over i < count; a NaN does not count.
template <class T>
[[nodiscard]] T max_over(std::uint64_t count, const T* x, T least) {
  std::array<T, 16> part;
  part.fill(least);
  const std::uint64_t whole = count - count % 16;
  for (std::uint64_t i = 0; i < whole; i += 16) {
    for (std::uint64_t j = 0; j < 16; ++j) part[j] = part[j] < x[i + j] ? x[i + j] : part[j];
  }
  for (std::uint64_t i = whole; i < count; ++i) part[0] = part[0] < x[i] ? x[i] : part[0];
  for (std::size_t j = 1; j < 16; ++j) part[0] = part[0] < part[j] ? part[j] : part[0];
  return part[0];
}

}  // namespace orrery::cpu
