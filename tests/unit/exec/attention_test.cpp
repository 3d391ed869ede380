#include <catch2/catch.hpp>

#include <cmath>

#include "core/base/random.hpp"
#include "exec/kernels/reference/reference_kernels.hpp"
#include "tests/unit/exec/kernel_memory.hpp"

using namespace orrery;
using namespace orrery::test;

namespace {

/// Attention over `batch` sequences of `s` tokens.
Kernel attention(KernelKind kind, DType t, std::uint32_t batch, std::uint64_t s, std::uint32_t heads,
                 std::uint32_t kv_heads, std::uint32_t dim, bool causal = true) {
  Kernel k = kernel(kind, t, batch * s, kv_heads * (heads / kv_heads + 2) * dim);
  k.batch = batch;
  k.heads = heads;
  k.kv_heads = kv_heads;
  k.head_dim = dim;
  k.options.causal = causal;
  return k;
}

DType wide(DType t) { return t == DType::f64 ? DType::f64 : DType::f32; }

/// Inputs and outputs of all four kernels for one shape.
struct Case {
  Kernel k;
  Memory qkv, dcontext, context, dqkv, probabilities, scores, lse, dq;

  Case(DType t, std::uint32_t batch, std::uint64_t s, std::uint32_t heads, std::uint32_t kv_heads, std::uint32_t dim,
       bool causal)
      : k(attention(KernelKind::attention_unfused_forward, t, batch, s, heads, kv_heads, dim, causal)),
        qkv(Memory::random(t, k.rows * k.columns, 1)),
        dcontext(Memory::random(t, k.rows * heads * dim, 2)),
        context(t, k.rows * heads * dim),
        dqkv(t, k.rows * k.columns),
        probabilities(t, k.rows * heads * s),
        scores(t, k.rows * heads * s),
        lse(wide(t), k.rows * heads),
        dq(wide(t), k.rows * heads * dim) {}

  void unfused() {
    k.kind = KernelKind::attention_unfused_forward;
    run(k, {qkv.operand(), context.operand(), probabilities.operand()});
    k.kind = KernelKind::attention_unfused_backward;
    run(k, {dcontext.operand(), qkv.operand(), probabilities.operand(), dqkv.operand(), scores.operand()});
  }
  void flash() {
    k.kind = KernelKind::attention_flash_forward;
    run(k, {qkv.operand(), context.operand(), lse.operand()});
    k.kind = KernelKind::attention_flash_backward;
    run(k, {dcontext.operand(), qkv.operand(), context.operand(), lse.operand(), dqkv.operand(), dq.operand()});
  }
};

}  // namespace

// Lengths are one token, and below, at and above the blocks of queries (64) and keys (128).
TEST_CASE("unfused and flash attention equal plain loops, forward and backward", "[kernels]") {
  struct Shape {
    std::uint32_t batch;
    std::uint64_t s;
    std::uint32_t heads, kv_heads, dim;
  };
  const Shape shape = GENERATE(Shape{1, 1, 1, 1, 2}, Shape{2, 5, 4, 2, 6}, Shape{3, 64, 2, 1, 8}, Shape{1, 65, 3, 3, 4},
                               Shape{2, 150, 2, 2, 5});
  const DType t = GENERATE(DType::f64, DType::f32, DType::bf16, DType::f16);
  const bool causal = GENERATE(true, false);
  CAPTURE(shape.batch, shape.s, shape.heads, shape.kv_heads, shape.dim, name_of(t), causal);
  Case x(t, shape.batch, shape.s, shape.heads, shape.kv_heads, shape.dim, causal);
  Memory context(DType::f64, x.context.count());
  Memory dqkv(DType::f64, x.dqkv.count());
  reference::attention_forward(x.k, x.qkv.operand(), context.operand());
  reference::attention_backward(x.k, x.dcontext.operand(), x.qkv.operand(), dqkv.operand());
  x.unfused();
  CHECK(error(x.context, context) <= tolerance(t));
  CHECK(error(x.dqkv, dqkv) <= tolerance(t));
  x.flash();
  CHECK(error(x.context, context) <= tolerance(t));
  CHECK(error(x.dqkv, dqkv) <= tolerance(t));
}

