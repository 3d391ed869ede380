#include <catch2/catch.hpp>

#include <cstdlib>

#include "core/base/diagnostics.hpp"
#include "core/plan/plan_check.hpp"
#include "core/program/lower/lower.hpp"
#include "exec/train/data.hpp"
#include "tests/parity/run_on_device.hpp"
#include "tests/support/layer_kinds.hpp"
#include "tests/support/random_plan.hpp"
#include "tests/support/tiny_run.hpp"

using namespace orrery;
using test::lines;
using test::on_device;
using test::tensors_on_host;
using test::UnderTest;

// What random plans seldom have, and every kind of layer.
TEST_CASE("plans of all kinds on a device give what the reference gives, and leave no tensor to the host",
          "[parity][device]") {
  struct Kind {
    const char* name;
    void (*choose)(test::RandomRunLimits&);
  };
  const Kind kinds[] = {
      {"encoders, images and latent attention", [](test::RandomRunLimits& l) { l.architectures = true; }},
      {"adapters", [](test::RandomRunLimits& l) { l.adapters = true, l.mixture = false; }},
      {"context parts", [](test::RandomRunLimits& l) { l.cut_positions = true; }},
      {"experts", [](test::RandomRunLimits& l) { l.expert = 2; }},
      {"predictions", [](test::RandomRunLimits& l) { l.predictions = true; }},
      {"shared key-value heads",
       [](test::RandomRunLimits& l) { l.shared_kv_heads = true, l.tensor = TensorAlgorithm::one_d; }}};
  const std::uint64_t plans = std::getenv("ORRERY_LONG_TESTS") != nullptr ? 60 : 6;
  for (const Kind& kind : kinds) {
    test::RandomRunLimits limits;
    limits.max_ranks = 4;
    kind.choose(limits);
    std::uint64_t seed = 7800;
    for (std::uint64_t done = 0; done < plans; ++seed) {
      const PlannedRun run = test::random_run(seed, limits);
      Diagnostics wrong;
      check(run.plan, run.model, run.workload, nullptr, wrong);
      if (!wrong.empty()) continue;
      ++done;
      CAPTURE(kind.name, seed, test::describe(run));
      UnderTest device;
      test::NumericsOptions options = on_device(*device, run);
      options.steps = 2;
      const test::NumericsResult result = test::check_numerics(run, options);
      CHECK(lines(result.failures) == "");
    }
  }
  for (const auto& of : {test::single_kinds(), test::family_kinds()}) {
    for (const test::LayerKindCase& kind : of) {
      for (std::uint64_t seed = 7900;; ++seed) {
        test::RandomRunLimits limits;
        limits.max_ranks = 4;
        limits.mixture = kind.mixture;
        if (kind.mixture) limits.expert = seed % 2 + 1;
        if (kind.exact) limits.precision = Precision::fp64;
        if (!kind.grid) limits.tensor = TensorAlgorithm::one_d;
        PlannedRun run = test::random_run(seed, limits);
        if (!kind.mixture) run.model.mixture.reset();
        kind.apply(run.model);
        Diagnostics wrong;
        check(run.plan, run.model, run.workload, nullptr, wrong);
        if (!wrong.empty()) continue;
        CAPTURE(kind.name, seed, test::describe(run));
        UnderTest device;
        test::NumericsOptions options = on_device(*device, run);
        options.steps = 2;
        CHECK(lines(test::check_numerics(run, options).failures) == "");
        break;
      }
    }
  }
}

