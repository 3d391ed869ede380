#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>

#include "tests/unit/exec/kernel_memory.hpp"

using namespace orrery;
using namespace orrery::test;

namespace {

KernelContext context_of(const Workload& w) {
  KernelContext c;
  c.workload = &w;
  return c;
}

}  // namespace

// Worked by hand for one element: g = 2, w = 1, step 1, so m-hat = g and
// v-hat = g^2: w - lr (g / (|g| + eps) + decay w) = 1 - 0.1 (1 + 0.5) = 0.85.
TEST_CASE("Adam's first step moves by the learning rate and decays the weight", "[kernels]") {
  Workload w;
  w.optimizer.learning_rate = 0.1;
  w.optimizer.epsilon = 1e-30;
  w.optimizer.weight_decay = 0.5;
  Memory g = Memory::of(DType::f64, {2.0, -2.0});
  Memory weight = Memory::of(DType::f64, {1.0, 1.0});
  Memory m(DType::f64, 2), v(DType::f64, 2);
  Memory steps = Memory::of(DType::f64, {1.0});
  Kernel k = kernel(KernelKind::adam_update, DType::f64, 1, 2);
  k.options.decay = GENERATE(false, true);
  run(k, {g.operand(), steps.operand(), weight.operand(true), m.operand(true), v.operand(true)}, context_of(w));
  const double decay = k.options.decay ? 0.05 : 0.0;
  CHECK(weight[0] == Approx(0.9 - decay).epsilon(1e-14));
  CHECK(weight[1] == Approx(1.1 - decay).epsilon(1e-14));
  CHECK(m[0] == Approx(0.2).epsilon(1e-14));  // (1 - 0.9) 2
  CHECK(v[0] == Approx(0.2).epsilon(1e-14));  // (1 - 0.95) 4
}

TEST_CASE("updates of many elements over several steps follow the formulas", "[kernels]") {
  const bool adam = GENERATE(true, false);
  const std::uint64_t n = 2100;  // two tiles and a remainder
  Workload w;
  w.optimizer.kind = adam ? OptimizerKind::adam : OptimizerKind::sgd;
  Memory weight = Memory::random(DType::f64, n, 1);
  Memory m(DType::f64, n), v(DType::f64, n);
  std::vector<double> x(n), a(n), b(n);
  for (std::uint64_t i = 0; i < n; ++i) x[i] = weight[i];
  const Optimizer& o = w.optimizer;
  for (int step = 1; step <= 3; ++step) {
    Memory g = Memory::random(DType::f64, n, 10 + static_cast<std::uint64_t>(step));
    Memory steps = Memory::of(DType::f64, {static_cast<double>(step)});
    Memory factor = Memory::of(DType::f64, {0.5, 0.0});
    Kernel k = kernel(adam ? KernelKind::adam_update : KernelKind::sgd_update, DType::f64, 1, n);
    k.options.decay = true;
    k.options.factor = true;
    k.options.momentum = !adam;
    std::vector<Operand> operands = {g.operand(), steps.operand(), factor.operand(), weight.operand(true),
                                     m.operand(true)};
    if (adam) operands.push_back(v.operand(true));
    run(k, operands, context_of(w));
    for (std::uint64_t i = 0; i < n; ++i) {
      const double d = 0.5 * g[i];
      if (adam) {
        a[i] = o.beta1 * a[i] + (1 - o.beta1) * d;
        b[i] = o.beta2 * b[i] + (1 - o.beta2) * d * d;
        const double mean = a[i] / (1 - std::pow(o.beta1, step));
        const double square = b[i] / (1 - std::pow(o.beta2, step));
        x[i] -= o.learning_rate * (mean / (std::sqrt(square) + o.epsilon) + o.weight_decay * x[i]);
      } else {
        a[i] = o.momentum * a[i] + d;
        x[i] -= o.learning_rate * (a[i] + o.weight_decay * x[i]);
      }
    }
  }
  CHECK(error(weight, Memory::of(DType::f64, x)) <= tolerance(DType::f64));
}

