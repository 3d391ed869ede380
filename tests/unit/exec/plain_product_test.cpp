// Products that are made on ordinary cores, where a library refuses them.

#include <catch2/catch.hpp>

#include <vector>

#include "exec/kernels/device/host_launcher.hpp"
#include "tests/unit/exec/device_compare.hpp"

using namespace orrery;
using namespace orrery::test;

namespace {

// Neither whole tiles of 64 nor whole steps of 32; matrices lie further apart, and have longer rows, than they need.
constexpr std::uint64_t rows = 70, columns = 67, depth = 37, batch = 3, gap = 5;

struct Types {
  DType a, b, c, bias, compute;
};

device::Product::Factor factor(Memory& x, bool transposed, std::uint64_t down, std::uint64_t across) {
  device::Product::Factor f;
  f.x = device::Elements(x.operand());
  f.transposed = transposed;
  f.row = (transposed ? down : across) + gap;
  f.step = (transposed ? across : down) * f.row + gap;
  return f;
}

/// Random elements for such a batch; of f8, random bits that are numbers.
Memory matrices(DType t, std::uint64_t stream) {
  const std::uint64_t n = batch * ((rows + gap) * (columns + gap) + gap);
  Memory x = values(t == DType::f8 ? DType::f32 : t, n, stream);
  if (t != DType::f8) return x;
  Memory f8(DType::f8, n);
  for (std::uint64_t i = 0; i < n; ++i) f8.set(i, x[i]);
  return f8;
}

}  // namespace

TEST_CASE("ordinary cores make every product that a library may refuse", "[gpu-bodies]") {
  const Types t = GENERATE(Types{DType::f64, DType::f64, DType::f64, DType::f64, DType::f64},
                           Types{DType::f32, DType::f32, DType::f32, DType::f32, DType::f32},
                           Types{DType::bf16, DType::bf16, DType::f32, DType::bf16, DType::f32},
                           Types{DType::f16, DType::f16, DType::f16, DType::f32, DType::f32},
                           Types{DType::f8, DType::f8, DType::bf16, DType::bf16, DType::f32});
  for (int options = 0; options < 16; ++options) {
    CAPTURE(name_of(t.a), name_of(t.c), options);
    Memory a = matrices(t.a, 1), b = matrices(t.b, 2), bias = values(t.bias, columns, 3);
    const Memory before = matrices(t.c, 4);
    const float a_scale = 0.75F, b_scale = 1.5F;
    device::Product p;
    p.rows = rows;
    p.columns = columns;
    p.depth = depth;
    p.batch = batch;
    p.alpha = 0.5;
    p.compute = t.compute;
    p.add = (options & 4) != 0;
    p.a = factor(a, (options & 1) != 0, rows, depth);
    p.b = factor(b, (options & 2) != 0, depth, columns);
    if (t.a == DType::f8) {
      p.a.scale = &a_scale;
      p.b.scale = &b_scale;
      p.b.format = device::Float8::e5m2;
    }
    if ((options & 8) != 0) p.bias = device::Elements(bias.operand());
    const auto made = [&](bool refuse, std::uint64_t blocks) {
      Memory c = before;
      p.c = factor(c, false, rows, columns);
      device::HostLauncher launcher(1, blocks);
      launcher.refuse_products(refuse);
      launcher.multiply(p);
      return c;
    };
    const Memory plain = made(false, 1);
    // Sums go over the depth in the same order, so that only a fused multiplication differs from a plain loop.
    CHECK(error(made(true, device::most_blocks), plain) <= bound(t.c));
    CHECK(made(true, 2) == made(true, device::most_blocks));
    CHECK(plain != before);
  }
}
