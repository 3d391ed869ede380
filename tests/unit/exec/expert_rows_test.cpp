#include <catch2/catch.hpp>

#include <cmath>

#include "tests/unit/exec/kernel_memory.hpp"

using namespace orrery;
using namespace orrery::test;

// Five rows of two features: two for expert 1, an empty one, and one each for experts 0 and 2 of three.
TEST_CASE("an expert's bias is added to its rows alone, and its gradient is their sum", "[kernels]") {
  const DType t = GENERATE(DType::f64, DType::bf16);
  constexpr std::uint64_t m = 5, n = 2, d = 3;
  Memory experts = whole_numbers({1, 1, -1, 0, 2});
  Memory a = Memory::random(t, m * d, 1), b = Memory::random(t, 3 * d * n, 2), bias = Memory::random(t, 3 * n, 3);
  Memory c(t, m * n);
  Kernel k = kernel(KernelKind::expert_gemm, t, m, n, d);
  k.batch = 3;
  k.options.bias = true;
  k.scale = 0.5;
  run(k, {a.operand(), b.operand(), experts.operand(), c.operand(), bias.operand()});
  Memory sum = Memory::random(DType::f64, 3 * n, 5);
  Memory expected_sum = sum, expected(DType::f64, m * n);
  Memory dy = Memory::random(t, m * n, 4);
  for (std::uint64_t row = 0; row < m; ++row) {
    if (experts[row] < 0) continue;
    const auto e = static_cast<std::uint64_t>(experts[row]);
    for (std::uint64_t i = 0; i < n; ++i) {
      double x = 0.5 * bias[e * n + i];
      for (std::uint64_t j = 0; j < d; ++j) x += a[row * d + j] * b[(e * d + j) * n + i];
      expected.set(row * n + i, x);
      expected_sum.set(e * n + i, expected_sum[e * n + i] + 0.25 * dy[row * n + i]);
    }
  }
  CHECK(error(c, expected) <= tolerance(t));
  Kernel back = kernel(KernelKind::expert_bias_backward, t, m, n);
  back.batch = 3;
  back.scale = 0.25;
  run(back, {dy.operand(), experts.operand(), sum.operand(true)});
  CHECK(error(sum, expected_sum) <= tolerance(t == DType::f64 ? t : DType::f32));
}

TEST_CASE("a gate multiplies its row by a sigmoid, and its gradients are derivatives", "[kernels]") {
  constexpr std::uint64_t rows = 3, n = 7;
  const DType t = DType::f64;
  Memory x = Memory::random(t, rows * n, 1), gate = Memory::random(t, rows, 2), dy = Memory::random(t, rows * n, 3);
  Memory y(t, rows * n), dx(t, rows * n), dgate(t, rows);
  const auto forward = [&] {
    run(kernel(KernelKind::gate_forward, t, rows, n), {x.operand(), gate.operand(), y.operand()});
  };
  forward();
  run(kernel(KernelKind::gate_backward, t, rows, n),
      {dy.operand(), x.operand(), gate.operand(), dx.operand(), dgate.operand()});
  const Memory at = gate;
  for (std::uint64_t row = 0; row < rows; ++row) {
    const double s = 1.0 / (1.0 + std::exp(-at[row]));
    for (std::uint64_t i = 0; i < n; ++i) {
      CHECK(y[row * n + i] == Approx(s * x[row * n + i]));
      CHECK(dx[row * n + i] == Approx(s * dy[row * n + i]));
    }
    const auto loss = [&](double g) {
      gate.set(row, g);
      forward();
      double sum = 0.0;
      for (std::uint64_t i = 0; i < rows * n; ++i) sum += y[i] * dy[i];
      return sum;
    };
    const double slope = (loss(at[row] + 1e-5) - loss(at[row] - 1e-5)) / 2e-5;
    gate.set(row, at[row]);
    forward();
    CHECK(dgate[row] == Approx(slope).margin(1e-9));
  }
}
