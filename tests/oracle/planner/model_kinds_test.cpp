// The search for every kind of model, against estimating every plan.
#include <catch2/catch.hpp>

#include "tests/oracle/planner/search_case.hpp"
#include "tests/support/coverage.hpp"

using namespace orrery;
using test::only;
using Case = test::SearchCase;

namespace {

ModelSpec bert() {
  ModelSpec m = test::tiny_gpt({.layers = 3, .hidden = 64, .heads = 4, .vocabulary = 1000, .positions = 64});
  m.architecture = Architecture::bert;
  m.segments = 2;
  return m;
}

/// Images of 28 x 28 in patches of 4 x 4, as sequences of 50.
ModelSpec vit() {
  ModelSpec m =
      test::tiny_gpt({.layers = 3, .hidden = 64, .heads = 4, .vocabulary = 10, .positions = 50, .tied = false});
  m.architecture = Architecture::vit;
  m.image = Image{28, 4, 3};
  return m;
}

ModelSpec predicting(ModelSpec m, std::uint64_t modules) {
  m.prediction_modules = modules;
  return m;
}

/// Of four layers, mixtures between dense ones or below them.
ModelSpec between(std::uint64_t every, std::vector<std::uint32_t> dense) {
  ModelSpec m = test::mixture(false);
  m.layers = 4;
  m.mixture->every = every;
  m.mixture->dense = std::move(dense);
  return m;
}

Workload sequences(std::uint64_t batch, std::uint64_t length) {
  Workload w = test::workload(batch);
  w.sequence_length = length;
  return w;
}

std::vector<Case> cases() {
  ModelSpec gpt = test::gpt(), llama = test::llama();
  gpt.layers = llama.layers = 3;
  const auto on = [](std::uint32_t nodes, std::uint32_t per_node, double mib) {
    return test::small_cluster(nodes, per_node, mib * mebibyte);
  };
  ClusterSpec serial = on(1, 4, 3);
  serial.device.concurrent_lanes = false;
  return {
      {"BERT", bert(), sequences(4, 64), on(2, 2, 2.5), only("schedule=1f1b,interleaved zero=0,1,3 replica=off")},
      {"BERT, backward split", bert(), sequences(8, 64), on(1, 2, 3.5), only("schedule=gpipe,zb-h1,zb-v,dualpipe")},
      {"BERT, one op at a time", bert(), sequences(4, 64), serial, only("schedule=1f1b context=off replica=off")},
      {"vision", vit(), sequences(4, 50), on(2, 2, 2), only("schedule=1f1b,interleaved zero=0,1,3 replica=off")},
      {"vision, backward split", vit(), sequences(8, 50), on(1, 2, 3), only("schedule=gpipe,zb-h1,zb-v,dualpipe")},
      {"one prediction module", predicting(gpt, 1), test::workload(4), on(2, 2, 18), only("schedule=1f1b replica=off")},
      {"two, and any schedule", predicting(llama, 2), test::workload(8), on(1, 2, 18), only("context=off")},
      {"a prediction module above latent attention and experts", predicting(test::mixture(true), 1),
       test::routed(Routing::Kind::balanced), on(1, 2, 18), only("schedule=1f1b,zb-v context=off")},
      {"every other layer a mixture", between(2, {}), test::routed(Routing::Kind::skewed), on(1, 2, 14),
       only("schedule=1f1b,interleaved,zb-h1 context=off")},
      {"dense layers above and between", between(1, {1, 3}), test::routed(Routing::Kind::learned), on(1, 2, 14),
       only("schedule=1f1b,zb-v,breadth-first")},
      {"BERT on grids", bert(), sequences(4, 64), on(2, 2, 1.7), only("tensor=2d schedule=1f1b zero=0")},
      {"BERT on cubes", bert(), sequences(8, 64), on(2, 4, 2), only("tensor=2d,2.5d,3d schedule=1f1b replica=off")},
      {"vision on grids", vit(), sequences(8, 50), on(2, 4, 0.8), only("tensor=2d,2.5d,3d schedule=1f1b,zb-h1")},
      {"experts on grids", test::mixture(false), test::routed(Routing::Kind::skewed), on(2, 4, 8),
       only("tensor=2d,2.5d,3d schedule=1f1b context=off")},
      {"experts on grids, learned", test::mixture(false), test::routed(Routing::Kind::learned), on(1, 4, 14),
       only("tensor=2d")},
      {"latent attention and experts on grids", test::mixture(true), test::routed(Routing::Kind::balanced), on(2, 4, 8),
       only("tensor=2d,2.5d schedule=1f1b,zb-h1 context=off")},
      {"every other layer a mixture, on grids", between(2, {}), test::routed(Routing::Kind::skewed), on(2, 4, 8),
       only("tensor=2d,3d schedule=interleaved,zb-v")},
  };
}

}  // namespace

TEST_CASE("for every kind of model the search finds what trying every plan finds", "[oracle][planner]") {
  int both = 0, some = 0;
  for (const Case& c : cases()) {
    // The larger ones take minutes, with address checks.
    if (test::long_tests() || c.space().count <= 1'600) test::compare_with_brute_force(c);
    const SearchResult r = search(c.space(), c.model, c.workload, c.cluster, test::calibration(),
                                  test::search_options(Objective::step_time, 10));
    CAPTURE(c.name);
    CHECK(r.certified);
    both += r.infeasible > 0 && r.infeasible < r.space ? 1 : 0;
    for (const FoundPlan& f : r.plans) some += f.plan.recompute_layers ? 1 : 0;
  }
  // Else it would not see the memory rule, or counts of recomputed layers.
  CHECK(both >= 14);
  CHECK(some >= 10);
}
