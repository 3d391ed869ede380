#include <catch2/catch.hpp>

#include <QLabel>
#include <QPushButton>
#include <QRegularExpression>
#include <atomic>
#include <set>

#include "core/plan/plan_file.hpp"
#include "gui/model/fixes.hpp"
#include "gui/model/tables.hpp"
#include "gui/model/verdict.hpp"
#include "gui/widgets/memory_panel.hpp"
#include "gui/widgets/results_strip.hpp"
#include "gui/widgets/verdict_strip.hpp"
#include "planner/explain.hpp"
#include "tests/gui/opened_window.hpp"

// Whether a plan fits: the text of the window, its bars, and its offers.

using namespace orrery;
using namespace orrery::gui;
using namespace orrery::gui::test;

namespace {

constexpr std::uint64_t gib = 1ULL << 30;

/// Two stages on a device of 80 GiB; the second's allocator reserves `reserved`, and 3 GiB lie beside it.
Report report_of(std::uint64_t reserved, bool fits) {
  Report r;
  r.memory_capacity_bytes = 80 * gib;
  r.peak_memory_bytes = 60 * gib;
  r.peak_memory_reserved_bytes = reserved;
  r.peak_memory_process_bytes = reserved + 3 * gib;
  r.fits = fits;
  r.memory_by_stage = {{0, 50 * gib, 20 * gib, 10 * gib, 10 * gib, 9 * gib, 1 * gib, 55 * gib},
                       {1, 60 * gib, 20 * gib, 10 * gib, 10 * gib, 19 * gib, 1 * gib, reserved}};
  return r;
}

QString shown(MainWindow& window) { return child<QLabel>(window, "verdict").text(); }

/// A plan that does not fit, because everything is kept and a microbatch is large.
void overfill(PlanDocument& document) {
  document.wish(dimension("plan.recompute"), 0);
  document.wish(dimension("plan.microbatch_size"), 4);
}

/// Where the highest bar ends, in GiB.
double highest_bar(MainWindow& window) {
  double out = 0.0;
  for (const StageMemory& m : window.prediction()->report.memory_by_stage) {
    out = std::max(out, window.memory_panel().bar_height(m.stage));
  }
  return out;
}

}  // namespace

TEST_CASE("the verdict has the figures of the report, in words", "[gui]") {
  const FitVerdict fits = fit_verdict(report_of(72 * gib, true));
  CHECK(fits.text == "fits, 5.00 GiB to spare");
  CHECK(fits.detail == "stage 1: its process holds 75.0 GiB of the device's 80.0 GiB");
  const FitVerdict over = fit_verdict(report_of(83 * gib + gib / 2, false));
  CHECK(over.text == "does not fit by 6.50 GiB");
  CHECK(over.detail == "stage 1: its process holds 86.5 GiB of the device's 80.0 GiB");
  Report host = report_of(72 * gib, false);
  host.peak_host_memory_bytes = 600 * gib;
  host.host_memory_capacity_bytes = 512 * gib;
  CHECK(fit_verdict(host).text == "does not fit by 88.0 GiB");
  CHECK(fit_verdict(host).detail == "host memory of a node: 600 GiB of 512 GiB");
  host.peak_disk_bytes = 10 * gib;
  host.disk_capacity_bytes = 1000 * gib;
  host.fits = true;
  host.peak_host_memory_bytes = 400 * gib;
  CHECK(fit_verdict(host).detail ==
        "stage 1: its process holds 75.0 GiB of the device's 80.0 GiB; host memory of a node: 400 GiB of 512 GiB; disk "
        "of a node: 10.0 GiB of 1000 GiB");
  CHECK(fit_verdict(Report{}).text == "fits, as far as is known");
}

TEST_CASE("the parts of a bar add up to what the process holds", "[gui]") {
  for (const std::uint64_t reserved : {59 * gib, 60 * gib, 72 * gib}) {
    const Report r = report_of(reserved, true);
    for (const StageMemory& m : r.memory_by_stage) {
      std::uint64_t sum = 0;
      for (std::size_t part = 0; part < memory_part_count; ++part) sum += memory_in_part(r, m, part);
      CHECK(sum == process_of(r, m));
    }
  }
  const TableContent table = memory_table(report_of(72 * gib, true));
  for (const CellRow& row : table.rows) REQUIRE(row.cells.size() == table.headers.size());
  CHECK(table.rows[1].cells[1].text == QStringLiteral("75.0 GiB"));
  CHECK(table.rows[1].cells[2].text == QStringLiteral("93.8 %"));
}

