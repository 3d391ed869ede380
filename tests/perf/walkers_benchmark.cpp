#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include "core/program/lower/lower.hpp"
#include "sim/des/simulate.hpp"
#include "sim/estimate/compiled_program.hpp"
#include "sim/estimate/estimate.hpp"
#include "sim/estimate/walk.hpp"
#include "tests/perf/llama_step.hpp"
#include "tests/support/tiny_model.hpp"

namespace orrery {
namespace {

ModelSpec llama(std::uint64_t layers, std::uint64_t hidden, std::uint64_t heads, std::uint64_t ffn) {
  return test::tiny_llama({.layers = layers,
                           .hidden = hidden,
                           .heads = heads,
                           .kv_heads = 8,
                           .ffn = ffn,
                           .vocabulary = 128256,
                           .positions = 8192,
                           .tied = false});
}

ClusterSpec nodes_of_eight(std::uint32_t nodes) {
  ClusterSpec c;
  c.name = "nodes";
  c.device.name = "gpu";
  c.device.peak = {{Precision::bf16, 989.0 * teraflop_per_second}, {Precision::fp32, 67.0 * teraflop_per_second}};
  c.device.memory = 80.0 * gibibyte;
  c.device.memory_bandwidth = 3350.0 * gigabyte_per_second;
  c.nodes = nodes;
  c.devices_per_node = 8;
  c.levels = {{"inside", 8, 450.0 * gigabyte_per_second, 2.0 * microsecond},
              {"between", nodes, 50.0 * gigabyte_per_second, 5.0 * microsecond}};
  return c;
}

struct Case {
  PlannedRun run;
  Program program;
  CostModel costs;
};

/// 0: 70B on 64 devices, tensor 8, pipeline 4, 64 microbatches.
/// 1: 70B on 64 devices, tensor 8, data 8, 16 microbatches.
/// 2: 405B on 16,384 devices, tensor 8, pipeline 16, 16 microbatches.
/// 3: 175B-like on 128 devices, tensor 8, pipeline 8, 32 microbatches.
Case make(std::int64_t number) {
  PlannedRun run;
  const auto set = [&](ModelSpec model, std::uint32_t p, std::uint32_t d, std::uint32_t t, std::uint64_t batch) {
    run.model = std::move(model);
    run.plan.mesh = Mesh{{{Axis::pipeline, p}, {Axis::data, d}, {Axis::tensor, t}}};
    run.workload.global_batch = batch;
    run.workload.sequence_length = 8192;
    run.cluster = nodes_of_eight(p * d * t / 8);
  };
  switch (number) {
    case 0: set(llama(80, 8192, 64, 28672), 4, 2, 8, 128); break;
    case 1: set(llama(80, 8192, 64, 28672), 1, 8, 8, 128); break;
    case 2: set(llama(126, 16384, 128, 53248), 16, 128, 8, 2048); break;
    default: set(llama(96, 12288, 96, 33000), 8, 2, 8, 64); break;
  }
  const std::uint32_t stages = run.plan.mesh.size(Axis::pipeline);
  std::vector<std::uint32_t> layers(stages, static_cast<std::uint32_t>(run.model.layers / stages));
  for (std::uint64_t i = 0; i < run.model.layers % stages; ++i) ++layers[i];
  run.plan.stage_layers = layers;
  run.plan.sequence_parallel = true;
  run.plan.zero_stage = 1;
  run.plan.gradient_bucket = 100.0 * mebibyte;
  run.plan.overlap_gradients = true;
  run.plan.attention = AttentionKernel::flash;
  run.workload.clip_norm = 1.0;
  Program program = lower(run.model, run.workload, run.plan);
  CostModel costs(*run.cluster, Calibration{}, run.plan.mesh);
  return {std::move(run), std::move(program), std::move(costs)};
}

void label(benchmark::State& state, const Case& c) {
  std::size_t slots = 0;
  for (const RankClass& r : c.program.classes) slots += r.step.size();
  state.SetLabel(std::to_string(c.program.classes.size()) + " classes, " + std::to_string(slots) + " slots, " +
                 std::to_string(c.program.blocks.size()) + " blocks");
}

void estimates(benchmark::State& state) {
  const Case c = make(state.range(0));
  Estimator estimator;
  for (auto _ : state) benchmark::DoNotOptimize(estimator.estimate(c.run, c.program, c.costs));
  state.SetItemsProcessed(state.iterations());
  label(state, c);
}
BENCHMARK(estimates)->DenseRange(0, 3)->Unit(benchmark::kMicrosecond);

void prices_alone(benchmark::State& state) {
  const Case c = make(state.range(0));
  Prices prices;
  for (auto _ : state) price(prices, c.program, c.costs);
}
BENCHMARK(prices_alone)->DenseRange(0, 3)->Unit(benchmark::kMicrosecond);

void compile_alone(benchmark::State& state) {
  const Case c = make(state.range(0));
  Prices prices;
  price(prices, c.program, c.costs);
  CompiledProgram compiled;
  for (auto _ : state) compiled.compile(c.program, prices);
}
BENCHMARK(compile_alone)->DenseRange(0, 3)->Unit(benchmark::kMicrosecond);

void walk_alone(benchmark::State& state) {
  const Case c = make(state.range(0));
  Prices prices;
  price(prices, c.program, c.costs);
  CompiledProgram compiled;
  compiled.compile(c.program, prices);
  Walk walk;
  for (auto _ : state) walk.run(compiled);
}
BENCHMARK(walk_alone)->DenseRange(0, 3)->Unit(benchmark::kMicrosecond);

void lowering(benchmark::State& state) {
  const Case c = make(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(lower(c.run.model, c.run.workload, c.run.plan));
}
BENCHMARK(lowering)->DenseRange(0, 3)->Unit(benchmark::kMicrosecond);

void simulations(benchmark::State& state) {
  const Case c = make(state.range(0));
  std::uint64_t events = 0;
  for (auto _ : state) {
    events += simulate(c.run, c.program, c.costs, {false, SimulateOptions::Ranks::none, {}}).events;
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(events));
  label(state, c);
}
BENCHMARK(simulations)->DenseRange(0, 3)->Unit(benchmark::kMillisecond);

// A step of 405B over links that its communications share, from the plan to the report.
void shared_steps(benchmark::State& state) {
  const perf::LlamaStep step = perf::llama_step(static_cast<std::uint32_t>(state.range(0)));
  Simulation last;
  for (auto _ : state) last = perf::play(step, PathRule::rail_local);
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  // The peak is that of the process so far, with every earlier benchmark.
  state.counters["peak_bytes"] = static_cast<double>(used.ru_maxrss) * 1024.0;
  state.SetLabel(std::to_string(last.rank_classes) + " classes, " + std::to_string(last.events) + " events");
}
BENCHMARK(shared_steps)->Arg(16384)->Arg(131072)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace orrery

BENCHMARK_MAIN();
