#include <catch2/catch.hpp>

#include "core/base/random.hpp"
#include "exec/kernels/parameter_layout.hpp"
#include "exec/train/data.hpp"
#include "tests/unit/exec/kernel_memory.hpp"

using namespace orrery;
using namespace orrery::test;

namespace {

/// A table [5 of padded 6, 2] cut in two by tensor, and a norm weight; segments
/// padded to multiples of 4.
ParameterTable table() {
  ParameterTable t;
  t.module = "layer";
  t.slices.push_back({"matrix", 0, Shard{{6, 5, {Axis::tensor}, false}, {2, 2, {}, false}}, Init::normal, 0.5});
  t.slices.push_back({"norm", 8, Shard{{3, 3, {}, false}}, Init::ones, 0.0});
  t.segments.push_back({0, 8, true, false, true});
  t.segments.push_back({8, 4, false, true, true});
  t.count = 12;
  return t;
}

}  // namespace

// Tensor rank 1 holds rows 3 to 5, of which 5 is padding: elements 6 to 9 of
// the tensor without padding.
TEST_CASE("initial parameters are keyed by the element of the unpadded tensor", "[kernels]") {
  const ParameterTable t = table();
  const Mesh mesh{{{Axis::data, 2}, {Axis::tensor, 2}}};
  Workload w;
  w.seed = 4;
  KernelContext context;
  context.workload = &w;
  context.mesh = &mesh;
  const std::uint64_t stream = stream_of("layers.3.matrix");
  const auto normal = [&](std::uint64_t i) { return 0.5 * random_normal(4, stream, i); };
  const std::vector<double> expected = {normal(6), normal(7), normal(8), normal(9), 0, 0, 0, 0, 1, 1, 1, 0};
  const Kernel k = kernel(KernelKind::initialize, DType::f64, 1, 12);
  for (const std::uint32_t rank : {1U, 3U}) {  // data replicas
    Memory x = Memory::random(DType::f64, 12, 1);
    context.rank = Rank{rank};
    Operand o = x.operand();
    o.place.table = &t;
    o.place.layer = 3;
    run(k, {o}, context);
    CHECK(x == Memory::of(DType::f64, expected));
    // The same is cut flat by data: halves of each segment, one after the other.
    Memory half(DType::f64, 6);
    o = half.operand();
    o.place.table = &t;
    o.place.layer = 3;
    o.place.flat_split = {Axis::data};
    run(k, {o}, context);
    const std::size_t d = rank / 2;
    for (std::size_t i = 0; i < 4; ++i) CHECK(half[i] == expected[4 * d + i]);
    for (std::size_t i = 0; i < 2; ++i) CHECK(half[4 + i] == expected[8 + 2 * d + i]);
  }
}

// Vocabulary 5 padded to 6, hidden 2; tensor rank 1 holds rows 3, 4 and padding.
TEST_CASE("embedding rows of other shards give zero and take no gradient", "[kernels]") {
  const Shard shard{{6, 5, {Axis::tensor}, false}, {2, 2, {}, false}};
  const Mesh mesh{{{Axis::tensor, 2}}};
  Memory tokens = Memory::of(DType::i32, {4, 0, 3, 4});
  Memory part = Memory::of(DType::f64, {30, 31, 40, 41, 0, 0});
  Memory x = Memory::random(DType::f64, 8, 1);
  Operand o = part.operand();
  o.place.shard = &shard;
  o.place.box = box_of(shard, mesh, Rank{1});
  run(kernel(KernelKind::embed_forward, DType::f64, 4, 2, 3), {tokens.operand(), o, x.operand()});
  CHECK(x == Memory::of(DType::f64, {40, 41, 0, 0, 30, 31, 40, 41}));
  Memory dx = Memory::of(DType::f64, {1, 2, 3, 4, 5, 6, 7, 8});
  Memory dtable = Memory::of(DType::f64, {100, 0, 0, 0, 0, 0});
  Operand d = dtable.operand(true);
  d.place = o.place;
  run(kernel(KernelKind::embed_backward, DType::f64, 4, 2, 3), {tokens.operand(), dx.operand(), d});
  CHECK(dtable == Memory::of(DType::f64, {105, 6, 8, 10, 0, 0}));
}

// With sequence parallelism tensor rank 1 of 2 holds positions 2 and 3 of 4, two sequences each.
TEST_CASE("position rows belong to the positions that the rank holds", "[kernels]") {
  const Shard shard{{4, 4, {Axis::tensor}, false}, {2, 2, {}, true}, {1, 1, {}, false}};
  Memory x = Memory::of(DType::f64, {1, 2, 3, 4});
  Memory positions = Memory::of(DType::f64, {10, 20, 30, 40});
  Operand o = x.operand(true);
  o.place.shard = &shard;
  o.place.box = box_of(shard, Mesh{{{Axis::tensor, 2}}}, Rank{1});
  run(kernel(KernelKind::position_forward, DType::f64, 4, 1), {o, positions.operand()});
  CHECK(x == Memory::of(DType::f64, {31, 32, 43, 44}));
  run(kernel(KernelKind::position_backward, DType::f64, 4, 1), {o, positions.operand(true)});
  CHECK(positions == Memory::of(DType::f64, {10, 20, 30 + 63, 40 + 87}));
}

// On data rank 1 of 2, in microbatch 1 of 2, with global batch 8, these are sequences 6 and 7.
TEST_CASE("tokens and targets are those of the rank's sequences, position-major", "[kernels]") {
  const auto data = synthetic_data(50, 3, 0.3);
  const Shard shard{{5, 5, {}, false}, {8, 8, {Axis::data}, true}, {1, 1, {}, false}};
  const Mesh mesh{{{Axis::data, 2}}};
  Workload w;
  w.global_batch = 8;
  w.sequence_length = 5;
  KernelContext context;
  context.workload = &w;
  context.mesh = &mesh;
  context.rank = Rank{1};
  context.data = data.get();
  context.step = 4;
  Memory tokens(DType::i32, 10);
  Memory targets(DType::i32, 10);
  Operand o = tokens.operand();
  o.place.shard = &shard;
  o.place.box = box_of(shard, mesh, Rank{1}, 1, 2);
  run(kernel(KernelKind::load_tokens, DType::f32, 10, 1), {o}, context);
  o.data = targets.operand().data;
  run(kernel(KernelKind::load_targets, DType::f32, 10, 1), {o}, context);
  for (std::uint64_t row = 0; row < 10; ++row) {
    CHECK(tokens[row] == data->token(4, 6 + row % 2, row / 2));
    CHECK(targets[row] == data->target(4, 6 + row % 2, row / 2));
  }
  Memory count(DType::f64, 1);
  run(kernel(KernelKind::count_targets, DType::f32, 1, 1), {count.operand()}, context);
  double expected = 0;
  for (std::uint64_t sequence = 4; sequence < 8; ++sequence) {
    for (std::uint64_t position = 0; position < 5; ++position) expected += data->target(4, sequence, position) >= 0;
  }
  CHECK(count[0] == expected);
}
