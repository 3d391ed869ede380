#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace orrery {

/// A bar on the terminal's error stream, for work of more than a second.  Draws
/// nothing where standard error is no terminal.  May be called from any thread.
class Progress {
 public:
  Progress();
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Shows `done` of `total` (0: unknown, `done` are seconds) in `phase`, with `note` at the end. Without `eta_s` the
  /// time left is taken from the share done.
  void show(const std::string& phase, std::uint64_t done, std::uint64_t total, std::optional<double> eta_s = {},
            const std::string& note = {});
  /// The same for a search, which settles most plans at once and the last ones slowly: it does not show the time left.
  void settled(const std::string& phase, std::uint64_t done, std::uint64_t total, const std::string& note);
  /// Removes the bar.
  void clear();

 private:
  /// Whether it is time for another line of the phase.
  bool due(const std::string& phase);
  void draw(const std::string& line);

  std::mutex mutex_;
  bool terminal_;
  bool drawn_ = false;
  std::string phase_;
  std::chrono::steady_clock::time_point start_, phase_start_, last_;
};

/// Shows the progress of work that reports it seldom: the time gone by, or, once show() has been called, the share done
/// and the time left.
class Ticker {
 public:
  explicit Ticker(std::string phase);
  /// From now on shows `done` of `total` of a phase.
  void show(const std::string& phase, std::uint64_t done, std::uint64_t total, const std::string& note = "");
  ~Ticker();
  Ticker(const Ticker&) = delete;
  Ticker& operator=(const Ticker&) = delete;

 private:
  Progress progress_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool end_ = false;
  std::string phase_, note_;
  std::uint64_t done_ = 0, total_ = 0;
  std::thread thread_;
};

}  // namespace orrery
