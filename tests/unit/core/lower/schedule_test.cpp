#include <algorithm>
#include <catch2/catch.hpp>

#include "core/program/lower/pipeline_transfers.hpp"
#include "core/program/lower/schedule.hpp"

using namespace orrery;
using namespace orrery::lowering;

namespace {

/// Most microbatches that have run forward but not yet backward.
std::uint32_t most_in_flight(const std::vector<Action>& order) {
  std::uint32_t now = 0;
  std::uint32_t most = 0;
  for (const Action& a : order) {
    now = a.phase == Phase::forward ? now + 1 : now - 1;
    most = std::max(most, now);
  }
  return most;
}

}  // namespace

TEST_CASE("every schedule runs each microbatch forward once and backward once, in ascending order", "[schedule]") {
  const ScheduleName name = GENERATE(ScheduleName::gpipe, ScheduleName::one_f_one_b);
  const std::uint32_t stages = GENERATE(1U, 2U, 3U, 8U);
  const std::uint32_t microbatches = GENERATE(1U, 2U, 7U, 32U);
  for (std::uint32_t stage = 0; stage < stages; ++stage) {
    CAPTURE(stages, microbatches, stage);
    std::vector<std::uint32_t> forward, backward;
    for (const Action& a : schedule_of(name)(stage, stages, microbatches)) {
      (a.phase == Phase::forward ? forward : backward).push_back(a.microbatch);
      if (a.phase == Phase::backward) {
        CHECK(std::find(forward.begin(), forward.end(), a.microbatch) != forward.end());
      }
    }
    REQUIRE(forward.size() == microbatches);
    REQUIRE(backward.size() == microbatches);
    CHECK(std::is_sorted(forward.begin(), forward.end()));
    CHECK(std::is_sorted(backward.begin(), backward.end()));
  }
}

// In 1F1B, stage s of p runs p - 1 - s forwards ahead, so it holds at most
// p - s microbatches, and never more than exist (Narayanan et al., SC '21,
// section 2.2, bound it by p).  GPipe holds all.
TEST_CASE("1F1B holds at most p - s microbatches on stage s, GPipe all of them", "[schedule]") {
  const std::uint32_t stages = GENERATE(1U, 2U, 4U, 8U);
  const std::uint32_t microbatches = GENERATE(1U, 2U, 7U, 32U);
  for (std::uint32_t stage = 0; stage < stages; ++stage) {
    CAPTURE(stages, microbatches, stage);
    CHECK(most_in_flight(schedule_1f1b(stage, stages, microbatches)) == std::min(stages - stage, microbatches));
    CHECK(most_in_flight(schedule_gpipe(stage, stages, microbatches)) == microbatches);
  }
}

TEST_CASE("neighbouring stages send and receive the same microbatches in the same order", "[schedule]") {
  const ScheduleName name = GENERATE(ScheduleName::gpipe, ScheduleName::one_f_one_b);
  const std::uint32_t stages = GENERATE(2U, 3U, 5U);
  const std::uint32_t microbatches = GENERATE(1U, 2U, 9U);
  // Between two stages, the messages in the order of each end's list.
  const auto messages = [&](std::uint32_t stage, Phase down, Phase up) {
    std::vector<std::pair<bool, std::uint32_t>> out;
    for (const Action& a : with_transfers(schedule_of(name)(stage, stages, microbatches), stage, stages)) {
      if (a.phase == down) out.emplace_back(true, a.microbatch);
      if (a.phase == up) out.emplace_back(false, a.microbatch);
    }
    return out;
  };
  for (std::uint32_t stage = 0; stage + 1 < stages; ++stage) {
    CAPTURE(stages, microbatches, stage);
    CHECK(messages(stage, Phase::send_hidden, Phase::receive_gradient) ==
          messages(stage + 1, Phase::receive_hidden, Phase::send_gradient));
  }
}
