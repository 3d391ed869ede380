#pragma once

#include <functional>
#include <string>

#include "exec/run/execute.hpp"
#include "exec/run/gather.hpp"

namespace orrery::test {

/// The results of a run of a Program, whatever its ranks were.
struct RunOutcome {
  RunResult result;
  GlobalTensors weights, masters;
};

/// Trains with `train` and gathers the weights after the last step.
inline RunOutcome outcome_of(const Program& program, RunOptions options,
                             const std::function<RunResult(const RunOptions&)>& train) {
  RunOutcome outcome;
  options.on_event = [&](const RunEvent& e) {
    if (e.step != options.steps) return;
    outcome.weights = gather(program, *e.buffers, "weights");
    outcome.masters = gather(program, *e.buffers, "masters");
  };
  outcome.result = train(options);
  return outcome;
}

/// What differs in any bit: losses, weights, traffic, peaks. Empty when everything is equal.
inline std::string difference(const RunOutcome& a, const RunOutcome& b) {
  if (a.result.losses != b.result.losses) return "losses differ";
  if (a.weights.empty() || a.weights != b.weights) return "weights differ";
  if (a.masters != b.masters) return "masters differ";
  if (a.result.traces.size() != b.result.traces.size()) return "another number of traces";
  for (std::size_t s = 0; s < a.result.traces.size(); ++s) {
    const Trace& x = a.result.traces[s];
    const Trace& y = b.result.traces[s];
    if (x.ranks.size() != y.ranks.size()) return "another number of ranks";
    for (std::size_t r = 0; r < x.ranks.size(); ++r) {
      if (x.ranks[r].spans.size() != y.ranks[r].spans.size()) return "another number of ops";
      if (x.ranks[r].peak_bytes != y.ranks[r].peak_bytes) return "peak memory differs";
      if (x.ranks[r].sent_bytes != y.ranks[r].sent_bytes) return "sent bytes differ";
    }
  }
  for (std::size_t r = 0; r < a.result.memory.size(); ++r) {
    const RankMemory& x = a.result.memory[r];
    const RankMemory& y = b.result.memory[r];
    if (x.peak_bytes != y.peak_bytes || x.host_peak_bytes != y.host_peak_bytes ||
        x.disk_peak_bytes != y.disk_peak_bytes) {
      return "memory differs";
    }
  }
  return a.result.routing == b.result.routing ? "" : "routing differs";
}

}  // namespace orrery::test
