#include <catch2/catch.hpp>

#include <cmath>
#include <cstring>

#include "tests/unit/exec/kernel_memory.hpp"

using namespace orrery;
using namespace orrery::test;

namespace {

constexpr std::uint64_t rows = 4;

/// The loss of `rows` tokens over a vocabulary cut between `ranks`, rank after rank, with maxima and sums combined as
/// the collectives do it.
struct CrossEntropy {
  DType t;
  std::uint64_t vocabulary, padded, ranks;
  std::vector<Memory> logits;  // by rank
  Memory targets{DType::i32, rows};
  Memory max, sum, target_logit;
  Memory loss{DType::f64, 1};
  Memory count = Memory::of(DType::f64, {3.0});  // one of the four targets does not count
  Shard shard;
  Mesh mesh;

  CrossEntropy(DType type, std::uint64_t v, std::uint64_t p)
      : t(type),
        vocabulary(v),
        padded((v + p - 1) / p * p),
        ranks(p),
        max(type, rows),
        sum(type, rows),
        target_logit(type, rows),
        shard{{rows, rows, {}, false}, {1, 1, {}, false}, {padded, v, {Axis::tensor}, false}},
        mesh{{{Axis::tensor, static_cast<std::uint32_t>(p)}}} {
    for (std::uint64_t r = 0; r < p; ++r) {
      logits.push_back(Memory::random(t, rows * width(), 100 + r, 2.0));
    }
    const std::vector<double> wanted = {0.0, static_cast<double>(v - 1), -1.0, static_cast<double>(v / 2)};
    for (std::uint64_t i = 0; i < rows; ++i) targets.set(i, wanted[i]);
  }
  [[nodiscard]] std::uint64_t width() const { return padded / ranks; }
  Operand part(std::uint64_t r) {
    Operand o = logits[r].operand(true);
    o.place.shard = &shard;
    o.place.box = box_of(shard, mesh, Rank{static_cast<std::uint32_t>(r)});
    return o;
  }
  double scale = 0.0, softcap = 0.0;
  Kernel kernel_of(KernelKind kind) const {
    Kernel k = kernel(kind, t, rows, width());
    if (kind == KernelKind::scale_logits || kind == KernelKind::cross_entropy_backward) {
      k.scale = scale;
      k.softcap = softcap;
    }
    return k;
  }
  void scale_logits() {
    for (std::uint64_t r = 0; r < ranks; ++r) run(kernel_of(KernelKind::scale_logits), {part(r)});
  }
  [[nodiscard]] double capped(double x) const {
    if (scale != 0.0) x *= scale;
    return softcap > 0.0 ? softcap * std::tanh(x / softcap) : x;
  }

  double forward() {
    Memory part_max(t, rows), part_sum(t, rows), part_logit(t, rows);
    for (std::uint64_t i = 0; i < rows; ++i) max.set(i, -INFINITY);
    for (std::uint64_t r = 0; r < ranks; ++r) {
      run(kernel_of(KernelKind::cross_entropy_max), {part(r), part_max.operand()});
      for (std::uint64_t i = 0; i < rows; ++i) max.set(i, std::max(max[i], part_max[i]));
    }
    for (std::uint64_t i = 0; i < rows; ++i) {
      sum.set(i, 0.0);
      target_logit.set(i, 0.0);
    }
    for (std::uint64_t r = 0; r < ranks; ++r) {
      run(kernel_of(KernelKind::cross_entropy_sum),
          {part(r), max.operand(), targets.operand(), part_sum.operand(), part_logit.operand()});
      for (std::uint64_t i = 0; i < rows; ++i) {
        sum.set(i, sum[i] + part_sum[i]);
        target_logit.set(i, target_logit[i] + part_logit[i]);
      }
    }
    loss.set(0, 0.0);
    run(kernel_of(KernelKind::cross_entropy_loss),
        {max.operand(), sum.operand(), target_logit.operand(), targets.operand(), loss.operand(true)});
    run(kernel_of(KernelKind::mean_loss), {loss.operand(true), count.operand()});
    return loss[0];
  }
  void backward() {
    for (std::uint64_t r = 0; r < ranks; ++r) {
      run(kernel_of(KernelKind::cross_entropy_backward),
          {part(r), max.operand(), sum.operand(), targets.operand(), count.operand()});
    }
  }
  double plain() {
    double total = 0.0;
    for (std::uint64_t row = 0; row < rows; ++row) {
      if (targets[row] < 0) continue;
      double exponentials = 0.0;
      double wanted = 0.0;
      for (std::uint64_t v = 0; v < vocabulary; ++v) {
        const double x = capped(logits[v / width()][row * width() + v % width()]);
        exponentials += std::exp(x);
        if (static_cast<double>(v) == targets[row]) wanted = x;
      }
      total += std::log(exponentials) - wanted;
    }
    return total / 3.0;
  }
};

}  // namespace

