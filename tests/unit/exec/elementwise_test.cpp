#include <catch2/catch.hpp>

#include <cmath>

#include "core/base/random.hpp"
#include "tests/unit/exec/kernel_memory.hpp"

using namespace orrery;
using namespace orrery::test;

namespace {

double gelu(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }
double silu(double x) { return x / (1 + std::exp(-x)); }
double relu(double x) { return std::max(x, 0.0); }
double quick(double x) { return x / (1 + std::exp(-1.702 * x)); }
double square(double x) { return relu(x) * relu(x); }
/// A function of one element and its two kernels.
struct Activation {
  KernelKind forward, backward;
  double (*of)(double);
};
double derivative(double (*f)(double), double x) { return (f(x + 1e-5) - f(x - 1e-5)) / 2e-5; }

}  // namespace

// There is more than one tile of 1024, with a remainder, and arguments from -50 to 50. A central difference over relu's
// corner is no derivative, so no argument lies within 1e-5 of 0 but 0 itself, which is left out.
TEST_CASE("activations and their derivatives", "[kernels]") {
  const DType t = GENERATE(DType::f64, DType::f32, DType::bf16, DType::f16);
  const Activation a =
      GENERATE(Activation{KernelKind::gelu_forward, KernelKind::gelu_backward, gelu},
               Activation{KernelKind::quick_gelu_forward, KernelKind::quick_gelu_backward, quick},
               Activation{KernelKind::relu_forward, KernelKind::relu_backward, relu},
               Activation{KernelKind::squared_relu_forward, KernelKind::squared_relu_backward, square});
  Memory x = Memory::random(t, 2500, 1, 2.0);
  x.set(0, 50.0);
  x.set(1, -50.0);
  for (std::uint64_t i = 0; i < x.count(); ++i) {
    if (std::abs(x[i]) < 2e-5) x.set(i, 0.5);
  }
  Memory y(t, x.count());
  Memory d = Memory::random(t, x.count(), 2);
  const Memory dy = d;
  run(kernel(a.forward, t, 1, x.count()), {x.operand(), y.operand()});
  run(kernel(a.backward, t, 1, x.count()), {x.operand(), d.operand(true)});
  int wrong = 0;
  for (std::uint64_t i = 0; i < x.count(); ++i) {
    const double slope = derivative(a.of, x[i]);
    wrong += !(std::abs(y[i] - a.of(x[i])) <= tolerance(t) * std::max(a.of(std::abs(x[i])), 0.1));
    wrong += !(std::abs(d[i] - dy[i] * slope) <=
               (tolerance(t) + 1e-8) * std::max(1.0, std::abs(slope)) * std::max(1.0, std::abs(dy[i])));
  }
  CAPTURE(name_of(t), name_of(a.forward));
  CHECK(wrong == 0);
}

TEST_CASE("a gate multiplies up and gives both their gradients", "[kernels]") {
  const DType t = GENERATE(DType::f64, DType::f32, DType::bf16, DType::f16);
  const Activation a = GENERATE(Activation{KernelKind::swiglu_forward, KernelKind::swiglu_backward, silu},
                                Activation{KernelKind::geglu_forward, KernelKind::geglu_backward, gelu});
  const std::uint64_t rows = 3;
  const std::uint64_t f = GENERATE(1, 7, 1100);
  Memory pre = Memory::random(t, rows * 2 * f, 1, 2.0);
  Memory dy = Memory::random(t, rows * f, 2);
  Memory y(t, rows * f);
  Memory dpre(t, rows * 2 * f);
  run(kernel(a.forward, t, rows, f), {pre.operand(), y.operand()});
  run(kernel(a.backward, t, rows, f), {pre.operand(), dy.operand(), dpre.operand()});
  int wrong = 0;
  for (std::uint64_t row = 0; row < rows; ++row) {
    for (std::uint64_t i = 0; i < f; ++i) {
      const double gate = pre[2 * row * f + i];
      const double up = pre[(2 * row + 1) * f + i];
      const double g = dy[row * f + i];
      const double scale = std::max(1.0, std::abs(gate) * std::abs(up) * std::abs(g));
      wrong += !(std::abs(y[row * f + i] - a.of(gate) * up) <= tolerance(t) * std::max(1.0, std::abs(gate * up)));
      wrong += !(std::abs(dpre[2 * row * f + i] - g * up * derivative(a.of, gate)) <= (tolerance(t) + 1e-8) * scale);
      wrong += !(std::abs(dpre[(2 * row + 1) * f + i] - g * a.of(gate)) <= tolerance(t) * scale);
    }
  }
  CAPTURE(name_of(t), f, name_of(a.forward));
  CHECK(wrong == 0);
}

