#pragma once

#include <algorithm>
#include <cstdint>

#include "exec/kernels/device/launcher.hpp"
#include "exec/kernels/device/product_types.hpp"

/// Products of a factor in f32 with one in 16 bits, as a head's backward pass has: the gradient of the logits is in
/// f32, weights and inputs are in 16 bits. The first is rounded to the second's type, so that tensor cores multiply
/// both; PyTorch and Megatron-LM have this gradient in 16 bits, too.
///
/// The rounded copy would be half as large as the logits. So the result is made in parts, each of some of its rows (or
/// columns), which need as many lines of the rounded factor: the sums stay whole, so a part changes no rounding.
namespace orrery::device {

/// Elements of the rounded copy: 128 MiB.
inline constexpr std::uint64_t most_rounded = std::uint64_t{64} << 20;

/// out[i] for the lines from `first` on: `out` has as they are stored, whole lines behind one another, or `across`
/// lines side by side where those of `x` are columns of its rows of `row` elements.
struct RoundLines {
  Elements x, out;
  std::uint64_t first, across, row, row_out;
  ORRERY_ON_DEVICE void operator()(std::uint64_t i) const {
    const std::uint64_t r = i / across, c = i % across;
    out.store(r * row_out + c, x.load<float>(r * row + first + c));
  }
};

template <class Launcher>
void multiply_rounded(Launcher& l, const Product& p, std::uint64_t most_elements = most_rounded) {
  const bool wide_a = p.a.x.dtype == DType::f32;
  const DType narrow = wide_a ? p.b.x.dtype : p.a.x.dtype;
  const Product::Factor& wide = wide_a ? p.a : p.b;
  const std::uint64_t lines = wide_a ? p.rows : p.columns;
  // Whether a line, of `depth` elements, is a column of the stored matrix. Lines side by side are a multiple of 8, so
  // that rows of the copy begin at multiples of 16 bytes.
  const bool columns = wide_a == wide.transposed;
  const std::uint64_t fit = std::max<std::uint64_t>(most_elements / p.depth, 1);
  const std::uint64_t at_once = std::min(lines, fit > 128 ? fit / 128 * 128 : fit);
  const auto padded = [](std::uint64_t n) { return (n + 7) / 8 * 8; };
  const std::uint64_t row_out = padded(columns ? at_once : p.depth);
  const Elements copy(l.scratch((columns ? p.depth : at_once) * row_out * size_of(narrow)), narrow);
  for (std::uint64_t first = 0; first < lines; first += at_once) {
    const std::uint64_t n = std::min(at_once, lines - first);
    if (columns) {
      for_each(l, p.depth * n, RoundLines{wide.x, copy, first, n, wide.row, row_out});
    } else {
      for_each(l, n * p.depth, RoundLines{at(wide.x, first * wide.row), copy, 0, p.depth, wide.row, row_out});
    }
    Product part = p;
    Product::Factor& rounded = wide_a ? part.a : part.b;
    rounded.x = copy;
    rounded.row = row_out;
    if (wide_a) {
      part.rows = n;
      part.c.x = at(p.c.x, first * p.c.row);
    } else {
      part.columns = n;
      part.c.x = at(p.c.x, first);
      if (p.bias.data != nullptr) part.bias = at(p.bias, first);
    }
    l.multiply(part);
  }
}

}  // namespace orrery::device
