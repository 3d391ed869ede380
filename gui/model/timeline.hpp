#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/ids.hpp"
#include "core/program/program.hpp"
#include "core/record/trace.hpp"

namespace orrery::gui {

/// What a slice is, as far as it has a colour and a name of its own.
enum class SliceKind : std::uint8_t {
  forward,
  backward,
  weight_gradient,
  recompute,
  optimizer,
  collective,
  transfer,
  copy
};
inline constexpr std::size_t slice_kind_count = 8;
[[nodiscard]] const char* name_of(SliceKind);

/// One run of one operation on its lane.
struct Slice {
  std::int64_t start = 0, end = 0;  ///< picoseconds from the start of the step
  OpId op{};                        ///< of the rank's step
  std::uint32_t name = 0;           ///< into Timeline::names
  std::uint32_t microbatch = 0;
  std::uint32_t layer = 0;
  SliceKind kind = SliceKind::forward;
};

/// A span of time, `end` not included.
struct TimeRange {
  std::int64_t start = 0, end = 0;
  [[nodiscard]] std::int64_t length() const { return end - start; }
  friend bool operator==(const TimeRange&, const TimeRange&) = default;
};

/// What one lane of a rank does, in order of time; no two overlap.
struct TimelineLane {
  Lane lane;
  std::string name;  ///< "compute", "tensor"
  std::vector<Slice> slices;
};

/// A rank with its lanes that do anything, the compute lane first.
struct TimelineRank {
  Rank rank{};
  std::uint32_t stage = 0;  ///< its place in the pipeline
  std::vector<TimelineLane> lanes;
  std::vector<TimeRange> idle;  ///< in which the compute lane does nothing, from 0 to the end of the step
};

/// A step as it is drawn.
struct Timeline {
  std::int64_t duration = 0;        ///< end of the last op
  std::vector<TimelineRank> ranks;  ///< in the order of the trace
  std::vector<std::string> names;   ///< kinds of operations: "gemm", "all_reduce tensor"
  std::uint32_t microbatches = 1;
  std::uint64_t slices = 0;
};

/// Sorts the spans of a trace into lanes.  Ops that take no time (Alloc, Free, and what the trace gives no length) have
/// no slice.
[[nodiscard]] Timeline make_timeline(const Program&, const Trace&);

/// The slice of the lane that covers `time`; else none.
[[nodiscard]] const Slice* slice_at(const TimelineLane&, std::int64_t time);
/// The first slice that starts after `time`, and the last that ends by `time`; null where there is none.
[[nodiscard]] const Slice* slice_after(const TimelineLane&, std::int64_t time);
[[nodiscard]] const Slice* slice_before(const TimelineLane&, std::int64_t time);

/// What one kind of operation does inside a range, summed over ranks.
struct KindStatistics {
  std::string name;  ///< of Timeline::names, or "compute lane idle"
  std::int64_t time = 0;
  std::uint64_t count = 0;  ///< slices that touch the range; idle: gaps
  bool idle = false;
};
/// Most time first; idle time of the compute lanes is the last entry.
[[nodiscard]] std::vector<KindStatistics> statistics(const Timeline&, TimeRange);

}  // namespace orrery::gui
