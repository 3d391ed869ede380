#include "core/record/history_hash.hpp"

#include <vector>

#include "core/base/random.hpp"

namespace orrery {

std::uint64_t history_hash(const Trace& trace, std::span<const std::uint32_t> of_rank) {
  std::vector<std::uint64_t> ranks;
  ranks.reserve(trace.ranks.size());
  for (const RankTrace& r : trace.ranks) {
    std::uint64_t h = mix(r.spans.size());
    for (const Span& s : r.spans) {
      h = mix(h ^ static_cast<std::uint64_t>(s.start));
      h = mix(h ^ static_cast<std::uint64_t>(s.end));
    }
    ranks.push_back(h);
  }
  const std::size_t count = of_rank.empty() ? ranks.size() : of_rank.size();
  std::uint64_t all = mix(count);
  for (std::size_t r = 0; r < count; ++r) all = mix(all ^ ranks[of_rank.empty() ? r : of_rank[r]]);
  return all;
}

}  // namespace orrery
