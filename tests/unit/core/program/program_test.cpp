#include "core/program/program.hpp"

#include <catch2/catch.hpp>

#include <set>

#include "core/program/op_count.hpp"
#include "core/program/totals.hpp"
#include "tests/unit/core/program/sample.hpp"

using namespace orrery;

namespace {

Mesh mesh_2_3_2() { return Mesh{{{Axis::pipeline, 2}, {Axis::data, 3}, {Axis::tensor, 2}}}; }

std::vector<std::uint32_t> numbers(const std::vector<Rank>& ranks) {
  std::vector<std::uint32_t> out;
  for (const Rank r : ranks) out.push_back(index(r));
  return out;
}

Group group_of(AxisList axes, std::vector<std::uint32_t> members = {}) { return {axes, std::move(members)}; }

}  // namespace

TEST_CASE("group ranks differ along the axes only, in peer order", "[program]") {
  // Rank = pipeline * 6 + data * 2 + tensor.
  const Mesh mesh = mesh_2_3_2();
  struct Row {
    Group group;
    std::uint32_t rank;
    std::vector<std::uint32_t> ranks;
  };
  std::vector<Row> rows;
  rows.push_back({group_of({Axis::tensor}), 9, {8, 9}});
  rows.push_back({group_of({Axis::data}), 9, {7, 9, 11}});
  rows.push_back({group_of({Axis::pipeline, Axis::tensor}), 3, {2, 3, 8, 9}});
  rows.push_back({group_of({Axis::tensor, Axis::pipeline}), 3, {2, 8, 3, 9}});
  rows.push_back({group_of({Axis::data}, {2, 0}), 7, {11, 7}});
  rows.push_back({group_of({}), 5, {5}});
  for (const Row& row : rows) {
    CAPTURE(row.rank, row.ranks);
    CHECK(group_size(row.group, mesh) == row.ranks.size());
    CHECK(numbers(group_ranks(row.group, mesh, Rank{row.rank})) == row.ranks);
  }
}

TEST_CASE("every rank finds itself in its group at its peer number", "[program]") {
  const Mesh mesh = mesh_2_3_2();
  const std::vector<Group> groups = {group_of({Axis::tensor}), group_of({Axis::data, Axis::pipeline}),
                                     group_of({Axis::data}, {2, 0}),
                                     group_of({Axis::pipeline, Axis::data, Axis::tensor})};
  for (const Group& group : groups) {
    for (std::uint32_t r = 0; r < mesh.size(); ++r) {
      const auto ranks = group_ranks(group, mesh, Rank{r});
      const auto peer = peer_of(group, mesh, Rank{r});
      const bool inside = std::find(ranks.begin(), ranks.end(), Rank{r}) != ranks.end();
      CHECK(peer.has_value() == inside);
      if (peer) CHECK(ranks[index(*peer)] == Rank{r});
    }
  }
}

TEST_CASE("each rank is of one class, and its representative is the smallest", "[program]") {
  Program p;
  p.mesh = mesh_2_3_2();
  p.class_axes = {Axis::tensor, Axis::pipeline};
  p.classes.resize(4);
  std::vector<std::set<std::uint32_t>> members(4);
  for (std::uint32_t r = 0; r < 12; ++r) members[class_of(p, Rank{r})].insert(r);
  for (std::uint32_t c = 0; c < 4; ++c) {
    CHECK(members[c].size() == 3);
    CHECK(index(representative(p, c)) == *members[c].begin());
  }
}

TEST_CASE("ops are visited in list order with running numbers, layers step by step", "[program]") {
  Program p;
  p.blocks.resize(2);
  p.blocks[0].ops.resize(2);
  p.blocks[1].ops.resize(1);
  const std::vector<Slot> slots = {{BlockId{0}, 5, 1, 3, -2}, {BlockId{1}, 0, 0, 0, 1}, {BlockId{1}, 7, 2, 1, 1}};
  std::vector<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>> seen;
  std::uint32_t id = 0;
  for_each_op(p, slots, [&](const OpRun& run) {
    CHECK(index(run.id) == id++);
    CHECK(run.op == &run.block->ops[run.op_index]);
    seen.emplace_back(run.op_index, run.block_run, run.layer, run.microbatch);
  });
  // Block 0 at layers 5, 3, 1; a slot that repeats no times runs nothing; then block 1.
  CHECK(seen == decltype(seen){
                    {0, 0, 5, 1}, {1, 0, 5, 1}, {0, 1, 3, 1}, {1, 1, 3, 1}, {0, 2, 1, 1}, {1, 2, 1, 1}, {0, 3, 7, 2}});
  CHECK(op_count(p, slots) == 7);  // 3 * 2 + 0 * 1 + 1 * 1
  CHECK(op_count(p, {}) == 0);
}

