#include <catch2/catch.hpp>

#include <random>
#include <string_view>

#include "core/program/lower/lower.hpp"
#include "core/program/totals.hpp"
#include "planner/study/tensor_volumes.hpp"
#include "tests/support/tiny_model.hpp"

using namespace orrery;

namespace {

/// One layer of a model of random widths on one grid, with one microbatch.
struct Case {
  TensorGrid grid;
  ModelSpec model;
  Workload workload;
  Plan plan;
  LinearShape linear[4];  ///< queries, keys and values; out; up; down

  [[nodiscard]] bool cuts_all() const { return grid.mode != TensorMode::one_d; }
};

Case random_case(TensorMode mode, std::mt19937& random) {
  const auto draw = [&](std::uint64_t first, std::uint64_t last) { return first + random() % (last - first + 1); };
  Case c;
  c.grid.mode = mode;
  c.grid.side = mode == TensorMode::one_d ? draw(2, 6) : draw(2, 3);
  if (mode == TensorMode::two_and_half_d) c.grid.depth = draw(2, c.grid.side);
  const std::uint64_t q = c.grid.side;
  ModelSpec& m = c.model;
  m = test::tiny_gpt({.layers = 1, .vocabulary = 24});
  m.kv_heads = q * draw(1, 2);
  m.heads = m.kv_heads * draw(1, 3);
  m.head_dim = 2 * q * draw(1, 3);
  m.hidden = q * q * draw(1, 9);
  m.ffn = q * q * draw(1, 9);
  m.biases = Biases::of_layers(draw(0, 1) == 0);
  m.tied_embeddings = false;
  m.max_positions = 32;
  Plan& p = c.plan;
  const auto side = static_cast<std::uint32_t>(q), depth = static_cast<std::uint32_t>(c.grid.depth);
  std::uint64_t cut = 1;  // of the sequences
  switch (mode) {
    case TensorMode::one_d: p.mesh = Mesh{{{Axis::tensor, side}}}; break;
    case TensorMode::two_d:
      p.tensor = TensorAlgorithm::two_d;
      p.mesh = Mesh{{{Axis::row, side}, {Axis::column, side}}};
      cut = q;
      break;
    case TensorMode::two_and_half_d:
      p.tensor = TensorAlgorithm::two_half_d;
      p.mesh = Mesh{{{Axis::depth, depth}, {Axis::row, side}, {Axis::column, side}}};
      cut = depth * q;
      break;
    case TensorMode::three_d:
      p.tensor = TensorAlgorithm::three_d;
      p.mesh = Mesh{{{Axis::depth, side}, {Axis::row, side}, {Axis::column, side}}};
      p.save_gathered = draw(0, 1) == 0;
      cut = q * q;
      break;
  }
  p.microbatch_size = static_cast<std::uint32_t>(draw(1, 3));
  p.stage_layers = std::vector<std::uint32_t>{1};
  p.attention = AttentionKernel::unfused;
  p.gradient_bucket = Bytes::of(1);
  p.overlap_gradients = false;
  c.workload.global_batch = cut * p.microbatch_size;
  c.workload.sequence_length = draw(1, 16);
  c.workload.precision = Precision::fp32;
  const std::uint64_t tokens = c.workload.global_batch * c.workload.sequence_length;
  const std::uint64_t heads = m.heads * m.head_dim;
  c.linear[0] = {tokens, m.hidden, heads + 2 * m.kv_heads * m.head_dim, false};
  c.linear[1] = {tokens, heads, m.hidden, true};
  c.linear[2] = {tokens, m.hidden, m.ffn, false};
  c.linear[3] = {tokens, m.ffn, m.hidden, true};
  return c;
}

struct Moved {
  std::uint64_t received = 0;     ///< elements, by all devices
  std::uint64_t collectives = 0;  ///< that every device takes part in
};

/// The elements that the collectives of products bring in one run of a block. A broadcast or reduce of n elements
/// brings n to all others of the group, a gather or scatter a part to each of them, an all-reduce twice a part for
/// each.
Moved moved(const Case& c, const Program& p, std::string_view name) {
  Moved out;
  for (const Block& block : p.blocks) {
    if (block.name != name) continue;
    for (const Op& op : block.ops) {
      const auto* x = std::get_if<Collective>(&op.action);
      if (x == nullptr) continue;
      // Norms of a grid sum over rows of ranks; in 1D the products' sums are all-reduces.
      if ((x->kind == Collective::Kind::all_reduce) == c.cuts_all()) continue;
      const std::uint64_t members = group_size(p[x->group], p.mesh);
      const std::uint64_t groups = p.mesh.size() / members;
      std::uint64_t n = block.views[op.views.first].count;
      switch (x->kind) {
        case Collective::Kind::broadcast:
        case Collective::Kind::reduce: out.received += groups * (members - 1) * n; break;
        case Collective::Kind::all_gather: out.received += groups * members * (members - 1) * n; break;
        case Collective::Kind::reduce_scatter: out.received += groups * (members - 1) * n; break;
        case Collective::Kind::all_reduce: out.received += groups * 2 * (members - 1) * n; break;
        case Collective::Kind::all_to_all:
        case Collective::Kind::permute:
        case Collective::Kind::barrier: FAIL("no product has this"); break;
      }
      ++out.collectives;
    }
  }
  return out;
}

std::uint64_t count_of(const Program& p, std::string_view buffer) {
  for (const Buffer& b : p.buffers) {
    if (b.name == buffer) return b.count;
  }
  FAIL("no buffer " << buffer);
  return 0;
}

}  // namespace

