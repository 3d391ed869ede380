#include <catch2/catch.hpp>

#include <array>
#include <cmath>

#include "tests/unit/exec/kernel_memory.hpp"

using namespace orrery;
using namespace orrery::test;

namespace {

/// Tensors of 5 and 3 elements with decay, then 2 without: segments of 8 and 2.
ParameterTable table() {
  const auto whole = [](std::uint64_t n) { return Shard{{n, n, {}, false}}; };
  ParameterTable t;
  t.module = "layer";
  t.count = 10;
  t.slices = {
      {"a", 0, whole(5), Init::zeros, 0.0}, {"b", 5, whole(3), Init::zeros, 0.0}, {"c", 8, whole(2), Init::zeros, 0.0}};
  t.segments = {{0, 8, true, false, true}, {8, 2, false, false, true}};
  return t;
}

/// One of two data ranks, or all of them as one.
struct Side {
  Mesh mesh{{{Axis::data, 2}}};
  ParameterTable parameters = table();
  Workload workload;
  KernelContext context(std::uint32_t rank) {
    KernelContext c;
    c.workload = &workload;
    c.mesh = &mesh;
    c.rank = Rank{rank};
    return c;
  }
  /// The operand on the first segment, or on the rank's part of it.
  Operand placed(Memory& m, bool split, bool accumulate = false) {
    Operand o = m.operand(accumulate);
    o.place.table = &parameters;
    if (split) o.place.flat_split = {Axis::data};
    return o;
  }
};

Memory part(const Memory& whole, std::uint32_t rank) {
  Memory out(DType::f64, whole.count() / 2);
  for (std::uint64_t i = 0; i < out.count(); ++i) out.set(i, whole[rank * out.count() + i]);
  return out;
}

}  // namespace

// a = (1 2 2 4 0), b = (3 0 4): squares 25 and 25. Gradients of 1 and 2, scaled by 0.5: squares 5 / 4 and 3 4 / 4. The
// parts hold a's first four, and a's last with all of b.
TEST_CASE("sums of squares of cut parts add up to those of tensors", "[kernels]") {
  Side side;
  const Memory weight = Memory::of(DType::f64, {1, 2, 2, 4, 0, 3, 0, 4});
  const Memory gradient = Memory::of(DType::f64, {1, 1, 1, 1, 1, 2, 2, 2});
  Memory factor = Memory::of(DType::f64, {0.5, 0.0});
  Kernel k = kernel(KernelKind::lars_norms, DType::f64, 1, 4, 2);
  k.options.factor = true;
  k.parameter = 1.0;
  Memory norms(DType::f64, 4);
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    Memory w = part(weight, rank), g = part(gradient, rank);
    run(k, {g.operand(), factor.operand(), side.placed(w, true), norms.operand(true)}, side.context(rank));
    if (rank == 0) CHECK(norms == Memory::of(DType::f64, {25, 1, 0, 0}));
  }
  CHECK(norms == Memory::of(DType::f64, {25, 1.25, 25, 3}));
}

// Two ranks that hold the same have a share of a half each.
TEST_CASE("ranks that hold the same tensor add their share of its norms", "[kernels]") {
  Side side;
  Memory w = Memory::of(DType::f64, {1, 2, 2, 4, 0, 3, 0, 4}), g = w;
  Kernel k = kernel(KernelKind::lars_norms, DType::f64, 1, 8, 2);
  k.parameter = 0.5;
  Memory norms(DType::f64, 4);
  run(k, {g.operand(), side.placed(w, false), norms.operand(true)}, side.context(0));
  CHECK(norms == Memory::of(DType::f64, {12.5, 12.5, 12.5, 12.5}));
}

