#include "planner/study/tensor_volumes.hpp"

#include <catch2/catch.hpp>

#include <random>

#include "core/program/lower/lower.hpp"
#include "core/program/totals.hpp"
#include "core/record/summarize.hpp"
#include "tests/support/tiny_model.hpp"

using namespace orrery;

namespace {

// Block moves are counted one by one, without a formula: every device of a group except the one that has a block
// receives it.

/// 2D and 2.5D: `depth` grids of q x q devices, X in q d x q blocks, W in q x q.
std::uint64_t counted_summa(std::uint64_t q, std::uint64_t depth, std::uint64_t x, std::uint64_t w) {
  const std::uint64_t block_x = x / (q * q * depth);
  const std::uint64_t block_w = w / (q * q);
  std::uint64_t received = 0;
  for (std::uint64_t layer = 0; layer < depth; ++layer) {
    for (int product = 0; product < 3; ++product) {  // Y, dX, dW: one panel of X (or dX) and one of W (or dW) each
      for (std::uint64_t step = 0; step < q; ++step) {
        for (std::uint64_t i = 0; i < q; ++i) {
          for (std::uint64_t j = 0; j < q; ++j) {
            if (j != step) received += block_x;  // along the row, from (to) column `step`
            if (i != step) received += block_w;  // along the column
          }
        }
      }
    }
  }
  // Every weight block is summed over its `depth` copies: around a ring, 2 (d - 1) times the block.
  return received + 2 * (depth - 1) * block_w * q * q;
}

/// 3D: gathers of X and W, a scattered sum of Y; backward the same with gradients.
std::uint64_t counted_cube(std::uint64_t q, std::uint64_t x, std::uint64_t w, std::uint64_t y) {
  const std::uint64_t p = q * q * q;
  std::uint64_t received = 0;
  for (std::uint64_t device = 0; device < p; ++device) {
    for (std::uint64_t other = 1; other < q; ++other) received += 2 * (x / p + w / p + y / p);
  }
  return received;
}

}  // namespace

TEST_CASE("volumes of a linear layer are those of its block moves", "[property][tensor]") {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    const std::uint64_t q = 2 + random() % 5;
    const std::uint64_t d = 1 + random() % q;
    const std::uint64_t unit = q * q * q * d;
    const LinearShape l{unit * (1 + random() % 8), unit * (1 + random() % 8), unit * (1 + random() % 8), false};
    CAPTURE(q, d, l.tokens, l.inputs, l.outputs);
    const std::uint64_t x = l.tokens * l.inputs;
    const std::uint64_t w = l.inputs * l.outputs;
    const std::uint64_t y = l.tokens * l.outputs;
    CHECK(linear_volume({TensorMode::two_d, q, 1}, l).total() == counted_summa(q, 1, x, w));
    CHECK(linear_volume({TensorMode::two_and_half_d, q, d}, l).total() == counted_summa(q, d, x, w));
    CHECK(linear_volume({TensorMode::three_d, q, 1}, l).total() == counted_cube(q, x, w, y));
  }
}

TEST_CASE("1D volume of a layer is what a lowered layer sends", "[oracle][tensor]") {
  std::mt19937 random(11);
  for (int round = 0; round < 24; ++round) {
    const std::uint32_t tensor = 2U << (random() % 3);
    const std::uint64_t heads = tensor * (1 + random() % 2);
    ModelSpec model = test::tiny_gpt({.hidden = heads * 4 * (1 + random() % 3), .heads = heads, .vocabulary = 64});
    Workload workload;
    workload.global_batch = 1 + random() % 3;
    workload.sequence_length = 8 * (1 + random() % 4);
    workload.precision = Precision::fp32;
    Plan plan;
    plan.mesh.axes = {{Axis::tensor, tensor}};
    plan.microbatch_size = static_cast<std::uint32_t>(workload.global_batch);
    plan.attention = AttentionKernel::flash;
    plan.gradient_bucket = Bytes::of(0);
    plan.overlap_gradients = false;
    std::uint64_t sent[2] = {};
    for (std::uint32_t layers = 1; layers <= 2; ++layers) {
      model.layers = layers;
      plan.stage_layers = std::vector<std::uint32_t>{layers};
      sent[layers - 1] = program_sent_bytes(lower(model, workload, plan));
    }
    const std::uint64_t tokens = workload.global_batch * workload.sequence_length;
    CAPTURE(tensor, model.hidden, tokens);
    // The difference is the second layer's share, 4 bytes an element; everything that is received was sent.
    CHECK(sent[1] - sent[0] == 4 * layer_volume({TensorMode::one_d, tensor, 1}, tokens, model.hidden).total());
  }
}

