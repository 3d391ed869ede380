#include <catch2/catch.hpp>

#include <algorithm>
#include <string>
#include <vector>

#include "core/record/summarize.hpp"
#include "sim/des/simulate.hpp"
#include "sim/estimate/walk.hpp"
#include "tests/property/sim/estimate/prices.hpp"
#include "tests/support/hand_program.hpp"

namespace orrery {
namespace {

using test::Draws;
using test::HandBlock;

constexpr GroupId tensor_group{0};
constexpr GroupId pipeline_group{1};

std::vector<Wait> random_waits(Draws& draw, std::uint32_t ops) {
  static const std::vector<Lane> lanes = {
      {LaneKind::compute, 0},
      {LaneKind::collective, static_cast<std::uint8_t>(Axis::tensor)},
      {LaneKind::collective, static_cast<std::uint8_t>(Axis::data)},
      {LaneKind::transfer, static_cast<std::uint8_t>(TransferLane::forward_receive)},
      {LaneKind::transfer, static_cast<std::uint8_t>(TransferLane::forward_send)},
      {LaneKind::copy, 1},
  };
  std::vector<Wait> waits;
  for (std::int64_t n = draw.in(0, 2); n > 0; --n) {
    if (ops > 0 && draw.in(0, 2) > 0) {
      waits.push_back(HandBlock::on(static_cast<std::uint32_t>(draw.in(0, ops - 1))));
    } else {
      waits.push_back(HandBlock::tail(lanes[static_cast<std::size_t>(draw.in(0, 5))]));
    }
  }
  return waits;
}

/// Appends an op in which no rank of another class takes part.
void random_local_op(Draws& draw, HandBlock& block, std::uint32_t& ops) {
  const auto waits = random_waits(draw, ops);
  switch (draw.in(0, 6)) {
    case 0: block.collective(tensor_group, Axis::tensor, waits); break;
    case 1: block.collective(tensor_group, Axis::data, waits); break;
    case 2: block.alloc(BufferId{0}); break;
    case 3: block.copy(1, waits); break;
    default: block.compute(waits); break;
  }
  ++ops;
}

/// Stages that run blocks of random ops with random waits, and meet in messages and collectives in one global
/// order, so that no deadlock can be.
Program random_program(std::uint64_t seed) {
  Draws draw(seed);
  const auto stages = static_cast<std::uint32_t>(draw.in(1, 4));
  Program program = test::hand_program(stages, 2);
  std::vector<BlockId> local;
  for (std::int64_t n = draw.in(1, 4); n > 0; --n) {
    HandBlock block(program, "local" + std::to_string(n));
    std::uint32_t ops = 0;
    for (std::int64_t k = draw.in(1, 7); k > 0; --k) random_local_op(draw, block, ops);
    local.push_back(block.finish());
  }
  const auto meeting = [&](std::uint32_t stage, auto&& meet) {
    HandBlock block(program, "meet");
    std::uint32_t ops = 0;
    for (std::int64_t k = draw.in(0, 2); k > 0; --k) random_local_op(draw, block, ops);
    meet(block, random_waits(draw, ops));
    ++ops;
    for (std::int64_t k = draw.in(0, 2); k > 0; --k) random_local_op(draw, block, ops);
    program.classes[stage].step.push_back({block.finish(), 0, 0, 1, 1});
  };
  for (std::int64_t n = draw.in(5, 40); n > 0; --n) {
    const auto stage = static_cast<std::uint32_t>(draw.in(0, stages - 1));
    const auto other = static_cast<std::uint32_t>(draw.in(0, stages - 1));
    const std::int64_t kind = draw.in(0, 9);
    if (kind < 6 || stages == 1) {
      const BlockId block = local[static_cast<std::size_t>(draw.in(0, static_cast<std::int64_t>(local.size()) - 1))];
      program.classes[stage].step.push_back({block, 0, 0, static_cast<std::uint32_t>(draw.in(1, 9)), 1});
    } else if (kind < 9 && stage != other) {
      const auto channel = static_cast<std::uint8_t>(draw.in(0, 1));
      const bool both = draw.in(0, 3) == 0;
      const auto message = [&](std::uint32_t at, std::uint32_t peer, bool send, TransferLane lane) {
        meeting(at, [&](HandBlock& b, const std::vector<Wait>& waits) {
          if (both) {
            b.exchange(pipeline_group, lane, {{send, peer, channel}, {!send, peer, channel}}, BufferId{0}, waits);
          } else {
            b.exchange(pipeline_group, lane, {{send, peer, channel}}, BufferId{0}, waits);
          }
        });
      };
      message(stage, other, true, TransferLane::forward_send);
      message(other, stage, false, TransferLane::forward_receive);
    } else {
      for (std::uint32_t s = 0; s < stages; ++s) {
        meeting(s, [&](HandBlock& b, const std::vector<Wait>& waits) {
          b.collective(pipeline_group, Axis::pipeline, waits);
        });
      }
    }
  }
  return program;
}

}  // namespace

// Lowered programs use few of the shapes that blocks may have. These use all: collectives first, tails of every lane,
// several lanes busy across blocks, opposite messages in one exchange.
TEST_CASE("Estimate and simulate agree on programs that no lowering writes", "[property][estimate][simulate]") {
  Walk walk;
  CompiledProgram compiled;
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    const Program program = random_program(seed);
    for (const bool concurrent : {true, false}) {
      CAPTURE(seed, concurrent);
      Prices prices = test::random_prices(program, seed, concurrent);
      // One price for a collective across stages, whichever block issues it.
      for (std::size_t b = 0; b < program.blocks.size(); ++b) {
        for (std::size_t i = 0; i < program.blocks[b].ops.size(); ++i) {
          const auto* collective = std::get_if<Collective>(&program.blocks[b].ops[i].action);
          if (collective != nullptr && collective->group == pipeline_group) prices.op[prices.first_op[b] + i] = 17;
        }
      }
      compiled.compile(program, prices);
      walk.run(compiled);
      const Timing timing = simulate_times(program, prices, false);
      bool equal = true;
      for (std::size_t c = 0; c < program.classes.size(); ++c) {
        const RankTimes times = account(program, timing.trace.ranks[c], concurrent);
        const ClassTimes& walked = walk.classes()[c];
        equal = equal && walked.end == times.end && walked.busy == times.busy && walked.exposed.all == times.exposed &&
                walked.exposed.collectives == times.collectives &&
                walked.exchange == times.time[index(exchange_operation)];
      }
      CHECK(equal);
      if (seed <= 100) {
        for (const RankTrace& r : simulate_times(program, prices, true).trace.ranks) {
          CHECK(r.spans == timing.trace.ranks[class_of(program, r.rank)].spans);
        }
      }
    }
  }
}

}  // namespace orrery
