#include "core/program/shard.hpp"

#include <catch2/catch.hpp>

#include <set>

#include "core/program/kernel.hpp"
#include "core/program/op.hpp"

using namespace orrery;

namespace {

Mesh mesh_2_2_3() { return Mesh{{{Axis::data, 2}, {Axis::pipeline, 2}, {Axis::tensor, 3}}}; }

}  // namespace

TEST_CASE("a shard without cuts is the whole tensor on every rank", "[shard]") {
  const Shard shard{{4, 4, {}, false}, {5, 5, {}, false}};
  const Box box = box_of(shard, mesh_2_2_3(), Rank{7});
  CHECK(box.offset[0] == 0);
  CHECK(box.extent[0] == 4);
  CHECK(box.extent[1] == 5);
  CHECK(local_count(shard, mesh_2_2_3()) == 20);
  CHECK(replicas(shard, mesh_2_2_3(), {Axis::data, Axis::tensor}) == 6);
}

TEST_CASE("boxes of all ranks tile the tensor, each element held by as many as there are replicas", "[shard]") {
  const Mesh mesh = mesh_2_2_3();
  const std::vector<Shard> shards = {
      {{6, 6, {Axis::tensor}, false}, {4, 4, {Axis::data}, false}},
      {{12, 11, {Axis::tensor, Axis::data}, false}},
      {{12, 12, {Axis::data, Axis::tensor}, false}, {3, 3, {}, false}},
      {{2, 2, {}, false}, {3, 3, {Axis::tensor}, false}, {2, 2, {Axis::pipeline}, false}, {1, 1, {}, false}}};
  for (const Shard& shard : shards) {
    std::vector<std::uint64_t> holders;
    std::uint64_t elements = 1;
    for (std::size_t i = 0; i < shard.rank; ++i) elements *= shard.dims[i].extent;
    holders.assign(elements, 0);
    for (std::uint32_t r = 0; r < mesh.size(); ++r) {
      const Box box = box_of(shard, mesh, Rank{r});
      std::set<std::uint64_t> mine;
      for (std::uint64_t i = 0; i < local_count(shard, mesh); ++i) mine.insert(global_index(shard, box, i));
      CHECK(mine.size() == local_count(shard, mesh));
      for (const std::uint64_t at : mine) ++holders.at(at);
    }
    const std::uint64_t copies = replicas(shard, mesh, {Axis::data, Axis::pipeline, Axis::tensor});
    for (const std::uint64_t n : holders) CHECK(n == copies);
  }
}

TEST_CASE("a microbatch cuts inside what the axes cut", "[shard]") {
  // 12 sequences over 2 data ranks and 3 microbatches: 2 each; rank 1's second microbatch begins at 6 + 2.
  const Shard shard{{12, 12, {Axis::data}, true}};
  const Mesh mesh{{{Axis::data, 2}}};
  const Box box = box_of(shard, mesh, Rank{1}, 1, 3);
  CHECK(box.offset[0] == 8);
  CHECK(box.extent[0] == 2);
  CHECK(local_count(shard, mesh, 3) == 2);
}

// 2 per multiply-add: 2 * 3 * 5 * 7 = 210.
TEST_CASE("a product has two FLOPs per multiply-add", "[kernel]") {
  Kernel k;
  k.kind = KernelKind::gemm;
  k.rows = 3;
  k.columns = 5;
  k.depth = 7;
  CHECK(flops_of(k).counted == 210);
  CHECK(flops_of(k).executed == 210);
}

// 2 sequences of 4 tokens, 3 heads of 5: scores and context are 2 * 2*(4*4)*(3*5)
// * 2 = 1920.  Causal: 10 of 16 pairs are seen, 1200.  Backward twice that; flash
// multiplies 5 products where forward has 2, so 2.5 * 1920 * 10/16 = 3000.
TEST_CASE("attention counts the full square and executes the visible part", "[kernel]") {
  Kernel k;
  k.kind = KernelKind::attention_flash_forward;
  k.rows = 8;
  k.batch = 2;
  k.heads = 3;
  k.head_dim = 5;
  CHECK(flops_of(k).counted == 1920);
  CHECK(flops_of(k).executed == 1920);
  k.options.causal = true;
  CHECK(flops_of(k).counted == 1920);
  CHECK(flops_of(k).executed == 1200);
  k.kind = KernelKind::attention_unfused_backward;
  CHECK(flops_of(k).counted == 3840);
  CHECK(flops_of(k).executed == 2400);
  k.kind = KernelKind::attention_flash_backward;
  CHECK(flops_of(k).counted == 3840);
  CHECK(flops_of(k).executed == 3000);
}

TEST_CASE("names of kernels and lanes are distinct", "[kernel]") {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < kernel_kind_count; ++i) names.insert(name_of(static_cast<KernelKind>(i)));
  CHECK(names.size() == kernel_kind_count);
  CHECK(!names.contains(""));
  std::set<std::string_view> lanes;
  std::set<std::size_t> numbers;
  const auto add = [&](LaneKind kind, std::uint8_t count) {
    for (std::uint8_t i = 0; i < count; ++i) {
      lanes.insert(name_of(Lane{kind, i}));
      numbers.insert(lane_number(Lane{kind, i}));
    }
  };
  add(LaneKind::compute, 1);
  add(LaneKind::collective, axis_count + 2);
  add(LaneKind::transfer, 4);
  add(LaneKind::copy, 4);
  add(LaneKind::host, 1);
  CHECK(lanes.size() == lane_count);
  CHECK(numbers.size() == lane_count);
  CHECK(*numbers.rbegin() == lane_count - 1);
}

// 3 ranks, chunks of 2 elements: rank 0 holds chunks 0 and 5, rank 1 chunks 1 and 4, rank 2 chunks 2 and 3.
TEST_CASE("A zigzag cut gives each rank an early and a late chunk") {
  const Mesh mesh{{{Axis::context, 3}}};
  ShardDim dim{12, 12, {Axis::context}, false};
  dim.zigzag = 3;
  const Shard shard{dim};
  const std::uint64_t expected[3][4] = {{0, 1, 10, 11}, {2, 3, 8, 9}, {4, 5, 6, 7}};
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    const Box box = box_of(shard, mesh, Rank{rank});
    for (std::uint64_t i = 0; i < 4; ++i) {
      CAPTURE(rank, i);
      CHECK(global_index(shard, box, i) == expected[rank][i]);
      CHECK(coordinate_of(dim, 4 * rank + i) == expected[rank][i]);
    }
  }
}
