#include "sim/bound/op_chain.hpp"

#include <catch2/catch.hpp>

using namespace orrery;

namespace {

constexpr Lane compute{};
constexpr Lane tensor{LaneKind::collective, static_cast<std::uint8_t>(Axis::tensor)};

/// Ops on lanes with prices, as a block; `waits` are numbers of ops before.
struct Written {
  Lane lane;
  Picoseconds price = 0;
  std::vector<std::uint32_t> waits;
  bool reads_weights = false;
  KernelKind kind = KernelKind::gemm;
  bool behind_compute = false;
};

OpChain chain_of(const std::vector<Written>& ops) {
  Block block;
  for (const Written& w : ops) {
    Op op;
    op.lane = w.lane;
    op.waits.first = static_cast<std::uint32_t>(block.waits.size());
    for (const std::uint32_t before : w.waits) block.waits.push_back({Wait::Kind::op, {}, before});
    if (w.behind_compute) block.waits.push_back({Wait::Kind::tail, compute, 0});
    op.waits.count = static_cast<std::uint32_t>(block.waits.size()) - op.waits.first;
    if (w.lane == compute) {
      Kernel kernel;
      kernel.kind = w.kind;
      op.action = Compute{static_cast<std::uint32_t>(block.kernels.size())};
      block.kernels.push_back(kernel);
    } else {
      op.action = Collective{};
    }
    block.ops.push_back(op);
  }
  const auto number = [&](std::uint32_t i) { return ops[i].lane == compute ? OpChain::no_collective : i; };
  return OpChain::of(
      block, [&](std::uint32_t i) { return ops[i].lane == compute ? ops[i].price : 0; }, number,
      [&](std::uint32_t i) { return ops[i].reads_weights; });
}

OpChain::Prices prices_of(const std::vector<Written>& ops) {
  OpChain::Prices prices;
  for (const Written& w : ops) prices.push_back(w.price);
  return prices;
}

}  // namespace

TEST_CASE("a block without ops takes no time", "[unit][bound]") {
  OpChain::Storage storage;
  CHECK(chain_of({}).span({}, true, false, storage) == 0);
  CHECK(chain_of({}).span({}, false, false, storage) == 0);
  CHECK(chain_of({}).span_behind({}, OpChain::Awaits::compute, storage) == 0);
}

// A product of 10, a sum of 7 over tensor ranks that waits for it, a product of 5 beside the sum, and one of 3 that
// waits for both: 10 + max(7, 5) + 3.  One op at a time: 25.
TEST_CASE("a block lasts as long as its longest chain", "[unit][bound]") {
  const std::vector<Written> ops = {{compute, 10, {}}, {tensor, 7, {0}}, {compute, 5, {}}, {compute, 3, {1}}};
  const OpChain chain = chain_of(ops);
  OpChain::Storage storage;
  CHECK(chain.span(prices_of(ops), true, false, storage) == 20);
  CHECK(chain.span(prices_of(ops), false, false, storage) == 25);
  LaneTimes lanes{};
  chain.add_lanes(prices_of(ops), lanes);
  CHECK(lanes[static_cast<std::size_t>(Axis::tensor)] == 7);
}

// The gather of 8 waits for what compute did before the block: from the block's entry on it is in the way of the
// product that takes it, and since a message came it may long be done.
TEST_CASE("what waits for compute alone may run before a message comes", "[unit][bound]") {
  const std::vector<Written> ops = {
      {compute, 4, {}}, {tensor, 8, {}, false, KernelKind::gemm, true}, {compute, 6, {1}}};
  const OpChain chain = chain_of(ops);
  OpChain::Storage storage;
  CHECK(chain.span(prices_of(ops), true, false, storage) == 14);
  CHECK(chain.span(prices_of(ops), true, true, storage) == 10);
}

// 4 before the weights come, then 6 and the 5 behind it.
TEST_CASE("behind the weights comes what reads them and all after it", "[unit][bound]") {
  const std::vector<Written> ops = {{compute, 4, {}}, {compute, 6, {}, true}, {compute, 5, {}}};
  OpChain::Storage storage;
  CHECK(chain_of(ops).span_behind(prices_of(ops), OpChain::Awaits::weights, storage) == 11);
  CHECK(chain_of(ops).span_behind(prices_of(ops), OpChain::Awaits::compute, storage) == 15);
  CHECK(chain_of(ops).span_behind(prices_of(ops), OpChain::Awaits::tensor, storage) == 0);
}

TEST_CASE("without attention or packing their kernels take no time", "[unit][bound]") {
  const std::vector<Written> ops = {{compute, 4, {}},
                                    {compute, 2, {}, false, KernelKind::pack_keys_values},
                                    {compute, 9, {}, false, KernelKind::attention_part_forward},
                                    {compute, 5, {}}};
  OpChain::Storage storage;
  const auto span = [&](OpChain::Counts counts) {
    return chain_of(ops).span(prices_of(ops), true, false, storage, counts);
  };
  CHECK(span(OpChain::Counts::all) == 20);
  CHECK(span(OpChain::Counts::without_packing) == 18);
  CHECK(span(OpChain::Counts::without_attention) == 9);
}
