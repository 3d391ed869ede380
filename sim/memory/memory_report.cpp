#include "sim/memory/memory_report.hpp"

#include <algorithm>
#include <array>

#include "sim/memory/contiguous_setup.hpp"
#include "sim/memory/fsdp_memory.hpp"
#include "sim/memory/held_memory.hpp"

namespace orrery {
namespace {

std::uint64_t whole(Bytes b) { return static_cast<std::uint64_t>(b.base()); }

/// Plays what comes and goes through an allocator for each pool.
class Player {
 public:
  Player(const AllocatorRules& rules, MemoryFigures& figures)
      : figures_(figures), pools_{CachingAllocator(rules), CachingAllocator(rules), CachingAllocator(rules)} {}

  void operator()(bool alloc, std::uint64_t name, std::uint64_t bytes, StreamPool pool) {
    CachingAllocator& allocator = pools_[static_cast<std::size_t>(pool)];
    if (alloc) {
      live_ += bytes;
      figures_.live = std::max(figures_.live, live_);
      figures_.fits = allocator.allocate(name, bytes) && figures_.fits;
    } else {
      live_ -= bytes;
      allocator.free(name);
    }
    std::uint64_t allocated = 0;
    for (const CachingAllocator& a : pools_) allocated += a.allocated();
    figures_.allocated = std::max(figures_.allocated, allocated);
  }

  [[nodiscard]] std::uint64_t live() const { return live_; }
  void finish() {
    for (const CachingAllocator& a : pools_) {
      figures_.reserved += a.most_reserved();
      figures_.retries += a.retries();
    }
  }

 private:
  MemoryFigures& figures_;
  std::array<CachingAllocator, stream_pools> pools_;
  std::uint64_t live_ = 0;
};

MemoryFigures figures_of(const HeldMemory& memory, std::uint32_t rank_class, const FrameworkMemory& framework,
                         const AllocatorRules& rules) {
  const Program& program = memory.program();
  const RankClass& ranks = program.classes[rank_class];
  MemoryFigures out;
  out.stage = program.mesh.coordinate(representative(program, rank_class), Axis::pipeline);
  Player player(rules, out);
  const MemoryVisit visit = [&](bool alloc, std::uint64_t name, std::uint64_t bytes, StreamPool pool) {
    player(alloc, name, bytes, pool);
  };
  const auto listed = [&](bool alloc, const TensorId& id, std::uint64_t bytes) {
    player(alloc, HeldMemory::name_of(id), bytes, StreamPool::compute);
  };
  std::vector<bool> kept;
  memory.process(listed);
  // Setup, a step, what its update makes, and the steps after that.
  const auto play = [&](auto&& setup, auto&& step, auto&& first_update, int steps) {
    setup();
    out.setup = out.live;
    step();
    first_update();
    out.steady = player.live();
    for (int i = 1; i < steps; ++i) step();
  };
  const auto list = [&] { memory.walk(ranks.step, kept, listed); };
  switch (framework.states) {
    case StateLayout::listed: play([&] { memory.walk(ranks.setup, kept, listed); }, list, [] {}, 2); break;
    case StateLayout::contiguous: {
      ContiguousSetup states(program, rank_class);
      play([&] { states.setup(visit); }, list, [&] { states.first_update(visit); }, 3);
      break;
    }
    case StateLayout::fsdp: {
      FsdpMemory states(memory, rank_class, whole(framework.kept_products));
      play([&] { states.setup(visit); }, [&] { states.step(visit); }, [&] { states.first_update(visit); }, 3);
      break;
    }
  }
  player.finish();
  return out;
}

}  // namespace

std::vector<MemoryFigures> memory_figures(const Program& program, const FrameworkMemory& framework,
                                          const AllocatorRules& rules) {
  const HeldMemory memory(program, framework);
  std::vector<MemoryFigures> out;
  for (std::uint32_t c = 0; c < program.classes.size(); ++c) out.push_back(figures_of(memory, c, framework, rules));
  return out;
}

std::uint64_t communicator_count(const Program& program) {
  std::vector<Group> groups;
  for (const Group& g : program.groups) {
    if (group_size(g, program.mesh) > 1 && std::find(groups.begin(), groups.end(), g) == groups.end()) {
      groups.push_back(g);
    }
  }
  return groups.size();
}

}  // namespace orrery