// The values of the published figure: h = 1024, s = 512, b = 32, by the totals
// of the four papers.
TEST_CASE("the scaling figure's values come out to their printed digits", "[unit][tensor]") {
  const LinearShape l{16384, 1024, 1024, false};
  struct Row {
    TensorMode mode;
    std::uint64_t devices;
    std::uint64_t side, depth;
    double total;       // G elements, three decimals
    double per_device;  // M elements, two decimals
  };
  const Row rows[] = {{TensorMode::one_d, 4, 4, 1, 0.101, 25.17},
                      {TensorMode::one_d, 8, 8, 1, 0.235, 29.36},
                      {TensorMode::one_d, 16, 16, 1, 0.503, 31.46},
                      {TensorMode::one_d, 32, 32, 1, 1.040, 32.51},
                      {TensorMode::one_d, 64, 64, 1, 2.114, 33.03},
                      {TensorMode::one_d, 256, 256, 1, 8.556, 33.42},
                      {TensorMode::one_d, 512, 512, 1, 17.146, 33.49},
                      {TensorMode::one_d, 1024, 1024, 1, 34.326, 33.52},
                      {TensorMode::two_d, 4, 2, 1, 0.053, 13.37},
                      {TensorMode::two_d, 16, 4, 1, 0.160, 10.03},
                      {TensorMode::two_d, 64, 8, 1, 0.374, 5.85},
                      {TensorMode::two_d, 256, 16, 1, 0.802, 3.13},
                      {TensorMode::two_d, 1024, 32, 1, 1.658, 1.62},
                      {TensorMode::two_and_half_d, 8, 2, 2, 0.059, 7.34},
                      {TensorMode::two_and_half_d, 32, 4, 2, 0.172, 5.37},
                      {TensorMode::two_and_half_d, 64, 4, 4, 0.195, 3.05},
                      {TensorMode::two_and_half_d, 256, 8, 4, 0.447, 1.74},
                      {TensorMode::two_and_half_d, 512, 8, 8, 0.543, 1.06},
                      {TensorMode::two_and_half_d, 1024, 16, 4, 0.950, 0.93},
                      {TensorMode::three_d, 8, 2, 1, 0.069, 8.65},
                      {TensorMode::three_d, 64, 4, 1, 0.208, 3.24},
                      {TensorMode::three_d, 512, 8, 1, 0.484, 0.95}};
  for (const Row& row : rows) {
    const std::optional<TensorGrid> grid = tensor_grid(row.mode, row.devices);
    CAPTURE(name_of(row.mode), row.devices);
    REQUIRE(grid);
    CHECK(grid->side == row.side);
    CHECK(grid->depth == row.depth);
    const double total = static_cast<double>(linear_volume(*grid, l).total());
    CHECK(total / 1e9 == Approx(row.total).margin(0.00051));  // half of the last printed digit, and rounding
    CHECK(total / static_cast<double>(row.devices) / 1e6 == Approx(row.per_device).margin(0.0051));
  }
}

