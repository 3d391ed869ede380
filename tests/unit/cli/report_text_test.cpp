#include "cli/report_text.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

using namespace orrery;

TEST_CASE("equal stages fold", "[unit][cli]") {
  CHECK(layers_text({}) == "");
  CHECK(layers_text({7}) == "7");
  CHECK(layers_text({7, 8, 8, 8, 7}) == "7 3x8 7");
}

TEST_CASE("plans differ only in what they decide otherwise", "[unit][cli]") {
  Plan a;
  a.mesh.axes = {{Axis::data, 2}, {Axis::tensor, 4}};
  Plan b = a;
  b.name = "another";
  CHECK(differences(a, b).empty());
  b.microbatch_size = 4;
  b.recompute = Recompute::full;
  CHECK(differences(b, a) == std::vector<std::string>{"microbatch 4, not 1", "recomputation full, not none"});
}

TEST_CASE("a difference in recomputation says how many layers are recomputed", "[unit][cli]") {
  Plan a;
  a.mesh.axes = {{Axis::pipeline, 2}};
  a.stage_layers = {{5, 3}};
  Plan b = a;
  b.recompute = Recompute::full;
  b.recompute_layers = {{2, 1}};
  CHECK(differences(b, a) == std::vector<std::string>{"recomputation full in 3 of 8 layers, not none"});
  CHECK(differences(a, b) == std::vector<std::string>{"recomputation none, not full in 3 of 8 layers"});
  b.recompute_layers = {{5, 3}};
  CHECK(differences(b, a) == std::vector<std::string>{"recomputation full, not none"});
  // One stage holds all layers, and its plan need not count them.
  a.stage_layers = b.stage_layers = std::nullopt;
  b.recompute_layers = {{1}};
  CHECK(differences(b, a) == std::vector<std::string>{"recomputation full in 1 layer, not none"});
}

TEST_CASE("the parts of a difference add up to it", "[unit][cli]") {
  Report best;
  best.step_time = Seconds::of(1.0);
  best.compute = Seconds::of(0.8);
  best.bubble_fraction = 0.2;
  best.peak_memory_bytes = 100;
  Report other = best;
  // The step of 1.25 s has compute +0.1 s, collectives +0.1 s, bubble 0.2 s -> 0.25 s, in which messages move for 0.05
  // s.
  other.step_time = Seconds::of(1.25);
  other.compute = Seconds::of(0.9);
  other.exposed_communication = Seconds::of(0.15);
  other.exposed_exchange = Seconds::of(0.05);
  other.bubble_fraction = 0.2;
  other.peak_memory_bytes = 90;
  CHECK(step_difference(other, best) ==
        "25.00 % slower, compute +100 ms, waiting for collectives +100 ms, bubble +50.0 ms, peak memory -10 B");
  CHECK(step_difference(best, best) == "as fast");
}

TEST_CASE("of many stages the first and last eight are shown", "[unit][cli]") {
  Report r;
  r.memory_capacity_bytes = 1000;
  for (std::uint32_t s = 0; s < 40; ++s) {
    StageMemory m;
    m.stage = s;
    m.peak = 500;
    m.capacity = 1000;
    r.memory_by_stage.push_back(m);
  }
  const std::string text = memory_text(r);
  CHECK(std::count(text.begin(), text.end(), '\n') ==
        1 + 2 + 1 + 16 + 1);  // title, what columns are, header, stages, "..."
  CHECK(text.find("50 %") != std::string::npos);
}
