#include <catch2/catch.hpp>
#include <functional>
#include <set>

#include "exec/kernels/device/product_shape.hpp"

using namespace orrery;
using namespace orrery::device;

namespace {

std::byte* place(std::uintptr_t at) { return reinterpret_cast<std::byte*>(at); }

/// Logits of 50257 words: the rows of the second factor's transpose and of the result begin at odd elements.
Product logits(std::uint64_t words) {
  Product p;
  p.rows = 4096;
  p.depth = 768;
  p.columns = words;
  p.a = {{place(0x10000), DType::bf16}, false, 768, 0};
  p.b = {{place(0x20000), DType::bf16}, true, 768, 0};
  p.c = {{place(0x40000), DType::bf16}, false, words, 0};
  return p;
}

}  // namespace

// A library may read 16 bytes at once only where every row begins at a multiple of 16.
TEST_CASE("rows at odd elements are said to be aligned as they are", "[gpu-bodies]") {
  const Product odd = logits(50257);
  CHECK(alignment_of(odd.a, 1) == 256);
  CHECK(alignment_of(odd.b, 1) == 256);
  CHECK(alignment_of(odd.c, 1) == 2);
  // 50264 is a multiple of 8, and 50260 of 4.
  CHECK(alignment_of(logits(50264).c, 1) == 256);
  CHECK(alignment_of(logits(50260).c, 1) == 8);
  // All matrices of a batch count, and where the first lies.
  Product::Factor f{{place(0x10000), DType::bf16}, false, 64, 4};
  CHECK(alignment_of(f, 1) == 256);
  CHECK(alignment_of(f, 3) == 8);
  f.x.data = place(0x10020);
  CHECK(alignment_of(f, 1) == 32);
}

TEST_CASE("products share a description where all that it holds is alike", "[gpu-bodies]") {
  const Product one = logits(50264);
  Product elsewhere = one;
  for (Product::Factor* f : {&elsewhere.a, &elsewhere.b, &elsewhere.c}) f->x.data = place(0x7f0000);
  CHECK(shape_of(elsewhere) == shape_of(one));

  std::set<ProductShape> shapes{shape_of(one)};
  const std::vector<std::function<void(Product&)>> changes{
      [](Product& p) { ++p.rows; },
      [](Product& p) { ++p.columns; },
      [](Product& p) { ++p.depth; },
      [](Product& p) { p.batch = 2; },
      [](Product& p) { p.a.transposed = true; },
      [](Product& p) { p.b.transposed = false; },
      [](Product& p) { p.add = true; },
      [](Product& p) {
        p.bias = {place(0x90000), DType::bf16};
      },
      [](Product& p) {
        p.bias = {place(0x90002), DType::bf16};
      },
      [](Product& p) {
        p.bias = {place(0x90000), DType::f32};
      },
      [](Product& p) { p.a.x.dtype = DType::f16; },
      [](Product& p) { p.b.x.dtype = DType::f16; },
      [](Product& p) { p.c.x.dtype = DType::f32; },
      [](Product& p) { p.compute = DType::f64; },
      [](Product& p) { p.a.format = Float8::e5m2; },
      [](Product& p) { p.b.format = Float8::e5m2; },
      [](Product& p) { p.a.row += 8; },
      [](Product& p) { p.b.row += 8; },
      [](Product& p) { p.c.row += 8; },
      [](Product& p) { p.a.step = 256; },
      [](Product& p) { p.b.step = 256; },
      [](Product& p) { p.c.step = 256; },
      [](Product& p) { p.a.x.data = place(0x10002); },
      [](Product& p) { p.b.x.data = place(0x20002); },
      [](Product& p) { p.c.x.data = place(0x40002); },
  };
  for (const auto& change : changes) {
    Product other = one;
    change(other);
    CHECK(shapes.insert(shape_of(other)).second);
  }
}
