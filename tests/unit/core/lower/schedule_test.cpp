#include "core/program/lower/schedule.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "core/plan/plan_names.hpp"
#include "core/program/lower/pipeline_transfers.hpp"
#include "tests/support/pipeline_emulation.hpp"

using namespace orrery;
using namespace orrery::lowering;

namespace {

constexpr ScheduleName all_schedules[] = {
    ScheduleName::gpipe,       ScheduleName::one_f_one_b,   ScheduleName::eager_one_f_one_b,
    ScheduleName::interleaved, ScheduleName::breadth_first, ScheduleName::zb_h1,
    ScheduleName::zb_h2,       ScheduleName::zb_v,          ScheduleName::v_half,
    ScheduleName::v_min,       ScheduleName::dualpipe_v};

/// Shapes that the schedule runs on.
std::vector<PipelineShape> shapes_of(ScheduleName name) {
  const ScheduleRules& rules = rules_of(name);
  std::vector<PipelineShape> shapes;
  for (const std::uint32_t ranks : {1U, 2U, 3U, 4U, 5U, 8U}) {
    for (const std::uint32_t chunks : {1U, 2U, 3U, 4U}) {
      if (chunks < rules.least_chunks || (rules.most_chunks > 0 && chunks > rules.most_chunks)) continue;
      for (const std::uint32_t microbatches : {1U, 2U, 3U, 4U, 6U, 7U, 8U, 9U, 16U, 24U}) {
        if (microbatches < rules.least_rounds * ranks) continue;
        if (!rules.whole_rounds || microbatches % ranks == 0) shapes.push_back({ranks, chunks, microbatches});
      }
    }
  }
  return shapes;
}

StageMap map_of(ScheduleName name, const PipelineShape& s) { return {s.ranks, s.chunks, rules_of(name).placement}; }

/// The transfers of one rank of a plain pipeline as a rule states them: where a rank turns from a backward to a
/// forward, it receives the forward's input before it sends the backward's gradient.
std::vector<Action> by_rule(const std::vector<Action>& order, std::uint32_t rank, std::uint32_t ranks) {
  std::vector<Action> out;
  const bool first = rank == 0, last = rank + 1 == ranks;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const Action& now = order[i];
    const bool turned = i > 0 && order[i - 1].phase == Phase::backward;
    if (now.phase == Phase::forward) {
      if (!first) out.push_back({Phase::receive_hidden, 0, now.microbatch});
      if (!first && turned) out.push_back({Phase::send_gradient, 0, order[i - 1].microbatch});
      out.push_back(now);
      if (!last) out.push_back({Phase::send_hidden, 0, now.microbatch});
    } else {
      if (!last) out.push_back({Phase::receive_gradient, 0, now.microbatch});
      out.push_back(now);
      const bool turns = i + 1 < order.size() && order[i + 1].phase == Phase::forward;
      if (!first && !turns) out.push_back({Phase::send_gradient, 0, now.microbatch});
    }
  }
  return out;
}

}  // namespace

TEST_CASE(
    "every schedule runs each microbatch of each chunk forward, backward and its weights once, in ascending order",
    "[schedule]") {
  for (const ScheduleName name : all_schedules) {
    for (const PipelineShape& shape : shapes_of(name)) {
      CAPTURE(name_of(name), shape.ranks, shape.chunks, shape.microbatches);
      const Orders orders = schedule_of(name)(shape);
      REQUIRE(orders.size() == shape.ranks);
      for (const std::vector<Action>& order : orders) {
        for (std::uint32_t chunk = 0; chunk < shape.chunks; ++chunk) {
          std::uint32_t done[3] = {};
          for (const Action& a : order) {
            REQUIRE(a.chunk < shape.chunks);
            if (a.chunk != chunk) continue;
            const std::size_t step = a.phase == Phase::forward ? 0 : a.phase == Phase::backward ? 1 : 2;
            REQUIRE(a.microbatch == done[step]);
            if (step > 0) REQUIRE(done[step - 1] > done[step]);
            ++done[step];
          }
          REQUIRE(done[0] == shape.microbatches);
          REQUIRE(done[1] == shape.microbatches);
          REQUIRE(done[2] == (rules_of(name).splits_backward ? shape.microbatches : 0));
        }
      }
    }
  }
}

TEST_CASE("a plain pipeline's receives and sends stand where the rule of turns says", "[schedule]") {
  for (const ScheduleName name : {ScheduleName::gpipe, ScheduleName::one_f_one_b}) {
    for (const PipelineShape& shape : shapes_of(name)) {
      CAPTURE(name_of(name), shape.ranks, shape.microbatches);
      const Orders orders = schedule_of(name)(shape);
      const Orders with = with_transfers(orders, map_of(name, shape), shape.microbatches);
      for (std::uint32_t rank = 0; rank < shape.ranks; ++rank) {
        REQUIRE(with[rank] == (shape.ranks == 1 ? orders[rank] : by_rule(orders[rank], rank, shape.ranks)));
      }
    }
  }
}

// Each rank's list is walked as it stands: a message passes when both ends have come to it.
TEST_CASE("lists with transfers run to their end where every message blocks both ends", "[schedule]") {
  for (const ScheduleName name : all_schedules) {
    for (const PipelineShape& shape : shapes_of(name)) {
      CAPTURE(name_of(name), shape.ranks, shape.chunks, shape.microbatches);
      const StageMap map = map_of(name, shape);
      const Orders lists = with_transfers(schedule_of(name)(shape), map, shape.microbatches);
      std::vector<std::size_t> at(shape.ranks);
      const auto partner = [&](std::uint32_t rank, const Action& a) -> std::pair<std::uint32_t, Action> {
        const std::uint32_t here = map.stage(rank, a.chunk);
        const bool up = a.phase == Phase::send_hidden || a.phase == Phase::receive_gradient;
        const std::uint32_t there = up ? here + 1 : here - 1;
        const Phase phase = a.phase == Phase::send_hidden      ? Phase::receive_hidden
                            : a.phase == Phase::receive_hidden ? Phase::send_hidden
                            : a.phase == Phase::send_gradient  ? Phase::receive_gradient
                                                               : Phase::send_gradient;
        return {map.rank(there), {phase, map.chunk(there), a.microbatch}};
      };
      bool moved = true;
      while (moved) {
        moved = false;
        for (std::uint32_t r = 0; r < shape.ranks; ++r) {
          while (at[r] < lists[r].size()) {
            const Action& a = lists[r][at[r]];
            if (is_message(a.phase)) {
              const auto [peer, theirs] = partner(r, a);
              if (at[peer] == lists[peer].size() || !(lists[peer][at[peer]] == theirs)) break;
              ++at[peer];
            }
            ++at[r];
            moved = true;
          }
        }
      }
      for (std::uint32_t r = 0; r < shape.ranks; ++r) REQUIRE(at[r] == lists[r].size());
    }
  }
}
