#include "sim/bound/op_chain.hpp"

#include <algorithm>

namespace orrery {
namespace {

/// Far enough in the past that a lane which waits for nothing delays nothing.
constexpr Picoseconds long_ago = -(Picoseconds{1} << 60);
constexpr std::size_t compute_lane = 0;
constexpr std::size_t first_collective_lane = 1;

// With those that cores have beside others.
constexpr std::array of_attention{KernelKind::attention_unfused_forward,
                                  KernelKind::attention_unfused_backward,
                                  KernelKind::attention_flash_forward,
                                  KernelKind::attention_flash_backward,
                                  KernelKind::pack_keys_values,
                                  KernelKind::attention_part_forward,
                                  KernelKind::attention_part_backward,
                                  KernelKind::attention_merge,
                                  KernelKind::unpack_gradients,
                                  KernelKind::split_keys_values,
                                  KernelKind::attention_scores_forward,
                                  KernelKind::attention_softmax_forward,
                                  KernelKind::attention_values_forward,
                                  KernelKind::attention_values_backward,
                                  KernelKind::attention_softmax_backward,
                                  KernelKind::attention_scores_backward,
                                  KernelKind::attention_pairs_backward,
                                  KernelKind::swap_blocks,
                                  KernelKind::convert,
                                  KernelKind::add_to};

}  // namespace

OpChain::Counts counts_with(KernelKind kind) {
  using Counts = OpChain::Counts;
  if (kind == KernelKind::pack_keys_values) return Counts::all;
  const bool attends = std::find(of_attention.begin(), of_attention.end(), kind) != of_attention.end();
  return attends ? Counts::without_packing : Counts::without_attention;
}

Picoseconds OpChain::span(const Prices& prices, bool concurrent_lanes, bool arrival, Storage& end,
                          Counts counts) const {
  const auto price = [&](const Step& s) {
    if (s.most < counts) return Picoseconds{0};
    return s.collective != no_collective ? prices[s.collective] : s.price;
  };
  if (!concurrent_lanes) {
    Picoseconds sum = 0;
    for (const Step& s : steps_) sum += price(s);
    return sum;
  }
  std::array<Picoseconds, lane_count> lane;
  lane.fill(long_ago);
  if (!arrival) lane[compute_lane] = 0;
  end.resize(std::max(end.size(), steps_.size()));
  // The block's first op and its first compute op wait for the message.
  bool first = true, entered = false;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const Step& s = steps_[i];
    Picoseconds at = lane[s.lane];
    for (std::uint32_t w = s.first_wait; w < s.first_wait + s.waits; ++w) at = std::max(at, end[waits_[w]]);
    const bool compute = s.lane == compute_lane;
    // Compute was busy until the block's entry.
    if (first || (compute && !entered) || (s.behind_compute && !arrival)) at = std::max(at, Picoseconds{0});
    first = false;
    entered = entered || compute;
    at += price(s);
    lane[s.lane] = end[i] = at;
  }
  return lane[compute_lane];
}

Picoseconds OpChain::span_behind(const Prices& prices, Awaits awaits, Storage& end) const {
  std::array<Picoseconds, lane_count> lane;
  lane.fill(long_ago);
  end.resize(std::max(end.size(), steps_.size()));
  const auto begins = [&](const Step& s) {
    switch (awaits) {
      case Awaits::compute: return s.lane == compute_lane;
      case Awaits::weights: return s.reads_weights;
      case Awaits::tensor: return s.lane == first_collective_lane + index(Axis::tensor);
    }
    return false;
  };
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const Step& s = steps_[i];
    Picoseconds at = lane[s.lane];
    for (std::uint32_t w = s.first_wait; w < s.first_wait + s.waits; ++w) at = std::max(at, end[waits_[w]]);
    if (begins(s)) at = std::max(at, Picoseconds{0});
    at += s.collective != no_collective ? prices[s.collective] : s.price;
    lane[s.lane] = end[i] = at;
  }
  return std::max<Picoseconds>(0, lane[compute_lane]);
}

void OpChain::add_lanes(const Prices& prices, LaneTimes& times) const {
  for (const Step& s : steps_) {
    if (s.collective != no_collective) times[s.lane - first_collective_lane] += prices[s.collective];
  }
}

}  // namespace orrery