TEST_CASE("the plain backward pass is the derivative of the plain forward pass", "[kernels]") {
  Case x(DType::f64, 2, 4, 2, 1, 3, true);
  Memory dqkv(DType::f64, x.dqkv.count());
  reference::attention_backward(x.k, x.dcontext.operand(), x.qkv.operand(), dqkv.operand());
  const auto loss = [&] {
    reference::attention_forward(x.k, x.qkv.operand(), x.context.operand());
    double sum = 0.0;
    for (std::uint64_t i = 0; i < x.context.count(); ++i) sum += x.context[i] * x.dcontext[i];
    return sum;
  };
  // Central differences: truncation h^2 = 1e-10, cancellation 1e-16 / h = 1e-11.
  constexpr double h = 1e-5;
  for (std::uint64_t i = 0; i < x.qkv.count(); ++i) {
    const double at = x.qkv[i];
    x.qkv.set(i, at + h);
    const double above = loss();
    x.qkv.set(i, at - h);
    const double below = loss();
    x.qkv.set(i, at);
    CHECK((above - below) / (2 * h) == Approx(dqkv[i]).margin(1e-8));
  }
}

TEST_CASE("probabilities of unseen keys are zero and those of seen keys sum to one", "[kernels]") {
  Case x(DType::f64, 1, 70, 1, 1, 4, true);
  x.unfused();
  for (std::uint64_t i = 0; i < 70; ++i) {
    double sum = 0.0;
    for (std::uint64_t j = 0; j < 70; ++j) {
      if (j > i) CHECK(x.probabilities[i * 70 + j] == 0.0);
      sum += x.probabilities[i * 70 + j];
    }
    CHECK(sum == Approx(1.0).epsilon(1e-14));
  }
}

// Both kernels draw the same decisions from the key, so they agree although only one of them stores a mask. The mask is
// the documented decision.
TEST_CASE("dropout in unfused and flash attention keeps the same global elements", "[kernels]") {
  constexpr std::uint32_t batch = 2, heads = 2, dim = 4;
  constexpr std::uint64_t s = 70;
  Case x(DType::f64, batch, s, heads, heads, dim, true);
  x.k.options.dropout = true;
  x.k.parameter = 0.3;
  x.k.site = 1;
  // The second of two tensor ranks, second microbatch: heads 2 and 3 of 4, sequences 2 and 3 of 4.
  const Shard shard{{s, s, {}, false}, {4, 4, {}, true}, {4, 4, {Axis::tensor}, false}, {3 * dim, 3 * dim, {}, false}};
  Operand qkv = x.qkv.operand();
  qkv.place.shard = &shard;
  qkv.place.box = box_of(shard, Mesh{{{Axis::tensor, 2}}}, Rank{1}, 1, 2);
  Workload workload;
  workload.seed = 5;
  KernelContext context;
  context.workload = &workload;
  context.step = 3;
  context.layer = 7;
  Memory mask(DType::u8, x.probabilities.count());
  Memory dropped(DType::f64, x.probabilities.count());
  x.k.kind = KernelKind::attention_unfused_forward;
  run(x.k, {qkv, x.context.operand(), x.probabilities.operand(), mask.operand(), dropped.operand()}, context);
  int wrong = 0;
  for (std::uint64_t sequence = 0; sequence < batch; ++sequence) {
    for (std::uint64_t head = 0; head < heads; ++head) {
      for (std::uint64_t i = 0; i < s; ++i) {
        for (std::uint64_t j = 0; j <= i; ++j) {
          const std::uint64_t global = (((sequence + 2) * 4 + head + 2) * s + i) * s + j;
          const bool kept = random_uniform(5, mix(3) ^ mix(1000 + 7 + 1), global) >= 0.3;
          const std::uint64_t at = ((sequence * heads + head) * s + i) * s + j;
          wrong += (mask[at] != 0.0) != kept;
          wrong += std::abs(dropped[at] - (kept ? x.probabilities[at] / 0.7 : 0.0)) > 1e-15;
        }
      }
    }
  }
  CHECK(wrong == 0);
  x.k.kind = KernelKind::attention_unfused_backward;
  run(x.k,
      {x.dcontext.operand(), qkv, x.probabilities.operand(), mask.operand(), dropped.operand(), x.dqkv.operand(),
       x.scores.operand()},
      context);
  Case y = x;
  qkv.data = y.qkv.operand().data;
  y.k.kind = KernelKind::attention_flash_forward;
  run(y.k, {qkv, y.context.operand(), y.lse.operand()}, context);
  y.k.kind = KernelKind::attention_flash_backward;
  run(y.k, {y.dcontext.operand(), qkv, y.context.operand(), y.lse.operand(), y.dqkv.operand(), y.dq.operand()},
      context);
  CHECK(error(y.context, x.context) <= tolerance(DType::f64));
  CHECK(error(y.dqkv, x.dqkv) <= tolerance(DType::f64));
}

