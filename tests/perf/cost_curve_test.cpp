#include <catch2/catch.hpp>

#include <fstream>
#include <sstream>

#include "tests/perf/llama_step.hpp"

// The table of docs/network-model.md, "Speed": the cost of simulating a step of Llama-3-405B on 8 to 131,072 GPUs.
// Times and memory are those of one machine, and perf_folding prints them. Classes, events and the step itself are the
// same on every machine, and are computed here again for the smaller sizes.

using namespace orrery;

namespace {

struct Row {
  std::string routes;
  bool far = false;
  std::uint32_t gpus = 0, stragglers = 0, ranks = 0, links = 0, flows = 0;
  std::uint64_t events = 0;
  double step = 0.0;
};

std::vector<Row> documented() {
  std::ifstream file(std::string(ORRERY_SOURCE_DIR) + "/docs/network-model.md");
  std::vector<Row> rows;
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("routes ", 0) == 0 && line.find("stragglers") != std::string::npos) {
      inside = true;
    } else if (line.rfind("```", 0) == 0) {
      inside = false;
    } else if (inside) {
      std::istringstream words(line);
      Row r;
      double cpu = 0.0, wall = 0.0, peak = 0.0;
      words >> r.routes;
      if (!r.routes.empty() && r.routes.back() == ',') {
        std::string which;
        words >> which;
        r.routes.pop_back();
        r.far = which == "far";
      }
      words >> r.gpus >> r.stragglers >> r.ranks >> r.links >> r.flows >> r.events >> cpu >> wall >> peak >> r.step;
      REQUIRE(words);
      rows.push_back(r);
    }
  }
  return rows;
}

}  // namespace

TEST_CASE("the documented cost curve has the classes, events and steps that are simulated", "[perf][net]") {
  const std::vector<Row> rows = documented();
  REQUIRE(rows.size() >= 20);
  std::uint32_t largest = 0, checked = 0;
  for (const Row& r : rows) {
    largest = std::max(largest, r.gpus);
    if (r.gpus > (r.routes == "hashed" ? 256U : 2048U)) continue;
    CAPTURE(r.routes, r.far, r.gpus, r.stragglers);
    const perf::LlamaStep step = perf::llama_step(r.gpus, r.far);
    std::optional<Stragglers> slow;
    if (r.stragglers > 0) slow = Stragglers{1, r.stragglers, 1.2};
    const Simulation s = perf::play(step, r.routes == "hashed" ? PathRule::hashed : PathRule::rail_local, slow);
    CHECK(s.rank_classes == r.ranks);
    CHECK(s.link_classes == r.links);
    CHECK(s.flow_classes == r.flows);
    CHECK(s.events == r.events);
    CHECK(s.report.step_time.base() == Approx(r.step).margin(0.0005));  // as printed
    ++checked;
  }
  CHECK(largest == 131072);
  CHECK(checked >= 10);
}
