#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/diagnostics.hpp"
#include "core/program/program.hpp"
#include "core/record/trace.hpp"

namespace orrery {

struct ChromeTraceOptions {
  std::string plan;         ///< name shown in the metadata
  std::vector<Rank> ranks;  ///< empty: all of the trace
  bool flows = true;        ///< arrows between sends and receives, and between members of a collective
  bool memory = true;       ///< counter track of live bytes by share
};

/// The trace as Chrome trace JSON, which Perfetto (ui.perfetto.dev) opens: a
/// process for each rank, a thread for each lane, op names that say what
/// happens, arguments {op, layer, microbatch, pass}, live memory as counters,
/// arrows along messages.
///
/// Times are microseconds with six decimals, so whole picoseconds survive and
/// read_chrome_trace gives the Trace back exactly (below 2^53 ps, 2.5 hours).
/// Requires a trace of this program.
[[nodiscard]] std::string write_chrome_trace(const Trace&, const Program&, const ChromeTraceOptions& = {});

/// Reads a trace that write_chrome_trace wrote.  `file` names it in diagnostics.
[[nodiscard]] std::optional<Trace> read_chrome_trace(std::string_view text, const std::string& file, Diagnostics&);

/// Whether a JSON text says that it is a trace of ours.
[[nodiscard]] bool looks_like_trace(std::string_view text);

}  // namespace orrery