TEST_CASE("per transformer layer the values come out to their printed digits", "[unit][tensor]") {
  struct Row {
    TensorMode mode;
    std::uint64_t devices;
    double per_device;  // M elements, one decimal
  };
  const Row rows[] = {{TensorMode::one_d, 4, 100.7},   {TensorMode::two_d, 4, 97.5},   {TensorMode::one_d, 8, 117.4},
                      {TensorMode::three_d, 8, 70.3},  {TensorMode::one_d, 16, 125.8}, {TensorMode::two_d, 16, 73.1},
                      {TensorMode::one_d, 64, 132.1},  {TensorMode::two_d, 64, 42.7},  {TensorMode::three_d, 64, 26.3},
                      {TensorMode::one_d, 512, 134.0}, {TensorMode::three_d, 512, 7.7}};
  for (const Row& row : rows) {
    CAPTURE(name_of(row.mode), row.devices);
    const TensorVolume v = layer_volume(*tensor_grid(row.mode, row.devices), 16384, 1024);
    CHECK(static_cast<double>(v.total()) / static_cast<double>(row.devices) / 1e6 ==
          Approx(row.per_device).margin(0.051));
  }
}

TEST_CASE("grids exist where their sizes allow", "[unit][tensor]") {
  CHECK(tensor_grid(TensorMode::two_d, 9) == TensorGrid{TensorMode::two_d, 3, 1});
  CHECK_FALSE(tensor_grid(TensorMode::two_d, 8));
  CHECK(tensor_grid(TensorMode::three_d, 27) == TensorGrid{TensorMode::three_d, 3, 1});
  CHECK_FALSE(tensor_grid(TensorMode::three_d, 9));
  CHECK(tensor_grid(TensorMode::two_and_half_d, 12) == std::nullopt);  // 3 x 2 x 2 is deeper than wide
  CHECK(tensor_grid(TensorMode::two_and_half_d, 18) == TensorGrid{TensorMode::two_and_half_d, 3, 2});
  CHECK_FALSE(tensor_grid(TensorMode::one_d, 0));
  for (const std::uint64_t p : {1U, 4U, 8U, 18U, 64U, 512U, 1024U}) {
    for (const TensorMode m : {TensorMode::one_d, TensorMode::two_d, TensorMode::two_and_half_d, TensorMode::three_d}) {
      if (const std::optional<TensorGrid> g = tensor_grid(m, p)) CHECK(g->devices() == p);
    }
  }
}

TEST_CASE("what all devices hold of a linear layer is one, p or d copies of it", "[property][tensor]") {
  std::mt19937 random(13);
  for (int round = 0; round < 200; ++round) {
    const std::uint64_t q = 1 + random() % 5;
    const std::uint64_t d = 1 + random() % q;
    const std::uint64_t unit = q * q * q * d;
    const LinearShape l{unit * (1 + random() % 8), unit * (1 + random() % 8), unit * (1 + random() % 8), false};
    const LinearShape rows{l.tokens, l.inputs, l.outputs, true};
    CAPTURE(q, d, l.tokens, l.inputs, l.outputs);
    const std::uint64_t x = l.tokens * l.inputs;
    const std::uint64_t w = l.inputs * l.outputs;
    const TensorGrid one{TensorMode::one_d, q, 1};
    const TensorGrid two{TensorMode::two_d, q, 1};
    const TensorGrid half{TensorMode::two_and_half_d, q, d};
    const TensorGrid three{TensorMode::three_d, q, 1};
    // Weights are there once in all modes but 2.5D, which has d copies. Inputs are there once but in 1D by columns,
    // where each device has them.
    CHECK(linear_memory(one, l).weights * q == w);
    CHECK(linear_memory(one, l).saved_input == x);
    CHECK(linear_memory(one, rows).saved_input * q == x);
    CHECK(linear_memory(two, l).weights * two.devices() == w);
    CHECK(linear_memory(two, l).saved_input * two.devices() == x);
    CHECK(linear_memory(half, l).weights * half.devices() == d * w);
    CHECK(linear_memory(half, l).saved_input * half.devices() == x);
    CHECK(linear_memory(three, l).weights * three.devices() == w);
    CHECK(linear_memory(three, l).saved_input * three.devices() == x);
    CHECK(linear_memory(three, l).gathered_input == q * linear_memory(three, l).saved_input);
    CHECK(linear_memory(three, l).gathered_weights == q * linear_memory(three, l).weights);
    // d = 1 is 2D.
    CHECK(linear_memory({TensorMode::two_and_half_d, q, 1}, l) == linear_memory(two, l));
  }
}

