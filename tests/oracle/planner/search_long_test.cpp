#include <sys/resource.h>

#include <catch2/catch.hpp>

#include "core/record/calibration_file.hpp"
#include "core/spec/library.hpp"
#include "planner/search.hpp"

using namespace orrery;

namespace {

void compare_with_brute_force(const char* model_name, const char* cluster_name, std::uint32_t gpus, std::uint64_t batch,
                              std::uint64_t sequence) {
  Diagnostics wrong;
  const Library library(ORRERY_SOURCE_DIR "/models");
  const auto model = library.model(model_name, {}, wrong);
  const auto cluster = library.cluster(cluster_name, {}, gpus, wrong);
  REQUIRE(cluster);
  const auto calibration = read_calibration(library.calibration(cluster->device.calibration), wrong);
  CAPTURE(render(wrong));
  REQUIRE(model);
  REQUIRE(calibration);
  Workload workload;
  workload.global_batch = batch;
  workload.sequence_length = sequence;
  workload.clip_norm = 1.0;
  SearchOptions options;
  options.top = 10;
  options.simulate = false;
  const SearchResult found = search(*model, workload, *cluster, *calibration, options);
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  CHECK(used.ru_maxrss < 500 * 1024);  // KiB: below 500 MB, tests included
  options.prune = false;
  const SearchResult brute = search(*model, workload, *cluster, *calibration, options);
  CHECK(brute.evaluated == brute.space - brute.infeasible);
  CHECK(found.evaluated < brute.evaluated);
  CHECK(found.certified);
  REQUIRE(found.plans.size() == brute.plans.size());
  for (std::size_t i = 0; i < found.plans.size(); ++i) {
    CAPTURE(i);
    CHECK(found.plans[i].number == brute.plans[i].number);
    CHECK(found.plans[i].report == brute.plans[i].report);
  }
}

}  // namespace

TEST_CASE("GPT-3 175B on 128 GPUs: pruning changes nothing", "[oracle][planner]") {
  compare_with_brute_force("gpt3-175b", "dgx-a100", 128, 512, 2048);
}

TEST_CASE("Llama-3-405B on 16,384 GPUs: pruning changes nothing", "[oracle][planner]") {
  compare_with_brute_force("llama-3-405b", "dgx-h100", 16384, 2048, 8192);
}
