#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/plan/plan.hpp"

namespace orrery {

/// A plan small enough that a step of it takes a fraction of a second on CPU ranks.
struct HerePlan {
  std::string name;  ///< what was drawn, in words
  PlannedRun run;    ///< checked, resolved, without cluster
};

/// `count` different plans drawn by `seed`: GPT and LLaMA families of four layers, widths of 64 to 256, sequences of 32
/// to 128 tokens, all precisions, each kind of parallelism, recomputation, both kinds of attention, ZeRO up to stage 2,
/// dropout. Four in five have at most `cores` ranks (1 or 2), the others 4. The result is the same for the same
/// arguments on every machine.
[[nodiscard]] std::vector<HerePlan> here_plans(std::uint32_t count, std::uint64_t seed, std::uint32_t cores);

}  // namespace orrery
