#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "exec/comm/world.hpp"
#include "exec/run/execute.hpp"
#include "exec/run/rank_runner.hpp"
#include "exec/run/recorder.hpp"

namespace orrery {

/// Trains one rank of a Program in this process; every other process of the
/// world calls it for its own rank, with the same arguments.
///
/// It carries out the same ops with the same kernels and collectives as execute(): losses, weights, traffic and peaks
/// are the same to the bit. Only rank 0 returns the result, and only it calls `on_event`, with the buffers of all
/// ranks, and `hooks`; the others return nothing. The watcher reports a failure. Only rank 0 asks `cancel`. `origin`
/// stands in traces.
///
/// Throws Error when this rank fails (the text names its op) or has waited too
/// long for another, and Aborted when the world ended for another reason.
[[nodiscard]] std::optional<RunResult> execute_rank(ProcessWorld&, const Program&, const Workload&, const DataSource&,
                                                    const RunOptions&, const std::string& origin,
                                                    Recorder* recorder = nullptr);

/// The same, with a given walker of the rank's lists. The walker is made here, so that errors in making it are reported
/// like the rest.
using RankWalkerMaker = std::function<std::unique_ptr<RankWalker>(const RankOptions&)>;
[[nodiscard]] std::optional<RunResult> execute_rank(ProcessWorld&, const Program&, const RunOptions&,
                                                    const std::string& origin, Recorder* recorder,
                                                    const RankWalkerMaker&);

}  // namespace orrery
