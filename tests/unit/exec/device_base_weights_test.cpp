#include <catch2/catch.hpp>

#include "core/program/base_weights.hpp"
#include "tests/unit/exec/device_compare.hpp"

using namespace orrery;
using namespace orrery::test;

// Frozen matrices in few bits, on a GPU. Codes and scales are made in f64 on both sides, and products of a code's value
// and a scale are rounded once, so they agree bit for bit; int8 has a quotient, too.
TEST_CASE("a GPU quantizes matrices to the host's codes, and back", "[gpu-bodies]") {
  using enum BaseWeights;
  const DType t = GENERATE(DType::f64, DType::f32, DType::bf16, DType::f16);
  for (const auto& [base, twice] : {std::pair{nf4, false}, {nf4, true}, {int8, false}, {fp8, false}}) {
    // The last block is short, or half a byte is left; 257 blocks have two scales of scales.
    for (const auto& [rows, columns] : {std::pair{5U, 13U}, {64U, 2U}, {173U, 95U}, {1U, 1U}}) {
      Kernel k = kernel(KernelKind::quantize_weight, t, rows, columns);
      k.site = static_cast<std::uint8_t>(base);
      k.options.scaled = twice;
      CAPTURE(static_cast<int>(base), twice, rows, columns);
      const QuantizedSize size = quantized_size(k);
      const std::uint64_t count = std::uint64_t{rows} * columns;
      Memory x = Memory::random(t, count, 1, 0.02);
      // A column and a block of zeros.
      for (std::uint64_t r = 0; r < rows; ++r) x.set(r * columns, 0.0);
      for (std::uint64_t i = 64; i < 128 && i < count; ++i) x.set(i, 0.0);
      Memories m{x, Memory(code_dtype(base), size.codes), Memory(scale_dtype(twice), size.scales)};
      compare({k, m, {}, {}}, 0.0);
      Case filled{k, m, {}, {}};
      run(k, operands_of(filled, m));
      k.kind = KernelKind::dequantize_weight;
      compare({k, {m[1], m[2], zeros(t, count)}, {}, {}}, base == int8 ? bound(t) : 0.0);
    }
  }
}
