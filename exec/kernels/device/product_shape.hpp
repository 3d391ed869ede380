#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "exec/kernels/device/launcher.hpp"

/// What a library of matrix products is told of a product, but where its matrices lie.
namespace orrery::device {

/// The largest power of two, at most 256, that divides the address.
[[nodiscard]] inline std::uint32_t alignment_of(std::uintptr_t at) {
  std::uint32_t alignment = 256;
  while (at % alignment != 0) alignment /= 2;
  return alignment;
}
[[nodiscard]] inline std::uint32_t alignment_of(const void* at) {
  return alignment_of(reinterpret_cast<std::uintptr_t>(at));
}

/// That of all matrices of the batch; below 16 bytes also that of their rows: a library that reads 16 bytes at once
/// must not where rows of 50257 elements of two bytes begin at any even address. Longer reads than 16 bytes do not
/// exist, so rows that begin at multiples of them leave the alignment of the matrix.
[[nodiscard]] inline std::uint32_t alignment_of(const Product::Factor& f, std::uint64_t batch) {
  const std::uint64_t size = size_of(f.x.dtype);
  const auto at = reinterpret_cast<std::uintptr_t>(f.x.data);
  const std::uint32_t of_matrix = alignment_of(batch > 1 ? at | f.step * size : at);
  const std::uint32_t of_row = alignment_of(std::uintptr_t{f.row * size});
  return of_row < 16 ? std::min(of_matrix, of_row) : of_matrix;
}

/// Products with the same shape may share descriptions and an algorithm: it holds all that these depend on, alignments
/// included, and no address.
using ProductShape = std::array<std::uint64_t, 22>;

[[nodiscard]] inline ProductShape shape_of(const Product& p) {
  const auto number = [](auto x) { return static_cast<std::uint64_t>(x); };
  return {
      p.rows,
      p.columns,
      p.depth,
      p.batch,
      number(p.a.transposed) | number(p.b.transposed) << 1 | number(p.add) << 2 | number(p.bias.data != nullptr) << 3,
      number(p.a.x.dtype),
      number(p.b.x.dtype),
      number(p.c.x.dtype),
      number(p.bias.data != nullptr ? p.bias.dtype : p.c.x.dtype),
      number(p.compute == DType::f64),
      number(p.a.format),
      number(p.b.format),
      p.a.row,
      p.b.row,
      p.c.row,
      p.a.step,
      p.b.step,
      p.c.step,
      alignment_of(p.a, p.batch),
      alignment_of(p.b, p.batch),
      alignment_of(p.c, p.batch),
      alignment_of(p.bias.data)};
}

}  // namespace orrery::device
