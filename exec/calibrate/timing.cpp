#include "exec/calibrate/timing.hpp"

#include <time.h>

#include <algorithm>
#include <vector>

#include "core/base/diagnostics.hpp"

namespace orrery {

namespace {

/// Seconds that this thread has run.
double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

MeasuredTime time_work(const std::function<void(std::uint64_t)>& work, const TimingEffort& effort) {
  ORRERY_ASSERT(effort.samples >= 1, effort.samples);
  const double begin = thread_seconds();
  std::uint64_t i = 0;
  work(i++);  // first touch of memory and code
  // The repetitions double until one sample is long enough.
  std::uint64_t repeat = 1;
  double took = 0.0;
  for (;; repeat *= 2) {
    const double start = thread_seconds();
    for (std::uint64_t r = 0; r < repeat; ++r) work(i++);
    took = thread_seconds() - start;
    if (took >= effort.sample.base()) break;
  }
  std::vector<double> samples{took / static_cast<double>(repeat)};
  while (samples.size() < effort.samples && thread_seconds() - begin < effort.most.base()) {
    const double start = thread_seconds();
    for (std::uint64_t r = 0; r < repeat; ++r) work(i++);
    samples.push_back((thread_seconds() - start) / static_cast<double>(repeat));
  }
  std::sort(samples.begin(), samples.end());
  const std::size_t n = samples.size();
  return {Seconds::of(samples[n / 2]), (samples[n - 1 - n / 4] - samples[n / 4]) / samples[n / 2]};
}

}  // namespace orrery
