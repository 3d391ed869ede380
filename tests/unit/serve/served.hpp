#pragma once

#include <catch2/catch.hpp>

#include <string>

#include "core/record/device_calibration.hpp"
#include "core/spec/cluster_word.hpp"
#include "serve/engine.hpp"
#include "serve/step_work.hpp"
#include "tests/support/shipped_model.hpp"

namespace orrery {

/// What the tests of this folder serve.
struct Served {
  ModelSpec model;
  ClusterSpec cluster;
  Calibration calibration;
  Engine engine;

  [[nodiscard]] StepPricer pricer(const ServingPlan& plan = {}) const { return {model, plan, cluster, calibration}; }
};

using test::shipped_library;

inline Served served(const std::string& model, const std::string& cluster, const std::string& engine = "vllm") {
  const Library library = shipped_library();
  Diagnostics d;
  Served out;
  out.model = library.model(model, {}, d).value();
  out.cluster = cluster_of_word(cluster, library, d).value();
  out.calibration = shipped_calibration(out.cluster.device, library, d).value();
  const EngineTable engines = read_engines(engines_path(library), d).value();
  REQUIRE(engines.find(engine) != nullptr);
  out.engine = *engines.find(engine);
  INFO(render(d));
  REQUIRE(d.empty());
  return out;
}

}  // namespace orrery
