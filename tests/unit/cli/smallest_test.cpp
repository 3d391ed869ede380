#include <catch2/catch.hpp>

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tests/support/program_run.hpp"

// plan --smallest, and adapters as a dimension of a sweep.

using namespace orrery::test;
using nlohmann::json;

namespace {

Ran ask(const std::string& arguments) { return run(ORRERY_PROGRAM, arguments); }

const std::string opt = "plan --model opt-6.7b --cluster dgx-1v --batch 8 --seq 1024 --precision fp16 " + short_search;

}  // namespace

// Adam's 16 bytes a parameter of 6.7 billion are 100 GiB: more than three V100 of 32 GB have.
TEST_CASE("the smallest machine is the first size on which a search of its own finds a plan", "[cli]") {
  const Ran found = ask(opt + "--smallest --json");
  CAPTURE(found.err);
  REQUIRE(found.status == 0);
  const json tried = json::parse(found.out).at("smallest");
  REQUIRE(tried.size() >= 3);
  std::uint64_t expected = 1;
  for (const json& t : tried) {
    CHECK(t.at("gpus") == expected);
    CHECK(t.at("fits") == (&t == &tried.back()));
    expected *= 2;
  }
  const std::uint64_t smallest = tried.back().at("gpus");
  CHECK(ask(fmt::format("{}--gpus {}", opt, smallest)).status == 0);
  CHECK(ask(fmt::format("{}--gpus {}", opt, smallest / 2)).status == 1);
  // The bound is tried too where it is no power of two.
  const Ran bounded = ask(opt + "--smallest --json --gpus 3");
  const json small = json::parse(bounded.out).at("smallest");
  REQUIRE(small.size() == 3);
  CHECK(small.back().at("gpus") == 3);
}

TEST_CASE("a sweep over ranks of adapters holds the same models off as plan does", "[cli]") {
  const Ran some =
      ask("sweep --model gpt2-124m --cluster dgx-a100 --gpus 1 --batch 8 --seq 512 --for accelerate --over "
          "adapters=0,8 --json");
  CAPTURE(some.err);
  REQUIRE(some.status == 0);
  const json points = json::parse(some.out).at("points");
  REQUIRE(points.size() == 2);
  const double all = points[0].at("figures").at("step_time_s"), adapters = points[1].at("figures").at("step_time_s");
  // Fewer FLOPs, but products of their own, whose launches weigh more in a model this small.
  CHECK(adapters != all);
  const Ran mixture =
      ask("sweep --model mixtral-8x7b --cluster dgx-h100 --gpus 8 --batch 8 --seq 512 --over adapters=8 --json");
  CHECK(mixture.out.find("adapters are for dense decoders alone") != std::string::npos);
}
