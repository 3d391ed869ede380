#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

#include "planner/search.hpp"

namespace orrery {

/// Passes on how far a search is, no more often than its options ask for.
class ProgressMeter {
 public:
  explicit ProgressMeter(const SearchOptions& options)
      : options_(options), start_(std::chrono::steady_clock::now()), last_(start_) {}

  /// Begins a phase of `total` plans.
  void phase(std::string name, std::uint64_t total);
  /// `count` more plans of the phase are decided.
  void done(std::uint64_t count);
  void best(Seconds step_time);
  [[nodiscard]] bool cancelled() const { return options_.cancel != nullptr && options_.cancel->load(); }
  [[nodiscard]] double elapsed() const;

 private:
  void tell();

  const SearchOptions& options_;
  std::chrono::steady_clock::time_point start_, last_;
  std::mutex mutex_;
  SearchProgress now_;
};

}  // namespace orrery
