#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/base/random.hpp"

namespace {

// A fixed piece of integer work with branches and a cache's worth of memory, which tells how fast this core is. No work
// on the library changes it. Figures of different machines are compared in runs of it. Changing it makes every recorded
// figure meaningless.
void yardstick(benchmark::State& state) {
  std::vector<std::uint64_t> numbers(std::size_t{1} << 15);
  for (auto _ : state) {
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = orrery::random_bits(1, 2, i);
    std::sort(numbers.begin(), numbers.end());
    benchmark::DoNotOptimize(numbers.data());
    benchmark::ClobberMemory();
  }
}
BENCHMARK(yardstick)->Unit(benchmark::kMicrosecond);

}  // namespace
