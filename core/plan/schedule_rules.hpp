#pragma once

#include <cstdint>

#include "core/plan/plan.hpp"

namespace orrery {

/// What a schedule asks of a plan, and what it does to layers.  Compute order
/// itself is a function of the same name in core/program/lower.
struct ScheduleRules {
  StagePlacement placement = StagePlacement::loop;
  std::uint32_t least_chunks = 1, most_chunks = 1;  ///< on each rank; most 0: any number
  bool splits_backward = false;                     ///< weight gradients are actions of their own
  bool whole_rounds = false;                        ///< microbatches are a multiple of the pipeline size
  std::uint32_t least_rounds = 0;                   ///< microbatches are at least so many times the pipeline size
};
/// Of a custom schedule: the widest, any chunks and either kind of backward.
[[nodiscard]] const ScheduleRules& rules_of(ScheduleName);

/// Whether weight gradients are actions of their own: as the schedule rules, or as a custom one's order has it.
[[nodiscard]] bool splits_backward(const Plan&);

/// Virtual stages and ranks of one pipeline.  Stage 0 holds the embedding, the
/// last one the head; messages pass between neighbouring stages on different ranks.
struct StageMap {
  std::uint32_t ranks = 1;
  std::uint32_t chunks = 1;
  StagePlacement placement = StagePlacement::loop;

  [[nodiscard]] std::uint32_t stages() const { return ranks * chunks; }
  [[nodiscard]] std::uint32_t stage(std::uint32_t rank, std::uint32_t chunk) const {
    return chunk * ranks + (turned(chunk) ? ranks - 1 - rank : rank);
  }
  [[nodiscard]] std::uint32_t chunk(std::uint32_t stage) const { return stage / ranks; }
  [[nodiscard]] std::uint32_t rank(std::uint32_t stage) const {
    const std::uint32_t along = stage % ranks;
    return turned(chunk(stage)) ? ranks - 1 - along : along;
  }

 private:
  [[nodiscard]] bool turned(std::uint32_t chunk) const { return placement == StagePlacement::v && chunk % 2 == 1; }
};
[[nodiscard]] StageMap stage_map(const Plan&);

}  // namespace orrery
