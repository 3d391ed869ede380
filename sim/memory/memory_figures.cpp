#include "sim/memory/memory_figures.hpp"

#include <algorithm>
#include <thread>
#include <vector>

#include "sim/memory/contiguous_setup.hpp"
#include "sim/memory/fsdp_memory.hpp"
#include "sim/memory/held_memory.hpp"
#include "sim/memory/memory_player.hpp"
#include "sim/memory/step_player.hpp"

namespace orrery {
namespace {

/// A step as the Program lists it.
class ListedStep final : public StepMemory {
 public:
  explicit ListedStep(const HeldMemory& memory) : memory_(memory) {}
  void begin(MemoryPlayer&) override {}
  void run(const Slot& slot, MemoryPlayer& player) override { memory_.walk(slot, kept_, player); }
  void end(MemoryPlayer&) override {}
  /// Shared tensors are live under their names.
  void write_state(std::vector<std::uint64_t>&) const override {}

 private:
  const HeldMemory& memory_;
  std::vector<bool> kept_;
};

/// The cycles in whose periods as much is freed as is allocated: no others can begin twice in the same state.
std::vector<SlotCycle> level_cycles(const HeldMemory& memory, const std::vector<Slot>& slots) {
  std::vector<SlotCycle> cycles = slot_cycles(slots);
  std::erase_if(cycles, [&](const SlotCycle& c) {
    std::int64_t growth = 0;
    for (std::size_t i = c.first; i < c.first + c.period; ++i)
      growth += slots[i].repeat * memory.growth(slots[i].block);
    return growth != 0;
  });
  return cycles;
}

MemoryFigures figures_of(const HeldMemory& memory, std::uint32_t rank_class, const FrameworkMemory& framework,
                         const AllocatorRules& rules, Repeats repeats, StatesOfSteps& states_of_steps) {
  const Program& program = memory.program();
  const RankClass& ranks = program.classes[rank_class];
  MemoryFigures out;
  out.stage = program.mesh.coordinate(representative(program, rank_class), Axis::pipeline);
  MemoryPlayer player(rules);
  memory.process(player);
  // Plays setup, a step, the tensors that its update makes, and the steps after that.
  const auto play = [&](auto&& setup, StepMemory& step, auto&& first_update, int steps) {
    const bool skip = repeats == Repeats::skipped;
    StepPlayer played(ranks.step, skip ? level_cycles(memory, ranks.step) : std::vector<SlotCycle>{}, step, player,
                      states_of_steps);
    setup();
    out.setup = player.most_live();
    played.play();
    const bool updated = first_update();
    out.steady = player.live();
    for (int i = 1; i < steps; ++i) {
      if (!skip || (updated && i == 1)) played.changed();
      played.play();
    }
  };
  ListedStep listed(memory);
  switch (framework.states) {
    case StateLayout::listed: {
      const auto setup = [&] {
        for (const Slot& slot : ranks.setup) listed.run(slot, player);
      };
      play(
          setup, listed, [] { return false; }, 2);
      break;
    }
    case StateLayout::contiguous: {
      ContiguousSetup states(program, rank_class);
      play([&] { states.setup(player); }, listed, [&] { return states.first_update(player), true; }, 3);
      break;
    }
    case StateLayout::fsdp: {
      FsdpMemory states(memory, rank_class, static_cast<std::uint64_t>(framework.kept_products.base()));
      play([&] { states.setup(player); }, states, [&] { return states.first_update(player), true; }, 3);
      break;
    }
  }
  out.live = player.most_live();
  out.allocated = player.most_allocated();
  out.reserved = player.most_reserved();
  out.retries = player.retries();
  out.fits = player.fits();
  return out;
}

}  // namespace

std::vector<MemoryFigures> memory_figures(const Program& program, const FrameworkMemory& framework,
                                          const AllocatorRules& rules, Repeats repeats) {
  const HeldMemory memory(program, framework);
  const auto classes = static_cast<std::uint32_t>(program.classes.size());
  std::vector<MemoryFigures> out(classes);
  // A class takes milliseconds, and a thread pays off only for some of them.
  const std::uint32_t useful = std::max(1U, classes / 4);
  const std::uint32_t threads = useful == 1 ? 1 : std::clamp(std::thread::hardware_concurrency(), 1U, useful);
  const auto play = [&](std::uint32_t first) {
    StatesOfSteps states;
    for (std::uint32_t c = first; c < classes; c += threads) {
      out[c] = figures_of(memory, c, framework, rules, repeats, states);
    }
  };
  std::vector<std::jthread> others;
  for (std::uint32_t t = 1; t < threads; ++t) others.emplace_back(play, t);
  play(0);
  others.clear();  // waits for them
  return out;
}

std::vector<std::optional<MemoryFigures>> memory_figures_until(
    const Program& program, const FrameworkMemory& framework, const AllocatorRules& rules,
    const std::vector<std::uint32_t>& order, const std::function<bool(std::uint32_t, const MemoryFigures&)>& enough) {
  const HeldMemory memory(program, framework);
  std::vector<std::optional<MemoryFigures>> out(program.classes.size());
  StatesOfSteps states;
  for (const std::uint32_t c : order) {
    out[c] = figures_of(memory, c, framework, rules, Repeats::skipped, states);
    if (enough(c, *out[c])) break;
  }
  return out;
}

}  // namespace orrery
