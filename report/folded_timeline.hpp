#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/program/program.hpp"
#include "core/record/trace.hpp"

namespace orrery {

/// What a bar of a folded timeline shows.
enum class BarKind : std::uint8_t { forward, backward, recompute, optimizer, collective, message, copy };
[[nodiscard]] std::string_view name_of(BarKind);

/// Ops of one kind on one lane of a rank, one behind the other, as one bar.
struct TimelineBar {
  std::int64_t start = 0, end = 0;  ///< picoseconds
  BarKind kind = BarKind::forward;
  std::int32_t microbatch = -1;  ///< -1: several, or none
  friend bool operator==(const TimelineBar&, const TimelineBar&) = default;
};

/// A row: the compute, the collectives, the messages or the copies of one stage.
struct TimelineRow {
  std::string name;               ///< "stage 3", or "collectives" below it
  std::vector<TimelineBar> bars;  ///< in order of time
};

/// A step as rows of bars, one to four for each stage, of which one rank stands for all. Bars of one kind and
/// microbatch that are at most a 2000th of the step apart are one bar. Where there would be more than `most` in all,
/// wider gaps are closed too, whatever the kinds. At most 64 stages are shown, evenly spread. Requires a trace of one
/// rank of each class.
[[nodiscard]] std::vector<TimelineRow> folded_timeline(const Program&, const Trace&, std::size_t most = 40'000);

}  // namespace orrery
