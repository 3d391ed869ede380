#include <catch2/catch.hpp>

#include <QAbstractItemModelTester>
#include <QCoreApplication>
#include <QElapsedTimer>
#include <QSignalSpy>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "core/plan/plan_file.hpp"
#include "core/record/chrome_trace.hpp"
#include "gui/model/comparison.hpp"
#include "gui/model/orrery_process.hpp"
#include "tests/gui/demo_step.hpp"
#include "tests/support/program_run.hpp"

using namespace orrery;
using namespace orrery::gui;

namespace {

const std::atomic<bool> go_on{false};

struct Loop {
  int count = 1;
  char name[5] = "test";
  char* values[2] = {name, nullptr};
  QCoreApplication app{count, values};

  template <class Holds>
  bool until(Holds&& holds, int milliseconds = 60'000) {
    QElapsedTimer timer;
    timer.start();
    while (!holds() && timer.elapsed() < milliseconds) QCoreApplication::processEvents(QEventLoop::AllEvents, 10);
    return holds();
  }
};

/// A shell script in place of `orrery`.
QString script(const test::TemporaryFolder& folder, const std::string& text) {
  const std::string file = folder.file("fake-orrery");
  test::write(file, "#!/bin/sh\n" + text);
  std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  return QString::fromStdString(file);
}

bool is_alive(pid_t process) { return ::kill(process, 0) == 0; }

}  // namespace

TEST_CASE("the parts of a step's time are the step, to the picosecond, and those of its report", "[gui][oracle]") {
  const DemoStep& demo = demo_step();
  const std::vector<TimePart> parts = time_parts(demo.timeline);
  std::int64_t sum = 0, waits = 0, bubble = 0;
  for (const TimePart& p : parts) {
    sum += p.time;
    waits += p.group == TimePart::Group::communication ? p.time : 0;
    bubble += p.group == TimePart::Group::bubble ? p.time : 0;
  }
  const auto ranks = static_cast<std::int64_t>(demo.timeline.ranks.size());
  CHECK(sum == demo.timeline.duration * ranks);
  const Report& r = demo.simulation.report;
  const double mean = 1e-12 / static_cast<double>(ranks);
  CHECK(static_cast<double>(waits) * mean == Approx(exposed_collectives(r).base()).epsilon(1e-9));
  CHECK(static_cast<double>(bubble) * mean == Approx(r.bubble_fraction * r.step_time.base()).epsilon(1e-9));
}

TEST_CASE("the waterfall of two plans adds up to the difference of their steps", "[gui][property]") {
  const auto a = example_run("llama-3-70b-8-dgx-h100", 32);
  auto changed = *a;
  changed.run.plan.microbatch_size = 2;
  changed.run.plan.recompute = Recompute::full;
  const auto b = std::make_shared<const PricedRun>(changed);
  const PlanComparison c = compare_sources({QStringLiteral("a"), a, {}}, {QStringLiteral("b"), b, {}}, go_on);
  // These are whole picoseconds times ranks, so nothing is rounded.
  std::int64_t difference = 0;
  const auto na = static_cast<std::int64_t>(c.a.timeline.ranks.size());
  const auto nb = static_cast<std::int64_t>(c.b.timeline.ranks.size());
  for (const TimePart& p : time_parts(c.b.timeline)) difference += p.time * na;
  for (const TimePart& p : time_parts(c.a.timeline)) difference -= p.time * nb;
  CHECK(difference == (c.b.timeline.duration - c.a.timeline.duration) * na * nb);
  double sum = 0.0;
  for (const WaterfallTerm& t : c.terms) sum += t.change();
  const double steps = static_cast<double>(c.b.timeline.duration - c.a.timeline.duration) * 1e-12;
  CHECK(sum == Approx(steps).margin(1e-11));  // of some 30 doubles near 1
  CHECK(std::any_of(c.terms.begin(), c.terms.end(),
                    [](const WaterfallTerm& t) { return t.name == "compute: recompute" && t.a == 0.0 && t.b > 0.0; }));
  // The figures are those of the estimates.
  CHECK(c.figures.measured_step == predict_live(a).report.step_time);
  CHECK(c.figures.predicted_step == predict_live(b).report.step_time);
  std::set<std::string> fields;
  for (const FieldDifference& d : c.differences) fields.insert(d.field);
  CHECK(fields == std::set<std::string>{"plan.microbatch_size", "plan.recompute"});
  const TableContent table = waterfall_table(c);
  CHECK(*table.rows.back().cells[1].order == Approx(static_cast<double>(c.a.timeline.duration) * 1e-12));

  CellTable model;
  const QAbstractItemModelTester tester(&model, QAbstractItemModelTester::FailureReportingMode::Fatal);
  for (const TableContent& content : {figures_table(c), table, operations_table(c), differences_table(c)}) {
    model.set(content.headers, content.rows);
    CHECK(model.rowCount() > 0);
  }
}

