#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/plan/plan.hpp"
#include "core/program/program.hpp"
#include "sim/cost/cost_model.hpp"

namespace orrery {

/// What happens to live memory while a block runs, in bytes from its start.
struct MemoryChange {
  std::int64_t net = 0;   ///< at its end
  std::int64_t peak = 0;  ///< largest on the way, at least 0
};

/// The six blocks of which every pass over a model consists.
template <class T>
struct PerBlock {
  T embedding_forward{}, embedding_backward{};
  T layer_forward{}, layer_backward{};
  T head_forward{}, head_backward{};
};

/// The blocks that all plans with one tensor size, microbatch size, sequence
/// parallelism, recomputation and attention kernel share: lowered once, by the
/// same functions as whole Programs, so that the bound forgets no operation.
class BlockCosts {
 public:
  /// Only those choices of the plan matter, and whether it has a pipeline.
  /// `costs` prices kernels; its mesh does not matter.
  BlockCosts(const ModelSpec&, const Workload&, const Plan&, const CostModel& costs);

  [[nodiscard]] const PerBlock<MemoryChange>& memory() const { return memory_; }
  [[nodiscard]] std::uint64_t hidden_bytes() const { return hidden_bytes_; }      ///< of the residual stream
  [[nodiscard]] std::uint64_t gradient_bytes() const { return gradient_bytes_; }  ///< of its gradient

  /// How much later than the block's entry its last compute op ends, at least:
  /// the longest chain of ops and waits from the compute lane's entry, with the
  /// other lanes free and nothing to wait for from outside.  `costs` has the
  /// mesh on which the tensor groups lie.  So spans of successive blocks add up
  /// to a lower bound on the compute lane's time.  Where a device does one op at
  /// a time: the sum of all ops.
  [[nodiscard]] PerBlock<Picoseconds> spans(const CostModel& costs) const;
  /// Compute ops alone.
  [[nodiscard]] const PerBlock<Picoseconds>& busy() const { return busy_; }

 private:
  [[nodiscard]] Picoseconds span(BlockId, const std::vector<Picoseconds>& prices, const CostModel&) const;

  Program program_;
  PerBlock<BlockId> ids_;
  PerBlock<std::vector<Picoseconds>> compute_prices_;  ///< by op, 0 where not Compute
  PerBlock<Picoseconds> busy_;
  PerBlock<MemoryChange> memory_;
  std::uint64_t hidden_bytes_ = 0;
  std::uint64_t gradient_bytes_ = 0;
};

}  // namespace orrery