TEST_CASE("a 16-bit weight is the rounded copy of its f32 master", "[kernels]") {
  Workload w;
  Memory g = Memory::random(DType::f32, 100, 1);
  Memory master = Memory::random(DType::f32, 100, 2);
  Memory weight(DType::bf16, 100);
  Memory m(DType::f32, 100), v(DType::f32, 100);
  Memory steps = Memory::of(DType::f64, {1.0});
  Kernel k = kernel(KernelKind::adam_update, DType::bf16, 1, 100);
  k.options.master = true;
  run(k, {g.operand(), steps.operand(), weight.operand(true), master.operand(true), m.operand(true), v.operand(true)},
      context_of(w));
  Memory rounded(DType::bf16, 100);
  for (std::uint64_t i = 0; i < 100; ++i) rounded.set(i, master[i]);
  CHECK(weight == rounded);
}

// 1500 parameters are more than a tile, and the second tile has a rest.
TEST_CASE("without a master a 16-bit weight is rounded once, from arithmetic in f32", "[kernels]") {
  const std::uint64_t n = 1500;
  const KernelKind kind = GENERATE(KernelKind::adam_update, KernelKind::sgd_update, KernelKind::lars_update);
  Workload w;
  w.optimizer.learning_rate = 0.05;
  Memory weight = Memory::random(DType::bf16, n, 2);
  Memory wide(DType::f32, n), m(DType::bf16, n), wide_m(DType::f32, n), v(DType::bf16, n), wide_v(DType::f32, n);
  for (std::uint64_t i = 0; i < n; ++i) wide.set(i, weight[i]);
  Memory g = Memory::random(DType::bf16, n, 1);
  Memory steps = Memory::of(DType::f64, {1.0});
  Kernel k = kernel(kind, DType::bf16, 1, n);
  k.options.momentum = kind == KernelKind::sgd_update;
  const auto update = [&](Memory& x, Memory& first, Memory& second) {
    std::vector<Operand> o{g.operand(), steps.operand(), x.operand(true), first.operand(true)};
    if (kind == KernelKind::adam_update) o.push_back(second.operand(true));
    run(k, o, context_of(w));
  };
  update(weight, m, v);
  update(wide, wide_m, wide_v);
  Memory nearest(DType::bf16, n), nearest_m(DType::bf16, n), nearest_v(DType::bf16, n);
  for (std::uint64_t i = 0; i < n; ++i) {
    nearest.set(i, wide[i]);
    nearest_m.set(i, wide_m[i]);
    nearest_v.set(i, wide_v[i]);
  }
  CHECK(weight == nearest);
  CHECK(m == nearest_m);
  CHECK(v == nearest_v);
}

// 300 parameters are blocks of 128, 128 and 44. The stored value is the block's scale, the largest magnitude over 448
// or 65504, times a number of the type; the step that makes it has all digits.
TEST_CASE("moments in f8 and f16 are multiples of their block's scale", "[kernels]") {
  const std::uint64_t n = 300;
  Workload w;
  w.moment_dtype = DType::f8;
  Memory weight = Memory::random(DType::f32, n, 2), plain = weight;
  Memory m(DType::f8, n), v(DType::f16, n), scales(DType::f32, 6), exact_m(DType::f32, n), exact_v(DType::f32, n);
  Kernel k = kernel(KernelKind::adam_update, DType::f32, 1, n);
  for (int step = 1; step <= 2; ++step) {
    CAPTURE(step);
    Memory g = Memory::random(DType::f32, n, 10 + static_cast<std::uint64_t>(step));
    for (std::uint64_t i = 128; i < 256; ++i) g.set(i, 1e-6 * g[i]);  // whose squares f16 has not
    Memory steps = Memory::of(DType::f64, {static_cast<double>(step)});
    k.options.scaled = false;
    run(k, {g.operand(), steps.operand(), plain.operand(true), exact_m.operand(true), exact_v.operand(true)},
        context_of(w));
    k.options.scaled = true;
    k.depth = 128;
    run(k, {g.operand(), steps.operand(), weight.operand(true), m.operand(true), v.operand(true), scales.operand(true)},
        context_of(w));
    CHECK(weight == plain);
    for (std::uint64_t block = 0; block < 3; ++block) {
      const std::uint64_t first = 128 * block, end = std::min(n, first + 128);
      double most_m = 0.0, most_v = 0.0;
      for (std::uint64_t i = first; i < end; ++i) {
        most_m = std::max(most_m, std::abs(exact_m[i]));
        most_v = std::max(most_v, exact_v[i]);
      }
      CHECK(scales[2 * block] == Approx(most_m / 448.0).epsilon(1e-6));
      CHECK(scales[2 * block + 1] == Approx(most_v / 65504.0).epsilon(1e-6));
      for (std::uint64_t i = first; i < end; ++i) {
        const double kept_m = m[i] * scales[2 * block], kept_v = v[i] * scales[2 * block + 1];
        // The margin is half a unit: 2^-4 of a normal number, 2^-10 scales of another; for f16 2^-11, and 2^-25 scales.
        CHECK(std::abs(kept_m - exact_m[i]) <=
              1.001 * std::max(0x1p-4 * std::abs(exact_m[i]), 0x1p-10 * scales[2 * block]));
        CHECK(std::abs(kept_v - exact_v[i]) <= 1.001 * std::max(0x1p-11 * exact_v[i], 0x1p-25 * scales[2 * block + 1]));
        exact_m.set(i, kept_m);
        exact_v.set(i, kept_v);
      }
    }
  }
}

