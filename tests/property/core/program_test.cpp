#include <catch2/catch.hpp>

#include "core/program/lower/lower.hpp"
#include "core/program/program_text.hpp"
#include "core/program/verify.hpp"
#include "tests/support/random_plan.hpp"

using namespace orrery;

namespace {

constexpr std::uint64_t cases = 400;

/// Every fourth run has another architecture than a plain decoder's. Half of those with latent attention have experts,
/// and some are on grids.
PlannedRun draw(std::uint64_t seed) {
  test::RandomRunLimits limits;
  limits.architectures = seed % 4 == 0;
  if (seed % 8 == 0) limits.expert = 2;
  if (seed % 12 == 0) limits.tensor = seed % 24 == 0 ? TensorAlgorithm::two_d : TensorAlgorithm::three_d;
  return test::random_run(seed, limits);
}

Program lowered(std::uint64_t seed) {
  const PlannedRun run = draw(seed);
  return lower(run.model, run.workload, run.plan);
}

}  // namespace

TEST_CASE("the verifier accepts every lowered Program", "[property][verify]") {
  for (std::uint64_t seed = 1; seed <= cases; ++seed) {
    const PlannedRun run = draw(seed);
    CAPTURE(seed, test::describe(run));
    const Program program = lower(run.model, run.workload, run.plan);
    INFO(render(verify(program)));
    REQUIRE(verify(program).empty());
  }
}

TEST_CASE("a Program written as text reads back equal", "[property][program_text]") {
  for (std::uint64_t seed = 1; seed <= cases; ++seed) {
    CAPTURE(seed);
    const Program program = lowered(seed);
    const std::string text = write_program(program);
    Diagnostics diagnostics;
    const auto back = read_program(text, "memory", diagnostics);
    INFO(render(diagnostics));
    REQUIRE(back.has_value());
    REQUIRE(*back == program);
    REQUIRE(write_program(*back) == text);
  }
}
