#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/record/noise_scale.hpp"
#include "exec/run/execute.hpp"
#include "exec/run/op_runner.hpp"

namespace orrery {

/// A rank's report on the step that it has ended.
struct RankStep {
  std::span<const OpTimes> times;  ///< by OpId
  std::uint64_t peak_bytes = 0;
  std::uint64_t sent_bytes = 0;
  GradientSquares squares;  ///< where they are counted
};

/// The results of a run, collected step by step, however its ranks are made: losses, traces, times.
class RunRecord {
 public:
  /// `origin` stands in the traces: "run threads".
  RunRecord(const Program&, const RunOptions&, std::string origin);

  /// Called when a step (0: setup) has ended on all ranks, none of which moves. `core_seconds` is the processor time
  /// that the program has had for it. Returns whether another step follows.
  [[nodiscard]] bool take_stock(std::uint64_t step, std::span<const RankStep>, double core_seconds, const RunBuffers&);

  /// Adds the memory that each rank took, by rank, and the counts of one of the ranks that route the same tokens.
  void add_rank(Rank, const RankMemory&, const RoutingCounts&);

  /// Called once, when the run is over.
  [[nodiscard]] RunResult take();

 private:
  [[nodiscard]] Trace trace_of(std::span<const RankStep>) const;
  /// Empty where the Program has no loss.
  [[nodiscard]] std::optional<double> loss(const RunBuffers&) const;
  void record(Trace, std::uint64_t number);
  /// Adds the step to the noise scale, and reports it.
  void take_noise(std::uint64_t step, std::span<const RankStep>);

  const Program& program_;
  const RunOptions& options_;
  std::string origin_;
  std::optional<NoiseScale> noise_;
  bool handed_over_ = false;
  RunResult result_;
};

}  // namespace orrery
