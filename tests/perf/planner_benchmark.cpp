#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <random>
#include <vector>

#include "core/program/lower/lower.hpp"
#include "core/record/calibration_file.hpp"
#include "core/spec/library.hpp"
#include "planner/search.hpp"
#include "sim/bound/bound.hpp"
#include "sim/estimate/estimate.hpp"

using namespace orrery;

namespace {

struct Case {
  ModelSpec model;
  Workload workload;
  ClusterSpec cluster;
  Calibration calibration;

  Case(const char* name, std::uint32_t devices, std::uint64_t batch) {
    Diagnostics wrong;
    const Library library(ORRERY_SOURCE_DIR "/models");
    const auto m = library.model(name, {}, wrong);
    const auto c = library.cluster("dgx-h100", {}, devices, wrong);
    const auto k = c ? read_calibration(library.calibration(c->device.calibration), wrong) : std::nullopt;
    if (!m || !c || !k) {
      std::cerr << render(wrong);
      std::exit(2);
    }
    model = *m;
    cluster = *c;
    calibration = *k;
    workload.global_batch = batch;
    workload.sequence_length = 8192;
    workload.clip_norm = 1.0;
  }
};

/// Llama-3-405B on 16,384 H100: the case of the speed goals.
const Case& llama() {
  static const Case c("llama-3-405b", 16384, 2048);
  return c;
}
const Space& basic_space() {
  static const Space space = make_space(llama().model, llama().workload, llama().cluster, basic_limits());
  return space;
}

// Every plan of the space once: memory, and time where it fits.
void plans_bounded(benchmark::State& state) {
  const Case& c = llama();
  for (auto _ : state) {
    Bounder bounder(c.model, c.workload, c.cluster, c.calibration);
    for (std::uint64_t i = 0; i < basic_space().count; ++i) {
      const Plan plan = plan_at(basic_space(), i);
      benchmark::DoNotOptimize(bounder.peak_memory(plan));
      benchmark::DoNotOptimize(bounder.step_time(plan));
    }
  }
  state.counters["plans/s"] =
      benchmark::Counter(static_cast<double>(basic_space().count), benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(plans_bounded)->Unit(benchmark::kMillisecond);

/// Plans of every dimension, drawn evenly.  What a search finds by memory is given: no layer is recomputed, and an
/// eighth of those that may keep activations in host memory does.
std::vector<Plan> random_plans(const Case& c, std::size_t count) {
  const Space space = make_space(c.model, c.workload, c.cluster);
  std::mt19937_64 engine(1);
  std::vector<Plan> plans;
  while (plans.size() < count) {
    Plan plan = plan_at(space, engine() % space.count);
    if (plan.recompute_layers) std::fill(plan.recompute_layers->begin(), plan.recompute_layers->end(), 0U);
    if (!plan.offload_activations) plan.offload_activations = 1;
    plans.push_back(std::move(plan));
  }
  return plans;
}

// What a search pays for a plan whose choices it has not met before, on the scale of most users.
void plans_lowered_and_estimated(benchmark::State& state) {
  const Case c("llama-3-70b", 64, 128);
  const std::vector<Plan> plans = random_plans(c, 300);
  const CostModel costs(c.cluster, c.calibration, plans.front().mesh);
  Estimator estimator;
  for (auto _ : state) {
    for (const Plan& plan : plans) {
      const Program program = lower(c.model, c.workload, plan);
      benchmark::DoNotOptimize(estimator.step_time(program, CostModel(costs, plan.mesh)));
    }
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(plans.size()));
}
BENCHMARK(plans_lowered_and_estimated)->Unit(benchmark::kMillisecond);

// Lowered and estimated with the full breakdown: the best plan and its neighbours in the search.
void plans_estimated(benchmark::State& state) {
  const Case& c = llama();
  SearchOptions options;
  options.top = 16;
  options.simulate = false;
  const SearchResult best = search(basic_space(), c.model, c.workload, c.cluster, c.calibration, options);
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
  const Plan plan = search(basic_space(), c.model, c.workload, c.cluster, c.calibration, options).plans.front().plan;
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
