#pragma once

#include <cstdint>
#include <map>
#include <vector>

namespace orrery {

/// The choices of learned routing in one layer, over all microbatches and steps, beside the room that the Program had.
struct LayerCounts {
  std::vector<std::uint64_t> chosen;  ///< choices of each expert, dropped ones included
  std::uint64_t kept = 0;             ///< of which no capacity dropped
  std::uint64_t room = 0;             ///< rows that messages carried, empty ones included
  friend bool operator==(const LayerCounts&, const LayerCounts&) = default;
};

/// By layer.
using RoutingCounts = std::map<std::uint32_t, LayerCounts>;

/// Adds the counts of another rank.
inline void add_counts(RoutingCounts& sum, const RoutingCounts& more) {
  for (const auto& [layer, counts] : more) {
    LayerCounts& to = sum[layer];
    to.chosen.resize(counts.chosen.size());
    for (std::size_t e = 0; e < counts.chosen.size(); ++e) to.chosen[e] += counts.chosen[e];
    to.kept += counts.kept;
    to.room += counts.room;
  }
}

}  // namespace orrery
