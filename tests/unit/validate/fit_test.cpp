#include <catch2/catch.hpp>

#include <cmath>

#include "tests/unit/validate/runs.hpp"
#include "validate/fit.hpp"

using namespace orrery;
using namespace orrery::test;

namespace {

/// Eight runs of four widths, each with and without recomputation, so that products and memory weigh differently.
std::vector<PreparedRun> some_runs() {
  std::vector<PreparedRun> out;
  for (const std::uint64_t hidden : {1024U, 2048U, 4096U, 6144U}) {
    for (const char* recompute : {"none", "full"}) {
      MeasuredRun run = dense_run();
      run.id = std::to_string(hidden) + recompute;
      run.hidden = hidden;
      run.ffn = 4 * hidden;
      run.layers = 8;
      run.recompute = recompute;
      auto prepared = prepare(run, shipped_library());
      REQUIRE(std::holds_alternative<PreparedRun>(prepared));
      out.push_back(std::move(std::get<PreparedRun>(prepared)));
    }
  }
  return out;
}

CostFile key(const char* device, SoftwareCost cost, double prior, double spread) {
  CostFile out;
  out.name = "test";
  out.device = device;
  out.costs.push_back({cost, prior, prior, spread, 0.0});
  return out;
}

/// Measured times are those that these constants give.
void measure(std::vector<PreparedRun>& runs, const std::vector<CostFile>& truth) {
  for (PreparedRun& run : runs) run.measured = step_time(run, costs_of(truth, run.labels));
}

}  // namespace

TEST_CASE("a fit finds the constants that made the times", "[unit][validate]") {
  std::vector<PreparedRun> runs = some_runs();
  measure(runs, {key("ampere", SoftwareCost::gemm, 1.3, 0.0), key("", SoftwareCost::memory, 2.5, 0.0)});
  // Priors are so wide that they hold nothing.
  const auto fit =
      fit_costs(runs, {key("ampere", SoftwareCost::gemm, 1.0, 5.0), key("", SoftwareCost::memory, 1.5, 5.0)});
  REQUIRE(fit);
  CHECK(fit->free_constants == 2);
  CHECK(fit->runs == 8);
  // The iteration ends when no logarithm moves by 0.003.
  CHECK(fit->files[0].costs[0].value == Approx(1.3).epsilon(3e-3));
  CHECK(fit->files[1].costs[0].value == Approx(2.5).epsilon(5e-3));
  CHECK(fit->in_sample.max_pct < 0.1);
  CHECK(fit->held_out.max_pct < 0.5);  // of the linearized problem
  CHECK(fit->files[0].runs.size() == 8);
}

TEST_CASE("a constant without runs keeps its prior, one without spread its value", "[unit][validate]") {
  std::vector<PreparedRun> runs = some_runs();
  measure(runs, {key("ampere", SoftwareCost::gemm, 1.3, 0.0)});
  const auto fit = fit_costs(runs, {key("volta", SoftwareCost::gemm, 1.1, 0.2), key("", SoftwareCost::memory, 1.4, 0.0),
                                    key("ampere", SoftwareCost::gemm, 1.0, 0.001)});
  REQUIRE(fit);
  CHECK(fit->files[0].costs[0].value == Approx(1.1));
  CHECK(fit->files[0].costs[0].uncertainty == Approx(0.2));
  CHECK(fit->files[1].costs[0].value == 1.4);
  CHECK(fit->files[2].costs[0].value == Approx(1.0).epsilon(0.01));  // its prior hardly gives way
  CHECK(fit->free_constants == 2);
}

TEST_CASE("a run is held out with all of its architecture and size", "[unit][validate]") {
  std::vector<PreparedRun> runs = some_runs();
  measure(runs, {});
  // Both runs of one width take twice as long, and without them nothing says so.
  for (PreparedRun& run : runs) {
    if (run.architecture == runs[0].architecture) *run.measured *= 2.0;
  }
  const auto fit = fit_costs(runs, {key("", SoftwareCost::gemm, 1.0, 0.5)});
  REQUIRE(fit);
  CHECK(fit->held_out_pct[0] == Approx(-50.0).margin(1.0));
  CHECK(fit->held_out_pct[1] == Approx(-50.0).margin(1.0));
}

