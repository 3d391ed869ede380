#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/ids.hpp"
#include "core/program/program.hpp"
#include "core/record/summarize.hpp"
#include "core/record/trace.hpp"

namespace orrery::gui {

/// The kind of a slice, if it has a colour and a name of its own.
enum class SliceKind : std::uint8_t {
  forward,
  backward,
  weight_gradient,
  recompute,
  optimizer,
  collective,
  transfer,
  copy,
  kernel  ///< of another program, whose kernels say no pass
};
inline constexpr std::size_t slice_kind_count = 9;
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

/// The slices of one lane of a rank, in order of time; no two overlap.
struct TimelineLane {
  Lane lane;
  std::string name;  ///< "compute", "tensor"
  std::vector<Slice> slices;
};

/// A stretch in which the compute lane does nothing.
struct IdleRange {
  TimeRange range;
  IdlePart::Cause cause = IdlePart::Cause::bubble;
  std::uint32_t name = 0;  ///< collective: which, into Timeline::names
};

/// Live device memory from `time` on, until the next point.
struct MemoryPoint {
  std::int64_t time = 0;
  std::uint64_t live = 0;  ///< bytes, after all changes of that instant
  std::uint64_t peak = 0;  ///< most while it changed
};

/// A rank with its busy lanes, the compute lane first.
struct TimelineRank {
  Rank rank{};
  std::uint32_t stage = 0;  ///< its place in the pipeline
  std::vector<TimelineLane> lanes;
  std::vector<IdleRange> idle;         ///< in order; with the compute lane's slices they fill the step
  std::vector<MemoryPoint> memory;     ///< in order, the first at 0
  std::vector<std::uint32_t> kernels;  ///< of a profile: what ran, by OpId, into Timeline::kernels
};

/// A step as it is drawn.
struct Timeline {
  std::int64_t duration = 0;         ///< end of the last op
  std::vector<TimelineRank> ranks;   ///< in the order of the trace
  std::vector<std::string> names;    ///< kinds of operations: "gemm", "all_reduce tensor"
  std::vector<std::string> kernels;  ///< of a profile: their own names
  std::uint32_t microbatches = 1;
  std::uint64_t slices = 0;
  std::uint64_t most_memory = 0;  ///< bytes, of any rank
};
using TimelinePointer = std::shared_ptr<const Timeline>;

/// Sorts the spans of a trace into lanes.  Ops that take no time (Alloc, Free, and what the trace gives no length) have
/// no slice.
[[nodiscard]] Timeline make_timeline(const Program&, const Trace&);

/// The slice of the lane that covers `time`; null where there is none.
[[nodiscard]] const Slice* slice_at(const TimelineLane&, std::int64_t time);
/// The first slice that starts after `time`, and the last that ends by `time`; null where there is none.
[[nodiscard]] const Slice* slice_after(const TimelineLane&, std::int64_t time);
[[nodiscard]] const Slice* slice_before(const TimelineLane&, std::int64_t time);

/// Bytes live on the rank at `time`.
[[nodiscard]] std::uint64_t memory_at(const TimelineRank&, std::int64_t time);

/// When the next slice of any lane begins after `time`, and the last before it; none at the ends.
[[nodiscard]] std::optional<std::int64_t> next_event(const Timeline&, std::int64_t time);
[[nodiscard]] std::optional<std::int64_t> previous_event(const Timeline&, std::int64_t time);

/// The time of one kind of operation inside a range, summed over ranks.
struct KindStatistics {
  std::string name;  ///< of Timeline::names; idle: "bubble", "waiting for all_reduce tensor"
  std::int64_t time = 0;
  std::uint64_t count = 0;  ///< slices that touch the range; idle: stretches
  bool idle = false;
};
/// The kinds with most time first: those of lanes, then those for which compute lanes are idle.
[[nodiscard]] std::vector<KindStatistics> statistics(const Timeline&, TimeRange);

}  // namespace orrery::gui
