#include <catch2/catch.hpp>

#include <QCoreApplication>
#include <QElapsedTimer>
#include <QTemporaryDir>
#include <cmath>
#include <fstream>
#include <random>
#include <regex>

#include "core/plan/plan_file.hpp"
#include "core/record/report_file.hpp"
#include "gui/model/metric.hpp"
#include "gui/model/plan_document.hpp"
#include "gui/model/search_service.hpp"
#include "gui/model/services.hpp"

using namespace orrery;
using namespace orrery::gui;

namespace {

/// An event loop, which services need to answer.
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

Library library() { return Library(std::filesystem::path(ORRERY_SOURCE_DIR) / "models"); }

/// An open document of an example plan.
struct Opened {
  explicit Opened(const std::string& name) : document(library(), {}, 2) {
    Diagnostics d;
    const bool good = document.open_example(name, d);
    INFO(render(d));
    REQUIRE(good);
  }
  PlanDocument document;
};

/// Whether a text has the number that a figure ("2.79 s") begins with, rounded as it is there or less.
bool has_number(const std::string& text, const std::string& figure) {
  const std::string number = figure.substr(0, figure.find_first_not_of("0123456789.-"));
  const std::size_t point = number.find('.');
  const double last = point == std::string::npos ? 1.0 : std::pow(10.0, -double(number.size() - point - 1));
  const std::regex any("-?[0-9]+(\\.[0-9]+)?");
  for (std::sregex_iterator at(text.begin(), text.end(), any), end; at != end; ++at) {
    // Half of the last digit, and what the text's own rounding takes.
    if (std::abs(std::stod(at->str()) - std::stod(number)) <= 0.501 * last) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("undo and redo go through the same plans, and a drag is one step", "[gui][property]") {
  Opened opened("demo-2x2x2");
  PlanDocument& document = opened.document;
  std::mt19937_64 random(5);
  std::vector<std::string> plans{write_plan(document.run())};
  for (int i = 0; i < 40; ++i) {
    const Dimension& d = dimensions()[random() % dimensions().size()];
    if (!is_turned(d)) continue;
    const LegalValues legal = legal_values(document.run(), d);
    document.wish(d, legal.values[random() % legal.values.size()]);
    if (const std::string now = write_plan(document.run()); now != plans.back()) plans.push_back(now);
  }
  REQUIRE(plans.size() > 5);
  CHECK(document.history().count() == static_cast<int>(plans.size()) - 1);
  for (std::size_t i = plans.size() - 1; i-- > 0;) {
    document.history().undo();
    CHECK(write_plan(document.run()) == plans[i]);
  }
  for (std::size_t i = 1; i < plans.size(); ++i) {
    document.history().redo();
    CHECK(write_plan(document.run()) == plans[i]);
  }
  const int before = document.history().count();
  const std::string start = write_plan(document.run());
  const std::uint64_t batch = dimension("workload.batch").get(document.run());
  document.wish(dimension("workload.batch"), 2 * batch);
  document.wish(dimension("workload.batch"), 4 * batch, true);
  document.wish(dimension("workload.batch"), 8 * batch, true);
  CHECK(document.history().count() == before + 1);
  document.history().undo();
  CHECK(write_plan(document.run()) == start);
}

TEST_CASE("a plan that is saved opens equal, from any folder", "[gui]") {
  Opened opened("llama-3-70b-8-dgx-h100");
  PlanDocument& document = opened.document;
  document.wish(dimension("plan.microbatch_size"), 2);
  document.wish(dimension("plan.schedule"), static_cast<std::uint64_t>(ScheduleName::gpipe));
  const QTemporaryDir folder;
  const std::filesystem::path file = folder.filePath(QStringLiteral("plan.toml")).toStdString();
  QString why;
  CHECK_FALSE(document.history().isClean());
  REQUIRE(document.save(file, why));
  CHECK(document.history().isClean());
  PlanDocument other(library(), {}, 2);
  Diagnostics d;
  REQUIRE(other.open(file, d));
  CHECK(other.run().plan == document.run().plan);
  CHECK(other.run().workload == document.run().workload);
  CHECK(*other.run().cluster == *document.run().cluster);
  CHECK_FALSE(document.save("/nowhere/at/all.toml", why));
  CHECK(why != QString());
}

TEST_CASE("a file that is wrong leaves the document as it was, and says what is wrong", "[gui][error]") {
  Opened opened("demo-2x2x2");
  PlanDocument& document = opened.document;
  const std::string before = write_plan(document.run());
  const QTemporaryDir folder;
  const auto written = [&](const char* name, const std::string& text) {
    const std::filesystem::path file = folder.filePath(QLatin1String(name)).toStdString();
    std::ofstream(file) << text;
    return file;
  };
  const auto refused = [&](const std::filesystem::path& file, const std::string& code) {
    Diagnostics d;
    CHECK_FALSE(document.look_at(file, d));
    REQUIRE_FALSE(d.empty());
    CHECK(d.list().front().code == code);
    CHECK(write_plan(document.run()) == before);
  };
  refused(written("nothing.toml", "a = 1\n"), "gui.file");
  refused(written("plan.toml", "schema = 1\n[plan]\nmicrobatch_size = \"two\"\n"), "file.missing-key");
  refused(written("config.json", "{\"model_type\": \"zebra\"}"), "hf.model-type");
  // It is counted, and no plan trains it.
  refused(written("counted.json", "{\"model_type\": \"mamba\"}"), "gui.model");
  refused(written("broken.json", "{"), "hf.syntax");
  Diagnostics d;
  CHECK_FALSE(document.open(written("no-cluster.toml",
                                    "schema = 1\nmodel = \"tiny-gpt\"\n[workload]\nbatch = 4\nsequence = 16\n"
                                    "precision = \"fp32\"\n[mesh]\ndata = 2\n[plan]\nmicrobatch_size = 1\n"),
                            d));
  CHECK(d.list().front().code == "gui.cluster");
  CHECK(write_plan(document.run()) == before);
}

TEST_CASE("a Hugging Face config becomes the model, whatever the plan was", "[gui]") {
  Opened opened("llama-3-70b-8-dgx-h100");
  PlanDocument& document = opened.document;
  const std::filesystem::path config = std::filesystem::path(ORRERY_SOURCE_DIR) / "models/hf/bert-base/config.json";
  if (!std::filesystem::exists(config)) FAIL("no such config: " << config);
  Diagnostics d;
  auto found = document.look_at(config, d);
  INFO(render(d));
  REQUIRE(found);
  CHECK(document.run().model.layers == 80);  // looked at, not taken
  document.take(std::move(*found));
  CHECK(document.run().model.layers == 12);
  CHECK(document.run().model_reference == config.string());
  document.history().undo();
  CHECK(document.run().model.layers == 80);
}

TEST_CASE("the answer to the last request is the last answer, and it is the library's", "[gui]") {
  Loop loop;
  Opened opened("llama-3-70b-8-dgx-h100");
  PlanDocument& document = opened.document;
  PredictionService service;
  PredictionPointer last;
  int answers = 0;
  QObject::connect(&service, &PredictionService::predicted, [&](const PredictionPointer& p) { last = p, ++answers; });
  for (const std::uint64_t size : {1, 2, 4, 1, 2}) {
    document.wish(dimension("plan.microbatch_size"), size);
    service.request(document.priced());
  }
  REQUIRE(loop.until([&] { return last && last->of == document.priced() && last->complete; }));
  CHECK(answers >= 2);  // at once, and complete
  CHECK(answers <= 10);
  CHECK(last->report == predict(document.priced()).report);
  // The cards say of the model's FLOPs what the report says.
  const std::string mfu = explanation(Metric::mfu, *last);
  CHECK(mfu.find(reading(Metric::mfu, *last).text) != std::string::npos);
  for (std::size_t m = 0; m < metric_count; ++m) {
    const auto metric = static_cast<Metric>(m);
    const std::string figure = reading(metric, *last).text;
    CAPTURE(label_of(metric), figure);
    CHECK(has_number(explanation(metric, *last), figure));
    CHECK(change(metric, *last, *last).text == "");
  }
}

TEST_CASE("a change says how far and which way", "[gui]") {
  Opened opened("llama-3-70b-8-dgx-h100");
  const Prediction one = predict(opened.document.priced());
  Prediction other = one;
  other.report.step_time = 1.5 * one.report.step_time;
  other.report.model_flops_utilization = one.report.model_flops_utilization - 0.02;
  CHECK(change(Metric::step_time, other, one).text == "+50.0 %");
  CHECK_FALSE(change(Metric::step_time, other, one).better);
  CHECK(change(Metric::mfu, other, one).text == "-2.0 points");
  CHECK_FALSE(change(Metric::mfu, other, one).better);
  CHECK(change(Metric::mfu, one, other).better);
}

TEST_CASE("plans stream in, the end is the planner's own, and a cancelled search keeps what it has", "[gui]") {
  Loop loop;
  Opened opened("demo-2x2x2");
  SearchService service;
  std::vector<FoundPlan> streamed;
  std::shared_ptr<const SearchEnd> end;
  QObject::connect(&service, &SearchService::found, [&](const FoundPlan& p) { streamed.push_back(p); });
  QObject::connect(&service, &SearchService::finished, [&](const std::shared_ptr<const SearchEnd>& e) { end = e; });
  const PricedRun& on = *opened.document.priced();
  SearchWish wish;
  wish.top = 5;
  Diagnostics d;
  REQUIRE(service.start(on, wish, d));
  CHECK_FALSE(service.start(on, wish, d));  // one at a time
  REQUIRE(loop.until([&] { return end != nullptr; }));
  CHECK(end->failure == "");
  REQUIRE(end->result.complete);
  SearchOptions options;
  options.limits = search_space_of(wish.space, on.prices->software.name, on.run.model, on.run.workload, d).limits;
  options.top = 5;
  const SearchResult expected = search(on.run.model, on.run.workload, *on.run.cluster, on.prices->calibration, options);
  REQUIRE(end->result.plans.size() == expected.plans.size());
  for (std::size_t i = 0; i < expected.plans.size(); ++i) {
    const FoundPlan& found = end->result.plans[i];
    CHECK(found.plan == expected.plans[i].plan);
    // The report equals an estimate of the plan, except for the process's memory.
    auto run = std::make_shared<PricedRun>(on);
    run->run.plan = found.plan;
    const Report estimated = predict(run).report;
    CHECK(found.report.step_time == estimated.step_time);
    CHECK(found.report.peak_memory_bytes == estimated.peak_memory_bytes);
    CHECK(found.report.memory_capacity_bytes == estimated.memory_capacity_bytes);
    CHECK(found.report.cost_per_step == estimated.cost_per_step);
    CHECK(found.report.operations == estimated.operations);
  }
  // Each best plan so far had streamed in, ever better, and the last of them is the best at the end.
  REQUIRE_FALSE(streamed.empty());
  for (std::size_t i = 1; i < streamed.size(); ++i) {
    CHECK(streamed[i].report.step_time <= streamed[i - 1].report.step_time);
  }
  CHECK(streamed.back().id == expected.plans.front().id);
  CHECK(streamed.back().plan == expected.plans.front().plan);

  end.reset();
  streamed.clear();
  wish.space.framework = "any";
  wish.top = 50;
  REQUIRE(service.start(on, wish, d));
  REQUIRE(loop.until([&] { return !streamed.empty(); }));
  QElapsedTimer timer;
  timer.start();
  service.cancel();
  REQUIRE(loop.until([&] { return end != nullptr; }));
  if (!end->result.complete) {
    CHECK_FALSE(end->result.plans.empty());
    CHECK(end->result.claim.find("Interrupted") == 0);
  }
  SearchWish wrong;
  wrong.space.only = "tensor=5d";
  CHECK_FALSE(service.start(on, wrong, d));
  CHECK_FALSE(d.empty());
}

TEST_CASE("a newer request stops the simulation of an older one", "[gui]") {
  Loop loop;
  Opened opened("demo-2x2x2");
  SimulationService service;
  const auto first = std::make_shared<const Prediction>(predict(opened.document.priced()));
  opened.document.wish(dimension("plan.microbatch_size"), 1);
  const auto second = std::make_shared<const Prediction>(predict(opened.document.priced()));
  SimulatedPointer last;
  QObject::connect(&service, &SimulationService::simulated, [&](const SimulatedPointer& s) { last = s; });
  service.request(first);
  service.request(second);
  REQUIRE(loop.until([&] { return last && last->prediction == second; }));
  CHECK(last->simulation.report.step_time >= second->report.step_time);  // estimate is never above
  CHECK(last->timeline.slices > 0);
}