// Products of one device take twice as long, and so do those of one program (four runs of eight each); only its own
// runs tell it. Where the other is fitted beside it, the rest is a constant of its own at its prior, 1.
TEST_CASE("a run is held out with all of its program, and with all of its device", "[unit][validate]") {
  std::vector<PreparedRun> runs = some_runs();
  for (std::size_t i = 0; i < 4; ++i) runs[i].labels.frameworks = {"nemo"};
  for (std::size_t i = 2; i < 6; ++i) {
    runs[i].labels.devices = {"volta"};
    runs[i].calibration.name = "v100";
  }
  std::vector<CostFile> files{key("volta", SoftwareCost::gemm, 1.0, 5.0), key("", SoftwareCost::memory, 1.0, 5.0)};
  files[1].framework = "nemo";
  std::vector<CostFile> truth = files;
  truth[0].costs[0].value = 1.2;
  truth[1].costs[0].value = 1.5;
  measure(runs, truth);
  const auto fit = fit_costs(runs, files);
  REQUIRE(fit);
  CHECK(fit->in_sample.max_pct < 0.2);
  const auto without = [&](std::size_t f, auto alike) {
    std::vector<CostFile> left = truth;
    left[f].costs[0].value = 1.0;
    std::vector<double> errors;
    for (const PreparedRun& run : runs) {
      errors.push_back(alike(run) ? error_pct(step_time(run, costs_of(left, run.labels)), *run.measured) : 0.0);
    }
    return summarize_errors(errors);
  };
  const ErrorSummary program = without(1, [](const PreparedRun& r) { return r.labels.frameworks.front() == "nemo"; });
  const ErrorSummary device = without(0, [](const PreparedRun& r) { return r.calibration.name == "v100"; });
  CHECK(program.mape_pct > 1.0);
  CHECK(device.mape_pct > 3.0);
  // The linearized problem is as near as held-out times are above.
  CHECK(fit->without_program.mape_pct == Approx(program.mape_pct).margin(0.5));
  CHECK(fit->without_device.mape_pct == Approx(device.mape_pct).margin(0.5));
}

TEST_CASE("how far off runs are whose program is not named", "[unit][validate]") {
  std::vector<PreparedRun> runs = some_runs();
  for (std::size_t i = 0; i < 3; ++i) runs[i].labels.frameworks = {"nemo"};  // five of eight are Megatron-LM's
  std::vector<CostFile> files{key("ampere", SoftwareCost::gemm, 1.2, 0.0), key("", SoftwareCost::memory, 3.0, 0.0),
                              key("", SoftwareCost::memory, 1.0, 0.0)};
  files[1].framework = "unfused";
  files[2].framework = "nemo";
  measure(runs, files);
  const auto fit = fit_costs(runs, files);
  REQUIRE(fit);
  CHECK(fit->in_sample.max_pct < 1e-9);
  // Priced as Megatron-LM's, three runs are too slow by the extra cost of its memory.
  const HeldOutErrors& unnamed = fit->files[0].unnamed;
  CHECK(unnamed.runs == 8);
  CHECK(unnamed.median_pct < 1e-9);
  CHECK(unnamed.bias_pct > 1.0);
  CHECK(unnamed.low < 0.99);
  CHECK(unnamed.high == 1.0);
  CHECK(fit->files[1].unnamed == HeldOutErrors{});
}

TEST_CASE("a fit stops when it is told to", "[unit][validate]") {
  std::vector<PreparedRun> runs = some_runs();
  CHECK_FALSE(fit_costs(runs, {key("", SoftwareCost::gemm, 1.0, 0.5)}, [](double) { return false; }));
}

