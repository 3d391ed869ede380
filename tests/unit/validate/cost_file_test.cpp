#include <catch2/catch.hpp>

#include <algorithm>
#include <string>

#include "tests/unit/validate/runs.hpp"
#include "validate/cost_file.hpp"
#include "validate/validation.hpp"

using namespace orrery;
using namespace orrery::test;

namespace {

CostFile costs(const char* device, const char* framework, SoftwareCost cost, double value) {
  CostFile out;
  out.name = "test";
  out.device = device;
  out.framework = framework;
  out.costs.push_back({cost, value, value, 0.1, 0.0});
  return out;
}

std::string mistakes(const std::string& text) {
  Diagnostics d;
  CHECK_FALSE(parse_costs(text, "c.toml", d));
  return render(d);
}

}  // namespace

TEST_CASE("costs of software read back as they were written", "[unit][validate]") {
  CostFile file = costs("hopper", "nemo", SoftwareCost::memory, 1.5);
  file.source = "a guess";
  file.costs.push_back({SoftwareCost::step_gap, 1e-3, 2e-3, 0.5, 0.25});
  file.runs = {"one", "two"};
  file.errors = {2, 5.0, 4.0, -1.0, 0.9, 1.1, {}};
  file.dense = {1, 4.0, 4.0, -1.0, 0.95, 1.05, {}};
  file.seen_mixtures = {1, 6.0, 6.0, 1.0, 0.9, 1.0, {}};
  file.architectures = {"2 4096 16384 0"};
  file.unnamed = {3, 9.0, 8.0, -5.0, 0.8, 1.5, {}};
  file.unmeasured = {4, 20.0, 18.0, -17.0, 0.7, 1.8, {}};
  file.unmeasured_named = {5, 10.0, 9.0, -7.0, 0.9, 1.4, {}};
  file.devices = {{"h100", 7}, {"h200", 1}};
  Diagnostics d;
  CHECK(parse_costs(costs_text(file), "c.toml", d) == file);
  CHECK(parse_costs(costs_text(costs("", "", SoftwareCost::gemm, 1.0)), "c.toml", d) ==
        costs("", "", SoftwareCost::gemm, 1.0));
  CHECK(render(d) == "");
}

TEST_CASE("costs.key: constants belong to devices and software alone", "[unit][validate]") {
  const std::string text = mistakes("schema = 1\nname = \"x\"\ndevice = \"MPT-7b\"\n");
  CHECK(text ==
        "c.toml:3:10: error: no device is called \"MPT-7b\" [costs.key]\n"
        "    3 | device = \"MPT-7b\"\n"
        "      |          ^\n"
        "  Constants belong to devices and training software, never to a model, a size or a run.\n"
        "  Known: volta, ampere, hopper, h100-96, blackwell, blackwell-hgx, gb200, gb300.\n");
  CHECK(mistakes("schema = 1\nname = \"x\"\nframework = \"llama-3-8b\"\n").find("[costs.key]") != std::string::npos);
  CHECK(mistakes("schema = 1\nname = \"x\"\nmodel = \"llama-3-8b\"\n").find("[file.unknown-key]") != std::string::npos);
}

TEST_CASE("costs.duplicate: a cost that stands twice", "[unit][validate]") {
  const std::string one = "[[costs]]\ncost = \"gemm\"\nvalue = 1.0\nprior = 1.0\nspread = 0.1\n";
  const std::string text = mistakes("schema = 1\nname = \"x\"\n" + one + one);
  CHECK(text.find("error: gemm stands twice [costs.duplicate]") != std::string::npos);
}

TEST_CASE("factors of all keys that fit are multiplied, terms added", "[unit][validate]") {
  const std::vector<CostFile> files{
      costs("", "", SoftwareCost::gemm, 1.5),           costs("hopper", "", SoftwareCost::gemm, 2.0),
      costs("hopper", "nemo", SoftwareCost::gemm, 3.0), costs("", "nemo", SoftwareCost::step_gap, 0.25),
      costs("hopper", "", SoftwareCost::step_gap, 0.5), costs("ampere", "", SoftwareCost::gemm, 7.0)};
  const SoftwareCosts all = costs_of(files, {{"hopper"}, {"nemo"}});
  CHECK(all[SoftwareCost::gemm] == 9.0);       // 1.5 * 2 * 3
  CHECK(all[SoftwareCost::step_gap] == 0.75);  // 0.25 + 0.5
  CHECK(all[SoftwareCost::memory] == 1.0);
  CHECK(costs_of(files, {{"volta"}, {}})[SoftwareCost::gemm] == 1.5);
}

