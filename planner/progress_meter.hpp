#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>

#include "planner/search.hpp"

namespace orrery {

/// Passes on how far a search is, no more often than its options ask for.
class ProgressMeter {
 public:
  explicit ProgressMeter(const SearchOptions& options)
      : options_(options), start_(std::chrono::steady_clock::now()), phase_start_(start_), last_(start_) {}

  /// Begins a phase of `total` plans.
  void phase(std::string name, std::uint64_t total);
  /// `count` more plans of the phase are decided.
  void done(std::uint64_t count);
  /// `count` more are decided, and `left` are not.
  void decided(std::uint64_t count, std::uint64_t left);
  void best(Seconds step_time);
  [[nodiscard]] bool cancelled() const { return options_.cancel != nullptr && options_.cancel->load(); }
  [[nodiscard]] double elapsed() const;

 private:
  void tell();

  const SearchOptions& options_;
  std::chrono::steady_clock::time_point start_, phase_start_, last_;
  struct Reading {
    std::chrono::steady_clock::time_point at;
    std::uint64_t done;
  };
  std::deque<Reading> readings_;  ///< of the last half of the phase so far
  std::mutex mutex_;
  SearchProgress now_;
};

}  // namespace orrery
