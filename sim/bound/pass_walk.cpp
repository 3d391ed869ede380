#include "sim/bound/pass_walk.hpp"

#include <algorithm>

namespace orrery {

using lowering::Action;
using lowering::Phase;

const std::vector<Picoseconds>& PassWalk::ends(const lowering::Orders& orders, const StageMap& map,
                                               const std::vector<StageTimes>& stages, std::uint32_t microbatches) {
  constexpr Picoseconds unknown = -1;
  const std::uint32_t count = map.stages(), last = count - 1;
  const std::size_t m = microbatches;
  now_.assign(map.ranks, 0);
  for (std::uint32_t r = 0; r < map.ranks; ++r) {
    for (std::uint32_t c = 0; c < map.chunks; ++c) now_[r] += stages[map.stage(r, c)].clear;
  }
  at_.assign(map.ranks, 0);
  begun_.assign(std::size_t{map.ranks} * map.chunks * 2, 0);
  // When the input of a forward pass, or the gradient for a backward pass, has come: by stage and microbatch.
  forward_.assign(count * m, unknown);
  backward_.assign(count * m, unknown);
  sent_.assign(std::size_t{count} * map.pipes(), 0);
  returned_.assign(std::size_t{count} * map.pipes(), 0);
  for (std::size_t k = 0; k < m; ++k) forward_[k] = backward_[last * m + k] = 0;
  for (bool moved = true; moved;) {
    moved = false;
    for (std::uint32_t r = 0; r < map.ranks; ++r) {
      const std::vector<Action>& order = orders[r];
      for (; at_[r] < order.size(); ++at_[r], moved = true) {
        const Action& a = order[at_[r]];
        const std::uint32_t s = map.stage(r, a.chunk);
        const StageTimes& t = stages[s];
        if (a.phase == Phase::weight) {
          now_[r] += t.weight;
          continue;
        }
        const bool up = a.phase == Phase::forward;
        const Picoseconds ready = (up ? forward_ : backward_)[s * m + a.microbatch];
        if (ready == unknown) break;
        // What stands in front of a chunk's first pass of its kind may have run ahead.
        std::uint8_t& begun = begun_[(std::size_t{r} * map.chunks + a.chunk) * 2 + (up ? 1U : 0U)];
        const Picoseconds between = begun != 0 ? (up ? t.before_forward : t.before_backward) : 0;
        begun = 1;
        now_[r] = std::max(now_[r] + between, ready) + (up ? t.forward : t.backward);
        if (s == (up ? last : 0)) continue;
        const std::uint32_t to = up ? s + 1 : s - 1;
        Picoseconds& arrival = (up ? forward_ : backward_)[to * m + a.microbatch];
        const std::uint32_t pipe = map.pipe(a.chunk);
        if (map.rank(to, pipe) == r) {
          arrival = now_[r];
          continue;
        }
        Picoseconds& link = (up ? sent_ : returned_)[std::size_t{s} * map.pipes() + pipe];
        link = std::max(link, now_[r]) + (up ? t.send_hidden : stages[to].send_gradient);
        arrival = link;
      }
    }
  }
  return now_;
}

std::uint64_t walked_peak(const std::vector<Action>& order, const std::vector<PassMemory>& chunks, std::uint64_t held) {
  std::int64_t live = 0, peak = 0;
  for (const Action& a : order) {
    const PassMemory& pass = chunks[a.chunk];
    const MemoryChange& change = a.phase == Phase::forward    ? pass.forward
                                 : a.phase == Phase::backward ? pass.backward
                                                              : pass.weight;
    peak = std::max(peak, live + change.peak);
    live += change.net;
  }
  return held + static_cast<std::uint64_t>(peak);
}

}  // namespace orrery
