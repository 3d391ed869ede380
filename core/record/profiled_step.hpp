#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/diagnostics.hpp"
#include "core/record/profile.hpp"
#include "core/record/summarize.hpp"
#include "core/record/trace.hpp"

namespace orrery {

/// A kernel run in a step.
struct StepRun {
  Span span;                 ///< picoseconds from the start of the step
  std::uint32_t kernel = 0;  ///< into ProfiledStep::kernels
  std::uint32_t stream = 0;  ///< into StepOfRank::streams
};
struct StepOfRank {
  Rank rank{};
  std::vector<std::string> streams;
  std::vector<StepRun> runs;                ///< in order of start
  std::optional<std::uint64_t> peak_bytes;  ///< over the whole recording
};

/// One step of all ranks that were profiled.
struct ProfiledStep {
  std::string origin;                     ///< "PyTorch's profiler, step 12 (the median of 3)"
  std::int64_t duration = 0;              ///< picoseconds
  std::optional<std::uint32_t> of_ranks;  ///< how many ranks the run had, where that is told
  std::vector<ProfiledKernel> kernels;
  std::vector<StepOfRank> ranks;   ///< in order of rank
  std::vector<std::string> notes;  ///< what was assumed
};

/// The step that took the median time on the slowest rank (with an even number of steps the faster of the middle two).
///
/// A step goes from the start of its mark to the start of the next, so that the time between steps counts. Without a
/// next mark it goes to the end of its own; without marks it is the whole recording. Runs belong to the step in which
/// they start, and end with it at the latest. Ranks share one axis of time where their files give times since the epoch
/// and their starts lie within half a step; otherwise each begins at 0.
[[nodiscard]] std::optional<ProfiledStep> median_step(const std::vector<ProfiledRank>&, Diagnostics&);

/// What a rank computes on any stream, one run after the other. Runs other than transfers are taken in order of start,
/// each from where those before it have ended; runs that end by then are left out.
[[nodiscard]] std::vector<StepRun> computing(const ProfiledStep&, const StepOfRank&);

/// What a rank spent the step on, in picoseconds. Either it computes; or a collective or copy is under way, which it
/// waits for; or a message between stages is under way, which counts as bubble too; or nothing is, which is bubble.
struct ProfiledTimes {
  std::int64_t busy = 0, collectives = 0, message = 0, bubble = 0;  ///< add up to the step
};
/// An idle stretch and the run that the rank waits for; none means bubble. Stretches come in order; with `computing`
/// they fill the step.
using ProfiledIdleVisitor = std::function<void(Span, IdlePart::Cause, const StepRun*)>;
[[nodiscard]] ProfiledTimes account(const ProfiledStep&, const StepOfRank&, const ProfiledIdleVisitor& visit = {});

}  // namespace orrery
