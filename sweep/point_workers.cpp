#include "sweep/point_workers.hpp"

#include <algorithm>
#include <exception>
#include <mutex>
#include <thread>

namespace orrery {

void compute_points(const std::vector<std::uint64_t>& numbers, unsigned threads,
                    const std::function<std::optional<SweptPoint>(std::uint64_t)>& compute,
                    const std::function<void(const SweptPoint&)>& done, const std::atomic<bool>& cancelled) {
  std::atomic<std::size_t> next{0};
  std::atomic<bool> failed{false};
  std::mutex mutex;
  std::exception_ptr wrong;
  const auto work = [&] {
    while (!cancelled.load() && !failed.load()) {
      const std::size_t i = next.fetch_add(1);
      if (i >= numbers.size()) return;
      try {
        const std::optional<SweptPoint> point = compute(numbers[i]);
        const std::lock_guard lock(mutex);
        if (point && !failed.load()) done(*point);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!wrong) wrong = std::current_exception();
        failed = true;
      }
    }
  };
  std::vector<std::thread> workers;
  const std::size_t count = std::min<std::size_t>(std::max(1U, threads), numbers.size());
  for (std::size_t i = 1; i < count; ++i) workers.emplace_back(work);
  work();
  for (std::thread& worker : workers) worker.join();
  if (wrong) std::rethrow_exception(wrong);
}

}  // namespace orrery
