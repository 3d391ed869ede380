#pragma once

#include <cstdint>
#include <span>

#include "exec/kernels/device/launcher.hpp"

/// Products whose factors are rounded to 8 bits on their way: x = s q, with one scale for each matrix, which follows
/// from its current largest element.
///
///     s = max |x| / m        q = round(x / s)        C = s_a s_b q_a q_b
///
///     m  the format's largest number: 448 of E4M3, and 57344 of E5M2, which gradients have
///
/// Source: Micikevicius et al., "FP8 formats for deep learning", 2022, section 3.  An infinite element makes a NaN.
namespace orrery::device {

[[nodiscard]] ORRERY_ON_DEVICE inline std::uint8_t float8_of(Float8 format, float x) {
  return format == Float8::e4m3 ? e4m3_of(x) : e5m2_of(x);
}
[[nodiscard]] ORRERY_ON_DEVICE inline float largest_of(Float8 format) {
  return format == Float8::e4m3 ? e4m3_largest : e5m2_largest;
}

/// Number of blocks that look for a matrix's largest element.
inline constexpr std::uint64_t largest_blocks = 512;

struct LargestOfBlocks {
  Elements x;
  std::uint64_t count;
  float* partial;
  template <class Block>
  ORRERY_KERNEL_BODY void operator()(Block& b) const {
    float most = 0.0F;
    for (std::uint64_t i = b.index() * b.threads() + b.thread(); i < count; i += b.blocks() * b.threads()) {
      const float v = x.load<float>(i);
      const float magnitude = v < 0.0F ? -v : v;
      most = most < magnitude ? magnitude : most;
    }
    most = b.largest(most);
    if (b.thread() == 0) partial[b.index()] = most;
  }
};
/// A matrix of zeros has the scale 1.
struct ScaleOfLargest {
  const float* partial;
  std::uint64_t count;
  Float8 format;
  float* scale;
  template <class Block>
  ORRERY_KERNEL_BODY void operator()(Block& b) const {
    float most = 0.0F;
    for (std::uint64_t i = b.thread(); i < count; i += b.threads()) most = most < partial[i] ? partial[i] : most;
    most = b.largest(most);
    if (b.thread() == 0) *scale = most > 0.0F ? most / largest_of(format) : 1.0F;
  }
};

struct RoundToFloat8 {
  Elements x;
  Float8 format;
  const float* scale;
  std::uint8_t* out;
  ORRERY_ON_DEVICE void operator()(std::uint64_t i) const { out[i] = float8_of(format, x.load<float>(i) / *scale); }
};
/// out[column, row] of x[rows, columns], made in tiles, so that neighbouring threads read and write neighbours.
struct RoundToFloat8Transposed {
  Elements x;
  Float8 format;
  const float* scale;
  std::uint8_t* out;
  std::uint64_t rows, columns;
  static constexpr std::uint64_t side = 32;
  template <class Block>
  ORRERY_KERNEL_BODY void operator()(Block& b, std::uint64_t tile) const {
    auto* part = b.template shared<std::uint8_t>();  // [column][row], with a column to spare against bank conflicts
    const std::uint64_t across = (columns + side - 1) / side;
    const std::uint64_t first_row = tile / across * side, first_column = tile % across * side;
    for (std::uint64_t i = b.thread(); i < side * side; i += b.threads()) {
      const std::uint64_t r = first_row + i / side, c = first_column + i % side;
      if (r >= rows || c >= columns) continue;
      part[(i % side) * (side + 4) + i / side] = float8_of(format, x.load<float>(r * columns + c) / *scale);
    }
    b.sync();
    for (std::uint64_t i = b.thread(); i < side * side; i += b.threads()) {
      const std::uint64_t r = first_row + i % side, c = first_column + i / side;
      if (r >= rows || c >= columns) continue;
      out[c * rows + r] = part[(i / side) * (side + 4) + i % side];
    }
  }
};

/// Whether a product that is to be made in fp8 can be: cuBLASLt asks for sizes and addresses that are multiples of 16.
[[nodiscard]] inline bool fits_fp8(const Kernel& k, const Operand& c) {
  const bool sizes = k.rows % 16 == 0 && k.columns % 16 == 0 && k.depth % 16 == 0;
  const bool result = c.dtype == DType::bf16 || c.dtype == DType::f32;
  return k.compute == DType::f8 && sizes && result && reinterpret_cast<std::uintptr_t>(c.data) % 16 == 0;
}

/// Replaces the factors of `p`, a product of the kernel, by their copies in f8. Both are stored with the sum's
/// dimension innermost, the only order that Hopper's fp8 products take.
template <class Launcher>
void round_factors(Launcher& l, const Kernel& k, Product& p) {
  const std::uint64_t a_count = k.rows * k.depth, b_count = k.columns * k.depth;
  // The memory has [a][b][largest of blocks][scale of a, of b]; the counts are multiples of 256.
  auto* memory = static_cast<std::uint8_t*>(l.scratch(a_count + b_count + (largest_blocks + 2) * sizeof(float)));
  auto* partial = reinterpret_cast<float*>(memory + a_count + b_count);
  const auto round = [&](Product::Factor& f, Float8 format, std::uint8_t* out, float* scale, std::uint64_t rows,
                         bool transposes) {
    const std::uint64_t count = rows * k.depth;
    l.launch(LargestOfBlocks{f.x, count, partial},
             std::min(largest_blocks, (count + 4 * usual_threads - 1) / (4 * usual_threads)), usual_threads, 0);
    l.launch(ScaleOfLargest{partial, std::min(largest_blocks, (count + 4 * usual_threads - 1) / (4 * usual_threads)),
                            format, scale},
             1, usual_threads, 0);
    if (transposes) {
      constexpr std::uint64_t side = RoundToFloat8Transposed::side;
      const std::uint64_t tiles = (k.depth + side - 1) / side * ((rows + side - 1) / side);
      for_each_row(l, tiles, RoundToFloat8Transposed{f.x, format, scale, out, k.depth, rows}, usual_threads,
                   side * (side + 4));
    } else {
      for_each(l, count, RoundToFloat8{f.x, format, scale, out});
    }
    f.x = Elements(out, DType::f8);
    f.row = k.depth;
    f.format = format;
    f.scale = scale;
  };
  round(p.a, k.pass == Pass::input_gradient ? Float8::e5m2 : Float8::e4m3, memory, partial + largest_blocks, k.rows,
        k.options.transpose_a);
  round(p.b, k.pass == Pass::weight_gradient ? Float8::e5m2 : Float8::e4m3, memory + a_count,
        partial + largest_blocks + 1, k.columns, !k.options.transpose_b);
  p.a.transposed = false;
  p.b.transposed = true;
}

}  // namespace orrery::device
