#include <catch2/catch.hpp>

#include <cmath>

#include "tests/unit/exec/kernel_memory.hpp"

using namespace orrery;
using namespace orrery::test;

namespace {

constexpr double epsilon = 1e-5;

/// One norm with all its operands.
struct Norm {
  bool rms;
  DType t;
  std::uint64_t rows, columns;
  Memory x, gamma, beta, dy, y, stats;

  Norm(bool is_rms, DType type, std::uint64_t r, std::uint64_t c)
      : rms(is_rms),
        t(type),
        rows(r),
        columns(c),
        x(Memory::random(t, r * c, 1, 2.0)),
        gamma(Memory::random(t, c, 2)),
        beta(Memory::random(t, c, 3)),
        dy(Memory::random(t, r * c, 4)),
        y(t, r * c),
        stats(t == DType::f64 ? DType::f64 : DType::f32, is_rms ? r : 2 * r) {}

  void forward() {
    Kernel k = kernel(rms ? KernelKind::rms_norm_forward : KernelKind::layer_norm_forward, t, rows, columns);
    k.parameter = epsilon;
    if (rms) {
      run(k, {x.operand(), gamma.operand(), y.operand(), stats.operand()});
    } else {
      run(k, {x.operand(), gamma.operand(), beta.operand(), y.operand(), stats.operand()});
    }
  }
  double loss() {
    forward();
    double sum = 0.0;
    for (std::uint64_t i = 0; i < y.count(); ++i) sum += y[i] * dy[i];
    return sum;
  }
};

}  // namespace

TEST_CASE("norms have the mean and deviation that their names say", "[kernels]") {
  const bool rms = GENERATE(false, true);
  const DType t = GENERATE(DType::f64, DType::f32, DType::bf16, DType::f16);
  const std::uint64_t columns = GENERATE(1, 5, 16, 67);
  Norm n(rms, t, 3, columns);
  n.forward();
  Memory expected(DType::f64, 3 * columns);
  for (std::uint64_t row = 0; row < 3; ++row) {
    double mean = 0.0;
    double square = 0.0;
    for (std::uint64_t i = 0; i < columns; ++i)
      mean += rms ? 0.0 : n.x[row * columns + i] / static_cast<double>(columns);
    for (std::uint64_t i = 0; i < columns; ++i) {
      square += std::pow(n.x[row * columns + i] - mean, 2) / static_cast<double>(columns);
    }
    const double inverse = 1.0 / std::sqrt(square + epsilon);
    for (std::uint64_t i = 0; i < columns; ++i) {
      const double z = (n.x[row * columns + i] - mean) * inverse;
      expected.set(row * columns + i, z * n.gamma[i] + (rms ? 0.0 : n.beta[i]));
    }
  }
  CAPTURE(rms, name_of(t), columns);
  CHECK(error(n.y, expected, 0.1) <= tolerance(t));
}

// Central differences in f64: truncation h^2 = 1e-10 times third derivatives of
// order 1 to 10, cancellation 1e-16 / h = 1e-11.
TEST_CASE("norm gradients are derivatives and add to what is there", "[kernels]") {
  const bool rms = GENERATE(false, true);
  Norm n(rms, DType::f64, 3, 7);
  n.forward();
  Memory dx = Memory::random(DType::f64, n.x.count(), 8);
  Memory dgamma = Memory::random(DType::f64, 7, 9);
  Memory dbeta = Memory::random(DType::f64, 7, 10);
  const Memory dx0 = dx;
  const Memory dgamma0 = dgamma;
  const Memory dbeta0 = dbeta;
  run(kernel(rms ? KernelKind::rms_norm_backward_input : KernelKind::layer_norm_backward_input, DType::f64, 3, 7),
      {n.dy.operand(), n.x.operand(), n.gamma.operand(), n.stats.operand(), dx.operand(true)});
  std::vector<Operand> weight = {n.dy.operand(), n.x.operand(), n.stats.operand(), dgamma.operand(true)};
  if (!rms) weight.push_back(dbeta.operand(true));
  run(kernel(rms ? KernelKind::rms_norm_backward_weight : KernelKind::layer_norm_backward_weight, DType::f64, 3, 7),
      weight);
  const auto derivative = [&](Memory& of, std::uint64_t i) {
    constexpr double h = 1e-5;
    const double at = of[i];
    of.set(i, at + h);
    const double above = n.loss();
    of.set(i, at - h);
    const double below = n.loss();
    of.set(i, at);
    return (above - below) / (2 * h);
  };
  // The sum with the gradient of the residual stream, in a place of its own, is the same to the bit.
  Kernel apart =
      kernel(rms ? KernelKind::rms_norm_backward_input : KernelKind::layer_norm_backward_input, DType::f64, 3, 7);
  apart.options.residual = true;
  Memory from = dx0;
  Memory sum = Memory::random(DType::f64, n.x.count(), 11);
  run(apart, {n.dy.operand(), n.x.operand(), n.gamma.operand(), n.stats.operand(), from.operand(), sum.operand(true)});
  for (std::uint64_t i = 0; i < n.x.count(); ++i) CHECK(sum[i] == dx[i]);
  for (std::uint64_t i = 0; i < n.x.count(); ++i) CHECK(dx[i] - dx0[i] == Approx(derivative(n.x, i)).margin(1e-8));
  for (std::uint64_t i = 0; i < 7; ++i) {
    CHECK(dgamma[i] - dgamma0[i] == Approx(derivative(n.gamma, i)).margin(1e-8));
    if (!rms) CHECK(dbeta[i] - dbeta0[i] == Approx(derivative(n.beta, i)).margin(1e-8));
  }
}

TEST_CASE("a layer norm without a bias gives what one with a bias of 0 gives", "[kernels]") {
  Norm n(false, DType::f64, 3, 7);
  n.beta = Memory::of(DType::f64, std::vector<double>(7, 0.0));
  n.forward();
  Memory y(DType::f64, 21), stats(DType::f64, 6), dgamma = Memory::random(DType::f64, 7, 9), expected = dgamma;
  Kernel k = kernel(KernelKind::layer_norm_forward, DType::f64, 3, 7);
  k.parameter = epsilon;
  k.options.unbiased = true;
  run(k, {n.x.operand(), n.gamma.operand(), y.operand(), stats.operand()});
  CHECK(y == n.y);
  CHECK(stats == n.stats);
  k.kind = KernelKind::layer_norm_backward_weight;
  run(k, {n.dy.operand(), n.x.operand(), stats.operand(), dgamma.operand(true)});
  k.options.unbiased = false;
  Memory dbeta(DType::f64, 7);
  run(k, {n.dy.operand(), n.x.operand(), stats.operand(), expected.operand(true), dbeta.operand(true)});
  CHECK(dgamma == expected);
}
