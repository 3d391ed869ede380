#include "framework/torchtitan/stages.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/plan/schedule_rules.hpp"

namespace orrery {

std::optional<std::vector<std::uint32_t>> titan_stage_layers(std::uint64_t layers, std::uint64_t stages,
                                                             std::uint64_t first, std::uint64_t last) {
  if (stages == 0 || stages > layers || first > layers || last > layers) return std::nullopt;
  if (stages == 1) return std::vector<std::uint32_t>{static_cast<std::uint32_t>(layers)};
  const std::uint64_t weight = layers + first + last;
  const std::uint64_t share = weight / stages, left = weight % stages;
  if (first > share || last > share) return std::nullopt;
  std::vector<std::uint32_t> out;
  for (std::uint64_t i = 0; i < stages; ++i) {
    const std::uint64_t n = share + (i < left ? 1 : 0);
    const std::uint64_t other = i == 0 ? first : i + 1 == stages ? last : 0;
    out.push_back(static_cast<std::uint32_t>(n - other));
  }
  return out;
}

std::vector<std::uint32_t> every_nth_layer(const std::vector<std::uint32_t>& stage_layers, std::uint32_t ranks,
                                           StagePlacement placement, std::uint32_t every) {
  const StageMap map{ranks, static_cast<std::uint32_t>(stage_layers.size()) / ranks, placement};
  std::vector<std::uint32_t> out(stage_layers.size());
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    std::uint32_t counted = 0;
    for (std::uint32_t chunk = 0; chunk < map.chunks; ++chunk) {
      const std::uint32_t stage = map.stage(rank, chunk);
      const std::uint32_t before = counted / every;
      counted += stage_layers[stage];
      out[stage] = counted / every - before;
    }
  }
  return out;
}

std::string toml_list(const std::vector<std::uint32_t>& numbers) {
  return fmt::format("[{}]", fmt::join(numbers, ", "));
}

}  // namespace orrery
