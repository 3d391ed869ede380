#include "sim/bound/pipeline_bound.hpp"

#include <algorithm>

#include "core/base/diagnostics.hpp"

namespace orrery {
namespace {

using Sums = PipelineStorage;

/// Sums over stages 0 .. i - 1, so that any window is a difference.
void add_up(Sums& sums, const std::vector<StageTimes>& stages) {
  sums.way.resize(stages.size() + 1);
  sums.round.resize(stages.size() + 1);
  sums.way[0] = sums.round[0] = 0;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const StageTimes& s = stages[i];
    sums.way[i + 1] = sums.way[i] + s.forward + s.send_hidden;
    sums.round[i + 1] = sums.round[i] + s.forward + s.backward + s.send_hidden + s.send_gradient;
  }
}

/// 1F1B: the window i .. j (docstring of backward_ends).
Picoseconds window_end(const std::vector<StageTimes>& stages, const Sums& sums, std::int64_t m, std::size_t i,
                       std::size_t j, Picoseconds entry) {
  const auto p = static_cast<std::int64_t>(stages.size());
  const auto ahead_i = p - 1 - static_cast<std::int64_t>(i);
  const auto first = p - 1 - static_cast<std::int64_t>(j);  // first forward of j that a backward follows
  const auto k = static_cast<std::int64_t>(j - i + 1);
  if (m - 1 < first) return 0;
  const std::int64_t cycles = (m - 1 - first) / k;
  const std::int64_t at = first + cycles * k;
  const Picoseconds cycle = sums.round[j + 1] - sums.round[i] - stages[j].send_hidden - stages[j].send_gradient;
  const std::int64_t backwards = std::max<std::int64_t>(0, m - 1 - ahead_i) - std::max<std::int64_t>(0, at - ahead_i);
  return entry + first * stages[i].forward + cycles * cycle + (m - 1 - at) * stages[i].forward +
         backwards * stages[i].backward + sums.round.back() - sums.round[i];
}

void one_f_one_b(const std::vector<StageTimes>& stages, const Sums& sums, std::int64_t m,
                 std::vector<Picoseconds>& end) {
  const std::size_t p = stages.size();
  const auto entry = [&](std::size_t i) { return std::max(stages[0].clear + sums.way[i], stages[i].clear); };
  for (std::size_t i = 0; i < p; ++i) {
    const auto ahead = static_cast<std::int64_t>(p - 1 - i);
    end[i] = std::max(end[i], entry(i) + sums.round.back() - sums.round[i] +
                                  std::max<std::int64_t>(0, m - 1 - ahead) * stages[i].forward +
                                  (m - 1) * stages[i].backward);
  }
  const auto consider = [&](std::size_t i, std::size_t j) {
    if (i < j) end[i] = std::max(end[i], window_end(stages, sums, m, i, j, entry(i)));
  };
  consider(0, p - 1);
  if (p < 3) return;
  consider(0, p - 2);
  consider(1, p - 1);
  consider(1, p - 2);
  // The first stages between the ends hold more layers than the last of them where the split is uneven.
  std::size_t large = 1;
  while (large + 1 < p - 1 && stages[large + 1].forward == stages[1].forward) ++large;
  consider(0, large);
  consider(1, large);
}

/// The messages of one direction over one boundary follow each other.
void messages(const std::vector<StageTimes>& stages, const Sums& sums, std::int64_t m, std::vector<Picoseconds>& end) {
  for (std::size_t i = 0; i + 1 < stages.size(); ++i) {
    const Picoseconds entry = stages[0].clear + sums.way[i];
    const Picoseconds beyond = sums.round.back() - sums.round[i + 1];
    const Picoseconds down = entry + stages[i].forward + m * stages[i].send_hidden + beyond;
    const Picoseconds up =
        stages[0].clear + sums.way[i + 1] + beyond + m * stages[i].send_gradient + stages[i].backward;
    end[i + 1] = std::max(end[i + 1], down);
    end[i] = std::max(end[i], up);
  }
}

void gpipe(const std::vector<StageTimes>& stages, const Sums& sums, std::int64_t m, std::vector<Picoseconds>& end) {
  const std::size_t p = stages.size();
  Picoseconds turn = 0;  // when the last stage has run all forwards
  for (std::size_t i = 0; i < p; ++i) {
    const Picoseconds entry = std::max(stages[0].clear + sums.way[i], stages[i].clear);
    turn = std::max(turn, entry + (m - 1) * stages[i].forward + sums.way[p] - sums.way[i]);
  }
  Picoseconds up = 0;  // from the turn to the entry of the first backward
  for (std::size_t i = p; i-- > 0;) {
    up += stages[i].send_gradient;
    end[i] = std::max(end[i], turn + up + m * stages[i].backward);
    up += stages[i].backward;
  }
}

}  // namespace

std::vector<Picoseconds> backward_ends(const std::vector<StageTimes>& stages, ScheduleName schedule,
                                       std::uint64_t microbatches, bool concurrent_lanes) {
  PipelineStorage storage;
  backward_ends(storage, stages, schedule, microbatches, concurrent_lanes);
  return std::move(storage.end);
}