// Rotation keeps lengths; position 0 does not turn; the value stays.
TEST_CASE("rope turns the pair (i, i + d/2) of queries and keys by its angle, and back", "[kernels]") {
  constexpr std::uint32_t batch = 2, dim = 6;
  Kernel k = attention(KernelKind::rope_forward, DType::f64, batch, 5, 4, 2, dim);
  k.parameter = 100.0;
  Memory x = Memory::random(DType::f64, k.rows * k.columns, 1);
  const Memory before = x;
  run(k, {x.operand()});
  for (std::uint64_t row = 0; row < k.rows; ++row) {
    const auto position = static_cast<double>(row / batch);
    for (std::uint64_t head = 0; head < 8; ++head) {  // 2 groups of 2 queries, key, value
      for (std::uint64_t i = 0; i < dim / 2; ++i) {
        const std::uint64_t at = row * k.columns + head * dim + i;
        const double angle = head % 4 == 3 ? 0.0 : position * std::pow(100.0, -2.0 * static_cast<double>(i) / dim);
        const double a = before[at];
        const double b = before[at + dim / 2];
        CHECK(x[at] == Approx(a * std::cos(angle) - b * std::sin(angle)).margin(1e-13));
        CHECK(x[at + dim / 2] == Approx(a * std::sin(angle) + b * std::cos(angle)).margin(1e-13));
      }
    }
  }
  k.kind = KernelKind::rope_backward;
  run(k, {x.operand()});
  CHECK(error(x, before) <= tolerance(DType::f64));
}

// The first 4 of 6 features turn, by a table: pair (i, i + 2), with angles position * {0.5, 0.01} and length 1.25.
TEST_CASE("rope turns the first features alone, by a table of angles, and its backward pass is the transpose",
          "[kernels]") {
  constexpr std::uint32_t batch = 2, dim = 6;
  const std::vector<Rotation> rotations = {{1.0, {1.0, 1.0, 1.0}}, {1.25, {0.5, 0.01}}};
  KernelContext context;
  context.rotations = rotations;
  Kernel k = attention(KernelKind::rope_forward, DType::f64, batch, 5, 4, 2, dim);
  k.depth = 4;
  k.rotation = 2;
  Memory x = Memory::random(DType::f64, k.rows * k.columns, 1);
  const Memory before = x;
  run(k, {x.operand()}, context);
  for (std::uint64_t row = 0; row < k.rows; ++row) {
    const auto position = static_cast<double>(row / batch);
    for (std::uint64_t head = 0; head < 8; ++head) {  // 2 groups of 2 queries, key, value
      const bool value = head % 4 == 3;
      const std::uint64_t at = row * k.columns + head * dim;
      for (std::uint64_t i = 0; i < 2; ++i) {
        const double angle = position * (i == 0 ? 0.5 : 0.01);
        const double a = before[at + i], b = before[at + i + 2];
        const double first = 1.25 * (a * std::cos(angle) - b * std::sin(angle));
        const double second = 1.25 * (a * std::sin(angle) + b * std::cos(angle));
        CHECK(x[at + i] == Approx(value ? a : first).margin(1e-13));
        CHECK(x[at + i + 2] == Approx(value ? b : second).margin(1e-13));
      }
      for (std::uint64_t i = 4; i < dim; ++i) CHECK(x[at + i] == before[at + i]);
    }
  }
  // <dy, R x> = <R^T dy, x>
  Memory d = Memory::random(DType::f64, x.count(), 2);
  double forward = 0.0, backward = 0.0;
  for (std::uint64_t i = 0; i < x.count(); ++i) forward += d[i] * x[i];
  k.kind = KernelKind::rope_backward;
  run(k, {d.operand()}, context);
  for (std::uint64_t i = 0; i < x.count(); ++i) backward += d[i] * before[i];
  CHECK(forward == Approx(backward).epsilon(1e-13));
}
