#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <cstdlib>
#include <iostream>

#include "core/program/lower/lower.hpp"
#include "core/record/calibration_file.hpp"
#include "core/spec/library.hpp"
#include "planner/search.hpp"
#include "sim/bound/bound.hpp"
#include "sim/estimate/estimate.hpp"

using namespace orrery;

namespace {

/// Llama-3-405B on 16,384 H100: the case of the speed goals.
struct Case {
  ModelSpec model;
  Workload workload;
  ClusterSpec cluster;
  Calibration calibration;
  Space space;

  Case() {
    Diagnostics wrong;
    const Library library(ORRERY_SOURCE_DIR "/models");
    const auto m = library.model("llama-3-405b", {}, wrong);
    const auto c = library.cluster("dgx-h100", {}, 16384, wrong);
    const auto k = c ? read_calibration(library.calibration(c->device.calibration), wrong) : std::nullopt;
    if (!m || !c || !k) {
      std::cerr << render(wrong);
      std::exit(2);
    }
    model = *m;
    cluster = *c;
    calibration = *k;
    workload.global_batch = 2048;
    workload.sequence_length = 8192;
    workload.clip_norm = 1.0;
    space = make_space(model, workload, cluster, basic_limits());
  }
};

const Case& llama() {
  static const Case c;
  return c;
}

// Every plan of the space once: memory, and time where it fits.
void plans_bounded(benchmark::State& state) {
  const Case& c = llama();
  for (auto _ : state) {
    Bounder bounder(c.model, c.workload, c.cluster, c.calibration);
    for (std::uint64_t i = 0; i < c.space.count; ++i) {
      const Plan plan = plan_at(c.space, i);
      benchmark::DoNotOptimize(bounder.peak_memory(plan));
      benchmark::DoNotOptimize(bounder.step_time(plan));
    }
  }
  state.counters["plans/s"] =
      benchmark::Counter(static_cast<double>(c.space.count), benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(plans_bounded)->Unit(benchmark::kMillisecond);

// Lowered and estimated with the full breakdown: the best plan and its neighbours in the search.
void plans_estimated(benchmark::State& state) {
  const Case& c = llama();
  SearchOptions options;
  options.top = 16;
  options.simulate = false;
  const SearchResult best = search(c.space, c.model, c.workload, c.cluster, c.calibration, options);
  Estimator estimator;
  std::uint64_t done = 0;
  for (auto _ : state) {
    const Plan& plan = best.plans[done++ % best.plans.size()].plan;
    const Program program = lower(c.model, c.workload, plan);
    const CostModel costs(c.cluster, c.calibration, plan.mesh);
    benchmark::DoNotOptimize(estimator.estimate({c.model, c.workload, c.cluster, plan, {}, {}}, program, costs));
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(done));
}
BENCHMARK(plans_estimated)->Unit(benchmark::kMicrosecond);

void plans_lowered(benchmark::State& state) {
  const Case& c = llama();
  SearchOptions options;
  options.top = 1;
  options.simulate = false;
  const Plan plan = search(c.space, c.model, c.workload, c.cluster, c.calibration, options).plans.front().plan;
  for (auto _ : state) benchmark::DoNotOptimize(lower(c.model, c.workload, plan));
}
BENCHMARK(plans_lowered)->Unit(benchmark::kMicrosecond);

void whole_search(benchmark::State& state) {
  const Case& c = llama();
  SearchOptions options;
  options.simulate = state.range(0) != 0;
  for (auto _ : state) {
    const Space space = make_space(c.model, c.workload, c.cluster, basic_limits());
    benchmark::DoNotOptimize(search(space, c.model, c.workload, c.cluster, c.calibration, options));
  }
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  // Of the process so far: every benchmark before this one included.
  state.counters["peak_bytes"] = static_cast<double>(used.ru_maxrss) * 1024.0;
  state.SetLabel(options.simulate ? "with the best 5 simulated" : "estimates only");
}
BENCHMARK(whole_search)->DenseRange(0, 1)->Unit(benchmark::kMillisecond)->UseRealTime();

// The search of every dimension, space and certificate included.
void every_dimension(benchmark::State& state) {
  const Case& c = llama();
  SearchOptions options;
  options.simulate = false;
  SearchResult found;
  for (auto _ : state) {
    const Space space = make_space(c.model, c.workload, c.cluster);
    found = search(space, c.model, c.workload, c.cluster, c.calibration, options);
  }
  if (!found.certified) state.SkipWithError("no certificate");
  state.counters["plans"] = static_cast<double>(found.space);
  state.counters["evaluated"] = static_cast<double>(found.evaluated);
}
BENCHMARK(every_dimension)->Unit(benchmark::kMillisecond)->UseRealTime();

// How many plans every dimension makes, and how long it takes to know.
void whole_space(benchmark::State& state) {
  const Case& c = llama();
  std::uint64_t plans = 0;
  for (auto _ : state) plans = make_space(c.model, c.workload, c.cluster).count;
  state.counters["plans"] = static_cast<double>(plans);
}
BENCHMARK(whole_space)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
