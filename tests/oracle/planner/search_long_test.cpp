#include <sys/resource.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdio>

#include "core/program/lower/lower.hpp"
#include "core/record/calibration_file.hpp"
#include "core/spec/library.hpp"
#include "planner/search.hpp"
#include "sim/bound/bound.hpp"
#include "tests/oracle/planner/search_case.hpp"

using namespace orrery;

namespace {

struct Case {
  ModelSpec model;
  Workload workload;
  ClusterSpec cluster;
  Calibration calibration;
};

Case make(const char* model_name, const char* cluster_name, std::uint32_t gpus, std::uint64_t batch,
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
  return {*model, workload, *cluster, *calibration};
}

Case gpt3() { return make("gpt3-175b", "dgx-a100", 128, 512, 2048); }
Case llama3() { return make("llama-3-405b", "dgx-h100", 16384, 2048, 8192); }

void compare_with_brute_force(const Case& c) {
  SearchOptions options;
  options.top = 10;
  options.simulate = false;
  const Space space = make_space(c.model, c.workload, c.cluster, basic_limits());
  const SearchResult found = search(space, c.model, c.workload, c.cluster, c.calibration, options);
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  CHECK(used.ru_maxrss < 500 * 1024);  // KiB: below 500 MB, tests included
  options.prune = false;
  const SearchResult brute = search(space, c.model, c.workload, c.cluster, c.calibration, options);
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

/// Bytes of the fullest rank: every Alloc and Free of the Program in list order.
/// A buffer has the same size in every layer and microbatch, so a block's runs
/// all rise and fall alike and each block is added up once.
std::uint64_t exact_peak(const Case& c, const Plan& plan) {
  const Program program = lower(c.model, c.workload, plan);
  struct Rise {
    std::int64_t peak = 0;  // both from the start of the block
    std::int64_t end = 0;
  };
  std::vector<Rise> blocks(program.blocks.size());
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    for (const Op& op : program.blocks[b].ops) {
      if (const auto* alloc = std::get_if<Alloc>(&op.action)) {
        blocks[b].end += static_cast<std::int64_t>(bytes_of(program[alloc->what]));
        blocks[b].peak = std::max(blocks[b].peak, blocks[b].end);
      } else if (const auto* free = std::get_if<Free>(&op.action)) {
        blocks[b].end -= static_cast<std::int64_t>(bytes_of(program[free->what]));
      }
    }
  }
  std::int64_t peak = 0;
  for (const RankClass& ranks : program.classes) {
    std::int64_t live = 0;
    for (const auto* slots : {&ranks.setup, &ranks.step}) {
      for (const Slot& slot : *slots) {
        for (std::uint32_t i = 0; i < slot.repeat; ++i) {
          const Rise& block = blocks[static_cast<std::size_t>(slot.block)];
          peak = std::max(peak, live + block.peak);
          live += block.end;
        }
      }
    }
  }
  return static_cast<std::uint64_t>(peak);
}

/// Lowers every plan of the space: what the search left out by the closed form
/// of memory must not fit, the rest must.
void programs_confirm_what_fits(const Case& c) {
  const double capacity = c.cluster.device.memory.base();
  const Space space = make_space(c.model, c.workload, c.cluster, basic_limits());
  SearchOptions options;
  options.simulate = false;
  const SearchResult found = search(space, c.model, c.workload, c.cluster, c.calibration, options);

  Bounder bounder(c.model, c.workload, c.cluster, c.calibration);
  std::uint64_t too_large = 0;
  std::uint64_t close = 0;
  for (std::uint64_t i = 0; i < space.count; ++i) {
    const Plan plan = plan_at(space, i);
    const std::uint64_t peak = exact_peak(c, plan);
    if (peak != bounder.peak_memory(plan)) {
      CAPTURE(i, describe(plan));
      REQUIRE(peak == bounder.peak_memory(plan));
    }
    const double part = static_cast<double>(peak) / capacity;
    too_large += part > 1.0 ? 1 : 0;
    close += std::abs(part - 1.0) < 0.01 ? 1 : 0;
  }
  CHECK(too_large >= found.infeasible);
  // Enough stand next to the capacity that a small error would have changed the count.
  CHECK(close > 100);
  std::printf("%s: %llu plans lowered, %llu of them do not fit, %llu within 1 %% of the capacity\n",
              c.model.name.c_str(), static_cast<unsigned long long>(space.count),
              static_cast<unsigned long long>(too_large), static_cast<unsigned long long>(close));
}

}  // namespace

// Those of search_test.cpp on more devices.
TEST_CASE("the search finds what trying every plan of a larger space finds", "[oracle][planner]") {
  const test::SearchCase all[] = {
      {"some layers recomputed on 16", test::gpt(), test::workload(16), test::small_cluster(2, 8, mebibyte * 7),
       test::only("tensor=1d context=off replica=off schedule=1f1b zero=0,1")},
      {"experts on 8", test::mixture(false), test::routed(Routing::Kind::skewed),
       test::small_cluster(2, 4, mebibyte * 10), test::only("schedule=1f1b zero=0,1 context=off replica=off")},
      {"experts, all else too, on 4", test::mixture(false), test::routed(Routing::Kind::learned),
       test::small_cluster(2, 2, mebibyte * 12), test::only("schedule=gpipe,zb-h1,interleaved")},
      {"experts above a dense layer on 4", test::mixture(true), test::routed(Routing::Kind::balanced),
       test::small_cluster(2, 2, mebibyte * 8), test::only("schedule=1f1b,interleaved")},
  };
  for (const test::SearchCase& c : all) test::compare_with_brute_force(c);
}

TEST_CASE("GPT-3 175B on 128 GPUs: pruning changes nothing", "[oracle][planner]") { compare_with_brute_force(gpt3()); }

TEST_CASE("Llama-3-405B on 16,384 GPUs: pruning changes nothing", "[oracle][planner]") {
  compare_with_brute_force(llama3());
}

TEST_CASE("GPT-3 175B on 128 GPUs: Programs confirm what fits and what does not", "[oracle][planner]") {
  programs_confirm_what_fits(gpt3());
}

TEST_CASE("Llama-3-405B on 16,384 GPUs: Programs confirm what fits and what does not", "[oracle][planner]") {
  programs_confirm_what_fits(llama3());
}
