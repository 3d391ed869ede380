#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "core/program/lower/state.hpp"

namespace orrery::lowering {

/// One step of lowering: what must hold before, what it adds, what holds after.
///
/// `before` and `after` name the first thing that does not hold, or nothing.
/// Builds with checks call both around every run; release builds neither.  A
/// pass uses only what the passes before it state.
struct LoweringPass {
  std::string_view name;
  std::string (*before)(const State&);
  void (*run)(State&);
  std::string (*after)(const State&);
};

// The passes, in this order, each in its own file.
[[nodiscard]] LoweringPass place();
[[nodiscard]] LoweringPass schedule();
[[nodiscard]] LoweringPass recomputation();
[[nodiscard]] LoweringPass sharding_collectives();
[[nodiscard]] LoweringPass pipeline_transfers();
[[nodiscard]] LoweringPass gathers_and_reductions();
[[nodiscard]] LoweringPass optimizer();
[[nodiscard]] LoweringPass lifetimes();
[[nodiscard]] LoweringPass parameter_copies();
[[nodiscard]] LoweringPass host_copies();
[[nodiscard]] LoweringPass lanes();

/// All of them.
[[nodiscard]] std::span<const LoweringPass> all_passes();

/// Runs the pass between its two checks, where the build has checks.
void run(const LoweringPass&, State&);

/// How often actions of `phase` stand in the list.
[[nodiscard]] std::size_t count(const std::vector<Action>&, Phase);

/// Tests that the stage's actions of `phase` cover each layer of the chunk, and its embedding and head, `times` times;
/// otherwise says what is wrong.
[[nodiscard]] std::string covered(const Stage&, Phase, std::uint32_t microbatch, std::uint32_t times = 1);
/// The same where a chunk of `place` is covered times(chunk) times.
[[nodiscard]] std::string covered(const Stage&, Phase, std::uint32_t microbatch,
                                  const std::function<std::uint32_t(std::uint32_t)>& times);

}  // namespace orrery::lowering
