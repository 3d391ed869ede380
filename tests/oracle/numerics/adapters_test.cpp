#include <catch2/catch.hpp>
#include <cstdlib>
#include <map>
#include <string>

#include "core/base/diagnostics.hpp"
#include "core/plan/plan_check.hpp"
#include "core/program/lower/lower.hpp"
#include "core/program/verify.hpp"
#include "tests/oracle/numerics/check_run.hpp"
#include "tests/support/random_plan.hpp"

namespace orrery::test {
namespace {

/// The first seeds whose plans pass check().
std::vector<std::uint64_t> seeds(std::size_t count, const RandomRunLimits& limits) {
  std::vector<std::uint64_t> out;
  for (std::uint64_t seed = 1; out.size() < count; ++seed) {
    const PlannedRun run = random_run(seed, limits);
    Diagnostics wrong;
    check(run.plan, run.model, run.workload, nullptr, wrong);
    if (wrong.empty()) out.push_back(seed);
  }
  return out;
}

RandomRunLimits with_adapters() {
  RandomRunLimits limits;
  limits.adapters = true;
  limits.mixture = false;
  limits.tensor = TensorAlgorithm::one_d;
  limits.max_ranks = 8;
  return limits;
}

TEST_CASE("adapters' gradients and updates are the reference's under any plan, and nothing else changes",
          "[oracle][adapters]") {
  const bool all = std::getenv("ORRERY_LONG_TESTS") != nullptr;
  std::map<std::string, int> seen;
  for (const std::uint64_t seed : seeds(all ? 400 : 40, with_adapters())) {
    const PlannedRun run = random_run(seed, with_adapters());
    const Plan& p = run.plan;
    CAPTURE(seed, describe(run));
    const auto violations = verify(lower(run.model, run.workload, p));
    for (const Violation& v : violations) {
      CAPTURE(v.code, v.message);
      CHECK(false);
    }
    // B starts at 0, so in fp16 what its first steps make of the narrow gradients lies below the smallest normal
    // number, and is rounded away on any plan.
    NumericsOptions options = sweep_options(seed);
    options.rough = options.rough || run.workload.precision == Precision::fp16;
    if (violations.empty()) check_run(run, seed, options);
    const bool shared = p.mesh.size(Axis::data) > 1;
    seen["tensor"] += p.mesh.size(Axis::tensor) > 1 ? 1 : 0;
    seen["sequence parallel"] += p.sequence_parallel ? 1 : 0;
    seen["pipeline"] += p.mesh.size(Axis::pipeline) > 1 ? 1 : 0;
    seen["context"] += p.mesh.size(Axis::context) > 1 ? 1 : 0;
    seen["recompute"] += p.recompute == Recompute::full ? 1 : 0;
    for (std::uint32_t z = 1; z <= 3; ++z) seen["zero " + std::to_string(z)] += shared && p.zero_stage == z ? 1 : 0;
  }
  for (const auto& [what, times] : seen) {
    CAPTURE(what);
    CHECK(times > 0);
  }
}

}  // namespace
}  // namespace orrery::test
