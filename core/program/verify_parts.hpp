#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/program/verify.hpp"

namespace orrery::verifying {

/// Collects violations, with the place in words and as a listing.
class Findings {
 public:
  explicit Findings(const Program& program, WorkProgress progress = {})
      : program_(&program), progress_(std::move(progress)) {}

  void add(std::string code, std::string message);
  /// Adds a violation at an op of a block, in no particular run.
  void add_at(std::string code, std::string message, BlockId block, std::uint32_t op);
  /// Adds a violation at one run of an op on one rank.
  void add_run(std::string code, std::string message, Rank rank, bool setup, const OpRun& run);

  [[nodiscard]] bool empty() const { return list_.empty(); }
  [[nodiscard]] bool full() const { return list_.size() >= 20; }
  [[nodiscard]] const Program& program() const { return *program_; }
  /// Sets where the current part begins as a share of all work, and its own share.
  void part(double begin, double share) {
    begin_ = begin;
    share_ = share;
    reached(0, 1);
  }
  /// Reports how much of the current part is done.
  void reached(std::uint64_t done, std::uint64_t total) const {
    constexpr double units = 1000.0;
    if (!progress_) return;
    const double here = begin_ + share_ * static_cast<double>(done) / static_cast<double>(total);
    progress_(static_cast<std::uint64_t>(units * here), static_cast<std::uint64_t>(units));
  }
  [[nodiscard]] std::vector<Violation> take() { return std::move(list_); }

 private:
  const Program* program_;
  WorkProgress progress_;
  double begin_ = 0.0, share_ = 1.0;
  std::vector<Violation> list_;
};

[[nodiscard]] std::string listing(const Program&, BlockId block, std::uint32_t op);
[[nodiscard]] inline BlockId id_of(const Program& p, const Block& b) {
  return BlockId{static_cast<std::uint32_t>(&b - p.blocks.data())};
}
/// Whether the op queues on a lane (all but Alloc and Free).
[[nodiscard]] inline bool is_timed(const Op& op) {
  return !std::holds_alternative<Alloc>(op.action) && !std::holds_alternative<Free>(op.action);
}

/// Whether a buffer has weights that a product reads: the module's own, or a copy that is there for one product.
[[nodiscard]] inline bool holds_weights(const Buffer& b) { return b.role == Role::weight || b.role == Role::workspace; }

// The parts, in the order in which verify runs them.
void check_layout(Findings&);     ///< everything that later parts index by
void check_operands(Findings&);   ///< block by block, no runs
void check_base(Findings&);       ///< matrices in few bits, block by block
void check_data(Findings&);       ///< lifetimes and hazards, class by class
void check_gradients(Findings&);  ///< contributions, class by class
void check_order(Findings&);      ///< matching and deadlock, between ranks
void check_values(Findings&);     ///< partial sums, stale values, repeated ops
void check_scores(Findings&);     ///< attention's kernels of a layer make the same scores
void check_pairs(Findings&);      ///< forward and backward, gradient and update
void check_targets(Findings&);    ///< what losses are of
void check_norms(Findings&);      ///< what counts in a norm, and how often

}  // namespace orrery::verifying
