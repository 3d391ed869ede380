#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/ids.hpp"
#include "sim/cost/prices.hpp"

namespace orrery {

/// Random delays: every op takes its time times 1 + spread |z|, with z standard normal, keyed by the op and the rank.
/// So noise never speeds an op up, and the same seed gives the same step.
struct Noise {
  std::uint64_t seed = 1;
  double spread = 0.0;
};

/// Ranks that compute slower than the others, drawn by seed; their compute ops take `factor` times as long.
struct Stragglers {
  std::uint64_t seed = 1;
  std::uint32_t count = 0;
  double factor = 1.0;  ///< 1 or more
};

/// A rank whose compute ops take `factor` times as long, on top of its slowdown as a straggler.
struct SlowRank {
  Rank rank{};
  double factor = 1.0;  ///< 1 or more
};

/// Everything that makes equal ranks unlike.
struct Perturbation {
  std::optional<Noise> noise;
  std::optional<Stragglers> stragglers;
  std::vector<SlowRank> slow = {};
};

/// Which ranks are stragglers; empty where none are. With one seed, the stragglers of a smaller count are among those
/// of a larger one.
[[nodiscard]] std::vector<bool> slow_ranks(const std::optional<Stragglers>&, std::uint32_t ranks);

/// The factor by which the compute of each rank is slower; empty where nothing slows any rank.
[[nodiscard]] std::vector<double> slowdowns(const Perturbation&, std::uint32_t ranks);
/// Labels that tell ranks of one Program class apart, for folding (FoldingJob::labels): their slowdowns and the kinds
/// of their nodes. Empty where nothing tells them apart.
[[nodiscard]] std::vector<std::uint64_t> rank_labels(const Perturbation&, const Prices&, std::uint32_t ranks);

}  // namespace orrery