TEST_CASE("an instance has only the numbers its scope distinguishes", "[program]") {
  Program p;
  p.buffers.resize(4);
  p.buffers[0].scope = Scope::stage;
  p.buffers[1].scope = Scope::layer;
  p.buffers[2].scope = Scope::microbatch;
  p.buffers[3].scope = Scope::layer_microbatch;
  CHECK(instance_of(p, BufferId{0}, 1, 4, 2) == Instance{BufferId{0}, 0, 0});
  CHECK(instance_of(p, BufferId{1}, 1, 4, 2) == Instance{BufferId{1}, 5, 0});
  CHECK(instance_of(p, BufferId{2}, 1, 4, 2) == Instance{BufferId{2}, 0, 2});
  CHECK(instance_of(p, BufferId{3}, -4, 4, 2) == Instance{BufferId{3}, 0, 2});
}

TEST_CASE("a part's offset advances by its count along the axes", "[program]") {
  const Mesh mesh = mesh_2_3_2();
  View v;
  v.offset = 100;
  v.count = 10;
  CHECK(offset_on(mesh, v, Rank{11}) == 100);
  v.member_of = {Axis::data};
  CHECK(offset_on(mesh, v, Rank{11}) == 120);  // data coordinate 2
  v.member_of = {Axis::data, Axis::tensor};
  CHECK(offset_on(mesh, v, Rank{11}) == 150);  // 2 * 2 + 1
}

TEST_CASE("payload is that of the whole vectors", "[program]") {
  const Program p = test::parsed(test::sample_text());
  const Block& forward = p.blocks[1];
  const Block& backward = p.blocks[7];
  // all_gather of 16 elements on each of two ranks; all_reduce of 32; f32.
  CHECK(payload_bytes(p, forward, forward.ops[3]) == 128);
  CHECK(payload_bytes(p, backward, backward.ops[2]) == 128);
  // The gather reads its part and writes the whole; the sum reads and writes.
  CHECK(touched_bytes(p, forward, forward.ops[3]) == 64 + 128);
  CHECK(touched_bytes(p, backward, backward.ops[2]) == 256);
}

// Chunks of 10 elements over 4 members: [0,2), [2,5), [5,7), [7,10): 2, 3, 2, 3.
TEST_CASE("ring bytes are those of uneven chunks", "[program]") {
  using K = Collective::Kind;
  const auto sent = [](K kind, std::uint32_t peer, std::uint32_t root = 0) {
    return ring_bytes_sent(kind, 10, 1, 4, peer, root);
  };
  CHECK(sent(K::reduce_scatter, 0) == 8);
  CHECK(sent(K::reduce_scatter, 1) == 7);
  CHECK(sent(K::all_gather, 0) == 7);  // all but the next peer's chunk
  CHECK(sent(K::all_gather, 3) == 8);
  CHECK(sent(K::all_reduce, 0) == 15);
  CHECK(sent(K::broadcast, 0, 2) == 10);
  CHECK(sent(K::broadcast, 1, 2) == 0);  // the end of the chain from 2
  CHECK(sent(K::reduce, 2, 2) == 0);
  CHECK(sent(K::reduce, 1, 2) == 10);
  CHECK(sent(K::barrier, 1) == 0);
  CHECK(ring_bytes_sent(K::all_reduce, 10, 8, 1, 0) == 0);
}

