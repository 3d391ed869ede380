#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace orrery::perf {

/// The limit for one figure of one benchmark.
struct Threshold {
  std::string name;       ///< what it says, in words
  std::string benchmark;  ///< its name in the output: "plans_estimated", "whole_search/0"
  std::string figure;     ///< a number of that benchmark: "items_per_second", "real_time", or a counter
  /// At least or at most `value`; times are in seconds.
  enum class Side { least, most } side = Side::least;
  double value = 0.0;
  /// Least ratio that passes: 1 for a goal, and less for a figure recorded from a release, which another run reaches
  /// only roughly.
  double ratio = 1.0;
  /// Whether the figure counts in runs of the yardstick benchmark of the same process, so that a slow machine is not
  /// taken for a slow program.
  bool by_yardstick = false;
  std::string source = {};  ///< where the value comes from
};

/// Reads thresholds.toml. Throws Error with the place of the mistake.
[[nodiscard]] std::vector<Threshold> read_thresholds(const std::string& file);

struct Verdict {
  const Threshold* threshold = nullptr;
  std::optional<double> measured;  ///< unset: no such benchmark or figure
  double ratio = 0.0;              ///< to the value; above 1 is better than it
  bool passed = false;
};

/// Compares outputs of Google Benchmark (--benchmark_format=json), one text per process, with the thresholds. Among
/// several repetitions the best counts, because other programs only ever slow a benchmark down. A figure that no output
/// has does not pass. Throws Error for an unreadable output.
[[nodiscard]] std::vector<Verdict> judge(const std::vector<Threshold>&, const std::vector<std::string>& outputs);

/// One line per verdict; the source under those that failed.
[[nodiscard]] std::string table(const std::vector<Verdict>&);

}  // namespace orrery::perf
