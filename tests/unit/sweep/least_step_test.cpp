#include "sweep/least_step.hpp"

#include <catch2/catch.hpp>

#include <random>

#include "core/spec/library.hpp"
#include "planner/search.hpp"
#include "validate/calibration_choice.hpp"

using namespace orrery;

namespace {

const Library& library() {
  static const Library shipped(std::string(ORRERY_SOURCE_DIR) + "/models");
  return shipped;
}

ModelSpec model(const std::string& name) {
  Diagnostics d;
  return *library().model(name, "", d);
}

ClusterSpec cluster(const std::string& name, std::uint32_t gpus) {
  Diagnostics d;
  return *library().cluster(name, "", gpus, d);
}

Workload workload(std::uint64_t batch, std::uint64_t sequence) {
  Workload w;
  w.global_batch = batch;
  w.sequence_length = sequence;
  return w;
}

}  // namespace

// Llama-3-70B has 69.5 G parameters in its products (its embedding, 1.05 G, is looked up): 6 of them for each token.
// 2^20 tokens on 64 H100 at 989.4 TFLOP/s take 6 * 69.5e9 * 1048576 / (64 * 989.4e12) = 6.91 s. The pair that a token
// makes with itself adds 12 * 80 * 8192 = 7.9 M to 417 G FLOPs, 2e-5.
TEST_CASE("the bound is six FLOPs for each parameter and token at the peak", "[unit][sweep]") {
  const Seconds least = least_step(model("llama-3-70b"), workload(128, 8192), cluster("dgx-h100", 64));
  CHECK(least.base() == Approx(6.91).epsilon(0.002));
}

TEST_CASE("no plan that a search finds undercuts the bound", "[property][sweep]") {
  std::mt19937 random(11);
  const std::vector<std::string> models = {"gpt2-1.5b", "llama-3-8b", "mixtral-8x7b", "bert-large"};
  const std::vector<std::string> clusters = {"dgx-h100", "dgx-a100"};
  for (int round = 0; round < 4; ++round) {
    const ModelSpec m = model(models[random() % models.size()]);
    const ClusterSpec c = cluster(clusters[random() % clusters.size()], 8U << (random() % 3));
    const std::uint64_t longest = m.max_positions > 0 ? m.max_positions : 8192;
    const Workload w = workload(16U << (random() % 4), std::min<std::uint64_t>(longest, 512U << (random() % 5)));
    Diagnostics d;
    const auto choice = choose_calibration({{}, "none", {}}, library(), c, w.precision, d);
    REQUIRE(choice);
    SearchOptions options;
    options.simulate = false;
    options.judge_memory = false;
    const SearchResult found = search(m, w, c, choice->calibration, options);
    CAPTURE(m.name, c.name, c.devices(), w.global_batch, w.sequence_length);
    REQUIRE(!found.plans.empty());
    const Seconds least = least_step(m, w, c);
    CHECK(least > Seconds{});
    for (const FoundPlan& p : found.plans) CHECK(p.report.step_time >= least);
  }
}
