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
  readings_.clear();
  phase_start_ = std::chrono::steady_clock::now();
}

void ProgressMeter::done(std::uint64_t count) {
  const std::lock_guard lock(mutex_);
  now_.done += count;
  tell();
}

void ProgressMeter::decided(std::uint64_t count, std::uint64_t left) {
  const std::lock_guard lock(mutex_);
  now_.done += count;
  now_.total = now_.done + left;
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
  now_.eta_s.reset();
  // Searches decide most plans at once and the last ones slowly: the pace of the last half counts.
  readings_.push_back({now, now_.done});
  while (readings_.size() > 2 && now - readings_.front().at > (now - phase_start_) / 2) readings_.pop_front();
  const Reading& before = readings_.front();
  if (now_.done > before.done) {
    const double passed = std::chrono::duration<double>(now - before.at).count();
    now_.eta_s = passed / static_cast<double>(now_.done - before.done) * static_cast<double>(now_.total - now_.done);
  }
  options_.progress(now_);
}

}  // namespace orrery