// gpt-oss's gate by its formula, and slopes by central differences; no argument lies within 2e-5 of a limit.
TEST_CASE("a gate with a limit cuts gate and product, and passes no gradient beyond", "[kernels]") {
  const DType t = GENERATE(DType::f64, DType::f32, DType::bf16, DType::f16);
  const double limit = 0.75;  // exact in every type
  const std::uint64_t rows = 3, f = GENERATE(1, 7, 1100);
  const auto gate_of = [&](double gate, double up) {
    const double g = std::min(gate, limit);
    return (std::clamp(up, -limit, limit) + 1.0) * g / (1.0 + std::exp(-1.702 * g));
  };
  Memory pre = Memory::random(t, rows * 2 * f, 1, 2.0);
  for (std::uint64_t i = 0; i < pre.count(); ++i) {
    if (std::abs(std::abs(pre[i]) - limit) < 2e-5) pre.set(i, 0.5);
  }
  Memory dy = Memory::random(t, rows * f, 2), y(t, rows * f), dpre(t, rows * 2 * f);
  Kernel k = kernel(KernelKind::swiglu_forward, t, rows, f);
  k.parameter = limit;
  run(k, {pre.operand(), y.operand()});
  k.kind = KernelKind::swiglu_backward;
  run(k, {pre.operand(), dy.operand(), dpre.operand()});
  int wrong = 0, cut = 0;
  for (std::uint64_t row = 0; row < rows; ++row) {
    for (std::uint64_t i = 0; i < f; ++i) {
      const double gate = pre[2 * row * f + i], up = pre[(2 * row + 1) * f + i], g = dy[row * f + i];
      const double scale = std::max(1.0, std::abs(g));
      const double by_gate = (gate_of(gate + 1e-5, up) - gate_of(gate - 1e-5, up)) / 2e-5;
      const double by_up = (gate_of(gate, up + 1e-5) - gate_of(gate, up - 1e-5)) / 2e-5;
      wrong += !(std::abs(y[row * f + i] - gate_of(gate, up)) <= tolerance(t) * 2.0);
      wrong += !(std::abs(dpre[2 * row * f + i] - g * by_gate) <= (tolerance(t) + 1e-8) * 2.0 * scale);
      wrong += !(std::abs(dpre[(2 * row + 1) * f + i] - g * by_up) <= (tolerance(t) + 1e-8) * 2.0 * scale);
      cut += gate > limit;
    }
  }
  CAPTURE(name_of(t), f);
  CHECK(wrong == 0);
  CHECK((f < 1100 || cut > 100));
}

TEST_CASE("multiply scales every element, in place too", "[kernels]") {
  Memory x = Memory::random(DType::bf16, 1500, 1);
  Memory y(DType::bf16, 1500), expected(DType::f64, 1500);
  Kernel k = kernel(KernelKind::multiply, DType::bf16, 1, 1500);
  k.scale = 0.25;  // exact in 16 bits
  for (std::uint64_t i = 0; i < x.count(); ++i) expected.set(i, 0.25 * x[i]);
  run(k, {x.operand(), y.operand()});
  run(k, {x.operand(), x.operand()});
  CHECK(error(y, expected) == 0.0);
  CHECK(error(x, expected) == 0.0);
}