TEST_CASE("what a ring sends in all is what the formula says", "[program]") {
  using K = Collective::Kind;
  for (const std::uint32_t members : {2U, 3U, 7U}) {
    for (const std::uint64_t count : {0U, 1U, 5U, 64U}) {
      const auto all = [&](K kind) {
        std::uint64_t sum = 0;
        for (std::uint32_t p = 0; p < members; ++p) sum += ring_bytes_sent(kind, count, 4, members, p, 1);
        return sum;
      };
      CAPTURE(members, count);
      CHECK(all(K::all_reduce) == 2 * (members - 1) * count * 4);
      CHECK(all(K::all_gather) == (members - 1) * count * 4);
      CHECK(all(K::reduce_scatter) == (members - 1) * count * 4);
      CHECK(all(K::all_to_all) == (members - 1) * count * 4);
      CHECK(all(K::broadcast) == (members - 1) * count * 4);
      CHECK(all(K::reduce) == (members - 1) * count * 4);
    }
  }
}

// The sample by hand.  Per rank of stage 1: forward 2*4*4*8 = 256 FLOPs, input
// gradient 2*4*8*4 = 256, weight gradient 2*8*4*4 = 256.
// Memory of stage 1: weights 128, gradients 128, steps 8: 264 after setup.  At
// the peak, in backward: hidden of layer 1 (128), gradient of layer 2 (128),
// gradient of layer 1 (128): 648.  (Forward: hidden 1, half 64, hidden 2: 584.)
TEST_CASE("totals of the sample are those worked out by hand", "[totals]") {
  const Program p = test::parsed(test::sample_text());
  const ClassTotals t = totals_of(p, 1);
  CHECK(t.flops[index(Pass::forward)].counted == 256);
  CHECK(t.flops[index(Pass::input_gradient)].counted == 256);
  CHECK(t.flops[index(Pass::weight_gradient)].counted == 256);
  CHECK(t.state[index(Role::weight)] == 128);
  CHECK(t.state[index(Role::gradient)] == 128);
  CHECK(t.state[index(Role::scalar)] == 8);
  CHECK(t.peak[index(Tier::device)] == 648);
  CHECK(t.peak[index(Tier::host)] == 0);
  CHECK(t.at_peak[index(Role::activation)] == 384);
  CHECK(t.messages == 1);
  CHECK(t.message_bytes == 128);
  REQUIRE(t.collectives.size() == 2);
  CHECK(t.collectives[0].kind == Collective::Kind::all_reduce);
  CHECK(t.collectives[0].sent == 128);  // 2 (n-1)/n of 128 bytes
  CHECK(t.collectives[1].kind == Collective::Kind::all_gather);
  CHECK(t.collectives[1].sent == 64);
  // These are kept past their block: hidden of layer 1 (received, then used), and gradients of both layers (made in one
  // block, used in the next).
  CHECK(t.saved[1].activations == 128 + 128);
  CHECK(t.saved[2].activations == 128 + 128);
  CHECK(parameter_elements(p) == 128);  // 8 x 8 in each of two layers
  // There are 2 ranks of each class, and stage 0 has no input gradient: 2 * (256 * 2) + 2 * (256 * 3).
  CHECK(total_flops(p).counted == 2560);
}

TEST_CASE("peaks are counted for each memory tier apart", "[totals]") {
  Program p;
  p.microbatches = 1;
  Buffer b;
  b.count = 10;
  b.dtype = DType::f64;
  p.buffers = {b, b, b};
  p.buffers[1].tier = Tier::host;
  p.buffers[1].count = 1000;
  p.blocks.resize(1);
  p.blocks[0].ops = {{Alloc{BufferId{0}, 0}, {}, {}, {}}, {Alloc{BufferId{1}, 0}, {}, {}, {}},
                     {Free{BufferId{0}, 0}, {}, {}, {}},  {Alloc{BufferId{2}, 0}, {}, {}, {}},
                     {Free{BufferId{1}, 0}, {}, {}, {}},  {Free{BufferId{2}, 0}, {}, {}, {}}};
  p.classes = {{{}, {{BlockId{0}, 0, 0, 1, 1}}}};
  const ClassTotals t = totals_of(p, 0);
  CHECK(t.peak[index(Tier::device)] == 80);
  CHECK(t.peak[index(Tier::host)] == 8000);
}