TEST_CASE("no kernel of a mixture runs on the host", "[parity][device]") {
  struct Kind {
    Routing::Kind routing;
    Mixture::Scores scores;
    bool shared, biases;
    std::uint32_t ranks;
    double balance;
  };
  for (const Kind& kind : {Kind{Routing::Kind::learned, Mixture::Scores::softmax_chosen, false, true, 1, 0.0},
                           Kind{Routing::Kind::learned, Mixture::Scores::sigmoid, true, false, 2, 0.1},
                           Kind{Routing::Kind::skewed, Mixture::Scores::softmax_all, true, false, 2, 0.1}}) {
    for (const Precision precision : {Precision::fp64, Precision::bf16}) {
      PlannedRun run = test::tiny_run(Mesh{{{Axis::expert, kind.ranks}}}, 4);
      run.workload.precision = precision;
      run.model.biases = {};
      Mixture& m = run.model.mixture.emplace();
      m.experts = 6;
      m.per_token = 2;
      m.ffn = 16;
      m.scores = kind.scores;
      m.expert_bias = m.router_bias = kind.biases;
      if (kind.shared) {
        m.shared_ffn = 16;
        m.shared_gate = true;
      }
      run.workload.routing.kind = kind.routing;
      run.workload.routing.exponent = kind.routing == Routing::Kind::skewed ? 0.7 : 0.0;
      run.workload.routing.auxiliary_loss = kind.balance;
      CAPTURE(test::describe(run));
      const Program program = lower(run.model, run.workload, run.plan);
      const auto data = synthetic_data(run.model.vocabulary, 3);
      RunOptions options;
      options.warmup_steps = 0;
      options.steps = 3;
      UnderTest device;
      const DeviceRun there = execute_on_device(*device, "run device", program, run.workload, *data, options);
      const RunResult here = execute(program, run.model, run.workload, run.plan, *data, options);
      CHECK(tensors_on_host(there.notes) == std::set<std::string>{});
      REQUIRE(there.result.losses.size() == here.losses.size());
      // With bf16 rounding a choice between nearly equal experts may differ.
      for (std::size_t i = 0; i < here.losses.size(); ++i) {
        CHECK(there.result.losses[i] == Approx(here.losses[i]).epsilon(precision == Precision::fp64 ? 1e-10 : 0.01));
      }
      if (precision == Precision::fp64) CHECK(there.result.routing == here.routing);
      CHECK(here.routing.empty() == (kind.routing != Routing::Kind::learned));
    }
  }
}

TEST_CASE("frozen matrices in few bits stay on the device, and train as the reference's", "[parity][device]") {
  test::RandomRunLimits limits;
  limits.adapters = limits.few_bits = true;
  limits.mixture = false;
  limits.context = false;
  limits.tensor = TensorAlgorithm::one_d;
  limits.max_ranks = 4;
  std::set<std::pair<BaseWeights, bool>> seen;
  int plans = 0;
  for (std::uint64_t seed = 7700; plans < 12; ++seed) {
    const PlannedRun run = test::random_run(seed, limits);
    Diagnostics wrong;
    check(run.plan, run.model, run.workload, nullptr, wrong);
    if (!wrong.empty()) continue;
    ++plans;
    seen.insert({run.workload.adapters->base, run.workload.adapters->double_quantization});
    CAPTURE(seed, test::describe(run));
    UnderTest device;
    test::NumericsOptions options = on_device(*device, run);
    options.steps = 2;
    CHECK(lines(test::check_numerics(run, options).failures) == "");
  }
  CHECK(seen.size() == 4);  // nf4 with and without scales in few bits, int8, fp8
}

TEST_CASE("unfused attention with a soft cap stays on the device", "[parity][device]") {
  for (const Precision precision : {Precision::fp64, Precision::fp32, Precision::bf16}) {
    PlannedRun run = test::tiny_run(Mesh{{{Axis::data, 2}}}, 4);
    run.workload.precision = precision;
    run.model.heads = 4;
    run.model.kv_heads = 2;
    run.model.attention_softcap = 0.5;
    CAPTURE(test::describe(run));
    UnderTest device;
    test::NumericsOptions options = on_device(*device, run);
    options.steps = 2;
    CHECK(lines(test::check_numerics(run, options).failures) == "");
  }
}
