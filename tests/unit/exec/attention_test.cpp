#include <catch2/catch.hpp>

#include <array>
#include <cmath>

#include "core/base/random.hpp"
#include "exec/kernels/cpu/score_rule.hpp"
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
  std::vector<double> sinks;  ///< by head; none where the kernel has none

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
    std::vector<Operand> forward{qkv.operand(), context.operand(), probabilities.operand()};
    Memory logits = with_sinks(forward);
    if (!sinks.empty()) forward.push_back(lse.operand());
    k.kind = KernelKind::attention_unfused_forward;
    run(k, forward);
    k.kind = KernelKind::attention_unfused_backward;
    backward({dcontext.operand(), qkv.operand(), probabilities.operand(), dqkv.operand(), scores.operand()});
  }
  void flash() {
    std::vector<Operand> forward{qkv.operand(), context.operand(), lse.operand()};
    Memory logits = with_sinks(forward);
    k.kind = KernelKind::attention_flash_forward;
    run(k, forward);
    k.kind = KernelKind::attention_flash_backward;
    backward({dcontext.operand(), qkv.operand(), context.operand(), lse.operand(), dqkv.operand(), dq.operand()});
  }
  /// Gradients of the sinks, by what the forward pass has left.
  [[nodiscard]] std::vector<double> sink_gradients() {
    if (sinks.empty()) return {};
    Memory logits = Memory::of(DType::f64, sinks), gradients(DType::f64, sinks.size());
    Kernel of = k;
    of.kind = KernelKind::attention_sinks_backward;
    run(of, {dcontext.operand(), context.operand(), lse.operand(), logits.operand(), gradients.operand(true)});
    std::vector<double> out;
    for (std::size_t head = 0; head < sinks.size(); ++head) out.push_back(gradients[head]);
    return out;
  }

 private:
  Memory with_sinks(std::vector<Operand>& forward) {
    Memory logits = Memory::of(DType::f64, sinks);
    k.options.sinks = !sinks.empty();
    if (k.options.sinks) forward.push_back(logits.operand());
    return logits;
  }
  void backward(std::vector<Operand> operands) {
    k.options.sinks = false;  // it has none, and takes the log-sum-exps or probabilities of the forward pass
    run(k, std::move(operands));
  }
};

/// Checks unfused and flash attention against plain loops.
void check_against_loops(Case x, DType t) {
  Memory context(DType::f64, x.context.count());
  Memory dqkv(DType::f64, x.dqkv.count());
  reference::attention_forward(x.k, x.qkv.operand(), context.operand(), x.sinks);
  const std::vector<double> dsinks =
      reference::attention_backward(x.k, x.dcontext.operand(), x.qkv.operand(), dqkv.operand(), x.sinks);
  const auto check = [&] {
    CHECK(error(x.context, context) <= tolerance(t));
    CHECK(error(x.dqkv, dqkv) <= tolerance(t));
    const std::vector<double> made = x.sink_gradients();
    for (std::size_t head = 0; head < dsinks.size(); ++head) {
      // A sum over all queries, whose terms are of either sign.
      CHECK(made[head] == Approx(dsinks[head]).margin(10 * tolerance(t) * static_cast<double>(x.k.batch)));
    }
  };
  x.unfused();
  check();
  x.flash();
  check();
}

/// Sets what a number names: windows and chunks of different lengths, and what becomes of scores.
void set_kind(Kernel& k, int kind) {
  k.window = std::array{0U, 1U, 7U, 64U, 65U, 130U, 500U, 5U, 64U, 1U}[static_cast<std::size_t>(kind)];
  k.options.chunked = kind >= 7;
  k.scale = kind % 3 == 1 ? 0.3 : 0.0;
  k.softcap = kind % 3 == 2 ? 1.5 : 0.0;
  k.options.alibi = kind % 2 == 1;
}
constexpr int kinds = 10;

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
  check_against_loops(Case(t, shape.batch, shape.s, shape.heads, shape.kv_heads, shape.dim, causal), t);
}

// Windows end inside, at and behind blocks of queries (64) and keys (128), and behind the sequence.
TEST_CASE("attention of a window, a chunk, a scale, a soft cap, slopes and sinks equals plain loops", "[kernels]") {
  const DType t = GENERATE(DType::f64, DType::f32, DType::bf16);
  const std::uint64_t s = GENERATE(1U, 9U, 150U, 300U);
  const int kind = GENERATE(range(0, kinds));
  const bool sinks = GENERATE(false, true);
  CAPTURE(name_of(t), s, kind, sinks);
  Case x(t, 2, s, 4, 2, 6, true);
  set_kind(x.k, kind);
  if (sinks) x.sinks = {0.5, -3.0, 4.0, 0.0};
  check_against_loops(x, t);
}

