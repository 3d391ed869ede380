#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/diagnostics.hpp"
#include "core/base/work_progress.hpp"
#include "core/program/program.hpp"
#include "core/record/trace.hpp"

namespace orrery {

struct ChromeTraceOptions {
  std::string plan;         ///< name shown in the metadata
  std::vector<Rank> ranks;  ///< empty: all of the trace
  bool flows = true;        ///< arrows between sends and receives, and between members of a collective
  bool memory = true;       ///< counter track of live bytes by share
};

/// The trace as Chrome trace JSON, which Perfetto (ui.perfetto.dev) opens. It has a process for each rank, a thread for
/// each lane, op names that say what happens, arguments {op, layer, microbatch, pass}, live memory as counters, and
/// arrows along messages.
///
/// Times are microseconds with six decimals, so whole picoseconds survive and
/// read_chrome_trace gives the Trace back exactly (below 2^53 ps, 2.5 hours).
/// Requires a trace of this program.
[[nodiscard]] std::string write_chrome_trace(const Trace&, const Program&, const ChromeTraceOptions& = {});

/// Where a long trace goes piece by piece, so that it need not fit in memory.
struct ChromeTraceSink {
  std::function<void(std::string_view)> write;   ///< the next part of the text; may throw
  WorkProgress progress;                         ///< ops written, of all ranks' ops and arrows
  const std::atomic<bool>* cancelled = nullptr;  ///< once true, the trace ends with the rank at hand
};

/// The same, into a sink. Returns the number of ranks written. A cancelled trace is whole for the ranks that it has,
/// and its origin says so: "simulate (stopped after 3 of 64 ranks)". It lacks the arrows.
std::size_t write_chrome_trace(const Trace&, const Program&, const ChromeTraceOptions&, const ChromeTraceSink&);

/// A job's steps between those of others.
struct JobTimeline {
  struct Step {
    std::int64_t begin = 0;        ///< picoseconds
    const Trace* trace = nullptr;  ///< of the job's program, times from `begin` on
  };
  std::string name;
  const Program* program = nullptr;
  std::vector<Step> steps;
};
/// Several jobs on one time axis, for viewers only (read_chrome_trace takes one step). The processes of a job have its
/// name: "a rank 3 (tensor 1)". The sink's progress counts steps; it is never cancelled.
void write_job_timelines(const std::vector<JobTimeline>&, const ChromeTraceSink&);

/// Estimates how many bytes the trace of a step takes (to some 15 %), before there is a trace. With `all_ranks` for all
/// ranks, otherwise for one rank of each class.
[[nodiscard]] double chrome_trace_size(const Program&, bool all_ranks);

/// Reads a trace that write_chrome_trace wrote.  `file` names it in diagnostics;
/// `progress` counts bytes.
[[nodiscard]] std::optional<Trace> read_chrome_trace(std::string_view text, const std::string& file, Diagnostics&,
                                                     const WorkProgress& progress = {});

/// Whether a JSON text says that it is a trace of ours.
[[nodiscard]] bool looks_like_trace(std::string_view text);

}  // namespace orrery
