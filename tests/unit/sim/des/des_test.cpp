#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "core/record/summarize.hpp"
#include "sim/des/cores.hpp"
#include "sim/des/event_queue.hpp"
#include "sim/des/simulate.hpp"
#include "sim/estimate/walk.hpp"
#include "tests/support/hand_program.hpp"

namespace orrery {

namespace {

using test::HandBlock;

constexpr Lane compute{LaneKind::compute, 0};
constexpr Lane receive_lane{LaneKind::transfer, static_cast<std::uint8_t>(TransferLane::forward_receive)};

Slot once(BlockId block) { return {block, 0, 0, 1, 1}; }

/// Prices with every compute op at 10, collective at 5, message at 3.
Prices simple_prices(const Program& program, bool concurrent = true) {
  Prices prices;
  resize(prices, program);
  prices.concurrent_lanes = concurrent;
  for (std::size_t b = 0; b < program.blocks.size(); ++b) {
    for (std::size_t i = 0; i < program.blocks[b].ops.size(); ++i) {
      const Op& op = program.blocks[b].ops[i];
      if (std::holds_alternative<Compute>(op.action)) prices.op[prices.first_op[b] + i] = 10;
      if (std::holds_alternative<Collective>(op.action)) prices.op[prices.first_op[b] + i] = 5;
    }
  }
  prices.transfer.assign(prices.transfer.size(), 3);
  return prices;
}

std::string deadlock(const Program& program, bool expand = false) {
  try {
    (void)simulate_times(program, simple_prices(program), expand);
  } catch (const Error& e) {
    return e.what();
  }
  return "no deadlock";
}

}  // namespace

TEST_CASE("Events of one instant come out in the order in which they were put in", "[unit][des]") {
  EventQueue<int> queue;
  for (int i = 0; i < 50; ++i) queue.push(i % 5, i);
  std::vector<int> order;
  while (!queue.empty()) order.push_back(queue.pop());
  std::vector<int> expected;
  for (int time = 0; time < 5; ++time) {
    for (int i = time; i < 50; i += 5) expected.push_back(i);
  }
  CHECK(order == expected);
}

// Ranks 0, 1, 2 on one core, jobs of 10, 20, 5. Rank 0 runs 0..10 and goes on with 7 more (10..17), since its slice is
// not over. With nothing more to do it rests, so rank 1 runs 17..37, then rank 2 37..42.
TEST_CASE("Ranks on fewer cores take turns when they have nothing to do", "[unit][des]") {
  Cores cores(1, 3);
  cores.start(0, 10, {0, 100});
  cores.start(0, 20, {1, 101});
  cores.start(0, 5, {2, 102});
  REQUIRE(cores.started().size() == 1);
  CHECK(cores.next_end() == 10);
  CHECK(cores.finish().op == 100);
  cores.start(10, 7, {0, 103});
  cores.rest(10, 0);  // has a job: keeps the core
  CHECK(cores.next_end() == 17);
  CHECK(cores.finish().op == 103);
  cores.rest(17, 0);
  CHECK(cores.next_end() == 37);
  CHECK(cores.finish().actor == 1);
  cores.rest(37, 1);
  CHECK(cores.next_end() == 42);
  CHECK(cores.finish().actor == 2);
  cores.rest(42, 2);
  CHECK(cores.idle());
}

TEST_CASE("A rank whose slice is over queues behind the others, between ops", "[unit][des]") {
  constexpr Picoseconds long_op = Cores::slice + 5;
  Cores cores(1, 2);
  cores.start(0, long_op, {0, 0});
  cores.start(0, 10, {1, 1});
  CHECK(cores.finish().actor == 0);  // an op is never cut
  cores.start(long_op, 10, {0, 2});  // rank 1 goes first
  CHECK(cores.next_end() == long_op + 10);
  CHECK(cores.finish().actor == 1);
  cores.rest(long_op + 10, 1);
  CHECK(cores.next_end() == long_op + 20);
  CHECK(cores.finish().op == 2);
}

TEST_CASE("With enough cores nobody waits", "[unit][des]") {
  Cores cores(2, 2);
  cores.start(0, 10, {0, 0});
  cores.start(3, 4, {1, 1});
  CHECK(cores.finish().op == 1);
  CHECK(cores.next_end() == 10);
}

// Stage 0: compute 0..10, sends 10..13.  Stage 1 posts its receive at 0, computes 13..23.
TEST_CASE("A message moves when both ends are there", "[unit][des]") {
  Program program = test::hand_program(2);
  HandBlock first(program, "first");
  const auto made = first.compute();
  first.exchange(GroupId{1}, TransferLane::forward_send, {{true, 1}}, BufferId{0}, {HandBlock::on(made)});
  program.classes[0].step = {once(first.finish())};
  HandBlock last(program, "second");
  last.alloc(BufferId{0});
  const auto got = last.exchange(GroupId{1}, TransferLane::forward_receive, {{false, 0}}, BufferId{0});
  last.compute({HandBlock::on(got)});
  last.free(BufferId{0});
  program.classes[1].step = {once(last.finish())};
  const Timing t = simulate_times(program, simple_prices(program), false);
  CHECK(t.trace.ranks[0].spans == std::vector<Span>{{0, 10}, {10, 13}});
  // Alloc is passed at once, and Free when the compute lane has come to it.
  CHECK(t.trace.ranks[1].spans == std::vector<Span>{{0, 0}, {10, 13}, {13, 23}, {23, 23}});
}

// Opposite messages in one Exchange: the first can move when the partner is there, and the op ends with the last.
TEST_CASE("An exchange ends with the last of its messages", "[unit][des]") {
  Program program = test::hand_program(3);
  HandBlock middle(program, "middle");
  middle.exchange(GroupId{1}, TransferLane::forward_send, {{true, 0}, {false, 2}}, BufferId{0});
  program.classes[1].step = {once(middle.finish())};
  HandBlock left(program, "left");
  left.exchange(GroupId{1}, TransferLane::forward_receive, {{false, 1}}, BufferId{0});
  program.classes[0].step = {once(left.finish())};
  HandBlock right(program, "right");
  const auto made = right.compute();
  right.exchange(GroupId{1}, TransferLane::forward_send, {{true, 1}}, BufferId{0}, {HandBlock::on(made)});
  program.classes[2].step = {once(right.finish())};
  const Prices prices = simple_prices(program);
  const Timing t = simulate_times(program, prices, false);
  CHECK(t.trace.ranks[0].spans[0] == Span{0, 3});
  CHECK(t.trace.ranks[1].spans[0] == Span{0, 13});
  CHECK(t.trace.ranks[2].spans[1] == Span{10, 13});

  CompiledProgram compiled;
  compiled.compile(program, prices);
  Walk walk;
  walk.run(compiled);
  CHECK(walk.classes()[1].end == 13);
  CHECK(walk.classes()[1].exchange == 13);
}

// The all-reduce overlaps: it runs 10..15 beside the second compute op; on a serial device it holds it up.
TEST_CASE("Lanes run beside each other only where the device can", "[unit][des]") {
  Program program = test::hand_program(1, 2);
  HandBlock b(program, "b");
  const auto made = b.compute();
  b.collective(GroupId{0}, Axis::tensor, {HandBlock::on(made)});
  b.compute();
  program.classes[0].step = {once(b.finish())};
  const Timing beside = simulate_times(program, simple_prices(program, true), true);
  const Timing serial = simulate_times(program, simple_prices(program, false), true);
  for (const RankTrace& r : beside.trace.ranks) CHECK(r.spans == std::vector<Span>{{0, 10}, {10, 15}, {10, 20}});
  for (const RankTrace& r : serial.trace.ranks) CHECK(r.spans == std::vector<Span>{{0, 10}, {10, 15}, {15, 25}});
}

// A tail wait means the last op issued on the lane before this run of the block began, not one of the run itself.
TEST_CASE("Tails are those of before the block's run", "[unit][des]") {
  Program program = test::hand_program(1, 2);
  HandBlock b(program, "b");
  b.collective(GroupId{0}, Axis::tensor, {HandBlock::tail(compute)});
  b.compute({HandBlock::tail({LaneKind::collective, static_cast<std::uint8_t>(Axis::tensor)})});
  const BlockId block = b.finish();
  program.classes[0].step = {{block, 0, 0, 3, 1}};
  const Timing t = simulate_times(program, simple_prices(program), false);
  // Run 1: both at 0.  Run 2: reduce after compute 1 (10..15), compute after reduce 1 and compute 1 (10..20).
  // Run 3: reduce 20..25, compute after reduce 2 (15) and compute 2: 20..30.
  CHECK(t.trace.ranks[0].spans == std::vector<Span>{{0, 5}, {0, 10}, {10, 15}, {10, 20}, {20, 25}, {20, 30}});
}

// Both stages send first and receive later, on one lane, so neither message can ever move.
TEST_CASE("Ranks that wait for each other are named with their ops", "[unit][des]") {
  Program program = test::hand_program(2);
  for (std::uint32_t stage = 0; stage < 2; ++stage) {
    HandBlock b(program, "stage" + std::to_string(stage));
    b.exchange(GroupId{1}, TransferLane::forward_send, {{true, 1 - stage}}, BufferId{0});
    b.exchange(GroupId{1}, TransferLane::forward_send, {{false, 1 - stage}}, BufferId{0});
    program.classes[stage].step = {once(b.finish())};
  }
  CHECK(deadlock(program) ==
        "deadlock after 0 ps: these ops wait for each other\n"
        "  rank 0 op 0 (stage0, layer 0, microbatch 0) send to rank 1 channel 0\n"
        "    waits for its partner\n"
        "  rank 1 op 1 (stage1, layer 0, microbatch 0) receive from rank 0 channel 0\n"
        "    queues behind\n"
        "  rank 1 op 0 (stage1, layer 0, microbatch 0) send to rank 0 channel 0\n"
        "    waits for its partner\n"
        "  rank 0 op 1 (stage0, layer 0, microbatch 0) receive from rank 1 channel 0\n"
        "    queues behind rank 0 op 0, above");
  CompiledProgram compiled;
  const Prices prices = simple_prices(program);
  compiled.compile(program, prices);
  Walk walk;
  CHECK_THROWS_AS(walk.run(compiled), Error);
}

TEST_CASE("A message without a receiver and a collective without a member are named", "[unit][des]") {
  Program program = test::hand_program(2);
  HandBlock b(program, "sender");
  b.exchange(GroupId{1}, TransferLane::forward_send, {{true, 1}}, BufferId{0});
  program.classes[0].step = {once(b.finish())};
  CHECK(deadlock(program) ==
        "deadlock after 0 ps: an op waits for one that is not there\n"
        "  rank 0 op 0 (sender, layer 0, microbatch 0) send to rank 1 channel 0\n"
        "    waits for a matching receive that rank 1 never issues");
  HandBlock c(program, "alone");
  c.collective(GroupId{1}, Axis::pipeline);
  program.classes[0].step = {once(c.finish())};
  CHECK(deadlock(program, true) ==
        "deadlock after 0 ps: an op waits for one that is not there\n"
        "  rank 0 op 0 (alone, layer 0, microbatch 0) all_reduce on group 1 (pipeline)\n"
        "    waits for collective 0 on group 1 (pipeline), which rank 1 never issues");
}

TEST_CASE("Collectives of one group meet in the order of each member's list", "[unit][des]") {
  // Stage 0 computes before its first all-reduce, stage 1 before its second: they meet at 10 and at 25.
  Program program = test::hand_program(2);
  HandBlock first(program, "first");
  first.collective(GroupId{1}, Axis::pipeline, {HandBlock::on(first.compute())});
  first.collective(GroupId{1}, Axis::pipeline);
  program.classes[0].step = {once(first.finish())};
  HandBlock last(program, "second");
  const auto one = last.collective(GroupId{1}, Axis::pipeline);
  last.collective(GroupId{1}, Axis::pipeline, {HandBlock::on(last.compute({HandBlock::on(one)}))});
  program.classes[1].step = {once(last.finish())};
  const Timing t = simulate_times(program, simple_prices(program), false);
  CHECK(t.trace.ranks[0].spans == std::vector<Span>{{0, 10}, {10, 15}, {25, 30}});
  CHECK(t.trace.ranks[1].spans == std::vector<Span>{{10, 15}, {15, 25}, {25, 30}});
}

TEST_CASE("A simulation tells how far it is and stops when told to", "[unit][des]") {
  Program program = test::hand_program(1);
  HandBlock b(program, "work");
  b.compute();
  program.classes[0].step = {{b.finish(), 0, 0, 100'000, 1}};
  const Prices prices = simple_prices(program);

  std::vector<std::uint64_t> seen;
  SimulationProgress progress;
  progress.report = [&](std::uint64_t done, std::uint64_t total) {
    CHECK(total == 100'000);
    seen.push_back(done);
  };
  (void)simulate_times(program, prices, false, {}, {}, progress);
  REQUIRE(seen.size() > 3);
  CHECK(seen.front() == 0);
  CHECK(seen.back() == 100'000);
  CHECK(std::is_sorted(seen.begin(), seen.end()));

  std::atomic<bool> stop{false};
  progress.cancelled = &stop;
  progress.report = [&](std::uint64_t done, std::uint64_t) { stop = done > 20'000; };
  try {
    (void)simulate_times(program, prices, false, {}, {}, progress);
    FAIL("not cancelled");
  } catch (const SimulationCancelled& e) {
    CHECK(e.done > 20'000);
    CHECK(e.done < 100'000);
    CHECK(e.total == 100'000);
    CHECK(e.clock == static_cast<Picoseconds>(10 * (e.done + 1)));  // the op that ends now is not counted yet
  }
}

TEST_CASE("A step of more ops than positions can number is refused", "[unit][des]") {
  Program program = test::hand_program(1);
  HandBlock b(program, "work");
  b.compute();
  b.compute();
  const BlockId block = b.finish();
  // 2^32 + 2 ops: in 32 bits they would be 2.
  program.classes[0].step = {{block, 0, 0, 0x8000'0001U, 1}};
  CHECK_THROWS_WITH((void)simulate_times(program, simple_prices(program), false),
                    "rank 0 has 4294967298 operations in its step, and the simulator numbers at most 4294967294; "
                    "estimate takes such programs");
}

}  // namespace orrery