TEST_CASE("a plan set against itself differs in nothing", "[gui][property]") {
  const auto a = example_run("gpt2-1.5b-dgx-a100");
  const PlanComparison c = compare_sources({QStringLiteral("a"), a, {}}, {QStringLiteral("b"), a, {}}, go_on);
  CHECK(c.differences.empty());
  for (const WaterfallTerm& t : c.terms) CHECK(t.change() == 0.0);
  for (const ComparedTime& o : c.figures.operations) CHECK(o.error == 0.0);
}

TEST_CASE("a run of the plan as a process, set beside its prediction, has the figures of orrery compare", "[gui]") {
  Loop loop;
  const test::TemporaryFolder folder;
  const auto run = example_run("demo-2x2x2");
  const Prediction predicted = predict_live(run);
  OrreryProcess process;
  process.set_program(QStringLiteral(ORRERY_PROGRAM));
  QSignalSpy progressed(&process, &OrreryProcess::progressed), ran(&process, &OrreryProcess::ran),
      failed(&process, &OrreryProcess::failed);
  process.train(predicted.run, 2, 1);
  REQUIRE(process.is_running());
  REQUIRE(loop.until([&] { return !process.is_running(); }));
  INFO((failed.isEmpty() ? std::string() : failed.front().front().toString().toStdString()));
  REQUIRE(ran.size() == 1);
  CHECK(progressed.back()[0].toInt() == 3);  // warm-up counts
  CHECK(progressed.back()[1].toInt() == 3);
  const QString trace = ran.front()[0].toString();
  const auto resolved = std::make_shared<const PricedRun>(PricedRun{predicted.run, run->prices});
  const PlanComparison c = compare_sources({QStringLiteral("predicted"), resolved, {}},
                                           {QStringLiteral("measured"), resolved, trace}, go_on);
  CHECK(c.has_measurement());
  CHECK(c.figures.same_plan);
  CHECK(c.figures.ranks.size() == 8);

  // The command line gets the same two traces.
  const std::string plan = folder.file("plan.toml"), foretold = folder.file("predicted.json");
  test::write(plan, write_plan(predicted.run));
  test::write(foretold, write_chrome_trace(c.a.trace, *c.a.prediction->program));
  const test::Ran compared =
      test::run(ORRERY_PROGRAM, "compare " + foretold + " " + trace.toStdString() + " --plan " + plan + " --json");
  INFO(compared.err);
  REQUIRE(compared.status <= 1);
  const auto json = nlohmann::json::parse(compared.out), mine = nlohmann::json::parse(write_comparison(c.figures));
  CHECK(json["operations"] == mine["operations"]);
  CHECK(json["parts"] == mine["parts"]);
  CHECK(json["ranks"] == mine["ranks"]);
  // The waterfall goes from the predicted step to the measured one.
  double sum = 0.0;
  for (const WaterfallTerm& t : c.terms) sum += t.change();
  CHECK(sum == Approx((c.figures.measured_step - c.figures.predicted_step).base()).margin(1e-11));

  // A trace of another plan is refused, with the numbers.
  const auto other = example_run("cpu-one-rank");
  CHECK_THROWS_WITH(compare_sources({QStringLiteral("a"), other, {}}, {QStringLiteral("b"), other, trace}, go_on),
                    Catch::Contains("does not belong to the plan") && Catch::Contains("operations"));
  test::write(folder.file("broken.json"), "{");
  CHECK_THROWS_AS(
      compare_sources({QStringLiteral("a"), other, {}},
                      {QStringLiteral("b"), other, QString::fromStdString(folder.file("broken.json"))}, go_on),
      Error);
}

TEST_CASE("what ends a process is told: no program, a signal, a status, nothing left behind", "[gui][error]") {
  Loop loop;
  const test::TemporaryFolder folder;
  const PlannedRun run = example_run("cpu-one-rank")->run;
  OrreryProcess process;
  QSignalSpy failed(&process, &OrreryProcess::failed), ran(&process, &OrreryProcess::ran);
  const auto told = [&](const QString& program) {
    failed.clear();
    process.set_program(program);
    process.train(run, 1, 0);
    REQUIRE(loop.until([&] { return !process.is_running(); }));
    REQUIRE(failed.size() == 1);
    return failed.front().front().toString().toStdString();
  };
  CHECK_THAT(told(QString::fromStdString(folder.file("nowhere"))), Catch::Contains("cannot be started"));
  CHECK_THAT(told(script(folder, "kill -SEGV $$")), Catch::Contains("signal"));
  CHECK_THAT(told(script(folder, "echo 'error: the ranks need too much' >&2; exit 3")),
             Catch::Contains("the ranks need too much"));
  CHECK_THAT(told(script(folder, "exit 0")), Catch::Contains("no trace"));
  CHECK(ran.isEmpty());
}

