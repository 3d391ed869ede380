#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "core/program/program.hpp"
#include "sim/memory/caching_allocator.hpp"
#include "sim/memory/framework_memory.hpp"

namespace orrery {

/// Device memory of the ranks of one class, over setup and two steps: the first finds the allocator empty, the second
/// as the first has left it. Where the first update makes the moments, the second step finds them in its way, so there
/// is a third.
struct MemoryFigures {
  std::uint32_t stage = 0;
  std::uint64_t live = 0;       ///< largest sum of what the tensors ask for
  std::uint64_t setup = 0;      ///< the same while weights and states are made
  std::uint64_t steady = 0;     ///< live between steps
  std::uint64_t allocated = 0;  ///< largest sum of blocks in use: torch.cuda.max_memory_allocated
  std::uint64_t reserved = 0;   ///< largest sum of segments: torch.cuda.max_memory_reserved
  std::uint64_t retries = 0;    ///< how often the allocator gave segments back to make room
  bool fits = true;             ///< into the rules' capacity, if necessary by giving segments back
  friend bool operator==(const MemoryFigures&, const MemoryFigures&) = default;
};

/// Whether repeated parts are skipped, or played all the same. Both give the same figures; the second is there to be
/// compared.
enum class Repeats : std::uint8_t { skipped, played };

/// The figures of every class of ranks; with many classes several threads play them.
[[nodiscard]] std::vector<MemoryFigures> memory_figures(const Program&, const FrameworkMemory& = {},
                                                        const AllocatorRules& = {}, Repeats = Repeats::skipped);

/// Plays the classes in `order` until `enough(class, its figures)` is true; each takes milliseconds. Classes that are
/// not played have no figures.
[[nodiscard]] std::vector<std::optional<MemoryFigures>> memory_figures_until(
    const Program&, const FrameworkMemory&, const AllocatorRules&, const std::vector<std::uint32_t>& order,
    const std::function<bool(std::uint32_t, const MemoryFigures&)>& enough);

}  // namespace orrery
