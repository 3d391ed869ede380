#include <algorithm>
#include <array>

#include "core/base/diagnostics.hpp"
#include "core/program/lower/schedule.hpp"

namespace orrery::lowering {
namespace {

// Qi et al., "Pipeline Parallelism with Controllable Memory", 2024: with all actions of one unit, a microbatch passes
// the V at fixed offsets, and the next one follows every six units. The variants differ in how fast it moves down and
// up the ranks. A chunk lives from its forward to its weight gradient. The lives of a rank's two chunks, in units of
// six, say how many chunks it holds.

constexpr std::uint32_t period = 6;

/// When rank i runs forward of chunks 0 and 1 and backward of 1 and 0.
struct Offsets {
  std::uint32_t forward[2], backward[2];
};

/// Two units a stage where the first forward and the second backward go down, one where they go up again: on every rank
/// both chunks together live 6 p units and a little.
Offsets v_half_offsets(std::uint32_t p, std::uint32_t i) {
  const std::uint32_t turn = 3 * p - 2, even = p % 2 == 0 ? 3 : 0;  // 3: no two actions of a rank at once
  return {{2 * i, turn - i}, {6 * p - 2 + even - i, turn + 1 + even + 2 * i}};
}

/// One unit a stage all the way: both chunks live 4 p units and a little.
Offsets v_min_offsets(std::uint32_t p, std::uint32_t i) {
  const std::uint32_t third = p % 3 == 0 ? 2 : 0;
  return {{i, 2 * p - 1 - i}, {4 * p - 1 + third - i, 2 * p + third + i}};
}

/// A rank's six actions of one microbatch, by the unit of the period in which they stand.
struct Pattern {
  struct Slot {
    Phase phase = Phase::forward;
    std::uint32_t chunk = 0, start = 0;
    bool taken = false;
  };
  std::array<Slot, period> slots{};

  void put(Phase phase, std::uint32_t chunk, std::uint32_t start) {
    Slot& slot = slots[start % period];
    ORRERY_ASSERT(!slot.taken, start);
    slot = {phase, chunk, start, true};
  }
};

/// The first unit after `start` that lies in the given one of the period.
std::uint32_t next_in(std::uint32_t unit, std::uint32_t start) {
  return start + 1 + (unit + period - (start + 1) % period) % period;
}

/// Most chunks that are held at once, once the pattern repeats.
std::uint32_t held(const Offsets& o, const std::array<std::uint32_t, 2>& weight) {
  std::uint32_t most = 0;
  const std::uint32_t begin = period * (*std::max_element(weight.begin(), weight.end()) / period + 1);
  for (std::uint32_t t = begin; t < begin + period; ++t) {
    std::uint32_t now = 0;
    for (std::uint32_t c = 0; c < 2; ++c) {
      now += (t - o.forward[c]) / period + 1;        // forwards up to this unit
      now -= (t + period - 1 - weight[c]) / period;  // weight gradients before it
    }
    most = std::max(most, now);
  }
  return most;
}

/// The four offsets, with weight gradients in the two units that are left, so that as little as possible is held.
Pattern pattern_of(const Offsets& o) {
  Pattern pattern;
  for (std::uint32_t c = 0; c < 2; ++c) {
    pattern.put(Phase::forward, c, o.forward[c]);
    pattern.put(Phase::backward, c, o.backward[c]);
  }
  std::array<std::uint32_t, 2> left{};
  std::uint32_t found = 0;
  for (std::uint32_t unit = 0; unit < period; ++unit) {
    if (!pattern.slots[unit].taken) left[found++] = unit;
  }
  const std::array<std::uint32_t, 2> one{next_in(left[0], o.backward[0]), next_in(left[1], o.backward[1])};
  const std::array<std::uint32_t, 2> other{next_in(left[1], o.backward[0]), next_in(left[0], o.backward[1])};
  const auto& weight = held(o, other) < held(o, one) ? other : one;
  for (std::uint32_t c = 0; c < 2; ++c) pattern.put(Phase::weight, c, weight[c]);
  return pattern;
}

Orders repeated(const PipelineShape& shape, Offsets (*offsets)(std::uint32_t, std::uint32_t)) {
  Orders orders(shape.ranks);
  for (std::uint32_t rank = 0; rank < shape.ranks; ++rank) {
    const Pattern pattern = pattern_of(offsets(shape.ranks, rank));
    std::vector<Action>& order = orders[rank];
    const std::size_t all = std::size_t{period} * shape.microbatches;
    order.reserve(all);
    for (std::uint32_t t = 0; order.size() < all; ++t) {
      const Pattern::Slot& slot = pattern.slots[t % period];
      if (t < slot.start) continue;
      const std::uint32_t microbatch = (t - slot.start) / period;
      if (microbatch < shape.microbatches) order.push_back({slot.phase, slot.chunk, microbatch});
    }
  }
  return orders;
}

}  // namespace

Orders schedule_v_half(const PipelineShape& shape) { return repeated(shape, v_half_offsets); }
Orders schedule_v_min(const PipelineShape& shape) { return repeated(shape, v_min_offsets); }

}  // namespace orrery::lowering
