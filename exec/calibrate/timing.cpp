#include "exec/calibrate/timing.hpp"

#include <algorithm>
#include <chrono>
#include <vector>

#include "core/base/diagnostics.hpp"

namespace orrery {

namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

MeasuredTime time_work(const std::function<void(std::uint64_t)>& work, const TimingEffort& effort) {
  ORRERY_ASSERT(effort.samples >= 1, effort.samples);
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  std::uint64_t i = 0;
  work(i++);  // first touch of memory and code
  // Double the repetitions until one sample is long enough.
  std::uint64_t repeat = 1;
  double took = 0.0;
  for (;; repeat *= 2) {
    const Clock::time_point start = Clock::now();
    for (std::uint64_t r = 0; r < repeat; ++r) work(i++);
    took = seconds_since(start);
    if (took >= effort.sample.base()) break;
  }
  std::vector<double> samples{took / static_cast<double>(repeat)};
  while (samples.size() < effort.samples && seconds_since(begin) < effort.most.base()) {
    const Clock::time_point start = Clock::now();
    for (std::uint64_t r = 0; r < repeat; ++r) work(i++);
    samples.push_back(seconds_since(start) / static_cast<double>(repeat));
  }
  std::sort(samples.begin(), samples.end());
  const std::size_t n = samples.size();
  return {Seconds::of(samples[n / 4]), (samples[n - 1 - n / 4] - samples[n / 4]) / samples[n / 2]};
}

}  // namespace orrery
