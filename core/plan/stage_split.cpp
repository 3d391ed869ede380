#include "core/plan/stage_split.hpp"

#include <algorithm>

#include "core/base/diagnostics.hpp"

namespace orrery {

std::vector<std::vector<std::uint32_t>> uneven_stages(std::uint64_t layers, std::uint32_t stages, std::uint32_t reach) {
  ORRERY_ASSERT(stages >= 1 && stages <= layers, stages, layers);
  const std::uint64_t q = layers / stages;
  const std::uint64_t r = layers % stages;
  const std::uint64_t least = q > reach ? q - reach : 1;
  std::vector<std::vector<std::uint32_t>> splits;
  if (stages == 1) return {{static_cast<std::uint32_t>(layers)}};
  if (stages == 2) {
    for (std::uint64_t first = least; first <= std::min(q + r + reach, layers - 1); ++first) {
      splits.push_back({static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(layers - first)});
    }
    return splits;
  }
  const std::uint64_t most = q + std::min<std::uint64_t>(1, r);
  const std::uint64_t between = stages - 2;
  for (std::uint64_t first = least; first <= most; ++first) {
    for (std::uint64_t last = least; last <= most; ++last) {
      if (first + last + between > layers) continue;
      const std::uint64_t rest = layers - first - last;
      std::vector<std::uint32_t> split = {static_cast<std::uint32_t>(first)};
      for (std::uint64_t i = 0; i < between; ++i) {
        split.push_back(static_cast<std::uint32_t>(rest / between + (i < rest % between ? 1 : 0)));
      }
      split.push_back(static_cast<std::uint32_t>(last));
      splits.push_back(std::move(split));
    }
  }
  return splits;
}

}  // namespace orrery
