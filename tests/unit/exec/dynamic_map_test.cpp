// Moments in codes of a byte: the map of values, and Adam's kernel on codes.

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "core/program/moment_scales.hpp"
#include "exec/kernels/dynamic_map.hpp"
#include "tests/unit/exec/kernel_memory.hpp"

using namespace orrery;
using namespace orrery::test;

namespace {

double value(std::uint32_t code, bool squares) { return static_cast<double>(dynamic_value(code, squares)); }

std::vector<double> in_order(bool squares) {
  std::vector<double> list;
  for (std::uint32_t code = 0; code < 256; ++code) list.push_back(value(code, squares));
  std::sort(list.begin(), list.end());
  return list;
}

/// Half the distance between the two values that x lies between; beyond the ends, to the end.
double half_gap(const std::vector<double>& list, double x) {
  const auto above = std::lower_bound(list.begin(), list.end(), x);
  if (above == list.begin()) return list.front() - x;
  if (above == list.end()) return x - list.back();
  return 0.5 * (*above - *std::prev(above));
}

}  // namespace

// The middles of parts of decades, written down from the definition: 2^i parts of both signs, or 2^(i + 1).
TEST_CASE("codes stand for 256 values: 0, 1, and the middles of parts of seven decades", "[kernels]") {
  for (const bool squares : {false, true}) {
    CAPTURE(squares);
    std::vector<double> expected{0.0, 1.0};
    for (int decade = 0; decade < 7; ++decade) {
      const int parts = squares ? 2 << decade : 1 << decade;
      for (int j = 0; j < parts; ++j) {
        const double middle = std::pow(10.0, decade - 6) * (0.1 + 0.9 * (j + 0.5) / parts);
        expected.push_back(middle);
        if (!squares) expected.push_back(-middle);
      }
    }
    std::sort(expected.begin(), expected.end());
    const std::vector<double> list = in_order(squares);
    REQUIRE(expected.size() == list.size());
    for (std::size_t i = 0; i < list.size(); ++i) CHECK(list[i] == Approx(expected[i]).epsilon(0x1p-23).margin(0.0));
    CHECK(std::set<double>(list.begin(), list.end()).size() == 256);
    CHECK(list.front() == Approx(squares ? 0.0 : -0.99296875).epsilon(1e-7));
    CHECK(list.back() == 1.0);
    CHECK(value(0, squares) == 0.0);
  }
}