TEST_CASE("a fit that is worse on runs not seen before is known", "[unit][validate]") {
  std::vector<PreparedRun> runs = some_runs();
  const std::vector<CostFile> truth{key("", SoftwareCost::gemm, 1.3, 0.0)};
  measure(runs, truth);
  // With a wrong prior, the new constants miss what the old ones had right.
  const auto worse = fit_costs(runs, {key("", SoftwareCost::gemm, 1.0, 0.001)});
  REQUIRE(worse);
  const FitComparison compared = compare_fits(runs, truth, *worse);
  CHECK(compared.unseen == 8);
  CHECK(compared.before_pct == Approx(0.0).margin(1e-9));
  CHECK(compared.worse());
  // For runs that the old constants were fitted to, the recorded error counts.
  const auto good = fit_costs(runs, {key("", SoftwareCost::gemm, 1.0, 5.0)});
  REQUIRE(good);
  const FitComparison same = compare_fits(runs, good->files, *good);
  CHECK(same.unseen == 0);
  CHECK_FALSE(same.worse());
  // A part of the runs, none of them new, says less than all.
  const std::vector<PreparedRun> part(runs.begin(), runs.begin() + 4);
  const auto fewer = fit_costs(part, {key("", SoftwareCost::gemm, 1.0, 5.0)});
  REQUIRE(fewer);
  CHECK(compare_fits(part, good->files, *fewer).missing == 4);
  CHECK(compare_fits(part, good->files, *fewer).worse());
}

namespace {

/// A dense model whose parameters are shared out over eight data ranks.
MeasuredRun sharded_run() {
  MeasuredRun run = dense_run();
  run.tp = run.pp = 1;
  run.dp = 8;
  run.gbs = 16;
  run.zero = "3";
  return run;
}

}  // namespace

TEST_CASE("collectives of parameters and gradients cost the compute beside them", "[unit][validate]") {
  MeasuredRun run = sharded_run();
  const auto prepared = prepare(run, shipped_library());
  REQUIRE(std::holds_alternative<PreparedRun>(prepared));
  const auto& p = std::get<PreparedRun>(prepared);
  SoftwareCosts lost;
  lost[SoftwareCost::overlap] = 0.5;
  const double alone = step_time(p, {});
  CHECK(step_time(p, lost) > 1.01 * alone);
  CHECK(step_time(p, lost) < 1.5 * alone);  // at most half of the compute
  run.dp = 1;
  run.gpus = 1;
  const auto single = prepare(run, shipped_library());
  REQUIRE(std::holds_alternative<PreparedRun>(single));
  CHECK(step_time(std::get<PreparedRun>(single), lost) == step_time(std::get<PreparedRun>(single), {}));
}

TEST_CASE("launches of the host hide behind the device, and bound the step where they cannot", "[unit][validate]") {
  MeasuredRun run = dense_run();
  run.tp = run.pp = run.dp = run.gpus = 1;
  run.gbs = 8;
  const auto prepared = prepare(run, shipped_library());
  REQUIRE(std::holds_alternative<PreparedRun>(prepared));
  const auto& p = std::get<PreparedRun>(prepared);
  const auto time = [&](double launch) {
    SoftwareCosts costs;
    costs[SoftwareCost::host_launch] = launch;
    return step_time(p, costs);
  };
  CHECK(time(1e-9) == time(0.0));  // no kernel of this model is so short
  // Far slower than the device, the host alone decides: twice the time of a launch is twice the step, but for the
  // update of all parameters, which is a few launches and does not count.
  const double slow = time(1.0);
  CHECK(time(2.0) / slow == Approx(2.0).epsilon(1e-3));
  double before = 0.0;
  for (const double launch : {0.0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2}) {
    CHECK(time(launch) >= before);
    before = time(launch);
  }
}

TEST_CASE("weights that are gathered in half the bytes are gathered faster, gradients are not", "[unit][validate]") {
  MeasuredRun run = sharded_run();
  const auto prepared = prepare(run, shipped_library());
  REQUIRE(std::holds_alternative<PreparedRun>(prepared));
  const auto& p = std::get<PreparedRun>(prepared);
  const auto seconds = [&](double share, const char* kind) {
    SoftwareCosts costs;
    costs[SoftwareCost::weights_gather] = share;
    for (const OperationTime& o : step_report(p, costs).operations) {
      if (o.name == kind) return o.time.base();
    }
    return 0.0;
  };
  // A half of the bytes, and as much latency.
  CHECK(seconds(0.5, "all_gather data") < 0.75 * seconds(1.0, "all_gather data"));
  CHECK(seconds(0.5, "all_gather data") > 0.5 * seconds(1.0, "all_gather data"));
  CHECK(seconds(0.5, "reduce_scatter data") == seconds(1.0, "reduce_scatter data"));
}
