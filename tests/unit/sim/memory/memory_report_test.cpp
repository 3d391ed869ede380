#include "sim/memory/memory_report.hpp"

#include <catch2/catch.hpp>

#include "core/program/lower/lower.hpp"
#include "tests/support/random_plan.hpp"

namespace orrery {
namespace {

struct Case {
  PlannedRun run;
  Program program;
};

Case pipeline_case() {
  test::RandomRunLimits limits;
  limits.schedule = ScheduleName::one_f_one_b;
  limits.zero_stage = 0;
  Case out{test::random_run(7, limits), {}};
  out.program = lower(out.run.model, out.run.workload, out.run.plan);
  return out;
}

Report judged(const Case& c, Bytes device, const std::optional<ProcessMemory>& outside, bool expandable = false) {
  Case on = c;
  on.run.cluster.emplace();
  on.run.cluster->device.memory = device;
  Report report;
  report.memory_by_stage.resize(c.program.classes.size());
  add_process_memory(report, on.run, on.program, outside, expandable);
  return report;
}

}  // namespace

TEST_CASE("a process holds what is reserved, its context and its communicators", "[unit][memory]") {
  const Case c = pipeline_case();
  const ProcessMemory outside{100.0 * mebibyte, 10.0 * mebibyte, 1.0 * mebibyte, "here"};
  const Report report = judged(c, 10.0 * gibibyte, outside);
  const std::uint64_t groups = communicator_count(c.program);
  REQUIRE(report.peak_memory_reserved_bytes);
  REQUIRE(report.peak_memory_process_bytes);
  CHECK(*report.peak_memory_process_bytes == *report.peak_memory_reserved_bytes + (100 + 10 * groups) * 1024 * 1024);
  CHECK(report.fits);
  REQUIRE(report.memory_by_stage[0].reserved);
  CHECK(*report.memory_by_stage[0].reserved <= *report.peak_memory_reserved_bytes);
  CHECK(report.assumptions.size() == 1);
  CHECK_FALSE(judged(c, 10.0 * gibibyte, std::nullopt).peak_memory_process_bytes);
}

TEST_CASE("a process that does not fit is said not to", "[unit][memory]") {
  const Case c = pipeline_case();
  const ProcessMemory outside{100.0 * mebibyte, {}, {}, "here"};
  CHECK(judged(c, 200.0 * mebibyte, outside).fits);
  CHECK_FALSE(judged(c, 101.0 * mebibyte, outside).fits);  // tensors are left 1 MiB, and a segment has 2
  CHECK_FALSE(judged(c, 50.0 * mebibyte, outside).fits);   // not even the context
}

// 100 + 1 + 4 x 10 MiB and a twentieth of 2000 MiB.
TEST_CASE("a margin holds context, workspace, four communicators and a twentieth", "[unit][memory]") {
  const ProcessMemory outside{100.0 * mebibyte, 10.0 * mebibyte, 1.0 * mebibyte, "here"};
  CHECK(memory_margin(2000.0 * mebibyte, outside) == 241.0 * mebibyte);
  CHECK(memory_margin(100.0 * mebibyte, outside) == 50.0 * mebibyte);
  CHECK(memory_margin(2000.0 * mebibyte, std::nullopt) == Bytes{});
}

TEST_CASE("ranks alone have no communicators", "[unit][memory]") {
  Case c = pipeline_case();
  c.program.mesh.axes.clear();
  CHECK(communicator_count(c.program) == 0);
}

}  // namespace orrery
