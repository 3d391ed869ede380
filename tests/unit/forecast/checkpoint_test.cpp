#include <catch2/catch.hpp>

#include <algorithm>

#include "core/plan/plan_words.hpp"
#include "exec/checkpoint/state_parts.hpp"
#include "forecast/checkpoint_size.hpp"
#include "forecast/checkpoint_time.hpp"
#include "planner/study/priced_plan.hpp"

using namespace orrery;

namespace {

const Library library(std::filesystem::path(ORRERY_SOURCE_DIR) / "models");

/// llama-3-8b on 16 H100, as the words say.
PricedPlan planned(const std::string& words, const char* model = "llama-3-8b") {
  PlannedRun run;
  run.model = study_model(library, model);
  run.workload = study_workload(64, 1024);
  run.cluster = study_cluster(library, "dgx-h100", 16);
  Diagnostics d;
  INFO(words);
  REQUIRE(put_words(run, words, d));
  const Calibration calibration = study_calibration(library, run.cluster->device);
  return priced(run.model, run.workload, *run.cluster, calibration, run.plan);
}

double written(const std::vector<HeldPart>& parts) {
  double bytes = 0.0;
  for (const HeldPart& held : parts) bytes += static_cast<double>(bytes_of(held.part));
  return bytes;
}

}  // namespace

TEST_CASE("a checkpoint beside matrices in few bits has what the executor writes: adapters", "[forecast]") {
  for (const char* words : {"dp=16 zero=1 adapters=16", "dp=4 tp=4 adapters=16"}) {
    for (const char* base : {" base=bf16", " base=nf4"}) {
      CAPTURE(words, base);
      const bool few = std::string_view(base) == " base=nf4";
      const PricedPlan p = planned(std::string(words) + (few ? base : ""));
      double all = 0.0;
      for (const std::vector<HeldPart>& parts : written_parts(p.program)) all += written(parts);
      CHECK(checkpoint_size(p.program, {}, 8).written == Approx(all).epsilon(1e-3));
    }
  }
}

TEST_CASE("a checkpoint has the bytes of the parts that the executor writes", "[forecast]") {
  for (const char* words : {"dp=16 zero=0", "dp=16 zero=1", "dp=16 zero=3", "tp=8 dp=2 zero=1", "tp=4 pp=4 dp=1",
                            "tp=2 pp=2 dp=4 zero=1", "dp=8 cp=2 zero=1"}) {
    CAPTURE(words);
    const PricedPlan p = planned(words);
    const CheckpointSize size = checkpoint_size(p.program, {}, 8);
    double all = 0.0, by_rank = 0.0, held_by_rank = 0.0;
    std::vector<double> nodes(2, 0.0);
    const auto parts = written_parts(p.program);
    for (std::uint32_t r = 0; r < 16; ++r) {
      const double bytes = written(parts[r]);
      all += bytes;
      by_rank = std::max(by_rank, bytes);
      nodes[r / 8] += bytes;
      held_by_rank = std::max(held_by_rank, written(held_parts(p.program, Rank{r})));
    }
    // Tables are padded so that every split gets equal parts: at most some thousand elements of 8 G.
    CHECK(size.written == Approx(all).epsilon(1e-3));
    CHECK(size.held_by_rank == Approx(held_by_rank).epsilon(1e-3));
    // Ranks take whole tensors in turn, and nodes do not get equally many.
    CHECK(size.written_by_node == Approx(std::max(nodes[0], nodes[1])).epsilon(0.15));
    // 14 bytes a parameter: 2 of weights, 4 + 4 + 4 of masters and moments.
    CHECK(size.written == Approx(14.0 * 8.03e9).epsilon(0.01));
  }
}

TEST_CASE("a copy of a tied word table is written once", "[forecast]") {
  const PricedPlan p = planned("pp=2 dp=8 zero=1", "gpt2-1.5b");
  double all = 0.0;
  for (const auto& parts : written_parts(p.program)) all += written(parts);
  CHECK(checkpoint_size(p.program, {}, 8).written == Approx(all).epsilon(1e-3));
}

TEST_CASE("a save takes the bytes of the fullest node over its storage", "[forecast]") {
  const PricedPlan p = planned("tp=8 dp=2 zero=1");
  const CheckpointSize size = checkpoint_size(p.program, {}, 8);
  ReliabilitySpec r;
  r.storage_rate_per_node = {Bandwidth::of(2e9), "s", FigureBasis::read};
  std::vector<std::string> unknown;
  const auto blocking = checkpoint_time(size, *p.run.cluster, r, SaveWay::blocking, 0.1, unknown);
  REQUIRE(blocking);
  CHECK(blocking->blocking.base() == Approx(size.written_by_node / 2e9));
  CHECK(blocking->until_it_counts == Seconds());
  CHECK(blocking->load.base() == Approx(size.held_by_node / 2e9));
  const auto beside = checkpoint_time(size, *p.run.cluster, r, SaveWay::beside, 0.1, unknown);
  // 63 GB/s to the host; 8 ports of 50 GB/s, of which storage takes 2 in 400.
  CHECK(beside->blocking.base() ==
        Approx(size.written_by_rank / 63e9 + 0.1 * (2.0 / 400.0) * size.written_by_node / 2e9));
  CHECK(beside->until_it_counts == blocking->blocking);
  // All storage together may be the bound, and a network without storage figures is none.
  r.storage_rate_total = {Bandwidth::of(1e9), "s", FigureBasis::read};
  CHECK(checkpoint_time(size, *p.run.cluster, r, SaveWay::blocking, 0.0, unknown)->node_rate == Bandwidth::of(5e8));
  CHECK(unknown.empty());
  CHECK_FALSE(checkpoint_time(size, *p.run.cluster, {}, SaveWay::blocking, 0.0, unknown));
  CHECK(unknown == std::vector<std::string>{"storage_rate_per_node"});
}
