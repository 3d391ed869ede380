#include "sim/bound/ring_self_attention.hpp"

#include <catch2/catch.hpp>

#include "sim/bound/tensor_volumes.hpp"

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