TEST_CASE("a residual's branch is scaled behind its bias, with dropout and without", "[kernels]") {
  constexpr std::uint64_t n = 40;
  const bool dropout = GENERATE(false, true);
  Memory x = Memory::random(DType::f64, n, 1), bias = Memory::random(DType::f64, n, 2);
  Memory r = Memory::random(DType::f64, n, 3), y(DType::f64, n), mask(DType::u8, n), dx(DType::f64, n);
  Workload workload;
  KernelContext context;
  context.workload = &workload;
  Kernel k = kernel(KernelKind::residual_forward, DType::f64, 1, n);
  k.options.bias = true;
  k.options.dropout = dropout;
  k.parameter = dropout ? 0.5 : 0.0;
  k.scale = 0.22;
  std::vector<Operand> operands = {x.operand(), bias.operand(), r.operand(), y.operand()};
  if (dropout) operands.push_back(mask.operand());
  run(k, operands, context);
  const double factor = dropout ? 2 * 0.22 : 0.22;  // 1 / (1 - 1/2)
  for (std::uint64_t i = 0; i < n; ++i) {
    const bool kept = !dropout || mask[i] != 0.0;
    CHECK(y[i] == Approx(r[i] + (kept ? factor * (x[i] + bias[i]) : 0.0)).epsilon(1e-14));
  }
  if (!dropout) return;
  k.kind = KernelKind::dropout_backward;
  run(k, {r.operand(), mask.operand(), dx.operand()});
  for (std::uint64_t i = 0; i < n; ++i) CHECK(dx[i] == Approx(mask[i] != 0.0 ? factor * r[i] : 0.0));
}

TEST_CASE("the bias gradient is the column sum", "[kernels]") {
  Memory dy = Memory::random(DType::bf16, 40 * 9, 1);
  Memory sum = Memory::random(DType::f32, 9, 2);
  Memory expected(DType::f64, 9);
  for (std::uint64_t c = 0; c < 9; ++c) {
    double s = sum[c];
    for (std::uint64_t r = 0; r < 40; ++r) s += dy[r * 9 + c];
    expected.set(c, s);
  }
  run(kernel(KernelKind::bias_backward, DType::bf16, 40, 9), {dy.operand(), sum.operand(true)});
  CHECK(error(sum, expected) <= tolerance(DType::f32));
}

// Rows 1 and 2 of 4 positions (tensor rank 1 of 2 holds positions 2 and 3),
// sequence 1 of 2 on data rank 1; hidden 5.
TEST_CASE("residual dropout keeps what the global element index decides, and scales it", "[kernels]") {
  constexpr std::uint64_t h = 5;
  const Shard shard{{4, 4, {Axis::tensor}, false}, {2, 2, {Axis::data}, true}, {h, h, {}, false}};
  const Mesh mesh{{{Axis::data, 2}, {Axis::tensor, 2}}};
  const Box box = box_of(shard, mesh, Rank{3});
  const bool bias = GENERATE(false, true);
  Workload workload;
  workload.seed = 9;
  KernelContext context;
  context.workload = &workload;
  context.step = 2;
  context.layer = 4;
  Memory x = Memory::random(DType::f64, 2 * h, 1);
  Memory b = Memory::random(DType::f64, h, 2);
  Memory r = Memory::random(DType::f64, 2 * h, 3);
  Memory y(DType::f64, 2 * h);
  Memory mask(DType::u8, 2 * h);
  Kernel k = kernel(KernelKind::residual_forward, DType::f64, 2, h);
  k.options.dropout = true;
  k.options.bias = bias;
  k.site = 3;
  k.parameter = 0.4;
  std::vector<Operand> operands = {x.operand()};
  if (bias) operands.push_back(b.operand());
  operands.insert(operands.end(), {r.operand(), y.operand(), mask.operand()});
  operands.back().place.shard = &shard;
  operands.back().place.box = box;
  run(k, operands, context);
  for (std::uint64_t row = 0; row < 2; ++row) {
    for (std::uint64_t i = 0; i < h; ++i) {
      const std::uint64_t global = ((row + 2) * 2 + 1) * h + i;
      const bool kept = random_uniform(9, mix(2) ^ mix(3000 + 4 + 1), global) >= 0.4;
      const std::uint64_t at = row * h + i;
      CHECK((mask[at] != 0.0) == kept);
      const double branch = x[at] + (bias ? b[i] : 0.0);
      CHECK(y[at] == Approx(r[at] + (kept ? branch / 0.6 : 0.0)).epsilon(1e-14));
    }
  }
  Memory dx(DType::f64, 2 * h);
  k.kind = KernelKind::dropout_backward;
  run(k, {x.operand(), mask.operand(), dx.operand()});
  for (std::uint64_t i = 0; i < 2 * h; ++i) CHECK(dx[i] == (mask[i] != 0.0 ? x[i] * (1.0 / 0.6) : 0.0));
}

