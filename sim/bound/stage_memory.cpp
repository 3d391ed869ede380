#include "sim/bound/stage_memory.hpp"

#include <algorithm>

#include "core/plan/schedule_rules.hpp"
#include "sim/bound/coverage.hpp"

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

/// Runs the layers of a stage one by one, some of whose activations or weights wait in host memory (host_copies.cpp):
/// what a layer keeps leaves the device behind the next layer's forward pass and is there again from before that one's
/// backward pass on; weights come in before the layer below in the order of the pass runs, and leave behind their own.
class CopyingLayers {
 public:
  CopyingLayers(const StageShare& stage, const Plan& plan, const PerCase<const BlockCosts*>& blocks,
                std::uint64_t weights)
      : stage_(&stage),
        blocks_(&blocks),
        count_(stage.count()),
        away_(offloaded_layers(count_, *plan.offload_activations)),
        on_device_(count_ - offloaded_layers(count_, *plan.offload_parameters)),
        weights_(static_cast<std::int64_t>(weights)) {}
  [[nodiscard]] bool any() const { return away_ > 0 || on_device_ < count_; }

  /// Before the first block of a pass.
  void begin(Walk& walk, bool backward) const {
    const bool brings = backward ? on_device_ < count_ : on_device_ == 0;
    if (brings) walk.move(weights_);
    if (backward && away_ == count_) walk.move(kept(count_ - 1));
  }
  /// Layer `l` of the stage, which without copies does `change`.
  void run(Walk& walk, std::uint32_t l, MemoryChange change, bool backward) const {
    const bool own_weights = l >= on_device_;
    const bool next_weights = backward ? l > on_device_ : l + 1 < count_ && l + 1 >= on_device_;
    const bool copies = l > 0 && l <= away_;  // of the layer below
    const std::int64_t below = copies ? kept(l - 1) : 0;
    const std::int64_t comes = (next_weights ? weights_ : 0) + (backward ? below : 0);
    const std::int64_t leaves = (own_weights ? weights_ : 0) + (backward ? 0 : below);
    change.peak += comes;
    change.net += comes - leaves;
    walk.run(change);
  }
  /// Between the top layer and the head.
  void end_forward(Walk& walk) const {
    if (away_ == count_) walk.move(-kept(count_ - 1));
  }

 private:
  /// Of a layer; recomputed ones keep less.
  [[nodiscard]] std::int64_t kept(std::uint32_t l) const {
    return static_cast<std::int64_t>((*blocks_)[stage_->at(l)]->copied_bytes());
  }
  const StageShare* stage_;
  const PerCase<const BlockCosts*>* blocks_;
  std::uint32_t count_, away_, on_device_;
  std::int64_t weights_;
};

bool head_before_copies(const StateCosts& state, const Plan& plan, std::uint64_t microbatches) {
  if (!state.head_apart() || copied_eighths(plan) == 0) return false;
  return state.zero() >= 2 || (*plan.overlap_gradients && (microbatches == 1 || !is_plain(plan)));
}

