#include "planner/progress_meter.hpp"

namespace orrery {

double ProgressMeter::elapsed() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

void ProgressMeter::phase(std::string name, std::uint64_t total) {
  const std::lock_guard lock(mutex_);
  now_.phase = std::move(name);
  now_.done = 0;
  now_.total = total;
}

void ProgressMeter::done(std::uint64_t count) {
  const std::lock_guard lock(mutex_);
  now_.done += count;
  tell();
}

void ProgressMeter::best(Seconds step_time) {
  const std::lock_guard lock(mutex_);
  if (!now_.best || step_time < *now_.best) now_.best = step_time;
}

void ProgressMeter::tell() {
  if (!options_.progress) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - last_ < options_.progress_every) return;
  last_ = now;
  now_.elapsed_s = std::chrono::duration<double>(now - start_).count();
  options_.progress(now_);
}

}  // namespace orrery
