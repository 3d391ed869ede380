#include "tests/gui/demo_step.hpp"

#include <catch2/catch.hpp>
#include <filesystem>

#include "core/plan/plan_file.hpp"
#include "core/spec/library.hpp"

namespace orrery::gui {

std::shared_ptr<const PricedRun> example_run(const std::string& name, std::uint64_t global_batch) {
  const Library library(std::filesystem::path(ORRERY_SOURCE_DIR) / "models");
  Diagnostics d;
  auto run = read_plan_file(library.plan(name), library, std::nullopt, d);
  REQUIRE(run);
  if (global_batch > 0) run->workload.global_batch = global_batch;
  auto prices = choose_calibration({}, library, run->cluster->device, run->workload.precision, d);
  REQUIRE(prices);
  return std::make_shared<const PricedRun>(
      PricedRun{*run, std::make_shared<const CalibrationChoice>(std::move(*prices))});
}

const DemoStep& demo_step() {
  static const DemoStep step = [] {
    const std::atomic<bool> go_on{false};
    DemoStep out{predict(example_run("llama-3-70b-8-dgx-h100", 32)), {}, {}};
    out.simulation = simulate_step(out.prediction, go_on, true);
    out.timeline = make_timeline(*out.prediction.program, out.simulation.trace);
    return out;
  }();
  return step;
}

}  // namespace orrery::gui
