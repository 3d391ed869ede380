#include <benchmark/benchmark.h>

#include <cstdlib>
#include <iostream>

#include "core/base/toml_reader.hpp"
#include "core/program/lower/lower.hpp"
#include "core/record/report_file.hpp"
#include "framework/framework.hpp"
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

/// A pretraining script of the usual length: Llama-3-70B on 64 GPUs, tensor 8 x pipeline 4.
const std::string script = ORRERY_SOURCE_DIR "/tests/perf/launch/train.sh";

/// The script as a plan, with a Hugging Face config.json as its model.
PlannedRun launched(const Library& library) {
  Diagnostics wrong;
  const std::optional<std::string> text = read_text(script, wrong);
  if (!text) give_up(wrong);
  LaunchInputs options;
  options.model = ORRERY_SOURCE_DIR "/models/hf/llama-3-70b/config.json";
  options.cluster = "dgx-h100";
  std::optional<LaunchedRun> out = read_launch(*text, script, "auto", options, library, wrong);
  if (!out) give_up(wrong);
  return std::move(out->run);
}

CalibrationChoice calibration_of(const Library& library, const PlannedRun& run) {
  Diagnostics wrong;
  std::optional<CalibrationChoice> out =
      choose_calibration({{}, "megatron-core", {}}, library, *run.cluster, run.workload.precision, wrong);
  if (!out) give_up(wrong);
  return std::move(*out);
}

void script_to_plan(benchmark::State& state) {
  const Library library(ORRERY_SOURCE_DIR "/models");
  for (auto _ : state) benchmark::DoNotOptimize(launched(library));
}
BENCHMARK(script_to_plan)->Unit(benchmark::kMillisecond);

// What a person asks of a script: `orrery estimate` of it, and `orrery plan --for megatron-core` for its model, batch
// and GPUs. All but starting and printing is here.
void script_to_estimate_and_best(benchmark::State& state) {
  for (auto _ : state) {
    const Library library(ORRERY_SOURCE_DIR "/models");
    PlannedRun run = launched(library);
    const CalibrationChoice choice = calibration_of(library, run);
    const Calibration& calibration = choice.calibration;
    run.plan = resolve(run.plan, run.model, run.workload, *run.cluster, calibration).plan;
    const Program program = lower(run.model, run.workload, run.plan);
    const CostModel costs(*run.cluster, calibration, run.plan.mesh);
    Report report = estimate(run, program, costs);
    judge_memory(report, run, program, calibration);
    benchmark::DoNotOptimize(write_report(report));
    SearchOptions options;
    options.limits = abilities_of(*framework_named("megatron-core"));
    options.top = 3;
    options.simulate = false;
    const SearchResult best = search(run.model, run.workload, *run.cluster, calibration, options);
    if (best.plans.empty()) state.SkipWithError("no plan fits");
    state.counters["gain"] = report.step_time / best.plans.front().report.step_time;
  }
}
BENCHMARK(script_to_estimate_and_best)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
