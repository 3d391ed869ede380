#pragma once

#include <map>
#include <vector>

#include "core/program/program.hpp"
#include "exec/checkpoint/generations.hpp"
#include "exec/checkpoint/state_parts.hpp"
#include "exec/run/execute.hpp"

namespace orrery {

/// Writes the state of a checkpoint into the buffers of `ranks`, whatever plan
/// saved it and whatever plan the Program runs.  Padding is left as setup made it.
///
/// Every element has the value that was saved, bit for bit. The one exception are moments with scales where a block
/// of the new plan holds elements whose scales were different. They are rounded once more, to that block's scale. It
/// works tensor by tensor, in memory for the largest.
///
/// Requires a run that check_resume accepts. Throws Error when the checkpoint lacks an element, and Damaged when a file
/// has changed since it was opened.
void restore(Checkpoint&, const Program&, const std::vector<Rank>& ranks, const RunBuffers&);

/// The state of ranks in plain memory, for resharding without a run. It is all zero at first.
class StateMemory final : public RunBuffers {
 public:
  StateMemory(const Program&, const std::vector<Rank>& ranks);
  [[nodiscard]] std::span<std::byte> find(Rank, const Instance&) const override;

 private:
  // The bytes are handed out to be written, as a run's buffers are.
  mutable std::map<std::pair<Rank, Instance>, std::vector<std::byte>> memory_;
};

}  // namespace orrery
