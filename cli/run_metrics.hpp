#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "cli/arguments.hpp"
#include "exec/run/execute.hpp"

namespace orrery {

/// Where the figures of a run go while it trains.
struct MetricsFlags {
  std::optional<std::string> metrics;  ///< a port of this host, or a file
  std::optional<std::string> csv;
};
void declare_metrics(Command&, MetricsFlags&);
/// The port that --metrics names; 0 where it is a file, or not given.
[[nodiscard]] std::uint16_t metrics_port(const MetricsFlags&);
/// Throws mistakes in these flags: a port out of range, or no folder for a file.
void check_metrics(const MetricsFlags&);

/// Figures of a run after a step.
struct RunFigures {
  std::uint64_t step = 0;  ///< of the training; the last one that ended
  double elapsed_s = 0.0;  ///< since this process began to train
  std::optional<double> loss;
  double step_s = 0.0, tokens_per_s = 0.0;  ///< of this step; 0 before the first
  std::uint64_t peak_bytes = 0;             ///< of the rank with most, in this step
  std::uint64_t sent_bytes = 0;             ///< of all ranks, in this step
  std::uint64_t restarts = 0;               ///< after failures
};
/// The text format of Prometheus, version 0.0.4.
[[nodiscard]] std::string prometheus_text(const RunFigures&);

class MetricsServer;

/// Writes the figures of every step where the flags say. The file of Prometheus is replaced whole, so a reader sees no
/// half of it. The CSV file is begun, or gets further lines where `goes_on`.
class RunMetrics {
 public:
  /// Throws Error where a file or the port cannot be had.
  RunMetrics(const MetricsFlags&, std::uint64_t first_step, double tokens_in_a_step, std::uint64_t restarts,
             bool goes_on);
  ~RunMetrics();
  RunMetrics(const RunMetrics&) = delete;
  RunMetrics& operator=(const RunMetrics&) = delete;
  void after(const RunEvent&);

 private:
  void publish();

  const MetricsFlags& flags_;
  std::uint64_t first_step_;
  double tokens_;
  std::int64_t began_;
  RunFigures figures_;
  std::unique_ptr<MetricsServer> server_;
};

}  // namespace orrery
