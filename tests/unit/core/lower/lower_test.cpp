#include <catch2/catch.hpp>

#include "core/program/lower/lower.hpp"
#include "tests/support/tiny_model.hpp"

using namespace orrery;

namespace {

ModelSpec gpt(std::uint64_t layers) { return test::tiny_gpt({.layers = layers, .vocabulary = 30, .positions = 8}); }

Workload workload() {
  Workload w;
  w.global_batch = 8;
  w.sequence_length = 8;
  w.precision = Precision::fp32;
  w.clip_norm = 1.0;
  return w;
}

Plan plan(std::uint32_t pipeline, std::uint32_t data, std::uint32_t tensor, std::vector<std::uint32_t> layers) {
  Plan p;
  p.mesh.axes = {{Axis::pipeline, pipeline}, {Axis::data, data}, {Axis::tensor, tensor}};
  p.stage_layers = std::move(layers);
  p.gradient_bucket = Bytes::of(1);
  p.overlap_gradients = true;
  p.attention = AttentionKernel::unfused;
  return p;
}

template <class Action>
std::size_t count_runs(const Program& program, std::uint32_t rank_class, std::string_view block = {}) {
  std::size_t n = 0;
  for_each_op(program, program.classes[rank_class].step, [&](const OpRun& run) {
    if (std::holds_alternative<Action>(run.op->action) && (block.empty() || run.block->name == block)) ++n;
  });
  return n;
}

}  // namespace

TEST_CASE("a plan on one rank lowers to a Program without communication", "[lower]") {
  const Program program = lower(gpt(2), workload(), plan(1, 1, 1, {2}));
  REQUIRE(program.classes.size() == 1);
  CHECK(count_runs<Collective>(program, 0) == 0);
  CHECK(count_runs<Exchange>(program, 0) == 0);
}

// Megatron's 1D tensor parallelism: two all-reduces forward and two backward
// per layer and microbatch (Shoeybi et al. 2019, section 3).
TEST_CASE("1D tensor parallelism reduces twice forward and twice backward per layer", "[lower]") {
  const Program program = lower(gpt(3), workload(), plan(1, 1, 2, {3}));
  const std::size_t runs = 3 * 8;
  CHECK(count_runs<Collective>(program, 0, "layer.forward") == 2 * runs);
  CHECK(count_runs<Collective>(program, 0, "layer.backward") == 2 * runs);
}

// With sequence parallelism each all-reduce becomes an all-gather and a
// reduce-scatter; the backward pass gathers the inputs of the two
// column-parallel products again (Korthikanti et al. 2022, section 4.2.2).
TEST_CASE("sequence parallelism gathers and scatters", "[lower]") {
  Plan p = plan(1, 1, 2, {3});
  p.sequence_parallel = true;
  const Program program = lower(gpt(3), workload(), p);
  const std::size_t runs = 3 * 8;
  CHECK(count_runs<Collective>(program, 0, "layer.forward") == 4 * runs);
  CHECK(count_runs<Collective>(program, 0, "layer.backward") == 6 * runs);
}

TEST_CASE("a bucket of one byte reduces every module by itself, a large one all together", "[lower]") {
  Plan p = plan(1, 2, 1, {3});
  const Program fine = lower(gpt(3), workload(), p);
  CHECK(count_runs<Collective>(fine, 0, "gradients.reduce") == 5);  // head, 3 layers, embedding
  p.gradient_bucket = gibibyte;
  const Program coarse = lower(gpt(3), workload(), p);
  CHECK(count_runs<Collective>(coarse, 0, "gradients.reduce") == 1);
}

TEST_CASE("each stage sends and receives every microbatch once per neighbour and direction", "[lower]") {
  const Program program = lower(gpt(4), workload(), plan(3, 1, 1, {1, 2, 1}));
  REQUIRE(program.classes.size() == 3);
  CHECK(count_runs<Exchange>(program, 0) == 2 * 8);
  CHECK(count_runs<Exchange>(program, 1) == 4 * 8);
  CHECK(count_runs<Exchange>(program, 2) == 2 * 8);
}

TEST_CASE("lowering twice gives the same Program", "[lower]") {
  CHECK(lower(gpt(4), workload(), plan(2, 2, 2, {2, 2})) == lower(gpt(4), workload(), plan(2, 2, 2, {2, 2})));
}
