#include <catch2/catch.hpp>

#include <cmath>
#include <limits>

#include "core/base/random.hpp"
#include "exec/kernels/convert.hpp"

using namespace orrery;

namespace {

/// Nearest value with `digits` significant bits and least exponent `least`, ties to even.
double nearest(double x, int digits, int least) {
  if (x == 0.0) return x;
  const double unit = std::ldexp(1.0, std::max(std::ilogb(x), least) - (digits - 1));
  return std::nearbyint(x / unit) * unit;
}

}  // namespace

TEST_CASE("every 16-bit float survives the way to f32 and back", "[convert]") {
  int wrong = 0;
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto b = static_cast<std::uint16_t>(bits);
    if (!std::isnan(from_bf16(b))) wrong += bf16_of(from_bf16(b)) != b;
    if (!std::isnan(from_f16(b))) wrong += f16_of(from_f16(b)) != b;
    wrong += std::isnan(from_bf16(b)) != std::isnan(from_bf16(bf16_of(from_bf16(b))));
    wrong += std::isnan(from_f16(b)) != std::isnan(from_f16(f16_of(from_f16(b))));
  }
  CHECK(wrong == 0);
}

TEST_CASE("f16 has the values of IEEE 754 binary16", "[convert]") {
  CHECK(from_f16(0x3c00) == 1.0F);
  CHECK(from_f16(0xc000) == -2.0F);
  CHECK(from_f16(0x7bff) == 65504.0F);  // the largest: (2 - 2^-10) 2^15
  CHECK(from_f16(0x0400) == 0x1p-14F);  // the least normal
  CHECK(from_f16(0x0001) == 0x1p-24F);  // the least subnormal
  CHECK(from_f16(0x7c00) == std::numeric_limits<float>::infinity());
  CHECK(f16_of(65519.0F) == 0x7bff);  // below the largest plus half a unit (16)
  CHECK(f16_of(65520.0F) == 0x7c00);  // the tie rounds to even: infinity
  CHECK(f16_of(1e30F) == 0x7c00);
  CHECK(f16_of(0x1p-25F) == 0x0000);    // half of the least: to even, zero
  CHECK(f16_of(0x1.8p-24F) == 0x0002);  // between 1 and 2 units: to even, 2
  CHECK(f16_of(-0.0F) == 0x8000);
}

// The values of Micikevicius et al. 2022, table 1.
TEST_CASE("E4M3 has its published values, and rounds to the nearest of them", "[convert]") {
  CHECK(from_e4m3(0x38) == 1.0F);
  CHECK(from_e4m3(0xc0) == -2.0F);
  CHECK(from_e4m3(0x7e) == 448.0F);
  CHECK(from_e4m3(0x08) == 0x1p-6F);  // the least normal
  CHECK(from_e4m3(0x01) == 0x1p-9F);  // the least subnormal
  CHECK(std::isnan(from_e4m3(0x7f)));
  CHECK(std::isnan(from_e4m3(e4m3_of(NAN))));
  CHECK(e4m3_of(1e30F) == 0x7e);
  CHECK(e4m3_of(-INFINITY) == 0xfe);
  int wrong = 0;
  for (std::uint32_t bits = 0; bits < 256; ++bits) {
    const auto b = static_cast<std::uint8_t>(bits);
    if (!std::isnan(from_e4m3(b))) wrong += e4m3_of(from_e4m3(b)) != b;
  }
  for (std::uint64_t i = 0; i < 20000; ++i) {
    const double x = std::ldexp(2.0 * random_uniform(5, 0, i) - 1.0, static_cast<int>(i % 24) - 14);
    if (std::abs(x) <= 448.0)
      wrong += static_cast<double>(from_e4m3(e4m3_of(static_cast<float>(x)))) !=
               nearest(static_cast<double>(static_cast<float>(x)), 4, -6);
  }
  CHECK(wrong == 0);
}

TEST_CASE("E5M2 has its published values, and rounds to the nearest of them", "[convert]") {
  CHECK(from_e5m2(0x3c) == 1.0F);
  CHECK(from_e5m2(0xc0) == -2.0F);
  CHECK(from_e5m2(0x7b) == 57344.0F);
  CHECK(from_e5m2(0x04) == 0x1p-14F);  // the least normal
  CHECK(from_e5m2(0x01) == 0x1p-16F);  // the least subnormal
  CHECK(from_e5m2(0x7c) == std::numeric_limits<float>::infinity());
  CHECK(std::isnan(from_e5m2(e5m2_of(NAN))));
  CHECK(e5m2_of(1e30F) == 0x7b);
  CHECK(e5m2_of(-INFINITY) == 0xfb);
  int wrong = 0;
  for (std::uint32_t bits = 0; bits < 256; ++bits) {
    const auto b = static_cast<std::uint8_t>(bits);
    if (std::isfinite(from_e5m2(b))) wrong += e5m2_of(from_e5m2(b)) != b;
  }
  for (std::uint64_t i = 0; i < 20000; ++i) {
    const double x = std::ldexp(2.0 * random_uniform(5, 1, i) - 1.0, static_cast<int>(i % 36) - 20);
    wrong += static_cast<double>(from_e5m2(e5m2_of(static_cast<float>(x)))) !=
             nearest(static_cast<double>(static_cast<float>(x)), 3, -14);
  }
  CHECK(wrong == 0);
}

TEST_CASE("bf16 ties go to even and infinity stays", "[convert]") {
  CHECK(bf16_of(1.0F) == 0x3f80);
  CHECK(bf16_of(1.0F + 0x1p-8F) == 0x3f80);      // half of the unit 2^-7 above 1: even is 1
  CHECK(bf16_of(1.0F + 3 * 0x1p-8F) == 0x3f82);  // half above 1 + 2^-7: even is 1 + 2^-6
  CHECK(bf16_of(std::numeric_limits<float>::infinity()) == 0x7f80);
  CHECK(bf16_of(std::numeric_limits<float>::max()) == 0x7f80);
  CHECK(std::isnan(from_bf16(bf16_of(std::numeric_limits<float>::quiet_NaN()))));
}

TEST_CASE("rounding is to the nearest value over the whole range", "[convert]") {
  int wrong = 0;
  for (std::uint64_t i = 0; i < 200000; ++i) {
    const auto exponent = static_cast<int>(random_bits(1, 2, i) % 44) - 28;  // 2^-28 .. 2^15
    const auto x = static_cast<float>(std::ldexp(random_uniform(1, 3, i) - 0.5, exponent));
    wrong += from_bf16(bf16_of(x)) != nearest(x, 8, -126);
    wrong += from_f16(f16_of(x)) != nearest(x, 11, -14);
  }
  CHECK(wrong == 0);
}

TEST_CASE("blocks of elements convert as single ones do", "[convert]") {
  std::vector<double> in(37);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = random_normal(3, 4, i);
  for (const DType t : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    std::vector<std::byte> stored(40 * size_of(t));
    store_elements(t, stored.data(), 3, in.size(), in.data());
    std::vector<double> out(in.size());
    load_elements(t, stored.data(), 3, out.size(), out.data());
    for (std::size_t i = 0; i < in.size(); ++i) {
      const auto f = static_cast<float>(in[i]);
      const double expected = t == DType::f64    ? in[i]
                              : t == DType::f32  ? f
                              : t == DType::bf16 ? from_bf16(bf16_of(f))
                                                 : from_f16(f16_of(f));
      CHECK(out[i] == expected);
    }
  }
}
