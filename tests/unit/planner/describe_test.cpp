#include "planner/describe.hpp"

#include <catch2/catch.hpp>

using namespace orrery;

TEST_CASE("the schedule of one pipeline rank is named where it is not plain 1F1B", "[unit][planner]") {
  Plan plan;
  plan.mesh.axes = {{Axis::data, 4}};
  plan.stage_layers = {{4}};
  plan.zero_stage = 2;
  plan.attention = AttentionKernel::flash;
  plan.overlap_gradients = true;
  CHECK(describe(plan) == "data 4, microbatch 1, attention flash, recompute none, zero 2, gradients overlapped");
  plan.schedule = ScheduleName::breadth_first;
  plan.chunks = 2;
  plan.stage_layers = {{2, 2}};
  CHECK(describe(plan) ==
        "data 4, microbatch 1, breadth-first of 2 chunks, layers 2 x 2, attention flash, recompute none, "
        "zero 2, gradients overlapped");
}
