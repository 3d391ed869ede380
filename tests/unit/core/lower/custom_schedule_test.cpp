#include <catch2/catch.hpp>

#include "core/base/random.hpp"
#include "core/plan/compute_order.hpp"
#include "core/plan/plan_check.hpp"
#include "core/plan/plan_file.hpp"
#include "core/plan/plan_names.hpp"
#include "core/plan/schedule_rules.hpp"
#include "core/program/lower/lower.hpp"
#include "core/program/lower/schedule.hpp"
#include "core/program/program_text.hpp"
#include "core/program/verify.hpp"
#include "tests/support/random_plan.hpp"
#include "tests/support/tiny_model.hpp"

using namespace orrery;
using namespace orrery::lowering;

namespace {

ComputeOrder read(const std::string& text) {
  Diagnostics found;
  const auto order = read_order(text, "some.order", found);
  INFO(render(found));
  REQUIRE(order);
  return *order;
}

constexpr auto forward = OrderedAction::Kind::forward;
constexpr auto backward = OrderedAction::Kind::backward;
constexpr auto weight = OrderedAction::Kind::weight;

}  // namespace

TEST_CASE("an order reads as its lines say, between gaps, commas and comments", "[schedule]") {
  const ComputeOrder order =
      read("# two ranks\n\norrery-order 1\r\n 0F0, 0F1 0B0\t0B1 # the first\n1F0 1B0 1F1 1B1\n\n");
  CHECK(order.placement == StagePlacement::loop);
  CHECK(order.chunks == 1);
  CHECK(order.microbatches == 2);
  REQUIRE(order.ranks.size() == 2);
  CHECK(order.ranks[0] ==
        std::vector<OrderedAction>{{forward, 0, 0}, {forward, 0, 1}, {backward, 0, 0}, {backward, 0, 1}});
}

TEST_CASE("a whole backward beside split ones is an input gradient and its weight gradient", "[schedule]") {
  const ComputeOrder order = read("orrery-order 1\n0F0 0F1 0B0 0I1 0W1\n");
  CHECK(order.ranks[0] ==
        std::vector<OrderedAction>{
            {forward, 0, 0}, {forward, 0, 1}, {backward, 0, 0}, {weight, 0, 0}, {backward, 0, 1}, {weight, 0, 1}});
}

TEST_CASE("stages in a line say whether they lie on a loop or a V", "[schedule]") {
  const ComputeOrder loop = read("orrery-order 1\n0F0 2F0 2B0 0B0\n1F0 3F0 3B0 1B0\n");
  CHECK((loop.placement == StagePlacement::loop && loop.chunks == 2));
  const ComputeOrder v = read("orrery-order 1\n0F0 3F0 3B0 0B0\n1F0 2F0 2B0 1B0\n");
  CHECK((v.placement == StagePlacement::v && v.chunks == 2));
}

// A custom plan reads the output of `orrery show plan --order`, and lowers to the same Program.
TEST_CASE("every schedule written down and read back lowers to the same Program", "[schedule]") {
  for (std::size_t i = 0; i < pipeline_schedule_names().size(); ++i) {
    const auto name = static_cast<ScheduleName>(i);
    if (name == ScheduleName::custom) continue;
    for (std::uint64_t seed = 1; seed <= 12; ++seed) {
      test::RandomRunLimits limits;
      limits.schedule = name;
      limits.max_ranks = 8;
      limits.zero_stage = static_cast<std::uint32_t>(seed % 2);
      PlannedRun run = test::random_run(seed, limits);
      if (run.plan.schedule != name) continue;  // a grid does not split the backward pass
      CAPTURE(test::describe(run));
      const auto count = static_cast<std::uint32_t>(microbatches(run.plan, run.workload));
      const ComputeOrder written = compute_order(run.plan, count);
      const ComputeOrder order = read(write_order(written));
      CHECK(order.ranks == written.ranks);
      CHECK(mistakes_of(order).empty());
      const std::string expected = write_program(lower(run.model, run.workload, run.plan));
      run.plan.schedule = ScheduleName::custom;
      run.plan.action_times = {};
      run.plan.order = order.ranks;
      run.plan.order_placement = order.placement;
      CHECK(run.plan.chunks == order.chunks);
      Diagnostics found;
      check(run.plan, run.model, run.workload, nullptr, found);
      CHECK(render(found) == "");
      CHECK(write_program(lower(run.model, run.workload, run.plan)) == expected);
    }
  }
}

TEST_CASE("any order that can run lowers to a Program that breaks no rule", "[schedule]") {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    test::RandomRunLimits limits;
    limits.schedule = ScheduleName::custom;
    limits.max_ranks = 8;
    const PlannedRun run = test::random_run(seed, limits);
    if (run.plan.schedule != ScheduleName::custom) continue;
    CAPTURE(test::describe(run));
    const auto broken = verify(lower(run.model, run.workload, run.plan));
    INFO(render(broken));
    CHECK(broken.empty());
    const ComputeOrder order =
        compute_order(run.plan, static_cast<std::uint32_t>(microbatches(run.plan, run.workload)));
    CHECK(read(write_order(order)) == order);
  }
}

// One action is moved at random. Either the order is refused, or it still lowers to a sound Program.
TEST_CASE("an order with an action moved is refused or sound", "[schedule]") {
  int refused = 0, sound = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    test::RandomRunLimits limits;
    limits.schedule = ScheduleName::custom;
    limits.max_ranks = 4;
    PlannedRun run = test::random_run(seed, limits);
    if (run.plan.schedule != ScheduleName::custom) continue;
    CAPTURE(test::describe(run));
    auto& rank = run.plan.order[random_bits(seed, 1, 0) % run.plan.order.size()];
    const auto from = static_cast<std::ptrdiff_t>(random_bits(seed, 1, 1) % rank.size());
    const OrderedAction moved = rank[static_cast<std::size_t>(from)];
    rank.erase(rank.begin() + from);
    rank.insert(rank.begin() + static_cast<std::ptrdiff_t>(random_bits(seed, 1, 2) % (rank.size() + 1)), moved);
    Diagnostics found;
    check(run.plan, run.model, run.workload, nullptr, found);
    if (!found.empty()) {
      ++refused;
      continue;
    }
    ++sound;
    CHECK(verify(lower(run.model, run.workload, run.plan)).empty());
  }
  CHECK(refused > 20);
  CHECK(sound > 20);
}