TEST_CASE("cancelling ends the process and its children, and so does the end of the window", "[gui]") {
  Loop loop;
  const test::TemporaryFolder folder;
  const PlannedRun run = example_run("cpu-one-rank")->run;
  const std::string child = folder.file("child");
  // The process ignores requests to end, and so does its child.
  const QString deaf = script(folder, "trap '' INT TERM\nsleep 600 &\necho $! > " + child + ".new\nmv " + child +
                                          ".new " + child + "\nwait\nsleep 600\n");
  const auto child_of = [&] {
    REQUIRE(loop.until([&] { return std::filesystem::exists(child); }, 10'000));
    const pid_t out = static_cast<pid_t>(std::stol(test::contents(child)));
    std::filesystem::remove(child);
    return out;
  };
  // A child that has ended stays a zombie until init takes it.
  const auto ended = [](pid_t p) {
    return !is_alive(p) || test::contents("/proc/" + std::to_string(p) + "/stat").find(") Z") != std::string::npos;
  };
  auto process = std::make_unique<OrreryProcess>();
  process->set_program(deaf);
  QSignalSpy failed(process.get(), &OrreryProcess::failed);
  process->train(run, 1, 0);
  const pid_t first = child_of();
  CHECK(is_alive(first));
  process->cancel();
  REQUIRE(loop.until([&] { return !process->is_running(); }, 10'000));
  REQUIRE(failed.size() == 1);
  CHECK(failed.front().front().toString() == QStringLiteral("Cancelled."));
  CHECK(loop.until([&] { return ended(first); }, 5'000));

  process->train(run, 1, 0);
  const pid_t second = child_of();
  process.reset();
  CHECK(loop.until([&] { return ended(second); }, 5'000));
}

// This is a profile that fits a plan of 2 ranks: rank 0 alone, from the file with which the reader is fuzzed. In its
// step of 100 us it computes from 0 to 20, reduces to 50, sends to 60, and copies from 65 to 70.
TEST_CASE("what PyTorch's profiler recorded is drawn and compared, with the figures of orrery compare", "[gui]") {
  const std::string file = std::string(ORRERY_SOURCE_DIR) + "/tests/fuzz/seeds/profile/two-steps.json";
  const test::TemporaryFolder folder;
  const std::string plan = folder.file("plan.toml"), foretold = folder.file("predicted.json");
  test::write(
      plan,
      "schema = 1\nmodel = \"tiny-gpt\"\ncluster = \"local-cpu\"\ngpus = 2\n[workload]\nbatch = 4\nsequence = 64\n"
      "[mesh]\norder = [\"tensor\"]\ntensor = 2\n[plan]\nmicrobatch_size = 4\n");
  const Library library(std::filesystem::path(ORRERY_SOURCE_DIR) / "models");
  Diagnostics d;
  const auto two = read_plan_file(plan, library, std::nullopt, d);
  INFO(orrery::render(d));
  REQUIRE(two);
  auto given = *example_run("demo-2x2x2");
  given.run = *two;
  const auto run = std::make_shared<const PricedRun>(std::move(given));
  CHECK(is_profile(QString::fromStdString(file)));
  const PlanComparison c = compare_sources({QStringLiteral("predicted"), run, {}},
                                           {QStringLiteral("measured"), run, QString::fromStdString(file)}, go_on);
  const Timeline& t = c.b.timeline;
  CHECK(t.duration == 100'000'000);
  REQUIRE(t.ranks.size() == 1);
  REQUIRE(t.ranks[0].lanes.size() == 4);
  CHECK(t.ranks[0].lanes[1].name == "stream 7");
  CHECK(t.ranks[0].lanes[2].name == "stream 20");
  const Slice& reduce = t.ranks[0].lanes[2].slices.front();
  CHECK(t.names[reduce.name] == "all_reduce over 2 ranks");
  CHECK(t.kernels[t.ranks[0].kernels[index(reduce.op)]] == "ncclDevKernel_AllReduce_Sum_bf16_RING_LL");
  std::int64_t sum = 0;
  for (const TimePart& p : time_parts(t)) sum += p.time;
  CHECK(sum == t.duration);
  double change = 0.0;
  for (const WaterfallTerm& term : c.terms) change += term.change();
  CHECK(change == Approx(static_cast<double>(t.duration - c.a.timeline.duration) * 1e-12).margin(1e-12));
  CHECK(c.figures.measured_step.base() == Approx(100e-6));
  CHECK(figures_table(c).rows.size() == 5);

  test::write(foretold, write_chrome_trace(c.a.trace, *c.a.prediction->program));
  test::write(plan, write_plan(c.a.prediction->run));
  const test::Ran compared =
      test::run(ORRERY_PROGRAM, "compare " + foretold + " " + file + " --plan " + plan + " --json");
  INFO(compared.err);
  REQUIRE(compared.status <= 1);
  const auto json = nlohmann::json::parse(compared.out), mine = nlohmann::json::parse(write_comparison(c.figures));
  CHECK(json["operations"] == mine["operations"]);
  CHECK(json["parts"] == mine["parts"]);
}
