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

/// Runs the plans, and holds them to the reference and to having met every axis.
void check_plans(std::size_t count, const RandomRunLimits& limits) {
  std::map<std::string, int> seen;
  for (const std::uint64_t seed : seeds(count, limits)) {
    const PlannedRun run = random_run(seed, limits);
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
    const Adapters& a = *run.workload.adapters;
    if (limits.few_bits) ++seen[std::string(name_of(a.base)) + (a.double_quantization ? " twice" : "")];
    for (std::uint32_t z = 1; z <= (limits.few_bits ? 2 : 3); ++z)
      seen["zero " + std::to_string(z)] += shared && p.zero_stage == z ? 1 : 0;
  }
  for (const auto& [what, times] : seen) {
    CAPTURE(what);
    CHECK(times > 0);
  }
}

TEST_CASE("adapters' gradients and updates are the reference's under any plan, and nothing else changes",
          "[oracle][adapters]") {
  check_plans(std::getenv("ORRERY_LONG_TESTS") != nullptr ? 400 : 40, with_adapters());
}

// The reference computes with the matrices that the stored numbers stand for, which the test makes by itself.
TEST_CASE("beside matrices in few bits they are the reference's, and the stored numbers stay to the bit",
          "[oracle][adapters]") {
  RandomRunLimits limits = with_adapters();
  limits.few_bits = true;
  check_plans(std::getenv("ORRERY_LONG_TESTS") != nullptr ? 200 : 30, limits);
}

}  // namespace
}  // namespace orrery::test
