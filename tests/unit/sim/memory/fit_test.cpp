#include "sim/memory/fit.hpp"

#include <catch2/catch.hpp>

#include "core/program/lower/lower.hpp"
#include "core/record/tier_memory.hpp"
#include "sim/memory/memory_figures.hpp"
#include "tests/support/random_plan.hpp"

namespace orrery {
namespace {

struct Case {
  PlannedRun run;
  Program program;
};

Case case_of(std::uint64_t seed, const test::RandomRunLimits& limits) {
  Case out{test::random_run(seed, limits), {}};
  out.program = lower(out.run.model, out.run.workload, out.run.plan);
  return out;
}

Case pipeline_case() {
  test::RandomRunLimits limits;
  limits.schedule = ScheduleName::one_f_one_b;
  limits.zero_stage = 0;
  limits.placement = false;
  return case_of(7, limits);
}

Calibration with(const std::optional<ProcessMemory>& outside) {
  Calibration out;
  out.memory = outside;
  return out;
}

PlannedRun on_device(PlannedRun run, Bytes memory) {
  run.cluster.emplace();
  run.cluster->device.memory = memory;
  run.cluster->devices_per_node = static_cast<std::uint32_t>(run.plan.mesh.size());
  return run;
}

Report judged(const Case& c, Bytes device, const std::optional<ProcessMemory>& outside, Bytes headroom = {}) {
  Report report;
  judge_memory(report, on_device(c.run, device), c.program, with(outside), {headroom, false});
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
  CHECK(*report.memory_by_stage[0].process == *report.memory_by_stage[0].reserved + (100 + 10 * groups) * 1024 * 1024);
  CHECK(report.assumptions.size() == 1);
  CHECK_FALSE(judged(c, 10.0 * gibibyte, std::nullopt).peak_memory_process_bytes);
}

TEST_CASE("ranks alone have no communicators", "[unit][memory]") {
  Case c = pipeline_case();
  c.program.mesh.axes.clear();
  CHECK(communicator_count(c.program) == 0);
}

TEST_CASE("a process that does not fit is said not to", "[unit][memory]") {
  const Case c = pipeline_case();
  const ProcessMemory outside{100.0 * mebibyte, {}, {}, "here"};
  CHECK(judged(c, 200.0 * mebibyte, outside).fits);
  CHECK_FALSE(judged(c, 101.0 * mebibyte, outside).fits);  // 1 MiB is left for tensors, and a segment has 2
  CHECK_FALSE(judged(c, 50.0 * mebibyte, outside).fits);   // not even the context
}

TEST_CASE("headroom is kept free to the byte", "[unit][memory]") {
  const Case c = pipeline_case();
  const ProcessMemory outside{100.0 * mebibyte, {}, {}, "here"};
  const auto held = static_cast<double>(*judged(c, 10.0 * gibibyte, outside).peak_memory_process_bytes);
  const Bytes device = 10.0 * gibibyte;
  CHECK(judged(c, device, outside, Bytes::of(device.base() - held)).fits);
  CHECK_FALSE(judged(c, device, outside, Bytes::of(device.base() - held + 1.0)).fits);
}

TEST_CASE("where nothing is known of processes tensors alone must fit, to the byte", "[unit][memory]") {
  const Case c = pipeline_case();
  const Report report = judged(c, 10.0 * gibibyte, std::nullopt);
  std::uint64_t most = 0;
  for (const MemoryFigures& f : memory_figures(c.program)) most = std::max(most, f.live);
  CHECK(judged(c, Bytes::of(static_cast<double>(most)), std::nullopt).fits);
  CHECK_FALSE(judged(c, Bytes::of(static_cast<double>(most - 1)), std::nullopt).fits);
}

// There are two stages on two nodes. The first has room for the fuller stage, and the second only for the other one.
TEST_CASE("each stage is judged by the devices that it is on", "[unit][memory]") {
  test::RandomRunLimits limits;
  limits.schedule = ScheduleName::one_f_one_b;
  limits.placement = false;
  Case c;
  std::vector<MemoryFigures> figures;
  // The first drawn pipeline whose two stages hold unlike bytes.
  for (std::uint64_t seed = 1;; ++seed) {
    REQUIRE(seed < 1000);
    c = case_of(seed, limits);
    figures = memory_figures(c.program);
    if (c.run.plan.mesh.size(Axis::pipeline) == 2 && c.run.plan.mesh.size() == 2 && figures.size() == 2 &&
        figures[0].live != figures[1].live) {
      break;
    }
  }
  const auto live = [&](std::size_t stage) { return Bytes::of(static_cast<double>(figures[stage].live)); };
  PlannedRun run = on_device(c.run, live(0));
  run.cluster->devices_per_node = 1;
  run.cluster->nodes = 2;
  OtherNodes other;
  other.first = 1;
  other.count = 1;
  other.device = run.cluster->device;
  other.device.memory = live(1);
  run.cluster->other_nodes = {other};
  CHECK(fits_memory(run, c.program, {}));
  Report report;
  judge_memory(report, run, c.program, {});
  CHECK(report.memory_by_stage[0].capacity == figures[0].live);
  CHECK(report.memory_by_stage[1].capacity == figures[1].live);
  // The other way round the fuller one is on the smaller device.
  run.plan.placement = {1, 0};
  CHECK_FALSE(fits_memory(run, c.program, {}));
  const MemoryVerdict verdict = memory_verdict(run, c.program, {});
  const std::size_t fuller = figures[0].live > figures[1].live ? 0 : 1;
  CHECK(verdict.where == MemoryVerdict::Where::device);
  CHECK(verdict.stage == fuller);
  CHECK(verdict.need == figures[fuller].live);
  CHECK(verdict.room == figures[1 - fuller].live);
}

TEST_CASE("what is offloaded must fit in its host, to the byte", "[unit][memory]") {
  Case c;
  std::uint64_t in_host = 0;
  for (std::uint64_t seed = 1; in_host == 0; ++seed) {
    REQUIRE(seed < 1000);
    c = case_of(seed, {});
    Report report;
    add_tier_memory(report, on_device(c.run, 10.0 * gibibyte), c.program);
    in_host = report.peak_host_memory_bytes.value_or(0);
  }
  PlannedRun run = on_device(c.run, 10.0 * gibibyte);
  run.cluster->host_memory = Bytes::of(static_cast<double>(in_host));
  CHECK(fits_memory(run, c.program, {}));
  run.cluster->host_memory = Bytes::of(static_cast<double>(in_host - 1));
  const MemoryVerdict verdict = memory_verdict(run, c.program, {});
  CHECK_FALSE(verdict.fits);
  CHECK(verdict.where == MemoryVerdict::Where::host);
  CHECK(verdict.need == in_host);
  CHECK(text_of(verdict).find(" of a host") != std::string::npos);
}

TEST_CASE("the quick answer is that of the full judgement", "[unit][memory]") {
  const ProcessMemory outside{3.0 * mebibyte, 0.25 * mebibyte, 0.5 * mebibyte, "here"};
  std::size_t fitting = 0, not_fitting = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const Case c = case_of(seed, {});
    for (const double mebibytes : {3.5, 5.0, 5.8, 7.0, 24.0, 40.0}) {
      const PlannedRun run = on_device(c.run, mebibytes * mebibyte);
      Report report;
      const MemoryRules rules{0.1 * mebibyte, seed % 2 == 0};
      judge_memory(report, run, c.program, with(outside), rules);
      CAPTURE(seed, mebibytes);
      CHECK(fits_memory(run, c.program, with(outside), rules) == report.fits);
      CHECK(stages_that_do_not_fit(run, c.program, with(outside), rules).empty() == report.fits);
      ++(report.fits ? fitting : not_fitting);
    }
  }
  CHECK(fitting > 30);
  CHECK(not_fitting > 30);
}

// 1000 MiB less 100 of context, 1 of workspace and 50 of headroom.
TEST_CASE("tensors have what context, workspace and headroom leave", "[unit][memory]") {
  ClusterSpec cluster;
  cluster.device.memory = 1000.0 * mebibyte;
  const Calibration c = with(ProcessMemory{100.0 * mebibyte, 10.0 * mebibyte, 1.0 * mebibyte, "here"});
  CHECK(most_for_tensors(cluster, c, 50.0 * mebibyte) == 849.0 * mebibyte);
  CHECK(safe_for_tensors(cluster, c, 50.0 * mebibyte).base() == Approx((0.8 * 769.0 * mebibyte).base()));
  CHECK(most_for_tensors(cluster, with(std::nullopt), {}) == 1000.0 * mebibyte);
  CHECK(safe_for_tensors(cluster, with(std::nullopt), {}) == 1000.0 * mebibyte);
  CHECK(default_headroom(cluster, with(std::nullopt)) == Bytes{});
}

}  // namespace orrery