const std::vector<Picoseconds>& backward_ends(PipelineStorage& storage, const std::vector<StageTimes>& stages,
                                              ScheduleName schedule, std::uint64_t microbatches,
                                              bool concurrent_lanes) {
  ORRERY_ASSERT(!stages.empty() && microbatches >= 1, stages.size(), microbatches);
  const std::size_t p = stages.size();
  const auto m = static_cast<std::int64_t>(microbatches);
  add_up(storage, stages);
  const Sums& sums = storage;
  std::vector<Picoseconds>& end = storage.end;
  end.assign(p, 0);
  for (std::size_t i = 0; i < p; ++i) {
    Picoseconds entry = stages[0].clear + sums.way[i];
    Picoseconds each = stages[i].forward + stages[i].backward;
    if (!concurrent_lanes) {
      // Receiving from the previous stage and sending back to it are this rank's own work.
      each += stages[i].send_hidden + stages[i].send_gradient;
      if (i > 0) {
        entry -= stages[i - 1].send_hidden;
        each += stages[i - 1].send_hidden + stages[i - 1].send_gradient;
      }
    }
    end[i] =
        std::max(entry, stages[i].clear) + m * each + (m - 1) * (stages[i].before_forward + stages[i].before_backward);
  }
  if (concurrent_lanes) {
    messages(stages, sums, m, end);
    switch (schedule) {
      case ScheduleName::gpipe: gpipe(stages, sums, m, end); break;
      case ScheduleName::one_f_one_b: one_f_one_b(stages, sums, m, end); break;
      // clang-format off
      case ScheduleName::eager_one_f_one_b: case ScheduleName::interleaved: case ScheduleName::breadth_first:
      case ScheduleName::zb_h1: case ScheduleName::zb_h2: case ScheduleName::zb_v: case ScheduleName::custom:
      case ScheduleName::v_half: case ScheduleName::v_min: case ScheduleName::dualpipe_v:
      case ScheduleName::chimera: case ScheduleName::dualpipe: break;  // bound_covers none of them
        // clang-format on
    }
  }
  for (std::size_t i = p - 1; i-- > 0;) {
    Picoseconds drain = stages[i].backward;
    if (concurrent_lanes) {
      drain += stages[i].send_gradient;
    } else if (i > 0) {
      drain += stages[i - 1].send_gradient;  // its own message back, as own work counts it
    }
    end[i] = std::max(end[i], end[i + 1] + drain);
  }
  return end;
}

const std::vector<Picoseconds>& rank_ends(PipelineStorage& storage, const std::vector<StageTimes>& stages,
                                          const StageMap& map, std::uint64_t microbatches, bool concurrent_lanes,
                                          bool whole_backward) {
  ORRERY_ASSERT(stages.size() == map.stages() && microbatches >= 1, stages.size(), map.stages());
  const auto m = static_cast<Picoseconds>(microbatches) / map.pipes();
  std::vector<Picoseconds>& end = storage.end;
  std::vector<Picoseconds>& clear = storage.clear;
  end.assign(map.ranks, 0);
  clear.assign(map.ranks, 0);
  for (std::uint32_t i = 0; i < stages.size() * map.pipes(); ++i) {
    const std::uint32_t s = i / map.pipes(), rank = map.rank(s, i % map.pipes());
    clear[rank] += stages[s].clear;
    const StageTimes& t = stages[s];
    Picoseconds each = t.forward + t.backward + t.weight;
    // Where a device does one op at a time, messages count as work of both ends.
    if (!concurrent_lanes) {
      each += t.send_hidden + t.send_gradient;
      if (s > 0) each += stages[s - 1].send_hidden + stages[s - 1].send_gradient;
    }
    end[rank] += m * each + (m - 1) * (t.before_forward + t.before_backward);
  }
  if (map.two_way()) {
    // The first passes of the two ends meet in the middle.
    Picoseconds reached = 0;
    for (std::uint32_t r = 0; 2 * r < map.ranks; ++r) {
      for (const std::uint32_t rank : {r, map.ranks - 1 - r}) end[rank] += std::max(reached, clear[rank]);
      reached += stages[r].forward + (concurrent_lanes ? stages[r].send_hidden : 0);
    }
    return end;
  }
  // Both placements reach the ranks one after the other: the lowest stage of rank r is stage r.
  Picoseconds way = clear[0];
  for (std::uint32_t r = 0; r < map.ranks; ++r) {
    const Picoseconds message = r > 0 && !concurrent_lanes ? stages[r - 1].send_hidden : 0;
    end[r] += std::max(way - message, clear[r]);
    way += stages[r].forward + stages[r].send_hidden;
  }
  if (!whole_backward) return end;
  for (std::uint32_t r = map.ranks - 1; r-- > 0;) {
    const Picoseconds message = concurrent_lanes ? stages[r].send_gradient : 0;
    end[r] = std::max(end[r], end[r + 1] + message + stages[r].backward);
  }
  return end;
}

}  // namespace orrery
