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

}  // namespace

PassMemory pass_memory(const BlockCosts& blocks, const StageShare& stage) {
  const PerBlock<MemoryChange>& change = blocks.memory();
  const auto hidden = static_cast<std::int64_t>(blocks.hidden_bytes());
  const auto gradient = static_cast<std::int64_t>(blocks.gradient_bytes());
  const auto layers = static_cast<std::int64_t>(stage.layers);
  Walk forward;
  if (stage.first) {
    forward.run(change.embedding_forward);
  } else {
    forward.move(hidden);
  }
  forward.run(change.layer_forward, layers);
  if (stage.last) {
    forward.run(change.head_forward);
  } else {
    forward.move(-hidden);
  }
  Walk backward;
  if (stage.last) {
    backward.run(change.head_backward);
  } else {
    backward.move(gradient);
  }
  backward.run(change.layer_backward, layers);
  if (stage.first) {
    backward.run(change.embedding_backward);
  } else {
    backward.move(-gradient);
  }
  return {static_cast<std::uint64_t>(forward.live), static_cast<std::uint64_t>(forward.peak),
          static_cast<std::uint64_t>(backward.peak)};
}

std::uint64_t microbatches_in_flight(ScheduleName schedule, std::uint32_t stage, std::uint32_t stages,
                                     std::uint64_t microbatches) {
  switch (schedule) {
    case ScheduleName::gpipe: return microbatches;
    case ScheduleName::one_f_one_b: return std::min<std::uint64_t>(microbatches, stages - stage);
    // clang-format off
    case ScheduleName::eager_one_f_one_b: case ScheduleName::interleaved: case ScheduleName::breadth_first:
    case ScheduleName::zb_h1: case ScheduleName::zb_h2: case ScheduleName::zb_v: case ScheduleName::custom:
    case ScheduleName::v_half: case ScheduleName::v_min: case ScheduleName::dualpipe_v: break;  // bound_covers none
    // clang-format on
  }
  return microbatches;
}

std::uint64_t activation_peak(const PassMemory& pass, std::uint64_t in_flight) {
  return std::max((in_flight - 1) * pass.kept + pass.forward_peak, in_flight * pass.kept + pass.backward_peak);
}

std::uint64_t persistent_bytes(const StateCosts& state, const StageShare& stage) {
  return stage.layers * state.layer().persistent_bytes + (stage.first ? state.embedding().persistent_bytes : 0) +
         (stage.last ? state.head().persistent_bytes : 0) + state.scalar_bytes();
}

}  // namespace orrery
