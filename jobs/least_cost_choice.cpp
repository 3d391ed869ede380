#include "jobs/least_cost_choice.hpp"

#include <cstddef>
#include <limits>

#include "core/base/diagnostics.hpp"

namespace orrery {

std::vector<std::uint32_t> least_cost_choice(const std::vector<std::vector<CostedChoice>>& lists, std::uint32_t room) {
  const std::size_t width = std::size_t{room} + 1;
  std::vector<std::int64_t> least(width, 0), next(width);  // by room, for the lists so far
  std::vector<std::uint32_t> chosen(lists.size() * width);
  for (std::size_t i = 0; i < lists.size(); ++i) {
    for (std::size_t r = 0; r < width; ++r) {
      std::int64_t best = std::numeric_limits<std::int64_t>::max();
      for (std::size_t c = 0; c < lists[i].size(); ++c) {
        if (lists[i][c].takes > r) continue;
        const std::int64_t cost = least[r - lists[i][c].takes] + lists[i][c].cost;
        if (cost >= best) continue;
        best = cost;
        chosen[i * width + r] = static_cast<std::uint32_t>(c);
      }
      ORRERY_ASSERT(best < std::numeric_limits<std::int64_t>::max(), i);
      next[r] = best;
    }
    least.swap(next);
  }
  std::vector<std::uint32_t> out(lists.size());
  std::size_t left = room;
  for (std::size_t i = lists.size(); i-- > 0;) {
    out[i] = chosen[i * width + left];
    left -= lists[i][out[i]].takes;
  }
  return out;
}

}  // namespace orrery
