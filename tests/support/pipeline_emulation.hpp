#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/plan/schedule_rules.hpp"
#include "core/program/lower/schedule.hpp"

namespace orrery::test {

/// Whole times of one stage's actions, and of a message between ranks.
struct StageCosts {
  std::int64_t forward = 1, backward = 1, weight = 1, message = 0;
};

struct Emulated {
  bool deadlock = false;
  std::int64_t makespan = 0;                    ///< from 0 to the last end
  std::int64_t span = 0;                        ///< largest over ranks, from its first start to its last end
  std::vector<std::int64_t> idle;               ///< of each rank, from 0 to makespan
  std::vector<std::int64_t> peak;               ///< chunks of each rank that have run forward and not backward
  std::vector<std::int64_t> peak_with_weights;  ///< the same up to their weight gradients
};

/// Runs compute orders in exact integers, without using lowering. Every rank works through its list; an action starts
/// when the rank is free and its inputs are there. Forward needs the stage below, backward its own forward and the
/// stage above, weight its own backward. Between ranks a message comes `message` later, beside compute. Every stage
/// costs the same.
inline Emulated emulate(const lowering::Orders& orders, const StageMap& map, std::uint32_t microbatches,
                        const StageCosts& costs) {
  using lowering::Action;
  using lowering::Phase;
  const std::size_t all = std::size_t{map.stages()} * microbatches;
  std::vector<std::int64_t> forward(all, -1), backward(all, -1), weight(all, -1);
  const auto at = [&](std::uint32_t stage, std::uint32_t m) { return std::size_t{stage} * microbatches + m; };
  std::vector<std::size_t> next(orders.size());
  std::vector<std::int64_t> free(orders.size()), first(orders.size(), -1), busy(orders.size());
  // When the action's inputs are there; empty where that is not yet known.
  const auto ready = [&](std::uint32_t rank, const Action& a) -> std::optional<std::int64_t> {
    const std::uint32_t stage = map.stage(rank, a.chunk);
    std::int64_t when = 0;
    bool known = true;
    const auto needs = [&](const std::vector<std::int64_t>& ends, std::uint32_t of) {
      const std::int64_t end = ends[at(of, a.microbatch)];
      known = known && end >= 0;
      when = std::max(when, end + (map.rank(of, map.pipe(a.chunk)) == rank ? 0 : costs.message));
    };
    if (a.phase == Phase::forward && stage > 0) needs(forward, stage - 1);
    if (a.phase == Phase::backward) {
      needs(forward, stage);
      if (stage + 1 < map.stages()) needs(backward, stage + 1);
    }
    if (a.phase == Phase::weight) needs(backward, stage);
    return known ? std::optional(when) : std::nullopt;
  };
  bool moved = true;
  while (moved) {
    moved = false;
    for (std::uint32_t r = 0; r < orders.size(); ++r) {
      while (next[r] < orders[r].size()) {
        const Action& a = orders[r][next[r]];
        const auto when = ready(r, a);
        if (!when) break;
        const std::int64_t start = std::max(*when, free[r]);
        const std::int64_t takes = a.phase == Phase::forward    ? costs.forward
                                   : a.phase == Phase::backward ? costs.backward
                                                                : costs.weight;
        if (first[r] < 0) first[r] = start;
        free[r] = start + takes;
        busy[r] += takes;
        auto& ends = a.phase == Phase::forward ? forward : a.phase == Phase::backward ? backward : weight;
        ends[at(map.stage(r, a.chunk), a.microbatch)] = free[r];
        ++next[r];
        moved = true;
      }
    }
  }
  Emulated out;
  for (std::uint32_t r = 0; r < orders.size(); ++r) {
    out.deadlock = out.deadlock || next[r] < orders[r].size();
    out.makespan = std::max(out.makespan, free[r]);
    out.span = std::max(out.span, free[r] - first[r]);
    std::int64_t now = 0, kept = 0, most = 0, most_kept = 0;
    const bool split =
        std::any_of(orders[r].begin(), orders[r].end(), [](const Action& a) { return a.phase == Phase::weight; });
    for (const Action& a : orders[r]) {
      if (a.phase == Phase::forward) ++now, ++kept;
      most = std::max(most, now);
      most_kept = std::max(most_kept, kept);
      if (a.phase == Phase::backward) --now;
      if (a.phase == (split ? Phase::weight : Phase::backward)) --kept;
    }
    out.peak.push_back(most);
    out.peak_with_weights.push_back(most_kept);
  }
  for (std::uint32_t r = 0; r < orders.size(); ++r) out.idle.push_back(out.makespan - busy[r]);
  return out;
}

}  // namespace orrery::test
