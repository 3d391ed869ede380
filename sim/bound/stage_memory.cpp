#include "sim/bound/stage_memory.hpp"

#include <algorithm>

namespace orrery {
namespace {

/// Live memory from the start of a pass.
struct Walk {
  std::int64_t live = 0;
  std::int64_t peak = 0;
  void run(const MemoryChange& change, std::int64_t repeat = 1) {
    peak = std::max(peak, live + change.peak + std::max<std::int64_t>(0, (repeat - 1) * change.net));
    live += repeat * change.net;
  }
  void move(std::int64_t bytes) { run({bytes, std::max<std::int64_t>(0, bytes)}); }
};

/// ZeRO-2 and 3 add whole copies to a block: gradients from its first op on,
/// weights until its last use of them, and beside it the next layer's where they are gathered ahead.
MemoryChange with_copies(MemoryChange change, std::uint64_t gradients, std::uint64_t weights, std::uint64_t ahead) {
  const auto extra = static_cast<std::int64_t>(gradients + ahead);
  change.peak = std::max(change.peak + extra, change.weights_peak + extra + static_cast<std::int64_t>(weights));
  return change;
}

}  // namespace

PassMemory pass_memory(const PerCase<const BlockCosts*>& blocks, const StateCosts& state, const StageShare& stage,
                       const Plan& plan) {
  const BlockCosts& ends = *blocks[index(LayerCase::plain)];
  const PerBlock<MemoryChange>& change = ends.memory();
  const auto hidden = static_cast<std::int64_t>(ends.hidden_bytes());
  const auto gradient = static_cast<std::int64_t>(ends.gradient_bytes());
  const bool keeps = state.zero() >= 3 && !plan.reshard_after_forward;
  const bool gathers = state.zero() >= 3 && !keeps;
  const std::uint32_t count = stage.count();
  // Of layers that gather ahead the last on the way is left out: what it keeps is not.
  const bool uneven = state.zero() >= 2 && count > 1;
  const auto run_layers = [&](Walk& walk, std::size_t c, MemoryChange PerBlock<MemoryChange>::*pass, bool backward,
                              bool last) {
    if (stage.layers[c] == 0) return;
    const MemoryChange& plain = blocks[c]->memory().*pass;
    const auto layers = static_cast<std::int64_t>(stage.layers[c]);
    if (state.zero() < 2) {
      walk.run(plain, layers);
      return;
    }
    const ModuleState& layer = state.layer(static_cast<LayerCase>(c));
    const std::uint64_t weights = gathers ? layer.whole_weight_bytes : 0;
    const std::uint64_t ahead = plan.prefetch > 0 && count > 1 ? weights : 0;
    const MemoryChange with = with_copies(plain, backward ? layer.whole_gradient_bytes : 0, weights, ahead);
    const bool apart = uneven && last;
    if (layers > (apart ? 1 : 0)) walk.run(with, apart ? layers - 1 : layers);
    if (apart) walk.run(plain);
  };
  const std::size_t lowest = stage.lowest(), highest = stage.highest();
  Walk forward;
  if (stage.first) {
    forward.run(change.embedding_forward);
  } else if (!stage.from_here) {
    forward.move(hidden);
  }
  for (std::size_t c = lowest; c <= highest; ++c) {
    run_layers(forward, c, &PerBlock<MemoryChange>::layer_forward, false, c == highest);
  }
  if (stage.last) {
    forward.run(change.head_forward);
  } else if (!stage.to_here) {
    forward.move(-hidden);
  }
  Walk backward;
  if (stage.last) {
    backward.run(change.head_backward);
  } else if (!stage.to_here) {
    backward.move(gradient);
  }
  for (std::size_t c = highest + 1; c-- > lowest;) {
    run_layers(backward, c, &PerBlock<MemoryChange>::layer_backward, true, c == lowest);
  }
  if (stage.first) {
    backward.run(change.embedding_backward);
  } else if (!stage.from_here) {
    backward.move(-gradient);
  }
  Walk weight;
  for (std::size_t c = lowest; c <= highest; ++c) {
    if (stage.layers[c] > 0) weight.run(blocks[c]->memory().layer_weight, stage.layers[c]);
  }
  PassMemory pass{{forward.live, forward.peak, 0}, {backward.live, backward.peak, 0}, {weight.live, weight.peak, 0}};
  // Kept weights are all there before the first backward pass.
  if (keeps) {
    for (std::size_t c = lowest; c <= highest; ++c) {
      pass.backward.peak +=
          static_cast<std::int64_t>(stage.layers[c] * state.layer(static_cast<LayerCase>(c)).whole_weight_bytes);
    }
  }
  return pass;
}

std::vector<std::uint64_t> microbatches_in_flight(const Plan& plan, std::uint32_t rank, std::uint64_t microbatches) {
  const std::uint32_t chunks = plan.chunks;
  const std::uint64_t p = plan.mesh.size(Axis::pipeline);
  const std::uint64_t m = microbatches, v = chunks, below = p - 1 - rank;
  switch (plan.schedule) {
    // Whichever direction's backward pass comes first.
    case ScheduleName::chimera:
    case ScheduleName::dualpipe: return {0, 1};
    case ScheduleName::gpipe:
    case ScheduleName::breadth_first: return std::vector<std::uint64_t>(chunks, m);
    case ScheduleName::one_f_one_b:
    case ScheduleName::zb_h1: return {std::min(m, below + 1)};
    case ScheduleName::eager_one_f_one_b:
    case ScheduleName::zb_h2: return {std::min(m, 2 * below + 1)};
    case ScheduleName::interleaved: {
      const std::uint64_t ahead = m == p ? m * v : std::min(m * v, 2 * below + (v - 1) * p + 1);
      std::vector<std::uint64_t> in_flight(chunks);
      for (std::uint64_t c = 0; c < v; ++c) {
        const std::uint64_t rest = ahead % (p * v);
        in_flight[c] = ahead / (p * v) * p + std::min(p, rest - std::min(rest, c * p));
      }
      return in_flight;
    }
    case ScheduleName::zb_v:
      // For other times, or to fill the pipe, orders are searched.
      if (plan.action_times != ActionTimes{} || m < 2 * p) break;
      return {std::min(m, 2 * (below + 1) - 1 + rank), std::min<std::uint64_t>(m, rank + 1)};
    case ScheduleName::v_half:
    case ScheduleName::v_min:
    case ScheduleName::dualpipe_v:
    case ScheduleName::custom: break;  // the microbatch whose backward pass comes first
  }
  return std::vector<std::uint64_t>(chunks, 1);
}

std::uint64_t activation_peak(const PassMemory& pass, std::uint64_t in_flight) {
  const auto n = static_cast<std::int64_t>(in_flight);
  return static_cast<std::uint64_t>(
      std::max((n - 1) * pass.forward.net + pass.forward.peak, n * pass.forward.net + pass.backward.peak));
}

std::uint64_t activation_bytes(const PassMemory* chunks, const std::vector<std::uint64_t>& in_flight) {
  const std::size_t last = in_flight.size() - 1;
  std::uint64_t bytes = activation_peak(chunks[last], in_flight[last]);
  for (std::size_t c = 0; c < last; ++c) bytes += in_flight[c] * static_cast<std::uint64_t>(chunks[c].forward.net);
  return bytes;
}

std::uint64_t persistent_bytes(const StateCosts& state, const StageShare& stage) {
  const std::uint64_t dense = stage.dense();
  return (stage.count() - dense) * state.layer().persistent_bytes +
         (dense > 0 ? dense * state.layer(LayerCase::dense).persistent_bytes : 0) +
         (stage.first ? state.embedding().persistent_bytes : 0) + (stage.last ? state.head().persistent_bytes : 0);
}

}  // namespace orrery
