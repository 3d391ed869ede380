#pragma once

#include "gui/model/services.hpp"

namespace orrery::gui {

/// An example plan with a quarter of its step, predicted and simulated once for all tests.
struct DemoStep {
  Prediction prediction;
  Simulation simulation;
  Timeline timeline;
};
[[nodiscard]] const DemoStep& demo_step();

/// An example plan as it is, or with another batch.
[[nodiscard]] std::shared_ptr<const PricedRun> example_run(const std::string& name, std::uint64_t global_batch = 0);

}  // namespace orrery::gui
