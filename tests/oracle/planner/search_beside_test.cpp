#include <catch2/catch.hpp>

#include "planner/search.hpp"
#include "tests/oracle/planner/search_case.hpp"

using namespace orrery;
using test::calibration;
using test::compare;
using test::disked;
using test::hosted;
using test::llama;
using test::only;
using test::workload;
using Case = test::SearchCase;

namespace {

/// Some layers recomputed, of others or the same activations in host memory.
std::vector<Case> beside_cases() {
  ModelSpec deep = llama(), whole = llama();
  deep.layers = 8;
  whole.layers = 8;
  whole.heads = whole.kv_heads = 1;  // which no tensor axis cuts
  whole.head_dim = whole.hidden;
  const auto devices = [](std::uint32_t nodes, std::uint32_t each, double mebibytes, double link) {
    ClusterSpec c = hosted(test::small_cluster(nodes, each, mebibyte * mebibytes), gibibyte, 3 * link);
    c.host_link = link * gigabyte_per_second;
    return c;
  };
  ClusterSpec serial = devices(1, 2, 12, 20);
  serial.device.concurrent_lanes = false;
  const char* one_f_one_b = "tensor=1d context=off replica=off schedule=1f1b zero=0";
  const char* zero_3 = "tensor=1d context=off replica=off zero=3";
  return {
      {"counts beside copies", llama(), workload(2), devices(1, 1, 16, 20), {}},
      {"counts beside copies, a slow link", llama(), workload(1), devices(1, 1, 7, 5), {}},
      {"counts beside copies, ZeRO-3", deep, workload(2), devices(1, 2, 12, 20), only(zero_3)},
      {"counts beside copies, one op at a time", deep, workload(2), serial, only(zero_3)},
      {"counts beside copies, a small host with a disk",
       llama(),
       workload(1),
       disked(hosted(test::small_cluster(1, 1, mebibyte * 12), mebibyte * 10, 60.0), 5.0),
       {}},
      {"counts beside copies, ZeRO-3 with microbatches", deep, workload(4), devices(1, 2, 16, 20), only(zero_3)},
      {"counts beside copies, two devices", deep, workload(4), devices(1, 2, 9, 5), only(one_f_one_b)},
      {"counts beside copies, schedules", whole, workload(2), devices(1, 2, 16, 20),
       only("tensor=1d context=off replica=off schedule=gpipe,interleaved,zb-h1 chunks=2 zero=0")},
      {"counts beside copies, rings", llama(), workload(1), devices(1, 2, 12, 20),
       only("tensor=1d context=ring,ulysses replica=off schedule=1f1b zero=0")},
      {"counts beside copies, backward split on grids", llama(), workload(2), devices(2, 4, 4, 20),
       only("tensor=2d schedule=zb-h1 context=off replica=off zero=0")},
  };
}

}  // namespace

TEST_CASE("the search finds counts of recomputed layers beside activations in host memory", "[oracle][planner]") {
  compare(beside_cases(), 3'000);
}

TEST_CASE("some of the best plans recompute some layers beside activations in host memory", "[oracle][planner]") {
  int best = 0, some = 0;
  for (const Case& c : beside_cases()) {
    const SearchResult r =
        search(c.space(), c.model, c.workload, c.cluster, calibration(), test::search_options(Objective::step_time, 5));
    bool found = false;
    for (const FoundPlan& f : r.plans) {
      if (!f.plan.recompute_layers || *f.plan.offload_activations == 0) continue;
      found = true;
      best += &f == &r.plans.front() ? 1 : 0;
      CHECK(number_of(c.space(), f.plan) == f.number);
    }
    CAPTURE(c.name);
    some += found ? 1 : 0;
  }
  CAPTURE(best, some);
  CHECK(best >= 3);
  CHECK(some >= 6);
}
