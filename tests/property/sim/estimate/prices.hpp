#pragma once

#include <cstdint>

#include "core/base/random.hpp"
#include "core/program/program.hpp"
#include "core/record/operation.hpp"
#include "sim/cost/prices.hpp"

namespace orrery::test {

/// Numbers from a seed and a counter.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : seed_(seed) {}
  /// Uniform in first .. last.
  std::int64_t in(std::int64_t first, std::int64_t last) {
    return first +
           static_cast<std::int64_t>(random_bits(seed_, 7, count_++) % static_cast<std::uint64_t>(last - first + 1));
  }

 private:
  std::uint64_t seed_;
  std::uint64_t count_ = 0;
};

/// Durations that no cluster has: communication from nothing to ten times compute, ops of length 0 and many equal ones.
/// So ties and every order of ends come up.
inline Prices random_prices(const Program& program, std::uint64_t seed, bool concurrent_lanes) {
  Prices prices;
  resize(prices, program);
  prices.concurrent_lanes = concurrent_lanes;
  Draws draw(seed);
  const std::int64_t longest_compute = draw.in(0, 3) == 0 ? 3 : 1000;
  const std::int64_t longest_message = longest_compute * draw.in(0, 4) * draw.in(0, 4);
  for (std::size_t b = 0; b < program.blocks.size(); ++b) {
    const Block& block = program.blocks[b];
    for (std::size_t i = 0; i < block.ops.size(); ++i) {
      const Op& op = block.ops[i];
      if (!is_timed(op) || std::holds_alternative<Exchange>(op.action)) continue;
      const bool computes = std::holds_alternative<Compute>(op.action);
      Picoseconds& price = prices.op[prices.first_op[b] + i];
      price = draw.in(0, computes ? longest_compute : longest_message);
      // Members of a tied group issue the same collective from blocks of their own, so it has one price.
      const auto* collective = std::get_if<Collective>(&op.action);
      if (collective != nullptr && !program[collective->group].members.empty()) {
        price = Draws(seed + index(collective->group)).in(0, longest_message);
      }
    }
    for (std::size_t c = 0; c < program.classes.size(); ++c) {
      for (std::size_t t = 0; t < block.transfers.size(); ++t) {
        if (!block.transfers[t].send) continue;
        prices.transfer[c * prices.transfers + prices.first_transfer[b] + t] = draw.in(0, longest_message);
      }
    }
  }
  return prices;
}

}  // namespace orrery::test
