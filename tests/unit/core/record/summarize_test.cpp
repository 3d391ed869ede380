#include "core/record/summarize.hpp"

#include <catch2/catch.hpp>

#include <map>

#include "tests/support/hand_program.hpp"

namespace orrery {

namespace {

constexpr Lane receive_lane{LaneKind::transfer, static_cast<std::uint8_t>(TransferLane::forward_receive)};

RankTrace trace_of(std::vector<Span> spans) { return {Rank{0}, std::move(spans), 0, 0}; }

}  // namespace

// compute |0 10|              |30 40|
// tensor        |12      30|                ready at 10: 2 waiting for members and 18 moving, all exposed
TEST_CASE("A gap behind a collective is exposed from when the rank was ready for it", "[unit][record]") {
  Program program = test::hand_program(1, 2);
  test::HandBlock b(program, "b");
  const auto first = b.compute();
  const auto reduce = b.collective(GroupId{0}, Axis::tensor, {test::HandBlock::on(first)});
  b.compute({test::HandBlock::on(reduce)});
  program.classes[0].step = {{b.finish(), 0, 0, 1, 1}};
  const RankTimes t = account(program, trace_of({{0, 10}, {12, 30}, {30, 40}}), true);
  CHECK(t.end == 40);
  CHECK(t.busy == 20);
  CHECK(t.exposed == 20);
  CHECK(t.collectives == 20);
  CHECK(t.time[index(operation_of(program, program.blocks[0], program.blocks[0].ops[1]))] == 18);
}

// compute |0 10|              |50 60|       gap 10..50
// receive           |30    50|              all of it is bubble, and 30..50 exposed as well
TEST_CASE("Of a gap behind a message only the time it moved is exposed, and all is bubble", "[unit][record]") {
  Program program = test::hand_program(2);
  test::HandBlock b(program, "b");
  b.compute();
  const auto message = b.exchange(GroupId{1}, TransferLane::forward_receive, {{false, 1}}, BufferId{0});
  b.compute({test::HandBlock::on(message)});
  program.classes[0].step = {{b.finish(), 0, 0, 1, 1}};
  const RankTimes t = account(program, trace_of({{0, 10}, {30, 50}, {50, 60}}), true);
  CHECK(t.exposed == 20);
  CHECK(t.collectives == 0);
  // The message has moved since before the gap began, so the whole gap counts.
  CHECK(account(program, trace_of({{0, 10}, {5, 50}, {50, 60}}), true).exposed == 40);
}

// compute |0 10|                        |70 80|
// receive            |30   50|
// tensor                      |50     70|     ready at 50, when the message had come
// The message and the collective follow each other without a pause: 30..70 is exposed, 10..30 is not.
// Waiting for the collective began when the message had come: 50..70; the rest of the gap is bubble.
TEST_CASE("Communication that makes communication ready counts from where it began", "[unit][record]") {
  Program program = test::hand_program(2, 2);
  test::HandBlock b(program, "b");
  b.compute();
  b.exchange(GroupId{1}, TransferLane::forward_receive, {{false, 1}}, BufferId{0});
  const BlockId receive = b.finish();
  test::HandBlock c(program, "c");
  const auto gather = c.collective(
      GroupId{0}, Axis::tensor, {test::HandBlock::tail({LaneKind::compute, 0}), test::HandBlock::tail(receive_lane)});
  c.compute({test::HandBlock::on(gather)});
  program.classes[0].step = {{receive, 0, 0, 1, 1}, {c.finish(), 0, 0, 1, 1}};
  const RankTimes t = account(program, trace_of({{0, 10}, {30, 50}, {50, 70}, {70, 80}}), true);
  CHECK(t.exposed == 40);
  CHECK(t.collectives == 20);
  // The parts one by one: 10..30 is bubble, 30..50 the message, 50..70 the collective.
  std::vector<IdlePart> parts;
  static_cast<void>(account(program, trace_of({{0, 10}, {30, 50}, {50, 70}, {70, 80}}), true,
                            [&](const IdlePart& part) { parts.push_back(part); }));
  REQUIRE(parts.size() == 3);
  CHECK(parts[0].cause == IdlePart::Cause::bubble);
  CHECK(parts[0].span == Span{10, 30});
  CHECK(parts[1].cause == IdlePart::Cause::message);
  CHECK(parts[1].span == Span{30, 50});
  CHECK(parts[2].cause == IdlePart::Cause::collective);
  CHECK(parts[2].span == Span{50, 70});
  CHECK(parts[2].operation == operation_of(program, program.blocks[1], program.blocks[1].ops[0]));
}

// compute |0 10|              |30 40|
// receive       |12         30|
// tensor          |15       30|      ready at 10; the other member came at 15
// Both end at 30: 12..30 is communication, and 10..30 (the collective was ready at 10) is waiting for a collective.
TEST_CASE("Of communication that ends at one instant the longest counts, for collectives the longest collective",
          "[unit][record]") {
  Program program = test::hand_program(2, 2);
  test::HandBlock b(program, "b");
  const auto first = b.compute();
  const auto message = b.exchange(GroupId{1}, TransferLane::forward_receive, {{false, 1}}, BufferId{0});
  const auto reduce = b.collective(GroupId{0}, Axis::tensor, {test::HandBlock::on(first)});
  b.compute({test::HandBlock::on(message), test::HandBlock::on(reduce)});
  program.classes[0].step = {{b.finish(), 0, 0, 1, 1}};
  RankTimes t = account(program, trace_of({{0, 10}, {12, 30}, {15, 30}, {30, 40}}), true);
  CHECK(t.exposed == 20);
  CHECK(t.collectives == 20);
  // The message moves since before the gap and ends later, so the collective does not end the gap.
  t = account(program, trace_of({{0, 10}, {12, 31}, {15, 30}, {31, 40}}), true);
  CHECK(t.exposed == 19);
  CHECK(t.collectives == 0);
}

// compute |0 10|
// tensor         |10    35|                  nothing computes after it, the rank's step ends with it
TEST_CASE("Communication behind the last compute op is exposed", "[unit][record]") {
  Program program = test::hand_program(1, 2);
  test::HandBlock b(program, "b");
  const auto first = b.compute();
  b.collective(GroupId{0}, Axis::tensor, {test::HandBlock::on(first)});
  program.classes[0].step = {{b.finish(), 0, 0, 1, 1}};
  CHECK(account(program, trace_of({{0, 10}, {10, 35}}), true).exposed == 25);
}

// One op at a time: compute 0..10, collective ready at 10 and moving 14..20, message ready at 20 and moving 25..30.
// Collective: wait and duration, 10. Message: duration, 5, exposed; it and its wait, 10, are bubble.
TEST_CASE("On a serial device waiting for a collective is exposed, waiting for a message is bubble", "[unit][record]") {
  Program program = test::hand_program(2, 2);
  test::HandBlock b(program, "b");
  b.compute();
  b.collective(GroupId{0}, Axis::tensor);
  b.exchange(GroupId{1}, TransferLane::forward_send, {{true, 1}}, BufferId{0});
  program.classes[0].step = {{b.finish(), 0, 0, 1, 1}};
  const RankTimes t = account(program, trace_of({{0, 10}, {14, 20}, {25, 30}}), false);
  CHECK(t.busy == 10);
  CHECK(t.exposed == 15);
  CHECK(t.collectives == 10);
  CHECK(t.end == 30);
}

// Two stages: stage 0 computes 0..10, stage 1 computes 20..50.  Step 50 ps; busy 10 and 30, idle 40 and 20.
TEST_CASE("A report's parts are means over ranks and fill the step", "[unit][record]") {
  Program program = test::hand_program(2);
  test::HandBlock b(program, "b");
  b.compute({}, KernelKind::gemm);
  const BlockId block = b.finish();
  program.classes[0].step = program.classes[1].step = {{block, 0, 0, 1, 1}};
  Trace trace;
  trace.origin = "test";
  trace.ranks = {{Rank{0}, {{0, 10}}, 7, 0}, {Rank{1}, {{20, 50}}, 9, 0}};
  PlannedRun run;
  const Report r = summarize(run, program, trace, true);
  CHECK(r.origin == "test");
  CHECK(r.step_time.base() == Approx(50e-12));
  CHECK(r.compute.base() == Approx(20e-12));
  CHECK(r.exposed_communication.base() == 0.0);
  CHECK(r.bubble_fraction == Approx(0.6));  // (40 + 20) / 2 of 50
  CHECK(r.peak_memory_bytes == 9);
  REQUIRE(r.time_by_stage.size() == 2);
  CHECK(r.time_by_stage[1].bubble.base() == Approx(20e-12));
  REQUIRE(r.operations.size() == 1);
  CHECK(r.operations[0].name == "gemm");
  CHECK(r.operations[0].count == 1);
}

}  // namespace orrery
