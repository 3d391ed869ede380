#include "sim/memory/memory_report.hpp"

#include <catch2/catch.hpp>

#include "core/program/lower/lower.hpp"
#include "tests/support/random_plan.hpp"

namespace orrery {
namespace {

struct Case {
  PlannedRun run;
  Program program;
};

Case pipeline_case() {
  test::RandomRunLimits limits;
  limits.schedule = ScheduleName::one_f_one_b;
  limits.zero_stage = 0;
  Case out{test::random_run(7, limits), {}};
  out.program = lower(out.run.model, out.run.workload, out.run.plan);
  return out;
}

}  // namespace

TEST_CASE("ranks alone have no communicators", "[unit][memory]") {
  Case c = pipeline_case();
  c.program.mesh.axes.clear();
  CHECK(communicator_count(c.program) == 0);
}

}  // namespace orrery
