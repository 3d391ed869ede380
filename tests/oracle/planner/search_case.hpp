#pragma once

#include <catch2/catch.hpp>
#include <cstdlib>
#include <vector>

#include "tests/oracle/planner/brute_force.hpp"
#include "tests/support/software.hpp"
#include "tests/support/tiny_model.hpp"

namespace orrery::test {

/// A model on a cluster, small enough to estimate every plan of the space.
struct SearchCase {
  const char* name;
  ModelSpec model;
  Workload workload;
  ClusterSpec cluster;
  SpaceLimits limits = basic_limits();
  Calibration constants = calibration();

  [[nodiscard]] Space space() const { return make_space(model, workload, cluster, limits); }
};

inline ModelSpec gpt() {
  return tiny_gpt({.layers = 4, .hidden = 128, .heads = 8, .vocabulary = 5000, .positions = 128});
}

inline ModelSpec llama() {
  return tiny_llama({.layers = 5,
                     .hidden = 128,
                     .heads = 8,
                     .kv_heads = 2,
                     .ffn = 352,
                     .vocabulary = 1000,
                     .positions = 128,
                     .tied = false});
}

/// Experts in every layer, as in Mixtral; or shared ones too, above a dense layer and under latent attention, as in
/// DeepSeek-V2.
inline ModelSpec mixture(bool deep) {
  ModelSpec m = llama();
  m.layers = 3;
  Mixture x;
  x.experts = 4;
  x.per_token = 2;
  x.ffn = 176;
  if (deep) {
    x.first_dense = 1;
    x.shared_ffn = 128;
    x.scores = Mixture::Scores::softmax_all;
    m.kv_heads = m.heads;
    m.latent = LatentAttention{32, 16, 8, 16};
  }
  m.mixture = x;
  return m;
}

inline Workload workload(std::uint64_t batch) {
  Workload w;
  w.global_batch = batch;
  w.sequence_length = 128;
  w.clip_norm = 1.0;
  return w;
}

inline Workload routed(Routing::Kind kind) {
  Workload w = workload(8);
  w.routing.kind = kind;
  w.routing.exponent = 0.5;
  if (kind == Routing::Kind::learned) w.routing.capacity = 1.5;
  return w;
}

/// Of what makes spaces large what is named alone.
inline SpaceLimits only(const char* text) {
  Diagnostics wrong;
  SpaceLimits limits =
      limits_of(std::string("grid_context=off zero_chunks=off parameter_chunks=off zero_split=off ") + text, wrong);
  REQUIRE(wrong.empty());
  return limits;
}

inline SearchOptions search_options(Objective objective, std::uint32_t top) {
  SearchOptions o;
  o.objective = objective;
  o.top = top;
  o.simulate = false;
  return o;
}

/// For every objective the search's plans are the best of all, and every plan is accounted for.
inline void compare_with_brute_force(const SearchCase& c) {
  const Space space = c.space();
  CAPTURE(c.name, space.count);
  REQUIRE(space.count > 0);
  const std::vector<Exact> all = brute_force(space, c.model, c.workload, c.cluster, c.constants,
                                             [](double more, double less) { REQUIRE(less <= more); });
  REQUIRE_FALSE(all.empty());
  for (const Objective objective : {Objective::step_time, Objective::memory, Objective::cost}) {
    CAPTURE(name_of(objective));
    const std::vector<Exact> exact = best_first(all, objective);
    const SearchResult found =
        search(space, c.model, c.workload, c.cluster, c.constants, search_options(objective, 10));
    REQUIRE(found.complete);
    REQUIRE(found.plans.size() == std::min<std::size_t>(10, exact.size()));
    // A plan that is too slow anyway is left out whether it fits or not.
    CHECK(found.infeasible <= space.count - exact.size());
    CHECK(found.certified);
    for (std::size_t i = 0; i < found.plans.size(); ++i) {
      CAPTURE(i);
      CHECK(found.plans[i].number == exact[i].number);
      CHECK(found.plans[i].report.step_time.base() == exact[i].step);
      CHECK(found.plans[i].report.peak_memory_bytes == exact[i].peak);
    }
    // Every plan is accounted for once.
    std::uint64_t others = 0;
    for (const PruneCount& p : found.pruned) others += p.reason == "bound" || p.reason == "same" ? p.count : 0;
    CHECK(found.evaluated + others + found.infeasible == space.count);
  }
}

/// A cluster whose hosts are linked to their devices.
inline ClusterSpec hosted(ClusterSpec c, Bytes memory, double host_gigabytes_per_second) {
  c.host_memory = memory;
  c.host_link = 20.0 * gigabyte_per_second;
  c.host_bandwidth = host_gigabytes_per_second * gigabyte_per_second;
  return c;
}

/// The same with a disk in each node.
inline ClusterSpec disked(ClusterSpec c, double gigabytes_per_second) {
  const Bandwidth rate = gigabytes_per_second * gigabyte_per_second;
  c.disk = DiskSpec{gibibyte, rate, rate, 10.0 * microsecond};
  return c;
}

/// Those with more plans than `most` take minutes, with address checks.
inline void compare(const std::vector<SearchCase>& all, std::uint64_t most = 1'600) {
  const bool every = std::getenv("ORRERY_LONG_TESTS") != nullptr;
  std::size_t compared = 0;
  for (const SearchCase& c : all) {
    if (!every && c.space().count > most) continue;
    compare_with_brute_force(c);
    ++compared;
  }
  CHECK(2 * compared >= all.size());
}

}  // namespace orrery::test