TEST_CASE("a plan fits in the window's words where its bars stay below the line, and not where one crosses it",
          "[gui]") {
  Opened opened("llama-3-70b-8-dgx-h100");
  MainWindow& window = *opened.window;
  int fitting = 0, over = 0;
  for (const std::uint64_t data : {1, 2, 4}) {
    for (const std::uint64_t recompute : {2, 1, 0}) {
      for (const std::uint64_t microbatch : {1, 4}) {
        window.document().wish(dimension("mesh.data"), data);
        window.document().wish(dimension("plan.recompute"), recompute);
        window.document().wish(dimension("plan.microbatch_size"), microbatch);
        REQUIRE(opened.settled());
        const Report& r = window.prediction()->report;
        CAPTURE(data, recompute, microbatch, shown(window).toStdString());
        const double room = window.memory_panel().capacity();
        CHECK(room == 81559.0 / 1024.0);  // MiB that an H100 shows
        CHECK(highest_bar(window) * gib == Approx(static_cast<double>(*r.peak_memory_process_bytes)));
        CHECK((highest_bar(window) > room) == !r.fits);
        CHECK(shown(window).startsWith(r.fits ? QStringLiteral("Fits") : QStringLiteral("Does not fit by")));
        CHECK(child<MetricCard>(window, "metric-3").reading().bad == !r.fits);
        ++(r.fits ? fitting : over);
      }
    }
  }
  CHECK(fitting > 0);
  CHECK(over > 0);
}

TEST_CASE("a plan that does not fit is offered changes that fit; each is one step that can be undone", "[gui]") {
  Opened opened("llama-3-70b-8-dgx-h100");
  MainWindow& window = *opened.window;
  overfill(window.document());
  REQUIRE(opened.settled());
  REQUIRE_FALSE(window.prediction()->report.fits);
  REQUIRE(until([&] { return window.verdict_strip().is_settled(); }));
  const std::string before = write_plan(window.document().run());
  const int steps = window.document().history().index();
  const auto buttons = window.verdict_strip().findChildren<QPushButton*>(QRegularExpression(QStringLiteral("fix-.*")));
  REQUIRE(buttons.size() >= 2);
  std::set<QString> decisions;
  for (const QPushButton* b : buttons) decisions.insert(b->text().section(u' ', 0, 0));
  CHECK(decisions.size() == static_cast<std::size_t>(buttons.size()));
  double last = 0.0;
  for (int i = 0; i < buttons.size(); ++i) {
    REQUIRE(until([&] { return window.verdict_strip().is_settled(); }));
    auto& button = child<QPushButton>(window.verdict_strip(), ("fix-" + std::to_string(i)).c_str());
    CAPTURE(button.text().toStdString());
    button.click();
    REQUIRE(opened.settled());
    CHECK(window.prediction()->report.fits);
    CHECK(window.document().history().index() == steps + 1);
    // The least time lost comes first.
    CHECK(window.prediction()->report.step_time.base() >= last);
    last = window.prediction()->report.step_time.base();
    CHECK(window.verdict_strip().findChildren<QPushButton*>(QRegularExpression(QStringLiteral("fix-.*"))).isEmpty());
    window.document().history().undo();
    CHECK(write_plan(window.document().run()) == before);
    REQUIRE(opened.settled());
  }
}

TEST_CASE("no fix is worse than the best single change that fits", "[gui][oracle]") {
  Opened opened("llama-3-70b-8-dgx-h100");
  PlanDocument& document = opened.window->document();
  overfill(document);
  const Prediction now = predict(document.priced());
  REQUIRE_FALSE(now.report.fits);
  const std::atomic<bool> go_on{false};
  const std::vector<Fix> fixes = smallest_fixes(now, go_on);
  REQUIRE_FALSE(fixes.empty());
  for (const Fix& fix : fixes) {
    CHECK(fix.report.fits);
    CHECK(predict(fix.run).report == fix.report);
  }
  for (const PlanChange& c : single_changes(now.run)) {
    if (c.dimension != "recompute" && c.dimension != "microbatch_size" && c.dimension != "zero_stage") continue;
    auto other = std::make_shared<PricedRun>(*now.of);
    other->run.plan = c.plan;
    const Report r = predict(other).report;
    CAPTURE(describe(c));
    if (r.fits) CHECK(r.step_time >= fixes.front().report.step_time);
  }
  const std::atomic<bool> stop{true};
  CHECK(smallest_fixes(now, stop).empty());
}
