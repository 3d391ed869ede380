#include "validate/device_basis.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <variant>

#include "tests/unit/validate/runs.hpp"
#include "validate/calibration_choice.hpp"
#include "validate/prepared_run.hpp"
#include "validate/run_table.hpp"
#include "validate/validation.hpp"

using namespace orrery;
using namespace orrery::test;

namespace {

DeviceBasis basis_of(const char* name, const char* software = "auto") {
  CAPTURE(name);
  Diagnostics d;
  const auto device = shipped_library().device(name, d);
  REQUIRE(device);
  PriceWishes wishes;
  wishes.software = software;
  const auto choice = choose_calibration(wishes, shipped_library(), *device,
                                         device->peak.contains(Precision::bf16) ? Precision::bf16 : Precision::fp16, d);
  CHECK(render(d) == "");
  REQUIRE(choice);
  REQUIRE(choice->devices.size() == 1);
  return choice->devices.front();
}

}  // namespace

TEST_CASE("files of families count their runs by device, and all of them", "[unit][validate]") {
  std::size_t families = 0, all = 0, counted = 0;
  for (const CostFile& f : shipped_costs(shipped_library())) {
    if (f.device.empty() && f.framework.empty()) all = f.runs.size();
    if (f.devices.empty()) continue;
    std::size_t sum = 0;
    for (const auto& [device, runs] : f.devices) sum += runs;
    CHECK(sum == f.runs.size());
    counted += sum;
    ++families;
  }
  CHECK(families == 4);  // volta, ampere, hopper, blackwell
  CHECK(counted == all);
}

TEST_CASE("a device with runs is fitted, one of its chip is relative, any other is by datasheet", "[unit][validate]") {
  for (const char* name : {"a100-40", "a100-80", "h100", "h100-96", "b200", "gb200", "gb300"}) {
    const DeviceBasis b = basis_of(name);
    CHECK(b.kind == DeviceBasis::Kind::fitted);
    CHECK(b.runs > 0);
  }
  for (const char* name : {"h800", "a800", "gh200", "h20", "v100-16"}) {
    const DeviceBasis b = basis_of(name);
    CHECK(b.kind == DeviceBasis::Kind::relative);
    CHECK(b.text.find("none of " + b.device + " itself") != std::string::npos);
  }
  for (const char* name : {"l40s", "rtx-4090", "rtx-5090", "t4", "p100", "mi300x", "mi355x"}) {
    const DeviceBasis b = basis_of(name);
    CHECK(b.kind == DeviceBasis::Kind::datasheet);
    CHECK(b.runs == 0);
    CHECK(b.text.find("datasheet figures, no run measured") != std::string::npos);
  }
  CHECK(basis_of("h100").text.starts_with("H100: fitted on "));
}

// An unmeasured device must never look as sure as a measured one, whose program is not named either.
TEST_CASE("a device by datasheet is less sure than every fitted one", "[unit][validate]") {
  const double unsure = basis_of("l40s").within_pct.value();
  for (const char* name : {"a100-40", "a100-80", "h100", "b200", "gb200"}) {
    CHECK(basis_of(name).within_pct.value() < unsure);
    CHECK(basis_of(name, "nemo").within_pct.value() < basis_of("l40s", "nemo").within_pct.value());
  }
}

TEST_CASE("without costs of software nothing is said to be near", "[unit][validate]") {
  CHECK_FALSE(basis_of("l40s", "none").within_pct);
  CHECK(basis_of("h100", "none").text.find("--software none leaves out what they told") != std::string::npos);
}

// Independent of the fit: every fifth published run, priced as if its device had never been measured.
TEST_CASE("eight in ten measured times lie in the interval of a device by datasheet", "[unit][validate]") {
  Diagnostics d;
  const auto table = read_runs(std::filesystem::path(ORRERY_SOURCE_DIR) / "traces" / "measured" / "runs.csv", d);
  REQUIRE(table);
  const std::vector<CostFile> files = shipped_costs(shipped_library());
  const auto all = std::find_if(files.begin(), files.end(), [](const CostFile& f) { return f.unmeasured.runs > 0; });
  REQUIRE(all != files.end());
  std::size_t runs = 0, inside = 0, inside_named = 0;
  for (std::size_t i = 0; i < table->size(); i += 5) {
    const auto prepared = prepare((*table)[i], shipped_library());
    const auto* p = std::get_if<PreparedRun>(&prepared);
    if (p == nullptr || !p->measured || p->inconsistent) continue;
    CHECK(p->unmeasured.name == "datasheet");
    const auto lies = [&](const CostLabels& labels, const HeldOutErrors& e) {
      const double ratio = *p->measured / unmeasured_step_time(*p, costs_of(files, labels));
      return e.low <= ratio && ratio <= e.high ? 1U : 0U;
    };
    ++runs;
    inside += lies({}, all->unmeasured);
    inside_named += lies({{}, p->labels.frameworks}, all->unmeasured_named);
  }
  REQUIRE(runs > 50);
  CAPTURE(runs, inside, inside_named);
  // Of 70 draws at 0.8 the standard deviation is 0.05; three of them.
  CHECK(static_cast<double>(inside) / static_cast<double>(runs) == Approx(0.8).margin(0.15));
  CHECK(static_cast<double>(inside_named) / static_cast<double>(runs) == Approx(0.8).margin(0.15));
}
