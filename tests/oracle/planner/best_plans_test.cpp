// Compares what the search finds with the best plans of an exact search of 2026 (branch and bound over the whole
// space), for cells drawn over models, clusters, numbers of GPUs, batches and lengths (best_plans.txt).
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "core/plan/plan_file.hpp"
#include "core/program/lower/lower.hpp"
#include "core/spec/library.hpp"
#include "planner/describe.hpp"
#include "planner/search.hpp"
#include "sim/estimate/estimate.hpp"
#include "sim/memory/fit.hpp"
#include "validate/calibration_choice.hpp"

using namespace orrery;

namespace {

const std::string folder = ORRERY_SOURCE_DIR "/tests/oracle/planner/";

struct Cell {
  std::string name, space, objective;
  std::string plan;  ///< text of the plan file
};

std::vector<Cell> cells() {
  std::ifstream in(folder + "best_plans.txt");
  std::vector<Cell> out;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("### cell ")) {
      std::istringstream words(line.substr(9));
      words >> out.emplace_back().name >> out.back().space >> out.back().objective;
    } else {
      out.back().plan += line + "\n";
    }
  }
  return out;
}

/// What a file says of a key.
int number_of(const Cell& cell, const std::string& key) {
  const std::string before = "\n" + key + " = ";
  return std::stoi(cell.plan.substr(cell.plan.find(before) + before.size()));
}

/// Whether an instrumented search takes seconds: few dimensions, few devices, few microbatches.
bool is_short(const Cell& cell) {
  return cell.space == "basic" && cell.objective == "step-time" && number_of(cell, "gpus") <= 64 &&
         number_of(cell, "batch") <= 64;
}

/// The found plan's figure over the stored plan's, by the same estimate; empty where the stored plan does not fit by
/// today's rules.
std::optional<double> found_over_stored(const Cell& cell, const Library& library) {
  Diagnostics wrong;
  const auto run = read_plan(cell.plan, folder + cell.name, library, {}, wrong);
  INFO(render(wrong));
  REQUIRE(run);
  const auto prices = choose_calibration(PriceWishes{}, library, *run->cluster, run->workload.precision, wrong);
  REQUIRE(prices);
  const Calibration& calibration = prices->calibration;
  const Program program = lower(run->model, run->workload, run->plan);
  const Report stored = estimate(*run, program, CostModel(*run->cluster, calibration, run->plan.mesh));
  if (!memory_verdict(*run, program, calibration, {default_headroom(*run->cluster, calibration), false}).fits)
    return {};
  SearchOptions options;
  options.objective = *objective_named(cell.objective);
  if (cell.space == "basic") options.limits = plainest_limits();
  options.top = 1;
  options.simulate = false;
  const SearchResult found = search(run->model, run->workload, *run->cluster, calibration, options);
  REQUIRE(found.plans.size() == 1);
  const Report& best = found.plans.front().report;
  const double ratio = options.objective == Objective::memory
                           ? static_cast<double>(best.peak_memory_bytes) / static_cast<double>(stored.peak_memory_bytes)
                           : best.step_time / stored.step_time;
  if (ratio > 1.002) {
    std::cout << cell.name << ": " << ratio << " of " << describe(run->plan) << "\n  "
              << describe(found.plans.front().plan) << "\n";
  }
  return ratio;
}

}  // namespace

// The local search should be within 0.2 % of the exact one in 49 cells of 50, and within 1 % in all. Today it is within
// 0.2 % in thirteen of fourteen cells, and at most 9.3 % above (docs/decisions/0018), so one in ten would be a fault.
TEST_CASE("the search finds plans as good as an exact search found", "[oracle][planner]") {
  const Library library(ORRERY_SOURCE_DIR "/models");
  const bool all = std::getenv("ORRERY_LONG_TESTS") != nullptr;
  int counted = 0, near = 0;
  const std::vector<Cell> list = cells();
  REQUIRE(list.size() >= 100);
  for (std::size_t i = 0; i < list.size(); i += all ? 1 : 7) {
    if (!all && !is_short(list[i])) continue;
    CAPTURE(list[i].name);
    const std::optional<double> ratio = found_over_stored(list[i], library);
    if (!ratio) continue;
    ++counted;
    near += *ratio <= 1.002 ? 1 : 0;
    CHECK(*ratio <= 1.1);
  }
  CHECK(counted > 0);
  CHECK(10 * (counted - near) <= std::max(counted, 10));
}
