#include "sim/bound/copied_passes.hpp"

#include <algorithm>

namespace orrery {
namespace {

Picoseconds above(Picoseconds copy, Picoseconds span) { return std::max<Picoseconds>(0, copy - span); }

/// Of a stage's layers: of those whose passes take the longest, so that what copies take beyond is never too much.
struct Layers {
  Picoseconds forward = 0, backward = 0;
  Picoseconds lead_forward = 0, lead_backward = 0;  ///< before what waits for copies begins, at most
};

Layers longest(const StageShare& share, const LayerCosts& costs, bool sharded) {
  Layers out;
  for (std::size_t c = 0; c < share.layers.size(); ++c) {
    if (share.layers[c] == 0) continue;
    const PerBlock<Picoseconds>& span = costs.times[c]->span;
    const BlockCosts::Behind& behind = costs.times[c]->behind;
    out.forward = std::max(out.forward, span.layer_forward);
    out.backward = std::max(out.backward, span.layer_backward);
    const Picoseconds forward = sharded ? behind.weights_forward : behind.compute_forward;
    const Picoseconds backward = sharded ? behind.weights_backward : behind.compute_backward;
    out.lead_forward = std::max(out.lead_forward, span.layer_forward - forward);
    out.lead_backward = std::max(out.lead_backward, span.layer_backward - backward);
  }
  return out;
}

}  // namespace

CopyTimes activation_copies(const Plan& plan, const LayerCosts& of, const CostModel& costs, Tier near, Tier far) {
  const auto way = [&](LayerCase c, Tier from, Tier to) {
    return picoseconds(Bytes::of(static_cast<double>(of.blocks[index(c)]->copied_bytes())) / costs.tier_rate(from, to));
  };
  CopyTimes copies;
  copies.down = way(LayerCase::plain, near, far);
  copies.up = way(LayerCase::plain, far, near);
  if (plan.recompute_layers) {
    copies.down_again = way(LayerCase::recomputed, near, far);
    copies.up_again = way(LayerCase::recomputed, far, near);
  }
  return copies;
}

Picoseconds sum_of_lowest(const StageShare& share, std::uint32_t layers, Picoseconds plain, Picoseconds again) {
  const std::uint32_t recomputed = std::min(layers, share.recomputed);
  return static_cast<Picoseconds>(layers - recomputed) * plain + static_cast<Picoseconds>(recomputed) * again;
}

void add_copies(StageTimes& t, const StageShare& share, std::uint32_t away, std::uint32_t weights_away,
                const LayerCosts& costs, const CopyTimes& copies) {
  const std::uint32_t layers = share.count();
  if (away == 0 && weights_away == 0) return;
  const Layers of = longest(share, costs, copies.sharded);
  const std::uint32_t on_device = layers - weights_away;  // the lowest layers
  const auto times = [](std::uint32_t n, Picoseconds each) { return static_cast<Picoseconds>(n) * each; };

  // Forward, the block of layer l takes down what layer l - 1 keeps and brings the weights of layer l + 1.
  const Picoseconds down = sum_of_lowest(share, std::min(away, layers - 1), above(copies.down, of.forward),
                                         above(copies.down_again, of.forward));
  const auto come_forward = [&](std::uint32_t first_block, Picoseconds opening) {
    const std::uint32_t first = std::max(first_block + 1, on_device);  // layer that comes
    const std::uint32_t blocks = first < layers ? layers - first : 0;
    return opening + times(blocks, above(copies.weights, of.forward)) - of.lead_forward;
  };
  if (share.first) {
    t.forward += std::max(down, come_forward(0, 0));
  } else {
    // A message may come behind the copies of the first block.
    const Picoseconds since_arrival = std::max(down, come_forward(1, 0));
    t.forward += since_arrival;
    t.before_forward += above(come_forward(0, on_device == 0 ? copies.weights : 0), since_arrival);
  }

  // Backward, the block of layer l brings up activations and weights of layer l - 1.
  struct Ways {
    Picoseconds activations = 0, weights = 0;
  };
  const auto come_up = [&](std::uint32_t top_block, const Ways& opening) {
    const std::uint32_t up = std::min(away, top_block);
    const std::uint32_t lowest = std::max(on_device + 1, 1U);  // block that brings weights
    const std::uint32_t with_weights = weights_away > 0 && lowest <= top_block ? top_block - lowest + 1 : 0;
    // Blocks 1 .. n bring the activations of the n lowest layers, each beside so much more.
    const auto activations = [&](std::uint32_t n, Picoseconds beside) {
      return sum_of_lowest(share, n, above(copies.up + beside, of.backward),
                           above(copies.up_again + beside, of.backward));
    };
    Picoseconds sum = 0;
    if (copies.gathered) {
      sum = std::max(opening.activations + activations(up, 0),
                     opening.weights + times(with_weights, above(copies.weights, of.backward)));
    } else {
      // The blocks from `lowest` on bring weights too.
      const std::uint32_t both = with_weights > 0 && up >= lowest ? up - lowest + 1 : 0, alone = up - both;
      sum = opening.activations + opening.weights + activations(alone, 0) +
            times(with_weights - both, above(copies.weights, of.backward)) + activations(up, copies.weights) -
            activations(alone, copies.weights);
    }
    return std::max<Picoseconds>(0, sum - of.lead_backward);
  };
  const Picoseconds top = share.recomputed == layers ? copies.up_again : copies.up;
  const Ways opening{away == layers ? top : 0, weights_away > 0 ? copies.weights : 0};
  const Picoseconds from_before = come_up(layers - 1, opening);
  if (share.last) {
    // The head comes first, beside what the pass begins with.
    const Picoseconds head = costs.plain_times().span.head_backward;
    t.backward += std::max(come_up(layers - 1, {}), from_before - head);
  } else {
    const Picoseconds since_arrival = layers > 1 ? come_up(layers - 2, {}) : 0;
    t.backward += since_arrival;
    t.before_backward += above(from_before, since_arrival);
  }
}

}  // namespace orrery
