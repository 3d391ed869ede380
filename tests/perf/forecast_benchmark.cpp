#include <benchmark/benchmark.h>

#include <cstdlib>
#include <iostream>

#include "core/spec/reliability_file.hpp"
#include "forecast/checkpoint_interval.hpp"
#include "forecast/run_sample.hpp"

using namespace orrery;

namespace {

/// Runs of a year of work on 16,384 GPUs with the failures of Llama 3: about 2,900 failures each.
void year_runs(benchmark::State& state) {
  Diagnostics wrong;
  const auto r = find_reliability(Library(ORRERY_SOURCE_DIR "/models"), "llama-3", "", wrong);
  if (!r) {
    std::cerr << render(wrong);
    std::exit(2);
  }
  std::vector<std::string> unknown;
  RunHazards h = hazards_of(*r, 2048, 8, unknown);
  h.load = Seconds::of(100);
  h.spares = 22;
  const Seconds save = Seconds::of(3);
  const SavePlan plan{best_interval(save, *h.mean()), save, {}, 1, {}};
  const auto runs = static_cast<std::uint64_t>(state.range(0));
  for (auto _ : state) {
    const RunSample sample = sample_runs(Seconds::of(365.0 * 86400.0), plan, h, {}, runs, 1);
    benchmark::DoNotOptimize(sample.history);
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(year_runs)->Arg(1000)->Unit(benchmark::kSecond);

}  // namespace

BENCHMARK_MAIN();