TEST_CASE("soft caps and sinks hold where all positions see each other", "[kernels]") {
  Case x(DType::f64, 1, 70, 2, 1, 4, false);
  x.k.softcap = 0.8;
  x.sinks = {1.0, -1.0};
  check_against_loops(x, DType::f64);
}

// Sources: Jiang et al., "Mistral 7B", 2023 (window); Meta's Llama-4, 2025 (chunks).
TEST_CASE("a query sees its window, and in chunks its chunk up to itself", "[kernels]") {
  constexpr std::uint64_t s = 12, w = 4;
  const bool chunked = GENERATE(false, true);
  Case x(DType::f64, 1, s, 1, 1, 4, true);
  x.k.window = w;
  x.k.options.chunked = chunked;
  x.unfused();
  for (std::uint64_t i = 0; i < s; ++i) {
    for (std::uint64_t j = 0; j < s; ++j) {
      const bool seen = j <= i && (chunked ? j / w == i / w : i - j < w);
      CHECK((x.probabilities[i * s + j] > 0.0) == seen);
    }
  }
}

// Press, Smith and Lewis, 2022: 8 heads have 1/2, 1/4, ..., 1/256. Beyond a power of two come every second of twice as
// many: 2^(-1/2) and 2^(-3/2) for 8 + 2, since 16 heads have 2^(-1/2), 2^(-1), 2^(-3/2), ...
TEST_CASE("slopes of ALiBi are those of its paper", "[kernels]") {
  for (std::uint64_t h = 0; h < 8; ++h) {
    CHECK(cpu::alibi_slope(h, 8) == std::exp2(-static_cast<double>(h + 1)));
    CHECK(cpu::alibi_slope(h, 10) == cpu::alibi_slope(h, 8));
  }
  CHECK(cpu::alibi_slope(8, 10) == Approx(std::exp2(-0.5)).epsilon(1e-15));
  CHECK(cpu::alibi_slope(9, 10) == Approx(std::exp2(-1.5)).epsilon(1e-15));
  CHECK(cpu::alibi_slope(0, 1) == 1.0 / 256.0);
}

// Ranks that share heads have those of the model, whose slopes differ.
TEST_CASE("a rank's heads fall by the slopes of the model's heads that they are", "[kernels]") {
  constexpr std::uint64_t s = 20, dim = 4;
  Case all(DType::f64, 1, s, 4, 4, dim, true);
  all.k.options.alibi = true;
  all.flash();
  const Shard shard{{s, s, {}, false}, {1, 1, {}, true}, {4, 4, {Axis::tensor}, false}, {3 * dim, 3 * dim, {}, false}};
  Case half(DType::f64, 1, s, 2, 2, dim, true);
  for (std::uint64_t i = 0; i < s; ++i) {
    for (std::uint64_t f = 0; f < 6 * dim; ++f) half.qkv.set(i * 6 * dim + f, all.qkv[(2 * i + 1) * 6 * dim + f]);
  }
  Operand qkv = half.qkv.operand();
  qkv.place.shard = &shard;
  qkv.place.box = box_of(shard, Mesh{{{Axis::tensor, 2}}}, Rank{1}, 0, 1);
  half.k.options.alibi = true;
  half.k.kind = KernelKind::attention_flash_forward;
  run(half.k, {qkv, half.context.operand(), half.lse.operand()});
  for (std::uint64_t i = 0; i < s; ++i) {
    for (std::uint64_t f = 0; f < 2 * dim; ++f) {
      CHECK(half.context[i * 2 * dim + f] == Approx(all.context[(2 * i + 1) * 2 * dim + f]).margin(1e-14));
    }
  }
}

TEST_CASE("the plain backward pass is the derivative of the plain forward pass", "[kernels]") {
  Case x(DType::f64, 2, 4, 2, 1, 3, true);
  const int kind = GENERATE(range(0, kinds));
  set_kind(x.k, kind);
  if (GENERATE(false, true)) x.sinks = {0.7, -0.4};
  CAPTURE(kind, x.sinks);
  Memory dqkv(DType::f64, x.dqkv.count());
  const std::vector<double> dsinks =
      reference::attention_backward(x.k, x.dcontext.operand(), x.qkv.operand(), dqkv.operand(), x.sinks);
  const auto loss = [&] {
    reference::attention_forward(x.k, x.qkv.operand(), x.context.operand(), x.sinks);
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
  for (std::size_t head = 0; head < x.sinks.size(); ++head) {
    const double at = x.sinks[head];
    x.sinks[head] = at + h;
    const double above = loss();
    x.sinks[head] = at - h;
    const double below = loss();
    x.sinks[head] = at;
    CHECK((above - below) / (2 * h) == Approx(dsinks[head]).margin(1e-8));
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
  x.k.window = GENERATE(0U, 20U);
  x.k.softcap = GENERATE(0.0, 2.0);
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
