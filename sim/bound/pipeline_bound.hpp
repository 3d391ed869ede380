#pragma once

#include <cstdint>
#include <vector>

#include "core/plan/plan.hpp"
#include "core/plan/schedule_rules.hpp"
#include "sim/cost/cost_model.hpp"

namespace orrery {

/// One pipeline stage, per microbatch.
struct StageTimes {
  Picoseconds forward = 0;
  Picoseconds backward = 0;
  Picoseconds send_hidden = 0;    ///< message to the next stage; 0 on the last
  Picoseconds send_gradient = 0;  ///< message of the next stage back to this one; 0 on the last
  Picoseconds clear = 0;          ///< once, before the first forward
  /// What a pass takes besides where it follows another and waits for no message: collectives and clears that wait for
  /// nothing but the pass before.
  Picoseconds before_forward = 0, before_backward = 0;
  Picoseconds weight = 0;  ///< weight gradients, where the schedule splits the backward pass
  friend bool operator==(const StageTimes&, const StageTimes&) = default;
};

/// What the bounds below work in, kept from look to look.
struct PipelineStorage {
  std::vector<Picoseconds> end;         ///< the answer
  std::vector<Picoseconds> way, round;  ///< sums over the stages before
  std::vector<Picoseconds> clear;       ///< of a rank's stages
};

/// When each stage ends its last backward pass, at least.
///
/// Every term is the length of one chain of passes and messages that must
/// follow each other, so the largest is a bound.  With F, B forward and
/// backward of a stage, x, y the messages after it and back, m microbatches:
///
///   entry(i)    = sum over j < i of F(j) + x(j)
///   round(i)    = F + B of stages i .. p-1, and the messages between
///   own work    entry(i) + m (F(i) + B(i)) + (m - 1) x what else lies between passes
///   1F1B        entry(i) + round(i) + (m - 1 - w) F(i) + (m - 1) B(i),   w = p - 1 - i forwards ahead
///               and windows i .. j of k stages, in which k microbatches take
///               sum of F + B over the window + its messages: forward k + c of
///               stage i follows backward of microbatch c + j - i, which stage j ran
///               right after forward c
///   messages    m of them follow each other over a boundary: entry(i) + F(i) + m x(i) +
///               round(i + 1), and up: entry(i + 1) + round(i + 1) + m y(i) + B(i)
///   GPipe       all forwards reach the last stage before its first backward:
///               max over i of [entry(i) + m F(i) + way down], then the way up and m B
///   drain       end(i) >= end(i + 1) + y(i) + B(i)
///
/// Where a device does one op at a time, messages count as work of both ends.
/// The storage holds the answer until it is used again: no look allocates.
/// Source: derived from the schedules; for equal stages and free messages it is the
/// (m + p - 1)(F + B) of Narayanan et al., SC 2021.
const std::vector<Picoseconds>& backward_ends(PipelineStorage&, const std::vector<StageTimes>&, ScheduleName,
                                              std::uint64_t microbatches, bool concurrent_lanes);
[[nodiscard]] std::vector<Picoseconds> backward_ends(const std::vector<StageTimes>&, ScheduleName,
                                                     std::uint64_t microbatches, bool concurrent_lanes);

/// The same for any schedule that runs every microbatch through all virtual
/// stages: by rank, when it ends its last pass, at least.
///
///   entry(r)   F and x of the stages before the rank's lowest
///   own work   entry(r) + m x the F + B + W of its stages + (m - 1) x what else lies between passes
///   both ways  m / 2 in each direction, entry of the end that is nearer, no drain
///   drain      where backward is whole, end(r) >= end(r + 1) + y + B of the stage r: the rank's last pass is a
///              backward one, and its microbatch has the stages below still before it
const std::vector<Picoseconds>& rank_ends(PipelineStorage&, const std::vector<StageTimes>& stages, const StageMap&,
                                          std::uint64_t microbatches, bool concurrent_lanes, bool whole_backward);

}  // namespace orrery
