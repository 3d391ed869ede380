#include "forecast/step_energy.hpp"

#include <catch2/catch.hpp>

#include <algorithm>

#include "core/plan/plan_words.hpp"
#include "core/program/totals.hpp"
#include "core/record/operation.hpp"
#include "planner/study/priced_plan.hpp"

using namespace orrery;

namespace {

const Library library(std::filesystem::path(ORRERY_SOURCE_DIR) / "models");

PowerTable table() {
  Diagnostics d;
  auto t = power_table(library, std::nullopt, d);
  INFO(render(d));
  REQUIRE(t);
  return *t;
}

PricedPlan planned(const std::string& words) {
  PlannedRun run;
  run.model = study_model(library, "llama-3-8b");
  run.workload = study_workload(64, 1024);
  run.cluster = study_cluster(library, "dgx-h100", 16);
  Diagnostics d;
  REQUIRE(put_words(run, words, d));
  return priced(run.model, run.workload, *run.cluster, study_calibration(library, run.cluster->device), run.plan);
}

}  // namespace

TEST_CASE("every shipped GPU has a power, with a source that says how far it is known", "[forecast]") {
  const PowerTable t = table();
  for (const std::string& name : library.devices()) {
    if (name == "cpu-core") continue;
    CAPTURE(name);
    Diagnostics d;
    const auto device = library.device(name, d);
    REQUIRE(device);
    const DevicePower* power = t.of(device->name);
    REQUIRE(power != nullptr);
    CHECK_FALSE(power->busy_w->source.empty());
    if (power->idle_w) CHECK(power->idle_w->value < power->busy_w->value);
  }
  for (const LinkEnergy& l : t.links) CHECK(l.pj_per_byte.basis == FigureBasis::unverified);
}

TEST_CASE("bytes between nodes and inside them are those that ranks send", "[forecast]") {
  for (const char* words : {"tp=8 dp=2 zero=1", "tp=4 pp=4 dp=1", "dp=16 zero=3"}) {
    CAPTURE(words);
    const PricedPlan p = planned(words);
    const MovedBytes moved = moved_bytes(p.program, {}, 8);
    // The report counts the bytes of rings and messages; the last bytes of uneven rings differ between ranks.
    CHECK(moved.inside + moved.network == Approx(static_cast<double>(p.report.sent_bytes)).epsilon(1e-4));
  }
  // Tensor ranks fill a node; only gradients and weights of the two replicas leave it.
  const MovedBytes moved = moved_bytes(planned("tp=8 dp=2 zero=1").program, {}, 8);
  CHECK(moved.network < moved.inside);
  CHECK(moved.network > 0.0);
}

TEST_CASE("energy is two levels of power over the step, and the network's bytes", "[forecast]") {
  const PricedPlan p = planned("tp=8 dp=2 zero=1");
  PowerTable t;
  t.devices.push_back({"H100", SourcedFigure<double>{600.0, "s", FigureBasis::read},
                       SourcedFigure<double>{100.0, "s", FigureBasis::read},
                       SourcedFigure<double>{200.0, "s", FigureBasis::read}});
  t.links.push_back({"network", {1000.0, "s", FigureBasis::read}});
  MovedBytes moved;
  moved.network = 1e12;
  const auto e = step_energy(p.report, moved, *p.run.cluster, t);
  REQUIRE(e);
  const double busy = 16.0 * 600.0 * p.report.compute.base();
  const double waiting = 16.0 * 200.0 * (p.report.step_time - p.report.compute).base();
  CHECK(e->joules == Approx(busy + waiting + 1000.0));  // 1e12 B x 1e-9 J
  CHECK(e->idle_w == Approx(1600.0));
  double parts = 0.0;
  for (const StepEnergy::Part& part : e->work) {
    CAPTURE(part.name);
    CHECK_FALSE(is_communication(part.name));
    parts += part.joules;
  }
  CHECK(std::any_of(p.report.operations.begin(), p.report.operations.end(),
                    [](const OperationTime& o) { return is_communication(o.name); }));
  CHECK(parts == Approx(busy + waiting));
  CHECK_FALSE(step_energy(p.report, moved, *p.run.cluster, {}));
}

TEST_CASE("power.twice: a device in two rows", "[error]") {
  Diagnostics d;
  const std::string row = "[[devices]]\nname = \"x\"\nbusy_w = 1\nsource = \"s\"\n";
  CHECK_FALSE(parse_power("schema = 1\n" + row + row, "p.toml", d));
  CHECK(render(d) == R"(p.toml:7:8: error: x stands twice [power.twice]
    7 | name = "x"
      |        ^
  One row says all of a device's power.
)");
}
