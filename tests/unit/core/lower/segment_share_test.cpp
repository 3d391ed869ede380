#include "core/program/lower/segment_share.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "core/program/lower/state.hpp"
#include "tests/support/random_plan.hpp"

using namespace orrery;
using namespace orrery::lowering;

// The parts of all ranks of `own` make up the segment, part behind part. The axes along which a sum's parts lie are
// those that ZeRO scatters over and those that are left, none twice: the reduce-scatter and the all-reduce after it
// make one sum.
TEST_CASE("the shares of a segment make up the segment, and the axes of its sum are scattered or left", "[lower]") {
  std::size_t sharded = 0, left = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const PlannedRun run = test::random_run(seed);
    CAPTURE(seed, test::describe(run));
    State s(run.model, run.workload, run.plan);
    declare_parameters(s);
    REQUIRE(s.shares.of_table.size() == s.program.parameter_tables.size());
    for (const ParameterTable& table : s.program.parameter_tables) {
      std::uint64_t first = 0;
      for (const ParameterSegment& segment : table.segments) {
        const SegmentShare& share = share_of(s, table, segment);
        CHECK(share.first == first);
        CHECK(share.count * size(s.program.mesh, share.own) == segment.count);
        first += share.count;
        for (const Axis axis : plan_axes) {
          const bool scatters = contains(share.own, axis) && contains(s.token_axes, axis);
          CHECK(contains(share.sum, axis) == (scatters || contains(share.left, axis)));
          CHECK_FALSE((contains(share.own, axis) && contains(share.left, axis)));
        }
        sharded += share.own.empty() ? 0U : 1U;
        left += share.left.empty() ? 0U : 1U;
        // A copy of a segment, as some passes hold one, is found like the segment itself.
        const ParameterSegment copy = segment;
        CHECK(&share_of(s, table, copy) == &share);
        const auto has = [&](const AxisList& axes) {
          const std::vector<Lane>& lanes = s.shares.gradient_sum_lanes;
          return axes.empty() || std::find(lanes.begin(), lanes.end(), lane_over(axes)) != lanes.end();
        };
        CHECK(has(share.own));
        CHECK(has(share.left));
      }
    }
  }
  CHECK(sharded > 0);
  CHECK(left > 0);
}
