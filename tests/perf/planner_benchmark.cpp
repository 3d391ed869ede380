#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <cstdlib>
#include <iostream>
#include <random>
#include <vector>

#include "core/program/lower/lower.hpp"
#include "core/record/calibration_file.hpp"
#include "core/spec/library.hpp"
#include "planner/complete.hpp"
#include "planner/neighbours.hpp"
#include "planner/search.hpp"
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
SearchOptions basic_options(std::uint32_t top) {
  SearchOptions options;
  options.limits = plainest_limits();
  options.top = top;
  options.simulate = false;
  return options;
}

/// Plans of every dimension: a walk from one neighbour to another.
std::vector<Plan> random_plans(const Case& c, std::size_t count) {
  PlannedRun run{c.model, c.workload, c.cluster, {}, {}, {}};
  run.plan.mesh.axes = {{Axis::pipeline, 4}, {Axis::data, 4}, {Axis::tensor, 4}};
  complete(run.plan, c.model, c.workload);
  std::mt19937_64 engine(1);
  std::vector<Plan> plans;
  while (plans.size() < count) {
    constexpr Reach reaches[] = {Reach::plan, Reach::plan, Reach::mesh};
    const std::vector<Neighbour> list = neighbours(run, reaches[engine() % std::size(reaches)]);
    run.plan = list[engine() % list.size()].plan;
    complete(run.plan, c.model, c.workload);
    plans.push_back(run.plan);
  }
  return plans;
}

// The cost of a plan whose choices the search has not met before, on the scale of most users.
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

// Lowering and estimating with the full breakdown, as for the best plans of a search.
void plans_estimated(benchmark::State& state) {
  const Case& c = llama();
  const SearchResult best = search(c.model, c.workload, c.cluster, c.calibration, basic_options(16));
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
  const Plan plan = search(c.model, c.workload, c.cluster, c.calibration, basic_options(1)).plans.front().plan;
  for (auto _ : state) benchmark::DoNotOptimize(lower(c.model, c.workload, plan));
}
BENCHMARK(plans_lowered)->Unit(benchmark::kMicrosecond);

void whole_search(benchmark::State& state) {
  const Case& c = llama();
  SearchOptions options = basic_options(5);
  options.simulate = state.range(0) != 0;
  for (auto _ : state) benchmark::DoNotOptimize(search(c.model, c.workload, c.cluster, c.calibration, options));
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  // The peak is that of the process so far, with every earlier benchmark.
  state.counters["peak_bytes"] = static_cast<double>(used.ru_maxrss) * 1024.0;
  state.SetLabel(options.simulate ? "with the best 5 simulated" : "estimates only");
}
BENCHMARK(whole_search)->DenseRange(0, 1)->Unit(benchmark::kMillisecond)->UseRealTime();

/// The search of every dimension.
void search_all(benchmark::State& state, const Case& c) {
  SearchOptions options;
  options.simulate = false;
  SearchResult found;
  for (auto _ : state) found = search(c.model, c.workload, c.cluster, c.calibration, options);
  if (found.plans.empty()) state.SkipWithError("no plan fits");
  state.counters["coarse plans"] = static_cast<double>(found.shapes);
  state.counters["estimated"] = static_cast<double>(found.estimated);
}
void every_dimension(benchmark::State& state) { search_all(state, llama()); }
BENCHMARK(every_dimension)->Unit(benchmark::kMillisecond)->UseRealTime();
void every_dimension_dense_64(benchmark::State& state) { search_all(state, Case("llama-3-70b", 64, 128)); }
BENCHMARK(every_dimension_dense_64)->Unit(benchmark::kMillisecond)->UseRealTime();
void every_dimension_mixture_64(benchmark::State& state) { search_all(state, Case("mixtral-8x7b", 64, 128)); }
BENCHMARK(every_dimension_mixture_64)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