// There are 7 entries over 1, 2, 3 and 4 ranks, so padding of 0, 1, 2 and 1; and over 6, 5: the last rank holds only or
// mostly padding.
TEST_CASE("the loss over a cut vocabulary equals the plain one; padding does not count", "[kernels]") {
  const std::uint64_t p = GENERATE(1, 2, 3, 4, 5, 6);
  const DType t = GENERATE(DType::f64, DType::f32);
  CrossEntropy x(t, 7, p);
  CAPTURE(p, name_of(t));
  CHECK(x.forward() == Approx(x.plain()).epsilon(tolerance(t)));
}

TEST_CASE("the logits' gradient is the derivative of the mean loss, zero for padding and ignored rows", "[kernels]") {
  const std::uint64_t p = GENERATE(1, 3, 6);
  CrossEntropy x(DType::f64, 7, p);
  x.forward();
  CrossEntropy gradient = x;
  gradient.backward();
  for (std::uint64_t r = 0; r < p; ++r) {
    for (std::uint64_t i = 0; i < rows * x.width(); ++i) {
      const std::uint64_t entry = r * x.width() + i % x.width();
      if (entry >= 7 || i / x.width() == 2) {
        CHECK(gradient.logits[r][i] == 0.0);
        continue;
      }
      // Central difference: h^2 = 1e-10 and 1e-16 / h = 1e-11.
      const double at = x.logits[r][i];
      x.logits[r].set(i, at + 1e-5);
      const double above = x.plain();
      x.logits[r].set(i, at - 1e-5);
      const double below = x.plain();
      x.logits[r].set(i, at);
      CHECK(gradient.logits[r][i] == Approx((above - below) / 2e-5).margin(1e-9));
    }
  }
}

TEST_CASE("the loss scale multiplies the gradient", "[kernels]") {
  CrossEntropy plain(DType::f64, 7, 1);
  plain.forward();
  CrossEntropy scaled = plain;
  plain.backward();
  Memory scale = Memory::of(DType::f64, {1024.0, 0.0});
  Kernel k = scaled.kernel_of(KernelKind::cross_entropy_backward);
  k.options.scaled = true;
  run(k, {scaled.part(0), scaled.max.operand(), scaled.sum.operand(), scaled.targets.operand(), scaled.count.operand(),
          scale.operand()});
  for (std::uint64_t i = 0; i < plain.logits[0].count(); ++i) {
    CHECK(scaled.logits[0][i] == Approx(1024.0 * plain.logits[0][i]).epsilon(1e-13).margin(1e-13));
  }
}

// Logits are of order 2, so a bound of 3 bends them. Central differences as above.
TEST_CASE("scaled and capped logits give the loss and its gradient by the raw ones", "[kernels]") {
  const std::uint64_t p = GENERATE(1, 3);
  CrossEntropy x(DType::f64, 7, p);
  x.scale = GENERATE(0.0, 0.3);
  x.softcap = GENERATE(0.0, 3.0);
  CrossEntropy made = x;
  made.scale_logits();
  const double loss = made.forward();
  CHECK(loss == Approx(x.plain()).epsilon(1e-12));
  made.backward();
  for (std::uint64_t r = 0; r < p; ++r) {
    for (std::uint64_t i = 0; i < rows * x.width(); ++i) {
      const double at = x.logits[r][i];
      x.logits[r].set(i, at + 1e-5);
      const double above = x.plain();
      x.logits[r].set(i, at - 1e-5);
      const double below = x.plain();
      x.logits[r].set(i, at);
      CHECK(made.logits[r][i] == Approx((above - below) / 2e-5).margin(1e-9));
    }
  }
}
