#include <catch2/catch.hpp>

#include <cmath>

#include "core/program/factored.hpp"
#include "tests/unit/exec/kernel_memory.hpp"

using namespace orrery;
using namespace orrery::test;

namespace {

ShardDim whole(std::uint64_t n) { return {n, n, {}, false}; }
ShardDim cut(std::uint64_t n, Axis axis) { return {n, n, {axis}, false}; }

/// A matrix of 3 x 2 and a row of padding, then a vector of 2: segments of 8 and 2.
ParameterTable table() {
  ParameterTable t;
  t.module = "layer";
  t.count = 10;
  t.slices = {{"matrix", 0, {ShardDim{4, 3, {}, false}, whole(2)}, Init::zeros, 0.0},
              {"vector", 8, {whole(2)}, Init::zeros, 0.0}};
  t.segments = {{0, 8, true, false, true}, {8, 2, false, false, true}};
  return t;
}

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
  Operand placed(Memory& m, std::uint64_t flat_first, bool split) {
    Operand o = m.operand();
    o.place.table = &parameters;
    o.place.flat_first = flat_first;
    if (split) o.place.flat_split = {Axis::data};
    return o;
  }
};

}  // namespace

// A row's number is its global one, and experts count from the rank's first.
TEST_CASE("statistics are those of whole matrices, and of the rank's experts", "[kernels]") {
  const Mesh mesh{{{Axis::tensor, 2}, {Axis::expert, 2}}};
  ParameterTable t;
  t.count = 4 * 6 * 5 / 4 + 6 * 5 / 2;
  t.slices = {{"experts", 0, {cut(4, Axis::expert), cut(6, Axis::tensor), whole(5)}, Init::zeros, 0.0},
              {"matrix", 30, {whole(6), cut(5 * 2, Axis::tensor)}, Init::zeros, 0.0}};
  t.segments = {{0, 30, true, false, true}, {30, 30, true, false, true}};
  const FactoredSegment experts = factored(t, t.segments[0], mesh);
  CHECK(experts.experts);
  CHECK(experts.matrices == 2);
  CHECK(experts.count == 2 * (6 + 5));
  const FactoredSegment matrix = factored(t, t.segments[1], mesh);
  CHECK_FALSE(matrix.experts);
  CHECK(matrix.matrices == 1);
  CHECK(matrix.count == 6 + 10);
}

// G = (1 2 / 3 4 / 5 6) and a row of padding. One rank has the first four elements, one the others; with a factor of a
// half squares are a quarter.
TEST_CASE("Adafactor's sums of cut parts add up to those of the matrix", "[kernels]") {
  Side side;
  Memory factor = Memory::of(DType::f64, {0.5, 0.0});
  Memory sums(DType::f64, 5);
  Kernel k = kernel(KernelKind::adafactor_squares, DType::f64, 1, 4, 5);
  k.options.factor = true;
  k.parameter = 1.0;
  Memory first = Memory::of(DType::f64, {1, 2, 3, 4}), second = Memory::of(DType::f64, {5, 6, 0, 0});
  run(k, {side.placed(first, 0, true), factor.operand(), sums.operand(true)}, side.context(0));
  CHECK(sums == Memory::of(DType::f64, {1.25, 6.25, 0, 2.5, 5}));
  run(k, {side.placed(second, 0, true), factor.operand(), sums.operand(true)}, side.context(1));
  CHECK(sums == Memory::of(DType::f64, {1.25, 6.25, 15.25, 8.75, 14}));
  // Ranks that hold the same elements add their shares.
  k.options.factor = false;
  k.parameter = 0.5;
  Memory all = Memory::of(DType::f64, {1, 2, 3, 4, 5, 6, 0, 0});
  Memory shared(DType::f64, 5);
  run(k, {side.placed(all, 0, false), shared.operand(true)}, side.context(0));
  CHECK(shared == Memory::of(DType::f64, {2.5, 12.5, 30.5, 17.5, 28}));
}

// At step 1 nothing from before is kept. The second moment of (0, 0) is 5 35 / 91, its update's square 91 / 175.
TEST_CASE("Adafactor's moments are means of the sums, and its norm that of the update", "[kernels]") {
  Side side;
  Memory g = Memory::of(DType::f64, {1, 2, 3, 4, 5, 6, 0, 0});
  Memory sums = Memory::of(DType::f64, {5, 25, 61, 35, 56}), steps = Memory::of(DType::f64, {1});
  Memory moments = Memory::of(DType::f64, {9, 9, 9, 9, 9}), norms(DType::f64, 1);
  Kernel k = kernel(KernelKind::adafactor_moments, DType::f64, 1, 8, 5);
  k.batch = 1;
  k.parameter = 1.0;
  run(k, {side.placed(g, 0, false), sums.operand(), steps.operand(), moments.operand(true), norms.operand(true)},
      side.context(0));
  CHECK(error(moments, sums) < 1e-15);
  const double rows[] = {5, 25, 61}, columns[] = {35, 56};
  double squares = 0.0;
  for (int i = 0; i < 6; ++i) squares += (i + 1) * (i + 1) * 91.0 / (rows[i / 2] * columns[i % 2]);
  CHECK(norms[0] == Approx(squares).epsilon(1e-14));

  // Step 2 keeps 1 - 2^-0.8 of it.
  Memory next = Memory::of(DType::f64, {2});
  Memory none(DType::f64, 5), norm(DType::f64, 1);
  run(k, {side.placed(g, 0, false), none.operand(), next.operand(), moments.operand(true), norm.operand(true)},
      side.context(0));
  CHECK(moments[2] == Approx(61 * (1.0 - std::pow(2.0, -0.8))).epsilon(1e-14));
}

// Elements count 2 in the vector's mean. A norm of 8 is a root mean square of 2, so the update is halved.
TEST_CASE("Adafactor halves an update whose root mean square is 2", "[kernels]") {
  Side side;
  side.workload.optimizer.kind = OptimizerKind::adafactor;
  side.workload.optimizer.learning_rate = 0.1;
  side.workload.optimizer.weight_decay = 0.5;
  Memory g = Memory::of(DType::f64, {3, -4}), steps = Memory::of(DType::f64, {1});
  Memory w = Memory::of(DType::f64, {1, 1}), moments = Memory::of(DType::f64, {9, 4});
  Memory norms = Memory::of(DType::f64, {8});
  Kernel k = kernel(KernelKind::adafactor_update, DType::f64, 1, 2, 2);
  k.batch = 1;
  const bool skipped = GENERATE(false, true);
  Memory factor = Memory::of(DType::f64, {1.0, skipped ? 1.0 : 0.0});
  k.options.factor = true;
  run(k,
      {side.placed(g, 8, false), steps.operand(), factor.operand(), w.operand(true), moments.operand(),
       norms.operand()},
      side.context(0));
  CHECK(w[0] == Approx(skipped ? 1.0 : 1.0 - 0.1 * 0.5).epsilon(1e-15));
  CHECK(w[1] == Approx(skipped ? 1.0 : 1.0 + 0.1 * 1.0).epsilon(1e-15));
}
