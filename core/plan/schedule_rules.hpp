#pragma once

#include <cstdint>

#include "core/plan/plan.hpp"

namespace orrery {

/// What a schedule asks of a plan, and how it distributes layers. The compute order itself is a function of the same
/// name in core/program/lower.
struct ScheduleRules {
  StagePlacement placement = StagePlacement::loop;
  std::uint32_t least_chunks = 1, most_chunks = 1;  ///< on each rank; most 0: any number
  bool splits_backward = false;                     ///< weight gradients are actions of their own
  bool whole_rounds = false;                        ///< microbatches are a multiple of the pipeline size
  std::uint32_t least_rounds = 0;                   ///< microbatches are at least so many times the pipeline size
  bool even = false;                                ///< so are the pipeline size and the microbatches
};
/// A custom schedule has the widest rules: any chunks and either kind of backward.
[[nodiscard]] const ScheduleRules& rules_of(ScheduleName);

/// Whether weight gradients are actions of their own: the schedule's rules say so, or the order of a custom one does.
[[nodiscard]] bool splits_backward(const Plan&);

/// Virtual stages and ranks.  Stage 0 holds the embedding, the last one the
/// head; messages pass between neighbouring stages of a pipe on different ranks.
/// There is one pipe, or with StagePlacement::two_way there are two, each with
/// all stages and half of the microbatches.
struct StageMap {
  std::uint32_t ranks = 1;
  std::uint32_t chunks = 1;  ///< on each rank
  StagePlacement placement = StagePlacement::loop;

  [[nodiscard]] bool two_way() const { return placement == StagePlacement::two_way; }
  [[nodiscard]] std::uint32_t pipes() const { return two_way() ? 2 : 1; }
  [[nodiscard]] std::uint32_t stages() const { return ranks * chunks / pipes(); }
  [[nodiscard]] std::uint32_t stage(std::uint32_t rank, std::uint32_t chunk) const {
    return (two_way() ? 0 : chunk * ranks) + (turned(chunk) ? ranks - 1 - rank : rank);
  }
  /// The pipe that a rank's chunk belongs to.
  [[nodiscard]] std::uint32_t pipe(std::uint32_t chunk) const { return two_way() ? chunk : 0; }
  [[nodiscard]] std::uint32_t chunk(std::uint32_t stage, std::uint32_t pipe = 0) const {
    return two_way() ? pipe : stage / ranks;
  }
  [[nodiscard]] std::uint32_t rank(std::uint32_t stage, std::uint32_t pipe = 0) const {
    const std::uint32_t along = stage % ranks;
    return turned(chunk(stage, pipe)) ? ranks - 1 - along : along;
  }
  /// Whether a rank's chunk runs the microbatch, one of `microbatches`.
  [[nodiscard]] bool runs(std::uint32_t chunk, std::uint32_t microbatch, std::uint32_t microbatches) const {
    return !two_way() || (microbatch < microbatches / 2) == (chunk == 0);
  }

 private:
  [[nodiscard]] bool turned(std::uint32_t chunk) const { return placement != StagePlacement::loop && chunk % 2 == 1; }
};
[[nodiscard]] StageMap stage_map(const Plan&);

}  // namespace orrery
