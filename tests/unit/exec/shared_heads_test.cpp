#include <catch2/catch.hpp>

#include <vector>

#include "core/program/head_copies.hpp"
#include "tests/unit/exec/kernel_memory.hpp"

using namespace orrery;
using namespace orrery::test;

namespace {

// Two key-value heads with six query heads each, over four ranks: a rank has three query heads, and a copy of the key
// and value that these share. A product of 2 (6 + 2) 4 = 64 columns makes all of them, 16 on each rank.
constexpr std::uint32_t ranks = 4, groups = 2, group = 6, dim = 4, own = group * groups / ranks;
constexpr std::uint64_t rows = 3, all = groups * (group + 2) * dim, columns = all / ranks, share = (own + 2) * dim;

Kernel kernel_of(KernelKind kind, DType t, std::uint64_t parts, std::uint64_t wide, std::uint32_t held) {
  Kernel k = kernel(kind, t, rows, wide, parts);
  k.batch = 1;
  k.heads = own * held;
  k.kv_heads = held;
  k.head_dim = dim;
  return k;
}

/// Packed heads of the rank, and where they lie.
struct Packed {
  Shard shard{
      {rows, rows, {}, false}, {1, 1, {}, false}, {ranks, ranks, {Axis::tensor}, false}, {share, share, {}, false}};
  Memory memory;
  Packed(DType t, std::uint64_t seed) : memory(Memory::random(t, rows * share, seed)) {}
  [[nodiscard]] Operand on(std::uint64_t rank) {
    Operand o = memory.operand();
    o.place.shard = &shard;
    o.place.box.rank = 4;
    o.place.box.offset = {0, 0, rank, 0};
    o.place.box.extent = {rows, 1, 1, share};
    return o;
  }
};

/// Column of a row of all projections that column c of a rank's share is.
std::uint64_t source(std::uint64_t rank, std::uint64_t c) {
  const std::uint64_t of = rank / 2, first = of * (group + 2) * dim;  // two ranks share a head
  if (c >= own * dim) return first + group * dim + (c - own * dim);
  return first + rank % 2 * own * dim + c;
}
/// Element of [ranks, rows, columns].
std::uint64_t place_of(std::uint64_t row, std::uint64_t column) {
  return (column / columns * rows + row) * columns + column % columns;
}

}  // namespace

TEST_CASE("a rank takes its queries from gathered parts, and the key and value that they share", "[exec]") {
  const DType t = GENERATE(DType::f64, DType::f32, DType::bf16);
  Memory x = Memory::random(t, rows * all, 1);
  for (std::uint64_t rank = 0; rank < ranks; ++rank) {
    Packed qkv(t, 2);
    run(kernel_of(KernelKind::share_heads_forward, t, ranks, columns, 1), {x.operand(), qkv.on(rank)});
    for (std::uint64_t row = 0; row < rows; ++row) {
      for (std::uint64_t c = 0; c < share; ++c) {
        CAPTURE(rank, row, c);
        REQUIRE(qkv.memory[row * share + c] == x[place_of(row, source(rank, c))]);
      }
    }
  }
}

// Backward is the transpose: summed over ranks, each column gets the gradients of all shares that took it.
TEST_CASE("gradients of a rank's heads go to the columns that these came from", "[exec]") {
  const DType t = GENERATE(DType::f64, DType::f32);
  std::vector<double> sum(rows * all, 0.0), expected(rows * all, 0.0);
  for (std::uint64_t rank = 0; rank < ranks; ++rank) {
    Packed dqkv(t, 10 + rank);
    Memory dx = Memory::random(t, rows * all, 3);
    run(kernel_of(KernelKind::share_heads_backward, t, ranks, columns, 1), {dqkv.on(rank), dx.operand()});
    for (std::uint64_t i = 0; i < rows * all; ++i) sum[i] += dx[i];
    for (std::uint64_t row = 0; row < rows; ++row) {
      for (std::uint64_t c = 0; c < share; ++c) {
        expected[place_of(row, source(rank, c))] += dqkv.memory[row * share + c];
      }
    }
  }
  CHECK(sum == expected);  // at most two numbers are added
}

// Ulysses' ranks make all copies themselves: the row is one part, and copies of a key add up on one rank.
TEST_CASE("a rank gives each share of its own heads a copy of a key and value", "[exec]") {
  const DType t = GENERATE(DType::f64, DType::f32);
  Memory x = Memory::random(t, rows * all, 1), qkv(t, rows * ranks * share), dx(t, rows * all);
  run(kernel_of(KernelKind::share_heads_forward, t, 1, all, ranks), {x.operand(), qkv.operand()});
  Memory dqkv = Memory::random(t, rows * ranks * share, 2);
  run(kernel_of(KernelKind::share_heads_backward, t, 1, all, ranks), {dqkv.operand(), dx.operand()});
  std::vector<double> expected(rows * all, 0.0);
  for (std::uint64_t row = 0; row < rows; ++row) {
    for (std::uint64_t c = 0; c < ranks * share; ++c) {
      const std::uint64_t from = row * all + source(c / share, c % share);
      REQUIRE(qkv[row * ranks * share + c] == x[from]);
      expected[from] += dqkv[row * ranks * share + c];
    }
  }
  for (std::uint64_t i = 0; i < rows * all; ++i) CHECK(dx[i] == Approx(expected[i]).margin(1e-6));
}

TEST_CASE("shapes that do not share heads evenly are no copies", "[unit]") {
  CHECK(HeadCopies(kernel_of(KernelKind::share_heads_forward, DType::f32, ranks, columns, 1)).valid());
  CHECK(HeadCopies(kernel_of(KernelKind::share_heads_forward, DType::f32, 1, all, ranks)).valid());
  CHECK_FALSE(HeadCopies(kernel_of(KernelKind::share_heads_forward, DType::f32, ranks, columns + 1, 1)).valid());
  CHECK_FALSE(HeadCopies(kernel_of(KernelKind::share_heads_forward, DType::f32, 1, all, 3)).valid());
  CHECK_FALSE(HeadCopies(kernel_of(KernelKind::share_heads_forward, DType::f32, ranks, 1, 1)).valid());
}
