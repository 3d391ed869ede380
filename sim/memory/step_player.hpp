#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/diagnostics.hpp"
#include "core/program/program.hpp"
#include "sim/memory/memory_player.hpp"
#include "sim/memory/slot_cycles.hpp"

namespace orrery {

/// The effect of a step on memory, slot by slot.
class StepMemory {
 public:
  virtual ~StepMemory() = default;
  virtual void begin(MemoryPlayer&) = 0;
  virtual void run(const Slot&, MemoryPlayer&) = 0;
  virtual void end(MemoryPlayer&) = 0;
  /// Appends state that decides how the step goes on and that no live name shows; it knows no microbatch.
  virtual void write_state(std::vector<std::uint64_t>& out) const = 0;
};

/// States of memory in which a step or a period began.
struct MemoryStates {
  struct State {
    std::size_t slot = 0;              ///< that came next
    std::uint64_t sign = 0;            ///< MemoryPlayer::sign: states of unlike signs differ
    std::size_t first = 0, count = 0;  ///< in `words`
    std::uint64_t retries = 0;         ///< so far
  };
  std::vector<State> list;
  std::vector<std::uint64_t> words;
  std::uint64_t retries = 0;  ///< when the step had ended
  void clear() { list.clear(), words.clear(); }
};
/// States of this step and the one before. One StepPlayer after another uses the same storage.
using StatesOfSteps = std::array<MemoryStates, 2>;

/// Plays steps of one list, and leaves out the parts that repeat themselves.
///
/// The slots between a pipeline's warm-up and its end are the same again and again, for later microbatches (SlotCycle).
/// A period may begin in a state in which an earlier one began, with microbatches counted from its own first. Then
/// everything that follows is what followed then, so memory is moved on to the last such period at once. In the same
/// way, a step that at its beginning, or at that of a period, reaches a state of the step before ends as that step did.
/// States are compared as a whole, so that every figure is exactly that of the full play. States are recorded for ever
/// fewer periods, and compared where their signs agree.
class StepPlayer {
 public:
  /// Everything that is referred to must outlive it.
  StepPlayer(const std::vector<Slot>& slots, std::vector<SlotCycle> cycles, StepMemory& memory, MemoryPlayer& player,
             StatesOfSteps& states)
      : slots_(slots),
        cycles_(std::move(cycles)),
        memory_(memory),
        player_(player),
        now_(states[0]),
        before_(states[1]) {
    before_.clear();
  }

  /// Plays one more step. Where it ends as the step before did, memory stays as it was when that was seen, so only
  /// steps may follow.
  void play();
  /// Memory was changed between steps, so the next step is compared with none before.
  void changed() {
    ORRERY_ASSERT(!as_before_);
    before_.clear();
  }

 private:
  using State = MemoryStates::State;

  /// The state in which a step or period begins.
  struct Known {
    bool as_before = false;     ///< the step ends as the one before
    std::optional<State> then;  ///< of an earlier period
  };
  Known look(std::size_t slot, std::uint64_t moved, std::size_t first, bool keep);
  [[nodiscard]] static bool same(const MemoryStates&, const State&, const MemoryStates&, const State&);
  bool play_slots();
  bool play_cycle(const SlotCycle&, std::size_t& at);
  void run(std::size_t& at, std::size_t until);

  const std::vector<Slot>& slots_;
  std::vector<SlotCycle> cycles_;
  StepMemory& memory_;
  MemoryPlayer& player_;
  MemoryStates &now_, &before_;
  bool as_before_ = false;     ///< and so will all steps be
  std::uint64_t retries_ = 0;  ///< of such a step
};

}  // namespace orrery