TEST_CASE("the interval of a run is that of its narrowest key with seven runs, and of models like its own",
          "[unit][validate]") {
  CostFile all = costs("", "", SoftwareCost::gemm, 1.0);
  all.errors = {100, 5.0, 4.0, 0.0, 0.9, 1.1, {}};
  CostFile hopper = costs("hopper", "", SoftwareCost::gemm, 1.0);
  hopper.errors = {40, 5.0, 4.0, 0.0, 0.8, 1.2, {}};
  CostFile few = costs("hopper", "nemo", SoftwareCost::gemm, 1.0);
  few.errors = {6, 5.0, 4.0, 0.0, 0.7, 1.3, {}};
  CHECK(errors_of({all, hopper, few}, {{"hopper"}, {"nemo"}}).low == 0.8);
  CHECK(errors_of({all, hopper, few}, {{"volta"}, {"nemo"}}).low == 0.9);
  CHECK(errors_of({}, {{"volta"}, {}}) == HeldOutErrors{});
  few.errors.runs = 7;
  CHECK(errors_of({all, hopper, few}, {{"hopper"}, {"nemo"}}).low == 0.7);
  // Kinds of models count as narrower keys from twenty runs on; a model that the fit has seen has errors of its own.
  hopper.dense = {20, 5.0, 4.0, 0.0, 0.85, 1.15, {}};
  hopper.mixtures = {19, 5.0, 4.0, 0.0, 0.6, 1.4, {}};
  CHECK(errors_of({all, hopper}, {{"hopper"}, {}}, ModelKnown{false, "new"}).low == 0.85);
  CHECK(errors_of({all, hopper}, {{"hopper"}, {}}, ModelKnown{true, "new"}).low == 0.8);
  all.architectures = {"old"};
  hopper.seen = {40, 3.0, 2.0, 0.0, 0.95, 1.05, {}};
  CHECK(errors_of({all, hopper}, {{"hopper"}, {}}, ModelKnown{true, "old"}).low == 0.95);
  CHECK(errors_of({all, hopper}, {{"hopper"}, {}}, ModelKnown{true, "new"}).low == 0.8);
}

TEST_CASE("labels say device, software and recipe", "[unit][validate]") {
  MeasuredRun run = dense_run();
  CHECK(labels_of(run, "a100-80") == CostLabels{{"ampere"}, {"unfused"}});
  run.framework = "NeMo container 26.06 (Megatron-Bridge/Core)";
  run.precision = "mxfp8";
  CHECK(labels_of(run, "gb300") ==
        CostLabels{{"blackwell", "gb300"},
                   {"megatron-bridge", "megatron-bridge-26.06", "nemo-loop", "flex-dispatcher", "transformer-engine",
                    "fp8-blocks", "transformer-engine-fp8"}});
  run.framework = "MaxText 25.01 (JAX)";
  run.precision = "bf16";
  CHECK(labels_of(run, "h100") == CostLabels{{"hopper"}, {}});
}

TEST_CASE("shipped constants: at most one free for ten runs, each with runs behind it", "[unit][validate]") {
  const std::vector<CostFile> files = shipped_costs(shipped_library());
  REQUIRE_FALSE(files.empty());
  std::size_t free = 0;
  std::size_t runs = 0;
  for (const CostFile& file : files) {
    CAPTURE(file.name);
    CHECK_FALSE(file.source.empty());
    CHECK(file.runs.size() == file.errors.runs);
    for (const FittedCost& c : file.costs) {
      free += c.spread > 0.0 ? 1 : 0;
      if (c.spread > 0.0) CHECK(file.runs.size() >= 7);  // one run or two decide nothing
    }
    if (file.device.empty() && file.framework.empty()) {
      runs = file.errors.runs;
      // This is the error with which the constants are shipped, each run held out with all of its architecture and
      // size.
      CHECK(file.errors.mape_pct <= 8.0);
      CHECK(file.errors.median_pct <= 5.0);
    }
  }
  CHECK(10 * free <= runs);
}