TEST_CASE("a value's code is its own, and any number goes to the nearest value", "[kernels]") {
  for (const bool squares : {false, true}) {
    CAPTURE(squares);
    for (std::uint32_t code = 0; code < 256; ++code) CHECK(dynamic_code(value(code, squares), squares) == code);
    const std::vector<double> list = in_order(squares);
    std::size_t off = 0, above_half = 0;
    for (int i = 0; i <= 40'000; ++i) {
      // From 1e-8 to 1, and evenly from 0 to 1.
      const double size = i % 2 == 0 ? std::pow(10.0, -8.0 * i / 40'000) : i / 40'000.0;
      for (const double x : {size, squares ? size : -size}) {
        const double kept = value(dynamic_code(x, squares), squares);
        const auto nearest = std::min_element(list.begin(), list.end(),
                                              [x](double a, double b) { return std::abs(a - x) < std::abs(b - x); });
        off += std::abs(kept - x) > std::abs(*nearest - x) ? 1 : 0;
        above_half += std::abs(kept - x) > half_gap(list, x) * (1 + 1e-15) ? 1 : 0;
      }
    }
    CHECK(off == 0);
    CHECK(above_half == 0);
    CHECK(dynamic_code(std::numeric_limits<double>::quiet_NaN(), squares) == 0);
    CHECK(value(dynamic_code(7.0, squares), squares) == 1.0);
    CHECK(dynamic_code(0.0, squares) == 0);
    CHECK(dynamic_code(1e-7, squares) == 0);  // below half of the least value, 5.5e-7 or 3.25e-7
  }
  CHECK(dynamic_code(-1.0, false) == 256 - 127);
  CHECK(dynamic_code(-0.5, true) == 0);
}

// 600 parameters are blocks of 256, 256 and 88. Each block's scale is its largest magnitude, and what is kept is off by
// at most half a gap of the map; the step that makes the moments has all digits.
TEST_CASE("moments in codes are values of the map times their block's largest", "[kernels]") {
  const std::uint64_t n = 600, blocks = 3;
  Workload w;
  w.moment_dtype = DType::u8;
  KernelContext context;
  context.workload = &w;
  const DType s = GENERATE(DType::f32, DType::f64);
  Memory weight = Memory::random(s, n, 2), plain = weight;
  Memory m(DType::u8, n), v(DType::u8, n), scales(DType::f32, 2 * blocks), exact_m(s, n), exact_v(s, n);
  Kernel k = kernel(KernelKind::adam_update, s, 1, n);
  for (int step = 1; step <= 3; ++step) {
    CAPTURE(step);
    Memory g = Memory::random(s, n, 10 + static_cast<std::uint64_t>(step));
    for (std::uint64_t i = 256; i < 512; ++i) g.set(i, 1e-6 * g[i]);
    Memory steps = Memory::of(DType::f64, {static_cast<double>(step)});
    k.options.scaled = false;
    k.depth = 0;
    run(k, {g.operand(), steps.operand(), plain.operand(true), exact_m.operand(true), exact_v.operand(true)}, context);
    k.options.scaled = true;
    k.depth = 256;
    run(k, {g.operand(), steps.operand(), weight.operand(true), m.operand(true), v.operand(true), scales.operand(true)},
        context);
    CHECK(weight == plain);
    for (std::uint64_t block = 0; block < blocks; ++block) {
      const std::uint64_t first = 256 * block, end = std::min(n, first + 256);
      for (const bool squares : {false, true}) {
        CAPTURE(block, squares);
        Memory& exact = squares ? exact_v : exact_m;
        const std::vector<double> list = in_order(squares);
        double most = 0.0;
        for (std::uint64_t i = first; i < end; ++i) most = std::max(most, std::abs(exact[i]));
        const double scale = scales[2 * block + (squares ? 1 : 0)];
        CHECK(scale == Approx(most).epsilon(1e-7));
        std::size_t off = 0;
        for (std::uint64_t i = first; i < end; ++i) {
          const double kept = value(static_cast<std::uint32_t>((squares ? v : m)[i]), squares) * scale;
          off += std::abs(kept - exact[i]) > scale * (half_gap(list, exact[i] / scale) + 1e-6) ? 1 : 0;
          exact.set(i, kept);
        }
        CHECK(off == 0);
      }
    }
  }
}

// Gradients lie between half of the largest and the largest and keep their signs, so that moments stay in the highest
// decade, or for squares in its part above 1/4. A stored moment is off by at most q of its block's largest: half a
// part, q = 0.9 / 128 for m and 0.9 / 256 for v. With E the error of what is stored and M the largest moment,
//
//     E_t = beta E_(t-1) + q (M_t + beta E_(t-1))
//
// and the step differs by at most rate (dm / r + m dr / (r r')), where r = sqrt(v) is off by dr <= dv / (r + r').
TEST_CASE("Adam on codes stays as near to Adam in f32 as the map's gaps say", "[kernels]") {
  const std::uint64_t n = 1000;
  Workload w;
  w.optimizer.learning_rate = 0.01;
  w.optimizer.weight_decay = 0.0;
  const Optimizer& o = w.optimizer;
  KernelContext context;
  context.workload = &w;
  Memory weight = Memory::random(DType::f32, n, 2), plain = weight;
  Memory m(DType::u8, n), v(DType::u8, n), scales(DType::f32, 8), exact_m(DType::f32, n), exact_v(DType::f32, n);
  Kernel k = kernel(KernelKind::adam_update, DType::f32, 1, n);
  double off_m = 0.0, off_v = 0.0, allowed = 0.0, moved = 0.0;
  for (int step = 1; step <= 5; ++step) {
    Memory g = Memory::random(DType::f32, n, 10 + static_cast<std::uint64_t>(step));
    for (std::uint64_t i = 0; i < n; ++i) {
      const double size = 0.5 + 0.5 * std::min(1.0, std::abs(g[i]) / 3.0);
      g.set(i, i % 2 == 0 ? size : -size);
    }
    Memory steps = Memory::of(DType::f64, {static_cast<double>(step)});
    k.options.scaled = false;
    k.depth = 0;
    run(k, {g.operand(), steps.operand(), plain.operand(true), exact_m.operand(true), exact_v.operand(true)}, context);
    k.options.scaled = true;
    k.depth = 256;
    run(k, {g.operand(), steps.operand(), weight.operand(true), m.operand(true), v.operand(true), scales.operand(true)},
        context);
    double largest_m = 0.0, largest_v = 0.0, least_v = 1.0;
    for (std::uint64_t i = 0; i < n; ++i) {
      largest_m = std::max(largest_m, std::abs(exact_m[i]));
      largest_v = std::max(largest_v, exact_v[i]);
      least_v = std::min(least_v, exact_v[i]);
    }
    const double c1 = 1.0 / (1.0 - std::pow(o.beta1, step)), c2 = 1.0 / (1.0 - std::pow(o.beta2, step));
    const double dm = c1 * o.beta1 * off_m, dv = c2 * o.beta2 * off_v;
    const double r = std::sqrt(c2 * least_v), other = std::sqrt(c2 * least_v - dv);
    allowed += o.learning_rate * (dm / other + c1 * largest_m * dv / (r + other) / (r * other));
    moved += o.learning_rate;
    off_m = o.beta1 * off_m + 0.9 / 128 * (largest_m + o.beta1 * off_m);
    off_v = o.beta2 * off_v + 0.9 / 256 * (largest_v + o.beta2 * off_v);
    double most = 0.0;
    for (std::uint64_t i = 0; i < n; ++i) most = std::max(most, std::abs(weight[i] - plain[i]));
    CAPTURE(step, most, allowed, moved);
    CHECK(most <= allowed * (1 + 1e-3) + 1e-6);
    CHECK(allowed < 0.1 * moved);  // the bound says something
    if (step > 1) CHECK(most > 0.0);
  }
}