// Two parts have norm 5, 3^2 + 4^2; a replicated part counts with weight 1/2 on each of two ranks.
TEST_CASE("the global norm sums squares and the clip factor brings it to the limit", "[kernels]") {
  Memory a = Memory::of(DType::f64, {3.0});
  Memory b = Memory::of(DType::f64, {4.0, 0.0});
  Memory norm(DType::f64, 1);
  Memory factor(DType::f64, 2);
  Kernel k = kernel(KernelKind::sum_squares, DType::f64, 1, 3);
  k.parameter = 0.5;
  run(k, {a.operand(), b.operand(), norm.operand(true)});
  CHECK(norm[0] == 12.5);
  run(k, {a.operand(), b.operand(), norm.operand(true)});
  CHECK(norm[0] == 25.0);
  Workload w;
  k = kernel(KernelKind::clip_factor, DType::f64, 1, 1);
  k.parameter = 2.0;
  run(k, {norm.operand(), factor.operand()}, context_of(w));
  CHECK(factor[0] == 2.0 / (5.0 + 1e-6));
  CHECK(factor[1] == 0.0);
  k.parameter = 10.0;
  run(k, {norm.operand(), factor.operand()}, context_of(w));
  CHECK(factor[0] == 1.0);
}

TEST_CASE("the loss scale halves and skips on overflow, and doubles after its window", "[kernels]") {
  Workload w;
  w.loss_scale = 8.0;
  w.loss_scale_window = 2;
  Memory scale(DType::f64, 2);
  Memory factor(DType::f64, 2);
  Memory steps = Memory::of(DType::f64, {5.0});
  run(kernel(KernelKind::initialize_scale, DType::f32, 1, 2), {scale.operand()}, context_of(w));
  CHECK(scale[0] == 8.0);
  Kernel clip = kernel(KernelKind::clip_factor, DType::f32, 1, 1);
  clip.options.scaled = true;
  Kernel advance = kernel(KernelKind::advance_step, DType::f32, 1, 1);
  advance.options.factor = true;
  const auto step = [&](double sum) {
    Memory norm = Memory::of(DType::f64, {sum});
    run(clip, {norm.operand(), scale.operand(true), factor.operand()}, context_of(w));
    run(advance, {steps.operand(true), factor.operand()}, context_of(w));
  };
  step(4.0);
  CHECK(factor[0] == 1.0 / 8.0);  // unscales
  CHECK(scale[0] == 8.0);
  CHECK(steps[0] == 6.0);
  step(4.0);  // the second good step
  CHECK(factor[0] == 1.0 / 8.0);
  CHECK(scale[0] == 16.0);
  step(INFINITY);
  CHECK(factor[1] == 1.0);
  CHECK(scale[0] == 8.0);
  CHECK(steps[0] == 7.0);
  step(NAN);
  CHECK(scale[0] == 4.0);
  CHECK(steps[0] == 7.0);
  // A skipped step changes nothing, whatever the gradient.
  Memory g = Memory::of(DType::f32, {INFINITY});
  Memory weight = Memory::of(DType::f32, {1.0});
  Memory m(DType::f32, 1), v(DType::f32, 1);
  Kernel k = kernel(KernelKind::adam_update, DType::f32, 1, 1);
  k.options.factor = true;
  run(k, {g.operand(), steps.operand(), factor.operand(), weight.operand(true), m.operand(true), v.operand(true)},
      context_of(w));
  CHECK(weight[0] == 1.0);
  CHECK(m[0] == 0.0);
}
