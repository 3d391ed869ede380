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
/// Carries out the same ops with the same kernels and collectives as execute():
/// losses, weights, traffic and peaks are the same to the bit.  The result, and
/// the calls of `on_event` with the buffers of all ranks and of `hooks`, are rank
/// 0's; nothing on the others.  A failure is for whoever watches to tell.  Rank 0 alone asks `cancel`.  `origin` stands
/// in traces.
///
/// Throws Error when this rank fails (the text names its op) or has waited too
/// long for another, and Aborted when the world ended for another reason.
[[nodiscard]] std::optional<RunResult> execute_rank(ProcessWorld&, const Program&, const Workload&, const DataSource&,
                                                    const RunOptions&, const std::string& origin,
                                                    Recorder* recorder = nullptr);

/// The same, whatever walks the rank's lists.  It is made here, so that what goes wrong then is told like the rest.
using RankWalkerMaker = std::function<std::unique_ptr<RankWalker>(const RankOptions&)>;
[[nodiscard]] std::optional<RunResult> execute_rank(ProcessWorld&, const Program&, const RunOptions&,
                                                    const std::string& origin, Recorder* recorder,
                                                    const RankWalkerMaker&);

}  // namespace orrery