TEST_CASE("one device moves nothing and keeps everything", "[unit][tensor]") {
  const LayerShape shape{2, 64, 128, 4};
  const double sbh = 2.0 * 64.0 * 128.0;
  for (const TensorMode m : {TensorMode::one_d, TensorMode::two_d, TensorMode::two_and_half_d, TensorMode::three_d}) {
    CHECK(layer_volume({m, 1, 1}, 128, 128).total() == 0);
    CHECK(layer_activations({m, 1, 1}, shape).saved == sbh * (34.0 + 5.0 * 4.0 * 64.0 / 128.0));
  }
}

TEST_CASE("1D activations of the formula are those of a lowered layer", "[oracle][tensor]") {
  const ModelSpec model = test::tiny_gpt({.hidden = 128, .heads = 8, .vocabulary = 64, .positions = 64});
  Workload workload;
  workload.global_batch = 2;
  workload.sequence_length = 64;
  workload.precision = Precision::fp16;
  workload.hidden_dropout = 0.1;
  workload.attention_dropout = 0.1;
  for (const std::uint32_t tensor : {1U, 2U, 4U, 8U}) {
    Plan plan;
    plan.mesh.axes = {{Axis::tensor, tensor}};
    plan.microbatch_size = 2;
    plan.stage_layers = std::vector<std::uint32_t>{2};
    plan.attention = AttentionKernel::unfused;
    plan.gradient_bucket = Bytes::of(0);
    plan.overlap_gradients = false;
    const ClassTotals totals = totals_of(lower(model, workload, plan), 0);
    CAPTURE(tensor);
    CHECK(static_cast<double>(totals.saved[0].activations) ==
          layer_activations({TensorMode::one_d, tensor, 1}, {2, 64, 128, 8}).saved);
  }
}

// GPT-2 8B: x = 40 at 64 devices; another setup with x = 26; ViT: x = 15.4.
TEST_CASE("1D over 2D activations on 64 devices: 9.5, 11.5 and 13.75", "[unit][tensor]") {
  const auto ratio = [](std::uint64_t positions, std::uint64_t hidden, std::uint64_t heads) {
    const LayerShape shape{1, positions, hidden, heads};
    return layer_activations({TensorMode::one_d, 64, 1}, shape).saved /
           layer_activations({TensorMode::two_d, 8, 1}, shape).saved;
  };
  CHECK(ratio(1024, 3072, 24) == Approx(9.5).margin(0.05));
  CHECK(ratio(26, 1024, 205) == Approx(11.5).margin(0.05));  // x = 5 a s / h = 26.03
  CHECK(ratio(197, 4096, 64) == Approx(13.75).margin(0.01));
}

TEST_CASE("3D keeps q times as much when it keeps what it gathered", "[unit][tensor]") {
  // Among the 34, 14 s b h are inputs of linear layers, kept at 1/q^2 rather than 1/q^3, and there are 24 h^2 bytes of
  // weights.
  const LayerShape shape{8, 64, 256, 8};
  const double sbh = 8.0 * 64.0 * 256.0;
  const LayerActivations a = layer_activations({TensorMode::three_d, 2, 1}, shape);
  CHECK(a.gathered - a.saved == Approx(14.0 * sbh * (1.0 / 4.0 - 1.0 / 8.0) + 24.0 * 256.0 * 256.0 / 4.0));
}
