#pragma once

#include <vector>

#include "core/program/lower/schedule.hpp"
#include "sim/bound/pipeline_bound.hpp"
#include "sim/bound/stage_memory.hpp"

namespace orrery {

/// When each pipeline rank ends its last pass, at least, for any schedule: every rank runs its passes in the
/// schedule's order.
///
///     end(pass) = max(end(pass before on the rank) + what lies between + pass, arrival + pass)
///     arrival   = end(sender's pass) + message, messages of a stage in one direction one after the other
///
/// Requires lanes that run beside each other.  Keeps its storage: one for each thread.
/// Leaves out: messages of other stages on the same link, and that sender and receiver wait for each other.
class PassWalk {
 public:
  [[nodiscard]] const std::vector<Picoseconds>& ends(const lowering::Orders&, const StageMap&,
                                                     const std::vector<StageTimes>&, std::uint32_t microbatches);

 private:
  std::vector<Picoseconds> now_, forward_, backward_, sent_, returned_;
  std::vector<std::size_t> at_;
  std::vector<std::uint8_t> begun_;
};

/// The most bytes that the passes of a rank hold at once above `held`, in that order: a lower bound on the rank's
/// peak where messages are received early, else what it is.  `chunks` are the rank's.
[[nodiscard]] std::uint64_t walked_peak(const std::vector<lowering::Action>& order,
                                        const std::vector<PassMemory>& chunks, std::uint64_t held);

}  // namespace orrery
