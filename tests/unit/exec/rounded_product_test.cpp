// Products of a factor in f32 with one in 16 bits, as a GPU makes them.

#include <catch2/catch.hpp>

#include <vector>

#include "exec/kernels/device/device_kernels.hpp"
#include "exec/kernels/device/host_launcher.hpp"
#include "tests/unit/exec/device_compare.hpp"

using namespace orrery;
using namespace orrery::test;

namespace {

// Sizes are no multiples of 8, and most lines need several parts.
constexpr std::uint64_t rows = 300, columns = 270, depth = 23;

Kernel product(DType result, int options) {
  Kernel k = kernel(KernelKind::gemm, result, rows, columns, depth);
  k.options.transpose_a = (options & 1) != 0;
  k.options.transpose_b = (options & 2) != 0;
  k.options.bias = (options & 4) != 0;
  return k;
}
Memory rounded(const Memory& x, DType t) {
  Memory y(t, x.count());
  for (std::uint64_t i = 0; i < x.count(); ++i) y.set(i, x[i]);
  return y;
}

}  // namespace

// The host's kernel keeps the factor in f32; rounding it is off by half a unit in the last place of each element.
TEST_CASE("a GPU multiplies an f32 factor with one in 16 bits", "[gpu-bodies]") {
  const DType narrow = GENERATE(DType::bf16, DType::f16);
  const DType result = GENERATE(DType::f32, DType::bf16, DType::f16);
  if (result != DType::f32 && result != narrow) return;
  const bool wide_a = GENERATE(true, false);
  for (int options = 0; options < 16; ++options) {
    const Kernel k = product(result, options);
    Memories m{values(wide_a ? DType::f32 : narrow, rows * depth, 1),
               values(wide_a ? narrow : DType::f32, depth * columns, 2), values(result, rows * columns, 3)};
    if (k.options.bias) m.push_back(values(narrow, columns, 4));
    compare({k, m, {false, false, (options & 8) != 0}, {}}, bound(narrow));
  }
}

TEST_CASE("parts of a product with a rounded factor have the bits of the whole", "[gpu-bodies]") {
  const bool wide_a = GENERATE(true, false);
  for (int options = 0; options < 8; ++options) {
    const Kernel k = product(DType::f32, options);
    Memory a = values(wide_a ? DType::f32 : DType::bf16, rows * depth, 1);
    Memory b = values(wide_a ? DType::bf16 : DType::f32, depth * columns, 2);
    Memory bias = values(DType::f32, columns, 4);
    Memory before_a = rounded(a, DType::bf16), before_b = rounded(b, DType::bf16);
    const auto made = [&](Memory& x, Memory& y, std::uint64_t most) {
      Memory c(DType::f32, rows * columns);
      device::Product p;
      p.rows = rows;
      p.columns = columns;
      p.depth = depth;
      p.a = {device::Elements(x.operand()), k.options.transpose_a, k.options.transpose_a ? rows : depth, 0};
      p.b = {device::Elements(y.operand()), k.options.transpose_b, k.options.transpose_b ? depth : columns, 0};
      p.c = {device::Elements(c.operand()), false, columns, 0};
      if (k.options.bias) p.bias = device::Elements(bias.operand());
      device::HostLauncher launcher;
      if (most > 0) {
        device::multiply_rounded(launcher, p, most);
      } else {
        launcher.multiply(p);
      }
      return c;
    };
    const Memory whole = made(before_a, before_b, 0);
    // One line at once, seven, two parts of whole multiples of 128 lines, and all.
    for (const std::uint64_t most : {std::uint64_t{1}, 7 * depth, 140 * depth, device::most_rounded}) {
      CAPTURE(wide_a, options, most);
      CHECK(made(a, b, most) == whole);
    }
  }
}

TEST_CASE("types that a GPU does not multiply stay on the host", "[gpu-bodies]") {
  using device::multiplies;
  using device::rounds_a_factor;
  CHECK(multiplies(DType::bf16, DType::f32, DType::f32));
  CHECK_FALSE(multiplies(DType::bf16, DType::f16, DType::f32));
  CHECK_FALSE(multiplies(DType::f32, DType::bf16, DType::f32));
  CHECK_FALSE(multiplies(DType::f32, DType::f64, DType::f64));
  CHECK(rounds_a_factor(DType::f32, DType::bf16, DType::bf16, DType::f32));
  CHECK(rounds_a_factor(DType::f16, DType::f32, DType::f32, DType::f32));
  CHECK_FALSE(rounds_a_factor(DType::bf16, DType::bf16, DType::bf16, DType::f32));
  CHECK_FALSE(rounds_a_factor(DType::bf16, DType::f16, DType::f32, DType::f32));
  CHECK_FALSE(rounds_a_factor(DType::f64, DType::bf16, DType::f32, DType::f32));
  CHECK_FALSE(rounds_a_factor(DType::f32, DType::bf16, DType::f16, DType::f32));

  Memory a(DType::bf16, 6), b(DType::f16, 6), c(DType::f32, 4);
  const Kernel k = kernel(KernelKind::gemm, DType::f32, 2, 2, 3);
  const std::vector<Operand> operands{a.operand(), b.operand(), c.operand()};
  CHECK_FALSE(device::has_kernel(k, operands));
}
