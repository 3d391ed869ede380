#pragma once

#include <cstdint>
#include <vector>

#include "core/plan/plan.hpp"
#include "tests/support/random_plan.hpp"

// What the ranks of a 1D, dense plan hold and move according to papers, in their symbols: for totals_test.cpp (work and
// memory) and traffic_totals_test.cpp. Grids have their own forms (grid_totals_test.cpp), and so do mixtures
// (mixture_test.cpp).
namespace orrery::closed_forms {

/// Number of runs that a test looks at.
inline constexpr std::uint64_t cases = 400;
/// Runs without mixtures, and on request also without grids.
[[nodiscard]] test::RandomRunLimits dense();
[[nodiscard]] test::RandomRunLimits one_d();

/// The symbols of the papers, for one run.
struct Symbols {
  explicit Symbols(const PlannedRun&);

  const ModelSpec& model;
  const Workload& workload;
  const Plan& plan;
  std::uint64_t L, h, a, k, d, f, s, b, B, t, dp, p, c, replicas, shares, m,
      V;  ///< shares: ranks among which ZeRO shards; m: microbatches of each pipe
  bool swiglu, layer_norm, bias, tied, flash, sp;
  std::uint32_t zero;
  std::uint64_t w, g, st;  ///< bytes of a weight, a gradient, a state

  [[nodiscard]] bool full() const { return plan.recompute == Recompute::full; }
  [[nodiscard]] bool selective() const { return plan.recompute == Recompute::selective; }
  /// Number of a rank's layers whose forward pass, or attention core, is computed again.
  [[nodiscard]] std::uint64_t again_on(std::uint64_t rank) const;
  /// Virtual stages of the rank.
  [[nodiscard]] std::vector<std::uint32_t> parts(std::uint64_t rank) const;
  [[nodiscard]] std::uint64_t layers_of(std::uint64_t rank) const;
  /// Whether the rank holds the embedding, and the head.
  [[nodiscard]] bool two_way() const;
  [[nodiscard]] bool first(std::uint64_t rank) const { return rank == 0 || (two_way() && rank + 1 == p); }
  [[nodiscard]] bool last(std::uint64_t rank) const;
  /// Whether the head has its own copy of a tied table.
  [[nodiscard]] bool copied() const { return tied && !last(0); }
};

/// Elements that one rank holds of a module's table: its segments, each padded to equal parts under ZeRO.
struct Held {
  std::uint64_t sharded = 0, sharded_bias = 0, replicated = 0;
  [[nodiscard]] std::uint64_t total(const Symbols&) const;
};
[[nodiscard]] Held layer_held(const Symbols&);
[[nodiscard]] Held embedding_held(const Symbols&);
[[nodiscard]] Held head_held(const Symbols&);
[[nodiscard]] std::uint64_t stage_held(const Symbols&, std::uint64_t stage);
/// Elements of a rank's modules whose states are in host memory: e eighths of each stage's layers, rounded up; with all
/// eighths the embedding and the head too.
[[nodiscard]] std::uint64_t host_held(const Symbols&, std::uint64_t rank);
/// Elements of those modules among them whose weights are there too.
[[nodiscard]] std::uint64_t remote_held(const Symbols&, std::uint64_t rank);

/// Messages, and their bytes together.
struct Volume {
  std::uint64_t count = 0, payload = 0;
  friend bool operator==(const Volume&, const Volume&) = default;
  void add(std::uint64_t times, std::uint64_t bytes) {
    if (bytes == 0) return;
    count += times;
    payload += times * bytes;
  }
};

/// Adafactor's statistics of a rank, whole and without padding: R + C for a matrix of R rows and C columns, and one for
/// each element of a vector. Messages of a module are the sums of each segment, and a number for each tensor.
struct Statistics {
  std::uint64_t count = 0;
  Volume messages;
  void segment(std::uint64_t statistics, std::uint64_t tensors, std::uint64_t times) {
    count += times * statistics;
    messages.add(times, 8 * statistics);
    messages.add(times, 8 * tensors);
  }
};
[[nodiscard]] Statistics statistics(const Symbols&, std::uint64_t stage);

}  // namespace orrery::closed_forms
