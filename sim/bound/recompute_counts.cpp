#include "sim/bound/recompute_counts.hpp"

namespace orrery {

std::optional<std::uint32_t> recompute_one_more(std::vector<std::uint32_t>& counts,
                                                const std::vector<std::uint32_t>& stage_layers, const StageMap& map,
                                                std::uint32_t rank) {
  std::optional<std::uint32_t> next;
  for (std::uint32_t c = 0; c < map.chunks; ++c) {
    const std::uint32_t s = map.stage(rank, c);
    if (counts[s] == stage_layers[s]) continue;
    if (!next || counts[s] < counts[*next] || (counts[s] == counts[*next] && s < *next)) next = s;
  }
  if (next) ++counts[*next];
  return next;
}

}  // namespace orrery
