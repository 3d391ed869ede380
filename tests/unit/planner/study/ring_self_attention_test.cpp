#include "planner/study/ring_self_attention.hpp"

#include <catch2/catch.hpp>

#include <random>

#include "core/program/lower/lower.hpp"
#include "core/program/totals.hpp"
#include "planner/study/tensor_volumes.hpp"
#include "tests/support/tiny_model.hpp"

using namespace orrery;

TEST_CASE("ring self-attention moves as much as 1D tensor parallelism", "[unit][sequence]") {
  for (const std::uint64_t n : {1U, 2U, 3U, 8U, 12U}) {
    const AttentionShape shape{4, 96, 768, 12};
    const RingVolume v = ring_attention_volume(shape, n);
    CAPTURE(n);
    const double line = static_cast<double>(layer_volume({TensorMode::one_d, n, 1}, 4 * 96, 768).total());
    CHECK((v.forward + v.backward) * static_cast<double>(n) == Approx(line));
    CHECK(v.forward + v.backward_reduce_scatter == Approx(0.75 * (v.forward + v.backward)));
  }
}

TEST_CASE("one rank needs the same memory either way", "[unit][sequence]") {
  const AttentionShape shape{3, 50, 64, 4};
  CHECK(ring_attention_memory(shape, 1).total() == tensor_attention_memory(shape, 1).total());
}

// Li et al., section on memory: MLP wins iff b s > 32 h, attention iff b s > 16 A Z,
// so for both together iff b s > 48 h / 2 = 24 h: 2 b s h (1 - 1/N) > 48 h^2 (1 - 1/N).
TEST_CASE("sequence parallelism needs less memory from b s = 24 h on", "[unit][sequence]") {
  for (const std::uint64_t n : {2U, 5U, 64U}) {
    const auto difference = [&](std::uint64_t tokens) {
      const AttentionShape shape{1, tokens, 128, 8};
      return tensor_attention_memory(shape, n).total() - ring_attention_memory(shape, n).total();
    };
    CAPTURE(n);
    CHECK(difference(24 * 128) == Approx(0.0).margin(1e-3));
    CHECK(difference(24 * 128 + 1) > 0.0);
    CHECK(difference(24 * 128 - 1) < 0.0);
  }
}

TEST_CASE("memory terms are those of the printed table", "[unit][sequence]") {
  // b = 2, s = 8, h = 4, Z = 2, N = 4: b s h = 64, b Z s^2 = 256, h^2 = 16.
  const AttentionShape shape{2, 8, 4, 2};
  const SequenceMemory ring = ring_attention_memory(shape, 4);
  CHECK(ring.weights == 48.0 * 16.0);
  CHECK(ring.activations == (5.0 * 64 + 4.0 * 64 + 256 + 64) / 4.0);
  const SequenceMemory line = tensor_attention_memory(shape, 4);
  CHECK(line.weights == 48.0 * 16.0 / 4.0);
  CHECK(line.activations == (4.0 * 64 + 4.0 * 64 + 256) / 4.0 + 2.0 * 64);
}

