#include <catch2/catch.hpp>

#include "exec/kernels/reference/reference_kernels.hpp"
#include "tests/unit/exec/kernel_memory.hpp"

using namespace orrery;
using namespace orrery::test;

// Sizes are single elements, fewer than a vector register, remainders, and above the blocking of the library.
TEST_CASE("a product equals plain loops for every transposition, sum and bias", "[kernels]") {
  struct Size {
    std::uint64_t m, n, d;
  };
  const Size size = GENERATE(Size{1, 1, 1}, Size{3, 5, 2}, Size{17, 33, 65}, Size{70, 130, 300});
  const DType t = GENERATE(DType::f64, DType::f32, DType::bf16, DType::f16);
  for (int options = 0; options < 16; ++options) {
    Kernel k = kernel(KernelKind::gemm, t, size.m, size.n, size.d);
    k.options.transpose_a = (options & 1) != 0;
    k.options.transpose_b = (options & 2) != 0;
    k.options.bias = (options & 4) != 0;
    const bool add = (options & 8) != 0;
    Memory a = Memory::random(t, size.m * size.d, 1);
    Memory b = Memory::random(t, size.d * size.n, 2);
    Memory c = Memory::random(t, size.m * size.n, 3);
    Memory bias = Memory::random(t, size.n, 4);
    Memory expected = c;
    std::vector<Operand> operands = {a.operand(), b.operand(), expected.operand(add)};
    if (k.options.bias) operands.push_back(bias.operand());
    reference::gemm(k, operands);
    operands[2] = c.operand(add);
    run(k, operands);
    CAPTURE(size.m, size.n, size.d, name_of(t), options);
    CHECK(error(c, expected) <= tolerance(t));
  }
}

// Weight gradients of 16-bit training have 16-bit factors, and a sum in f32 that keeps what 16 bits would lose.
TEST_CASE("16-bit factors accumulate into an f32 sum without rounding to 16 bits", "[kernels]") {
  for (const DType t : {DType::bf16, DType::f16}) {
    Kernel k = kernel(KernelKind::gemm, t, 9, 7, 50);
    k.options.transpose_a = true;
    Memory a = Memory::random(t, 9 * 50, 1);
    Memory b = Memory::random(t, 7 * 50, 2);
    Memory c = Memory::random(DType::f32, 9 * 7, 3);
    Memory expected = c;
    reference::gemm(k, std::vector<Operand>{a.operand(), b.operand(), expected.operand(true)});
    run(k, {a.operand(), b.operand(), c.operand(true)});
    CHECK(error(c, expected) <= tolerance(DType::f32));
  }
}
