#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/base/units.hpp"
#include "core/program/program.hpp"
#include "core/record/report.hpp"
#include "core/record/trace.hpp"

namespace orrery {

/// How far a prediction may be off.
struct Tolerance {
  double step_time = 0.15;  ///< relative to the measured value
  double memory = 0.0;      ///< relative; peaks of one Program are exact
};

/// Relative error of `predicted`: (predicted - measured) / measured.  Empty
/// where nothing was measured.
[[nodiscard]] std::optional<double> relative_error(double predicted, double measured);

/// One figure on both sides.
struct ComparedTime {
  std::string name;
  Seconds predicted;  ///< mean over ranks
  Seconds measured;
  std::uint64_t predicted_count = 0;  ///< mean over ranks rounded down
  std::uint64_t measured_count = 0;
  std::optional<double> error;         ///< relative, of the time
  std::optional<double> median_error;  ///< median |error| of single ops, traces only
};

struct ComparedRank {
  Rank rank{};
  Seconds predicted_end;  ///< of its last op
  Seconds measured_end;
  std::uint64_t predicted_peak_bytes = 0;
  std::uint64_t measured_peak_bytes = 0;
  std::uint64_t predicted_sent_bytes = 0;
  std::uint64_t measured_sent_bytes = 0;
};

/// A prediction beside a measurement (or any two of either).
struct Comparison {
  std::string predicted;  ///< origin of each side
  std::string measured;
  Seconds predicted_step;
  Seconds measured_step;
  std::optional<double> step_error;
  std::uint64_t predicted_peak_bytes = 0;
  std::uint64_t measured_peak_bytes = 0;
  std::vector<ComparedTime> operations;
  std::vector<ComparedTime> parts;  ///< compute, exposed communication, bubble (see StageTime: the last two overlap)
  std::vector<ComparedRank> ranks;  ///< traces only
  std::vector<std::string> mismatches;  ///< what one side has and the other lacks
  bool same_plan = true;                ///< false: the two cannot be from one plan, and the figures say nothing
  Tolerance tolerance;
  bool judges_memory = true;     ///< false: the peaks do not measure the same, or one is not known (0), and they do not
                                 ///< count
  bool within_tolerance = true;  ///< false: exit status 1
};

/// Ops of one step on a rank, and so the spans of its trace.
[[nodiscard]] std::size_t step_ops(const Program& program, Rank rank);

/// Compares two traces of one Program: ops are joined on (rank, op), so the error of the step splits over kinds of
/// operations. Without `program` only steps, ranks and memory are compared. Times are counted for lanes as each trace
/// had them; where one ran them side by side and the other did not, that is a mismatch.
[[nodiscard]] Comparison compare(const Trace& predicted, const Trace& measured, const Program* program,
                                 const Tolerance& = {});

/// Compares two reports: the same figures, with kinds of operations joined by name.
[[nodiscard]] Comparison compare(const Report& predicted, const Report& measured, const Tolerance& = {});

[[nodiscard]] nlohmann::ordered_json to_json(const Comparison&);
[[nodiscard]] std::string write_comparison(const Comparison&);
/// As a table; ends with the verdict.
[[nodiscard]] std::string render(const Comparison&);

}  // namespace orrery