// Step 1 without decay: m-hat / sqrt(v-hat) is the gradient's sign, so the squares of the direction count the elements,
// 5 and 3. The clipped norm of a is 2 instead of 5. Weights move by 0.1 2 / sqrt 5 and 0.1 5 / sqrt 3 (b's norm, 5, is
// clipped as well: 0.1 2 / sqrt 3).
TEST_CASE("LAMB moves every tensor by its own trust ratio", "[kernels]") {
  Side side;
  side.workload.optimizer.kind = OptimizerKind::lamb;
  side.workload.optimizer.learning_rate = 0.1;
  side.workload.optimizer.epsilon = 1e-30;
  side.workload.optimizer.weight_decay = 0.0;
  const bool clipped = GENERATE(false, true);
  if (clipped) side.workload.optimizer.trust_clip = 2.0;
  Memory w = Memory::of(DType::f64, {1, 2, 2, 4, 0, 3, 0, 4});
  const Memory start = w;
  Memory g = Memory::of(DType::f64, {1, -1, 3, 1, 2, -2, 7, 5});
  Memory m(DType::f64, 8), v(DType::f64, 8), norms(DType::f64, 4);
  Memory steps = Memory::of(DType::f64, {1.0});
  Kernel k = kernel(KernelKind::lamb_moments, DType::f64, 1, 8, 2);
  k.parameter = 1.0;
  run(k, {g.operand(), steps.operand(), side.placed(w, false), m.operand(true), v.operand(true), norms.operand(true)},
      side.context(0));
  CHECK(w == start);
  CHECK(error(norms, Memory::of(DType::f64, {25, 5, 25, 3})) < 1e-14);
  k = kernel(KernelKind::lamb_update, DType::f64, 1, 8, 2);
  run(k, {norms.operand(), steps.operand(), side.placed(w, false, true), m.operand(), v.operand()}, side.context(0));
  for (std::uint64_t i = 0; i < 8; ++i) {
    const double ratio = (clipped ? 2.0 : 5.0) / std::sqrt(i < 5 ? 5.0 : 3.0);
    CHECK(w[i] == Approx(start[i] - 0.1 * ratio * (g[i] > 0 ? 1.0 : -1.0)).epsilon(1e-13));
  }
}

// Norms 5 and 10 of weight and gradient, coefficient 0.1, decay 0.5:
// ratio 0.1 5 / (10 + 2.5) = 0.04; for the other tensor, of norm 0, 1.
TEST_CASE("LARS scales the rate of every tensor, and leaves one of norm 0 as it is", "[kernels]") {
  Side side;
  side.workload.optimizer.kind = OptimizerKind::lars;
  side.workload.optimizer.learning_rate = 2.0;
  side.workload.optimizer.trust_coefficient = 0.1;
  side.workload.optimizer.weight_decay = 0.5;
  Memory w = Memory::of(DType::f64, {1, 1, 1, 1, 1, 0, 0, 0});
  Memory g = Memory::of(DType::f64, {3, 3, 3, 3, 3, 1, 1, 1});
  Memory m(DType::f64, 8);
  Memory norms = Memory::of(DType::f64, {25, 100, 0, 9});
  Memory steps = Memory::of(DType::f64, {1.0});
  Kernel k = kernel(KernelKind::lars_update, DType::f64, 1, 8, 2);
  k.options.decay = true;
  run(k, {g.operand(), steps.operand(), side.placed(w, false, true), m.operand(true), norms.operand()},
      side.context(0));
  for (std::uint64_t i = 0; i < 8; ++i) {
    const double moved = i < 5 ? 2.0 * 0.04 * (3 + 0.5) : 2.0;
    CHECK(m[i] == Approx(moved).epsilon(1e-14));
    CHECK(w[i] == Approx((i < 5 ? 1.0 : 0.0) - moved).epsilon(1e-14));
  }
}

TEST_CASE("a skipped step leaves moments, norms and weights of a trust ratio alone", "[kernels]") {
  Side side;
  Memory w = Memory::random(DType::f64, 8, 1), g = Memory::random(DType::f64, 8, 2);
  const Memory start = w;
  Memory m(DType::f64, 8), v(DType::f64, 8), norms(DType::f64, 4);
  Memory steps = Memory::of(DType::f64, {1.0});
  Memory factor = Memory::of(DType::f64, {0.5, 1.0});
  Kernel k = kernel(KernelKind::lamb_moments, DType::f64, 1, 8, 2);
  k.options.factor = true;
  run(k,
      {g.operand(), steps.operand(), factor.operand(), side.placed(w, false), m.operand(true), v.operand(true),
       norms.operand(true)},
      side.context(0));
  k.kind = KernelKind::lars_update;
  run(k,
      {g.operand(), steps.operand(), factor.operand(), side.placed(w, false, true), m.operand(true), norms.operand()},
      side.context(0));
  CHECK(w == start);
  CHECK(m == Memory(DType::f64, 8));
  CHECK(norms == Memory(DType::f64, 4));
}
