#pragma once

#include <cstdint>
#include <vector>

#include "core/program/program.hpp"
#include "exec/comm/collective_algorithms.hpp"
#include "exec/comm/communicator.hpp"
#include "exec/kernels/kernel_runner.hpp"
#include "exec/run/issue.hpp"

namespace orrery {

/// Nanoseconds of this host's steady clock.
[[nodiscard]] std::int64_t now_ns();

/// Squares of the gradients of one step, summed over elements, for the gradient noise scale.
struct GradientSquares {
  double apart = 0.0;   ///< before the sums over data ranks: of what this rank has
  double summed = 0.0;  ///< of the sums, each counted once among the ranks that hold it
  friend bool operator==(const GradientSquares&, const GradientSquares&) = default;
};

/// When an op started (after waiting for partners) and ended.
struct OpTimes {
  std::int64_t start = 0;
  std::int64_t end = 0;
};

/// Waits for all ranks; counts no bytes.
void wait_for_all(Communicator&, const Mesh&);

/// Carries out issued ops of one rank: kernels, collectives, exchanges and
/// copies.  Used by one thread.
class OpRunner {
 public:
  OpRunner(const Program&, const Workload&, const DataSource&, const std::vector<GroupHere>&, Communicator&, Rank,
           std::int64_t clock_offset = 0);

  /// Times are in the clock that ranks share.
  OpTimes run(const IssuedOp&);

  /// Waits for all ranks; counts no bytes.
  void barrier() { wait_for_all(communicator_, program_.mesh); }

  [[nodiscard]] std::uint64_t sent_bytes() const { return communicator_.sent_bytes(); }
  /// What learned routing has chosen so far.
  [[nodiscard]] const RoutingCounts& routing() const { return routing_; }
  /// From now on adds the squares of gradients that are summed over the axis data alone; null ends it.
  void count_squares(GradientSquares* into) { squares_ = into; }
  /// Scratch of kernels and collectives.
  [[nodiscard]] std::uint64_t outside_bytes() const { return kernel_scratch_.bytes() + collective_scratch_.bytes(); }

 private:
  void compute(const IssuedOp&, const Compute&);
  std::int64_t collective(const IssuedOp&, const Collective&, std::int64_t ready);
  std::int64_t move(const Collective&, const Members&, std::int64_t ready);
  /// Whether the collective sums gradients of data ranks.
  [[nodiscard]] bool sums_gradients(const IssuedOp&, const Collective&) const;
  std::int64_t exchange(const IssuedOp&, const Exchange&, std::int64_t ready);
  void copy(const IssuedOp&);

  const Program& program_;
  const Workload& workload_;
  const DataSource& data_;
  const std::vector<GroupHere>& groups_;
  Communicator& communicator_;
  Rank rank_;
  std::int64_t clock_offset_;  ///< from this host's steady clock to the clock that ranks share
  RoutingCounts routing_;
  GradientSquares* squares_ = nullptr;
  KernelScratch kernel_scratch_;
  CollectiveScratch collective_scratch_;
  std::vector<Operand> operands_;
  std::vector<MemoryView> memory_views_;
  std::vector<Message> messages_;
  std::vector<Piece> pieces_;
};

}  // namespace orrery