namespace {

/// One layer of a GPT of random widths in fp32 without dropout, one microbatch, cut over N ranks of one axis.
struct OneLayer {
  AttentionShape shape;
  std::uint64_t devices;
  Program program;
};

OneLayer random_layer(std::mt19937& random, Axis axis) {
  const auto draw = [&](std::uint64_t first, std::uint64_t last) { return first + random() % (last - first + 1); };
  const std::uint64_t n = draw(2, 6), heads = n * draw(1, 2), width = 2 * draw(1, 4);
  const AttentionShape shape{draw(1, 3), n * draw(1, 5), heads * width, heads};
  const ModelSpec model = test::tiny_gpt(
      {.layers = 1, .hidden = shape.hidden, .heads = heads, .vocabulary = 24, .positions = 32, .tied = false});
  Plan plan;
  plan.mesh.axes = {{axis, static_cast<std::uint32_t>(n)}};
  if (axis == Axis::context) plan.context = ContextAlgorithm::ring_self_attention;
  plan.microbatch_size = static_cast<std::uint32_t>(shape.sequences);
  plan.stage_layers = std::vector<std::uint32_t>{1};
  plan.attention = AttentionKernel::unfused;
  plan.gradient_bucket = Bytes::of(1);
  plan.overlap_gradients = false;
  Workload workload;
  workload.global_batch = shape.sequences;
  workload.sequence_length = shape.positions;
  workload.precision = Precision::fp32;
  return {shape, n, lower(model, workload, plan)};
}

/// Elements that every rank receives in one run of the layer's block: a pass brings everything that it moves, an
/// all-reduce of n elements 2 (N - 1) / N of them.
double received(const OneLayer& x, std::string_view block_name) {
  double elements = 0.0;
  for (const Block& block : x.program.blocks) {
    if (block.name != block_name) continue;
    for (const Op& op : block.ops) {
      const auto* c = std::get_if<Collective>(&op.action);
      if (c == nullptr) continue;
      const auto n = static_cast<double>(block.views[op.views.first].count);
      const double all = static_cast<double>(x.devices);
      elements += c->kind == Collective::Kind::permute ? n : 2.0 * (all - 1.0) / all * n;
    }
  }
  return elements;
}

}  // namespace

TEST_CASE("Programs of ring self-attention move what the formula says", "[property][sequence]") {
  std::mt19937 random(7);
  for (int round = 0; round < 100; ++round) {
    const OneLayer x = random_layer(random, Axis::context);
    CAPTURE(round, x.devices, x.shape.sequences, x.shape.positions, x.shape.hidden, x.shape.heads);
    const RingVolume volume = ring_attention_volume(x.shape, x.devices);
    CHECK(received(x, "layer.forward") == Approx(volume.forward));
    CHECK(received(x, "layer.backward") == Approx(volume.backward));
  }
}

// The formula counts 10 b s h of activations: the output of norms is its own input, and GELU keeps nothing. A Program
// keeps GELU's input, 4 b s h, and the inputs of both norms beside their outputs, 2 b s h. A tensor axis cuts only the
// first of these. Its weights are 12 h^2 and 13 h of biases and norms, of which a tensor axis leaves 6 h whole.
TEST_CASE("Programs keep what the formulas of ring self-attention and 1D say, and what these leave out",
          "[property][sequence]") {
  std::mt19937 random(8);
  for (int round = 0; round < 100; ++round) {
    const bool ring = round % 2 == 0;
    const OneLayer x = random_layer(random, ring ? Axis::context : Axis::tensor);
    CAPTURE(round, x.devices, x.shape.sequences, x.shape.positions, x.shape.hidden, x.shape.heads);
    const double n = static_cast<double>(x.devices), h = static_cast<double>(x.shape.hidden);
    const double bsh = static_cast<double>(x.shape.sequences * x.shape.positions) * h;
    const SequenceMemory formula =
        ring ? ring_attention_memory(x.shape, x.devices) : tensor_attention_memory(x.shape, x.devices);
    const ClassTotals totals = totals_of(x.program, 0);
    CHECK(static_cast<double>(totals.saved[0].activations) / 4.0 ==
          Approx(formula.activations + 4.0 * bsh / n + 2.0 * bsh / (ring ? n : 1.0)));
    double weights = 0.0;  // of the layer: with a gradient and two moments
    for (const Buffer& b : x.program.buffers) {
      if (b.scope != Scope::layer) continue;
      if (b.role == Role::weight || b.role == Role::gradient || b.role == Role::moment) {
        weights += static_cast<double>(b.count);
      }
    }
    CHECK(weights == Approx(formula.weights + 4.0 * (ring ? 13.0 * h : 6.0 * h + 7.0 * h / n)));
  }
}
