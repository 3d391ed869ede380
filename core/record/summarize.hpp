#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>

#include "core/plan/plan.hpp"
#include "core/program/program.hpp"
#include "core/record/operation.hpp"
#include "core/record/report.hpp"
#include "core/record/trace.hpp"

namespace orrery {

/// What one rank of a trace spent its step on, in picoseconds.
///
/// The compute lane is busy, or it is idle.  Two figures describe the idle
/// time, and they overlap where a message of an Exchange moves:
///
///     exposed   waiting for communication while it goes on
///     bubble    whatever is not waiting for a collective: the pipeline filling
///               and draining, waiting for a message that has not been sent
///               yet, the message itself, and the end of the step
///
/// A gap before a compute op ends with the op that it waited for longest, and
/// the communication that led to that end without a pause counts:
///
///     Collective, Copy   exposed from when this rank was ready for it: waiting
///                        for the other members counts; when what made it ready
///                        was communication too, from where that began
///     Exchange           exposed from when the first message moved, and bubble
///     compute            not exposed
///
/// When several ops end at the same instant, the one with the longest communication counts, and for waiting on
/// collectives the one with the longest collectives. The end of the rank's last op is treated as one more compute op of
/// no length, so communication after the last compute op is exposed by the same rule. Idle time from there to the end
/// of the step is bubble.
///
/// A device that does one op at a time (`concurrent_lanes` false) has no gaps of that kind. There a Collective's wait
/// and duration and an Exchange's duration are exposed, and all of an Exchange, wait and duration, is bubble.
struct RankTimes {
  std::int64_t end = 0;  ///< of its last op
  std::int64_t busy = 0;
  std::int64_t exposed = 0;      ///< all communication
  std::int64_t collectives = 0;  ///< time exposed by Collectives (and Copies); the rest of the idle time is bubble
  std::array<std::int64_t, operation_count> time{};  ///< by operation: sum of spans
  std::array<std::uint64_t, operation_count> count{};
};

/// A stretch of time in which a rank's compute lane is idle, and the cause.
struct IdlePart {
  enum class Cause : std::uint8_t {
    bubble,      ///< nothing that it waits for is communication
    message,     ///< an Exchange moves a message: exposed, and part of the bubble too
    collective,  ///< or Copy: exposed, and not of the bubble
  };
  Cause cause = Cause::bubble;
  Operation operation{};  ///< collective: the one among the ops that led here without a pause
  Span span;
};
using IdleVisitor = std::function<void(const IdlePart&)>;

/// Accounts the trace of one rank. Requires one span for each op of its step. `visit`, where given, gets every idle
/// stretch up to the end of the rank's last op, in order of time. The stretches leave out nothing and do not overlap.
[[nodiscard]] RankTimes account(const Program&, const RankTrace&, bool concurrent_lanes, const IdleVisitor& visit = {});

/// The Report of a trace: step time (the end of the last op of any rank), the breakdown as means over the trace's
/// ranks, memory and traffic of the Program, and the rates that follow. The trace holds every rank, or equally many of
/// each class; or trace.ranks[i] stands for `counts[i]` ranks, which together are all. Peaks that the trace states
/// above the Program's are kept. The caller fills origin and loss.
[[nodiscard]] Report summarize(const PlannedRun&, const Program&, const Trace&, bool concurrent_lanes,
                               std::span<const std::uint32_t> counts = {});

/// Bytes sent by all ranks in one step, ring algorithms.
[[nodiscard]] std::uint64_t program_sent_bytes(const Program&);

}  // namespace orrery