TEST_CASE("without dropout the residual adds branch and bias in place", "[kernels]") {
  const DType t = GENERATE(DType::f64, DType::f32, DType::bf16, DType::f16);
  Memory x = Memory::random(t, 3 * 17, 1);
  Memory bias = Memory::random(t, 17, 2);
  Memory r = Memory::random(t, 3 * 17, 3);
  Memory expected(DType::f64, 3 * 17);
  for (std::uint64_t i = 0; i < x.count(); ++i) expected.set(i, r[i] + x[i] + bias[i % 17]);
  Kernel k = kernel(KernelKind::residual_forward, t, 3, 17);
  k.options.bias = true;
  run(k, {x.operand(), bias.operand(), r.operand(), r.operand()});  // y is the residual itself
  CHECK(error(r, expected) <= tolerance(t));
}

// Rows (1, 2, 3) and (4, 5, 6), weights (2, -1, 0.5). Of the gradient (1, 1, 2), (3, -1, 0) the weights get
// 1 1 + 3 4 = 13, 1 2 - 1 5 = -3 and 2 3 + 0 6 = 6, added to 10.
TEST_CASE("weights of features scale every row, and get the sum over rows of gradient times input", "[kernels]") {
  const DType t = GENERATE(DType::f64, DType::f32, DType::bf16, DType::f16);
  Memory x = Memory::of(t, {1, 2, 3, 4, 5, 6}), gamma = Memory::of(t, {2, -1, 0.5}), y(t, 6);
  run(kernel(KernelKind::scale_features_forward, t, 2, 3), {x.operand(), gamma.operand(), y.operand()});
  Memory dy = Memory::of(t, {1, 1, 2, 3, -1, 0}), dx(t, 6), dgamma = Memory::of(t, {10, 10, 10});
  run(kernel(KernelKind::scale_features_backward_input, t, 2, 3), {dy.operand(), gamma.operand(), dx.operand()});
  run(kernel(KernelKind::scale_features_backward_weight, t, 2, 3), {dy.operand(), x.operand(), dgamma.operand(true)});
  const double scaled[] = {2, -2, 1.5, 8, -5, 3}, back[] = {2, -1, 1, 6, 1, 0}, sums[] = {23, 7, 16};
  for (std::uint64_t i = 0; i < 6; ++i) {
    CHECK(y[i] == scaled[i]);
    CHECK(dx[i] == back[i]);
  }
  for (std::uint64_t i = 0; i < 3; ++i) CHECK(dgamma[i] == sums[i]);
}

// Two images of four patches with one feature: rows run position-major. The first image has 1, 3, 5, 7, the second
// 2, 4, 6, 12.
TEST_CASE("a mean over positions, and its gradient, which is the same at all of them", "[kernels]") {
  const DType t = GENERATE(DType::f64, DType::f32, DType::bf16, DType::f16);
  Memory x = Memory::of(t, {1, 2, 3, 4, 5, 6, 7, 12}), y(t, 2), dx(t, 8);
  Kernel k = kernel(KernelKind::mean_rows_forward, t, 2, 1);
  k.depth = 4;
  run(k, {x.operand(), y.operand()});
  CHECK(y[0] == 4.0);
  CHECK(y[1] == 6.0);
  k.kind = KernelKind::mean_rows_backward;
  Memory dy = Memory::of(t, {8, -2});
  run(k, {dy.operand(), dx.operand()});
  for (std::uint64_t i = 0; i < 8; ++i) CHECK(dx[i] == (i % 2 == 0 ? 2.0 : -0.5));
}
