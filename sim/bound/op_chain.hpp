#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/plan/mesh.hpp"
#include "core/program/op.hpp"
#include "core/program/program.hpp"
#include "sim/cost/cost_model.hpp"

namespace orrery {

/// Collective lanes of a rank by their index: the mesh axes, all_lane and gather_lane.
using LaneTimes = std::array<Picoseconds, axis_count + 2>;

/// The ops of one block that take time, in list order: what of them longest paths need, and nothing else, since many
/// blocks are remembered at once.
///
/// Collectives have no price: `prices` gives it, by the number that the op's collective was given.
class OpChain {
 public:
  static constexpr std::uint32_t no_collective = ~std::uint32_t{0};
  /// What counts of a block: all; all but packing of keys and values, which one ring may do more often than a ring of
  /// rings; or what no way to attend changes, so that the attention core takes no time.
  enum class Counts : std::uint8_t { all, without_packing, without_attention };
  struct Step {
    Picoseconds price = 0;                     ///< 0 of a collective
    std::uint32_t collective = no_collective;  ///< its number
    std::uint32_t first_wait = 0;
    std::uint16_t waits = 0;      ///< on steps before it
    std::uint8_t lane = 0;        ///< lane_number
    bool behind_compute = false;  ///< it waits for what compute was busy with before the block
    bool reads_weights = false;
    Counts most = Counts::without_attention;  ///< it takes time where so little counts
  };
  using Prices = std::vector<Picoseconds>;
  /// Where the computation of paths is kept from one to the next.
  using Storage = std::vector<Picoseconds>;

  /// The ops of a block with their prices by `price(op number)`: for collectives by `collective(op number)` their
  /// number.
  template <class Price, class Number, class Reads>
  static OpChain of(const Block&, Price&& price, Number&& collective, Reads&& reads_weights);

  /// How much later than the block's entry its last compute op ends, at least: the longest chain of ops and waits from
  /// the compute lane's entry, with the other lanes free and nothing to wait for from outside.  `arrival`: from the
  /// arrival of a message that the block waits for instead.  Where a device does one op at a time: the sum of all ops.
  [[nodiscard]] Picoseconds span(const Prices&, bool concurrent_lanes, bool arrival, Storage&,
                                 Counts = Counts::all) const;
  /// Ops that may begin at 0: those that compute, that read weights, or on the tensor axis' lane.
  enum class Awaits : std::uint8_t { compute, weights, tensor };
  /// How long the block computes at least from when those begin, whatever runs before; 0 where there are none.
  [[nodiscard]] Picoseconds span_behind(const Prices&, Awaits, Storage&) const;
  /// Adds what each lane's collectives take.
  void add_lanes(const Prices&, LaneTimes&) const;
  [[nodiscard]] std::uint64_t bytes() const { return steps_.size() * sizeof(Step) + waits_.size() * 4; }
  [[nodiscard]] const std::vector<Step>& steps() const { return steps_; }

 private:
  std::vector<Step> steps_;
  std::vector<std::uint32_t> waits_;  ///< numbers of steps
};

/// The least that counts where such a kernel takes time.
[[nodiscard]] OpChain::Counts counts_with(KernelKind);

template <class Price, class Number, class Reads>
OpChain OpChain::of(const Block& block, Price&& price, Number&& collective, Reads&& reads_weights) {
  constexpr std::uint32_t none = ~std::uint32_t{0};
  OpChain chain;
  std::vector<std::uint32_t> step_of(block.ops.size(), none);
  for (std::uint32_t i = 0; i < block.ops.size(); ++i) {
    const Op& op = block.ops[i];
    if (std::holds_alternative<Alloc>(op.action) || std::holds_alternative<Free>(op.action)) continue;
    Step step;
    step.price = price(i);
    step.collective = collective(i);
    step.lane = static_cast<std::uint8_t>(lane_number(op.lane));
    step.reads_weights = reads_weights(i);
    if (const auto* compute = std::get_if<Compute>(&op.action)) {
      step.most = counts_with(block.kernels[compute->kernel].kind);
    }
    step.first_wait = static_cast<std::uint32_t>(chain.waits_.size());
    for (std::uint32_t w = 0; w < op.waits.count; ++w) {
      const Wait& wait = block.waits[op.waits.first + w];
      if (wait.kind != Wait::Kind::op) {
        step.behind_compute = step.behind_compute || wait.lane == Lane{};
      } else if (step_of[wait.op] != none) {
        chain.waits_.push_back(step_of[wait.op]);
      }
    }
    step.waits = static_cast<std::uint16_t>(chain.waits_.size() - step.first_wait);
    step_of[i] = static_cast<std::uint32_t>(chain.steps_.size());
    chain.steps_.push_back(step);
  }
  chain.steps_.shrink_to_fit();
  chain.waits_.shrink_to_fit();
  return chain;
}

}  // namespace orrery
