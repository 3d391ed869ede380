#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "exec/comm/world.hpp"
#include "exec/run/execute.hpp"
#include "exec/run/rank_runner.hpp"

namespace orrery {

/// Ranks that are threads of this process; a subclass decides what carries out their ops.
struct ThreadedRanks {
  std::string origin;      ///< stands in traces: "run threads"
  std::uint32_t ends = 1;  ///< of each rank
  std::function<std::unique_ptr<RankWalker>(World&, Rank, const RankOptions&)> make;
};

/// Runs setup and all steps; execute() says how, and what it throws.
[[nodiscard]] RunResult run_threads(const Program&, const RunOptions&, const ThreadedRanks&);

}  // namespace orrery
