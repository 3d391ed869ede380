#include <benchmark/benchmark.h>

#include <cstdlib>
#include <iostream>

#include "core/plan/plan_file.hpp"
#include "core/program/lower/lower.hpp"
#include "core/record/report_file.hpp"
#include "core/spec/library.hpp"
#include "planner/resolve.hpp"
#include "planner/search.hpp"
#include "sim/estimate/estimate.hpp"
#include "sim/memory/fit.hpp"
#include "validate/calibration_choice.hpp"

using namespace orrery;

namespace {

[[noreturn]] void give_up(const Diagnostics& wrong) {
  std::cerr << render(wrong);
  std::exit(2);
}

/// A plan with everything that `orrery estimate` uses.
struct Case {
  PlannedRun run;
  CalibrationChoice calibration;
  Program program;
};

Case read_case(const std::filesystem::path& plan) {
  Diagnostics wrong;
  const Library library(ORRERY_SOURCE_DIR "/models");
  std::optional<PlannedRun> run = read_plan_file(plan, library, std::nullopt, wrong);
  if (!run || !run->cluster) give_up(wrong);
  std::optional<CalibrationChoice> calibration =
      choose_calibration({{}, "auto", {}}, library, *run->cluster, run->workload.precision, wrong);
  if (!calibration) give_up(wrong);
  run->plan = resolve(run->plan, run->model, run->workload, *run->cluster, calibration->calibration).plan;
  Case out{std::move(*run), std::move(*calibration), {}};
  out.program = lower(out.run.model, out.run.workload, out.run.plan);
  return out;
}

Report judged(const Case& c) {
  const CostModel costs(*c.run.cluster, c.calibration.calibration, c.run.plan.mesh, c.run.plan.placement,
                        c.run.plan.collective_algorithm);
  Report report = estimate(c.run, c.program, costs);
  judge_memory(report, c.run, c.program, c.calibration.calibration);
  return report;
}

/// GPT-3 175B on 128 A100: 16 stages, 384 microbatches.
const std::filesystem::path gpt3 = ORRERY_SOURCE_DIR "/tests/perf/gpt3-175b-128-a100.toml";

// Everything that `orrery estimate` does except starting and printing: it reads files, lowers and prices the plan, and
// plays its processes' memory.
void whole_estimate(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(write_report(judged(read_case(gpt3))));
}
BENCHMARK(whole_estimate)->Unit(benchmark::kMillisecond);

// The memory of processes, for a lowered plan: the same one, and the shipped ones with most stages and layers.
void process_memory(benchmark::State& state) {
  const std::filesystem::path plans[] = {gpt3, ORRERY_SOURCE_DIR "/models/plan/llama-3-405b-16384-h100.toml",
                                         ORRERY_SOURCE_DIR "/models/plan/llama-3-70b-8-dgx-h100.toml"};
  const Case c = read_case(plans[state.range(0)]);
  for (auto _ : state) {
    Report report;
    judge_memory(report, c.run, c.program, c.calibration.calibration);
    benchmark::DoNotOptimize(report);
  }
  state.SetLabel(c.run.plan.name);
}
BENCHMARK(process_memory)->DenseRange(0, 2)->Unit(benchmark::kMillisecond);

// The default work of `orrery plan` for Llama-3-405B on 16,384 H100: with the costs of training software and headroom
// of memory. Possible results are judged by their processes' memory.
void default_search(benchmark::State& state) {
  Diagnostics wrong;
  const Library library(ORRERY_SOURCE_DIR "/models");
  const auto model = library.model("llama-3-405b", {}, wrong);
  const auto whole = library.cluster("dgx-h100", {}, 16384, wrong);
  if (!model || !whole) give_up(wrong);
  Workload workload;
  workload.precision = Precision::bf16;
  workload.global_batch = static_cast<std::uint64_t>(state.range(0));
  workload.sequence_length = 8192;
  workload.clip_norm = 1.0;
  const auto choice = choose_calibration({{}, "auto", {}}, library, *whole, workload.precision, wrong);
  if (!choice) give_up(wrong);
  const Calibration& calibration = choice->calibration;
  SearchOptions options;
  options.limits = plainest_limits();
  options.top = 3;
  options.simulate = false;
  for (auto _ : state) benchmark::DoNotOptimize(search(*model, workload, *whole, calibration, options));
}
BENCHMARK(default_search)->Arg(2048)->Arg(16384)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
