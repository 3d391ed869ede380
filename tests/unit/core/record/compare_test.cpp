#include "core/record/compare.hpp"

#include <catch2/catch.hpp>

#include <nlohmann/json.hpp>

#include "tests/support/hand_program.hpp"

namespace orrery {

namespace {

/// The ops compute, all_reduce, compute on two tensor ranks.
Program reduce_program() {
  Program program = test::hand_program(1, 2);
  test::HandBlock b(program, "b");
  const auto first = b.compute({}, KernelKind::gemm);
  const auto reduce = b.collective(GroupId{0}, Axis::tensor, {test::HandBlock::on(first)});
  b.compute({test::HandBlock::on(reduce)}, KernelKind::gemm);
  program.classes[0].step = {{b.finish(), 0, 0, 1, 1}};
  return program;
}

Trace two_ranks(const char* origin, const std::vector<Span>& a, const std::vector<Span>& b) {
  return {origin, true, {{Rank{0}, a, 100, 8}, {Rank{1}, b, 100, 8}}};
}

}  // namespace

// Predicted: gemm 10 and 20, all_reduce 10.  Measured on rank 0: gemm 8 and 20, all_reduce 12; on rank 1 gemm
// 10 and 22, all_reduce 10.  Means: gemm 30 against 30; all_reduce 10 against 11.
// Errors of single gemms: 2/8, 0, 0, 2/22: their upper median is 1/11.
TEST_CASE("Traces are joined op by op", "[unit][record]") {
  const Program program = reduce_program();
  const Trace predicted = two_ranks("simulate", {{0, 10}, {10, 20}, {20, 40}}, {{0, 10}, {10, 20}, {20, 40}});
  const Trace measured = two_ranks("run", {{0, 8}, {8, 20}, {20, 40}}, {{0, 10}, {10, 20}, {20, 42}});
  const Comparison c = compare(predicted, measured, &program);
  CHECK(*c.step_error == Approx(-2.0 / 42));
  CHECK(c.within_tolerance);
  REQUIRE(c.operations.size() == 2);
  CHECK(c.operations[0].name == "gemm");
  CHECK(c.operations[0].predicted.base() == Approx(30e-12));
  CHECK(c.operations[0].measured.base() == Approx(30e-12));
  CHECK(c.operations[0].predicted_count == 2);
  CHECK(*c.operations[0].median_error == Approx(1.0 / 11));
  CHECK(c.operations[1].name == "all_reduce tensor");
  CHECK(*c.operations[1].error == Approx(-1.0 / 11));
  REQUIRE(c.parts.size() == 3);
  CHECK(c.parts[1].name == "waiting for collectives");
  CHECK(c.parts[1].measured.base() == Approx(11e-12));
  REQUIRE(c.ranks.size() == 2);
  CHECK(c.ranks[1].measured_end.base() == Approx(42e-12));
  CHECK(render(c).find("Within tolerance") != std::string::npos);
  CHECK(to_json(c)["within_tolerance"] == true);
}

TEST_CASE("A step that is too far off, or another peak, is out of tolerance", "[unit][record]") {
  const Program program = reduce_program();
  const std::vector<Span> spans = {{0, 10}, {10, 20}, {20, 40}};
  const Trace predicted = two_ranks("simulate", spans, spans);
  Trace slow = two_ranks("run", {{0, 20}, {20, 40}, {40, 60}}, spans);
  CHECK_FALSE(compare(predicted, slow, &program).within_tolerance);  // 40 for 60
  CHECK(compare(predicted, slow, &program, {0.34, 0.0}).within_tolerance);
  Trace fat = predicted;
  fat.ranks[1].peak_bytes = 101;
  CHECK_FALSE(compare(predicted, fat, &program).within_tolerance);
  CHECK(compare(predicted, fat, &program, {0.0, 0.01}).within_tolerance);
  CHECK(compare(predicted, predicted, nullptr).within_tolerance);
}

TEST_CASE("Traces of different programs do not compare", "[unit][record]") {
  const Program program = reduce_program();
  const std::vector<Span> spans = {{0, 10}, {10, 20}, {20, 40}};
  const Trace predicted = two_ranks("simulate", spans, spans);
  const Trace shorter = two_ranks("run", {{0, 10}, {10, 20}}, {{0, 10}, {10, 20}});
  const Comparison c = compare(predicted, shorter, &program);
  CHECK_FALSE(c.within_tolerance);
  REQUIRE(c.mismatches.size() == 2);
  CHECK(c.mismatches[0] == "rank 0 has 3 ops predicted, 2 measured");
  // The two traces agree with each other, but not with the program.
  CHECK_FALSE(compare(shorter, shorter, &program).mismatches.empty());
  Trace elsewhere = predicted;
  elsewhere.ranks[0].rank = Rank{4};
  elsewhere.ranks[1].rank = Rank{5};
  CHECK(compare(predicted, elsewhere, &program).mismatches.size() == 1);
  CHECK_FALSE(compare(predicted, Trace{}, &program).within_tolerance);
}

TEST_CASE("Reports are compared by figure and by name of operation", "[unit][record]") {
  Report a;
  a.origin = "estimate";
  a.gpus = 2;
  a.step_time = Seconds::of(1.1);
  a.compute = Seconds::of(0.9);
  a.operations = {{"gemm", Seconds::of(0.9), 4}, {"exchange", Seconds::of(0.1), 1}};
  Report b = a;
  b.origin = "run threads";
  b.step_time = Seconds::of(1.0);
  b.operations = {{"gemm", Seconds::of(0.6), 4}, {"fill", Seconds::of(0.1), 1}};
  const Comparison c = compare(a, b);
  CHECK(*c.step_error == Approx(0.1));
  CHECK(c.within_tolerance);
  REQUIRE(c.operations.size() == 3);
  CHECK(*c.operations[0].error == Approx(0.5));
  CHECK_FALSE(c.operations[1].error.has_value());  // never measured
  CHECK(c.operations[2].name == "fill");
  CHECK(*c.operations[2].error == Approx(-1.0));
  b.gpus = 4;
  CHECK_FALSE(compare(a, b).within_tolerance);
}

}  // namespace orrery