// The formulas of planner/study/tensor_volumes.hpp against Programs, in whole
// numbers: forward, the two backward products together, 2.5D's sum over depth,
// collectives, and what a device holds of the layer.
TEST_CASE("volume, steps and memory of every mode are those of Programs", "[property][tensor]") {
  const TensorMode mode =
      GENERATE(TensorMode::one_d, TensorMode::two_d, TensorMode::two_and_half_d, TensorMode::three_d);
  std::mt19937 random(static_cast<std::uint32_t>(17 + static_cast<int>(mode)));
  for (int round = 0; round < 100; ++round) {
    const Case c = random_case(mode, random);
    const std::uint64_t q = c.grid.side;
    CAPTURE(name_of(mode), round, q, c.grid.depth, c.model.hidden, c.model.heads, c.model.kv_heads, c.model.head_dim,
            c.model.ffn, c.model.biases.in_layers(), c.plan.microbatch_size, c.workload.sequence_length,
            c.plan.save_gathered);
    const Program program = lower(c.model, c.workload, c.plan);
    TensorVolume volume;
    std::uint64_t weights = 0, again = 0;
    for (const LinearShape& l : c.linear) {
      volume = volume + linear_volume(c.grid, l);
      weights += linear_memory(c.grid, l).weights;
      // 3D that keeps shards gathers input and weight once more.
      if (mode == TensorMode::three_d && !c.plan.save_gathered) {
        again += (q - 1) * (l.tokens * l.inputs + l.inputs * l.outputs);
      }
    }
    const Moved forward = moved(c, program, "layer.forward"), backward = moved(c, program, "layer.backward");
    CHECK(forward.received == volume.forward);
    CHECK(backward.received == volume.input_gradient + volume.weight_gradient + again);

    const std::uint64_t gathers = mode == TensorMode::three_d && !c.plan.save_gathered ? 8 : 0;
    const std::uint64_t over_depth = mode == TensorMode::two_and_half_d ? 4 : 0;  // outside the layer's blocks
    CHECK(forward.collectives + backward.collectives == 4 * linear_collectives(c.grid) - over_depth + gathers);

    if (mode == TensorMode::two_and_half_d) {
      std::uint64_t summed = 0;
      for (const CollectiveTotal& t : totals_of(program, 0).collectives) {
        if (t.kind != Collective::Kind::all_reduce || program[t.group].axes != AxisList{Axis::depth}) continue;
        summed += t.payload / 4;
      }
      // The two word tables are matrices of the grid as well.
      const std::uint64_t tables = 2 * count_of(program, "embedding.weights");
      const std::uint64_t positions = c.model.max_positions * c.model.hidden / q;
      const std::uint64_t layer = summed - (tables - 2 * positions);
      CHECK(2 * (c.grid.depth - 1) * q * q * layer == volume.depth);
    }

    const ParameterTable& table = program.parameter_tables[1];
    REQUIRE(table.module == "layer");
    CHECK(table.segments[0].count == weights);
    const char* const inputs[] = {"norm1.out", "context", "norm2.out", "ffn.act"};
    const char* const stems[] = {"attention.qkv", "attention.out", "ffn.up", "ffn.down"};
    for (std::size_t i = 0; i < 4; ++i) {
      const LinearMemory memory = linear_memory(c.grid, c.linear[i]);
      const std::string stem = stems[i];
      CHECK(count_of(program, inputs[i]) == memory.saved_input);
      if (mode == TensorMode::two_d || mode == TensorMode::two_and_half_d) {
        CHECK(count_of(program, stem + ".forward.x") + count_of(program, stem + ".forward.w") == memory.panels);
      }
      if (mode != TensorMode::three_d) continue;
      const std::uint64_t x = count_of(program, stem + ".gathered"), w = count_of(program, stem + ".gathered.weight");
      CHECK(x == memory.gathered_input);
      CHECK(w == memory.gathered_weights);
      CHECK(x + w + count_of(program, stem + ".part") == memory.panels);
    }
  }
}