PassMemory pass_memory(const PerCase<const BlockCosts*>& blocks, const StateCosts& state, const StageShare& stage,
                       const Plan& plan, std::uint64_t microbatches) {
  const BlockCosts& ends = *blocks[index(LayerCase::plain)];
  const PerBlock<MemoryChange>& change = ends.memory();
  const auto hidden = static_cast<std::int64_t>(ends.hidden_bytes());
  const auto gradient = static_cast<std::int64_t>(ends.gradient_bytes());
  const bool keeps = state.zero() >= 3 && !plan.reshard_after_forward;
  const bool gathers = state.zero() >= 3 && !keeps;
  // Of a split backward pass the first part makes few of a layer's gradients: their copies are left out.
  const bool whole_gradients = state.zero() >= 2 && !splits_backward(plan);
  const std::uint32_t count = stage.count();
  // In chunks a layer's gradients take over its weights, which stay for all of its backward pass.
  const bool in_chunks = state.zero() >= 3 && plan.parameter_chunk > Bytes();
  const auto gradients_of = [&](const ModuleState& layer) {
    return in_chunks ? layer.whole_weight_bytes : layer.whole_gradient_bytes;
  };
  // Of layers that gather ahead the last on the way is left out: what it keeps is not.
  const bool uneven = state.zero() >= 2 && count > 1;
  const auto run_layers = [&](Walk& walk, std::size_t c, std::int64_t layers,
                              MemoryChange PerBlock<MemoryChange>::*pass, bool backward, bool last) {
    const MemoryChange& plain = blocks[c]->memory().*pass;
    if (state.zero() < 2) {
      walk.run(plain, layers);
      return;
    }
    const ModuleState& layer = state.layer(static_cast<LayerCase>(c));
    const std::uint64_t weights = gathers ? layer.whole_weight_bytes : 0;
    const std::uint64_t ahead = plan.prefetch > 0 && count > 1 ? weights : 0;
    const bool taken_over = backward && in_chunks;
    const MemoryChange with = with_copies(plain, backward && (whole_gradients || in_chunks) ? gradients_of(layer) : 0,
                                          taken_over ? 0 : weights, ahead);
    const bool apart = uneven && last;
    if (layers > (apart ? 1 : 0)) walk.run(with, apart ? layers - 1 : layers);
    if (apart) walk.run(plain);
  };
  const CopyingLayers copying(stage, plan, blocks, state.layer().weight_bytes);
  // Of layers without copies runs of a case at once, of others each.
  const auto run_all = [&](Walk& walk, bool backward) {
    const auto pass = backward ? &PerBlock<MemoryChange>::layer_backward : &PerBlock<MemoryChange>::layer_forward;
    if (!copying.any()) {
      for_each_run(stage, !backward, [&](std::size_t c, std::uint32_t layers, bool last) {
        run_layers(walk, c, layers, pass, backward, last);
      });
      return;
    }
    const std::uint64_t gradients = backward && whole_gradients ? gradients_of(state.layer()) : 0;
    for (std::uint32_t n = 0; n < count; ++n) {
      const std::uint32_t l = backward ? count - 1 - n : n;
      const MemoryChange& plain = blocks[stage.at(l)]->memory().*pass;
      copying.run(walk, l, uneven && n + 1 == count ? plain : with_copies(plain, gradients, 0, 0), backward);
    }
  };
  Walk forward;
  copying.begin(forward, false);
  if (stage.first) {
    forward.run(change.embedding_forward);
  } else if (!stage.from_here) {
    forward.move(hidden);
  }
  run_all(forward, false);
  copying.end_forward(forward);
  if (stage.last) {
    forward.run(change.head_forward);
  } else if (!stage.to_here) {
    forward.move(-hidden);
  }
  Walk backward;
  // A single layer that gathers ahead is a block of its own behind the head's (weight_copies.cpp).
  const bool head_alone = gathers && plan.prefetch > 0 && count == 1;
  const bool head_first = stage.last && (head_alone || head_before_copies(state, plan, microbatches));
  if (!head_first) copying.begin(backward, true);
  if (stage.last) {
    backward.run(change.head_backward);
  } else if (!stage.to_here) {
    backward.move(gradient);
  }
  if (head_first) copying.begin(backward, true);
  run_all(backward, true);
  if (stage.first) {
    backward.run(change.embedding_backward);
  } else if (!stage.from_here) {
    backward.move(-gradient);
  }
  Walk weight;
  if (stage.last) weight.run(change.head_weight);
  for_each_run(stage, false, [&](std::size_t c, std::uint32_t layers, bool) {
    MemoryChange products = blocks[c]->memory().layer_weight;
    // A layer's copy is there while its products are made.
    if (state.zero() >= 2)
      products.peak += static_cast<std::int64_t>(state.layer(static_cast<LayerCase>(c)).whole_gradient_bytes);
    weight.run(products, layers);
  });
  PassMemory pass{{forward.live, forward.peak, 0}, {backward.live, backward.peak, 0}, {weight.live, weight.peak, 0}, 0};
  if (keeps) {
    for (std::size_t c = 0; c < stage.layers.size(); ++c) {
      pass.kept_weights +=
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
      const std::uint64_t ahead = std::min(m * v, 2 * below + (v - 1) * p + 1);
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
  // The first forward pass may gather them on its way.
  const std::int64_t before = n > 1 ? pass.kept_weights : 0;
  return static_cast<std::uint64_t>(std::max((n - 1) * pass.forward.net + pass.forward.peak + before,
                                             n * pass.forward.net + pass.backward.peak + pass.kept_weights));
}

std::uint64_t activation_bytes(const PassMemory* chunks, const std::vector<std::uint64_t>& in_flight) {
  const std::size_t last = in_flight.size() - 1;
  std::uint64_t bytes = activation_peak(chunks[last], in_flight[last]);
  for (std::size_t c = 0; c < last; ++c) {
    bytes += in_flight[c] * static_cast<std::uint64_t>(chunks[c].forward.net);
    if (in_flight[c] > 0) bytes += static_cast<std::uint64_t>(chunks[c].kept_weights);
  }
  return bytes;
}

std::uint64_t persistent_bytes(const StateCosts& state, const StageShare& stage, const Plan& plan) {
  const std::uint64_t dense = stage.dense(), others = stage.count() - dense;
  // Dense layers are the lowest, and those whose states leave the device the highest.
  const std::uint64_t away = offloaded_layers(stage.count(), *plan.offload_states);
  const std::uint64_t weights_away = offloaded_layers(stage.count(), *plan.offload_parameters);
  const std::uint64_t dense_away = away - std::min(away, others);
  const bool ends = *plan.offload_states < 8;
  const auto end = [&](const ModuleState& module) { return module.persistent_bytes - (ends ? 0 : module.state_bytes); };
  return others * state.layer().persistent_bytes - (away - dense_away) * state.layer().state_bytes -
         weights_away * state.layer().weight_bytes +
         (dense > 0 ? dense * state.layer(LayerCase::dense).persistent_bytes -
                          dense_away * state.layer(LayerCase::dense).state_bytes
                    : 0) +
         (stage.first ? end(state.embedding()) : 0) + (stage.last ? end(state.head()) : 0);
}

}  // namespace orrery
