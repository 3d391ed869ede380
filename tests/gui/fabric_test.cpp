#include <catch2/catch.hpp>

#include <QCoreApplication>
#include <QElapsedTimer>
#include <algorithm>
#include <map>
#include <set>

#include "gui/model/fabric_service.hpp"
#include "gui/model/graph_service.hpp"
#include "gui/model/plan_document.hpp"
#include "gui/model/plan_graph.hpp"
#include "sim/des/step_traffic.hpp"
#include "sim/net/cluster_fabric.hpp"

using namespace orrery;
using namespace orrery::gui;

namespace {

Library library() { return Library(std::filesystem::path(ORRERY_SOURCE_DIR) / "models"); }

PredictionPointer predicted(const std::string& example) {
  PlanDocument document(library(), {}, 2);
  Diagnostics d;
  const bool good = document.open_example(example, d);
  INFO(render(d));
  REQUIRE(good);
  return std::make_shared<const Prediction>(predict_live(document.priced()));
}

double all_bytes(const std::vector<GpuTraffic>& traffic) {
  double out = 0.0;
  for (const GpuTraffic& t : traffic) out += t.payload;
  return out;
}

}  // namespace

TEST_CASE("what a traced step sends within all of its time is the step's traffic", "[gui][oracle]") {
  const PredictionPointer p = predicted("llama-3-70b-8-dgx-h100");
  const std::atomic<bool> go{false};
  const Simulation simulated = simulate_step(*p, go);
  const Plan& plan = p->run.plan;
  const CostModel costs(*p->run.cluster, p->prices->calibration, plan.mesh, plan.placement, plan.collective_algorithm);
  const Fabric fabric(cluster_fabric(*p->run.cluster));
  const FabricTraffic traffic(FabricRoutes{&fabric}, *p->program, costs, plan.placement);
  std::map<std::pair<std::uint32_t, std::uint32_t>, double> expected, found;
  for (const AxisTraffic& t : StepTraffic(*p->program).between(traffic)) {
    for (const GpuTraffic& g : t.between) expected[{g.from, g.to}] += g.payload;
  }
  std::int64_t end = 0;
  for (const RankTrace& r : simulated.trace.ranks) {
    for (const Span& s : r.spans) end = std::max(end, s.end);
  }
  const std::vector<GpuTraffic> whole = traffic_within(*p->program, simulated.trace, {0, end}, traffic);
  for (const GpuTraffic& g : whole) found[{g.from, g.to}] += g.payload;
  REQUIRE(found.size() == expected.size());
  for (const auto& [pair, bytes] : expected) CHECK(found[pair] == Approx(bytes).epsilon(1e-9));

  // Parts of the step add up to all of it, and an empty range holds nothing.
  double parts = 0.0;
  for (int i = 0; i < 7; ++i) {
    parts += all_bytes(traffic_within(*p->program, simulated.trace, {end * i / 7, end * (i + 1) / 7}, traffic));
  }
  CHECK(parts == Approx(all_bytes(whole)).epsilon(1e-9));
  CHECK(traffic_within(*p->program, simulated.trace, {end / 2, end / 2}, traffic).empty());
}

TEST_CASE("a drawn fabric has every device and link once, and the load of its hottest link", "[gui][property]") {
  const PredictionPointer p = predicted("llama-3-70b-8-dgx-h100");
  for (const std::string& name : {std::string(), std::string("dgx-h100-superpod")}) {
    CAPTURE(name);
    const FabricShown shown = show_fabric({p, nullptr, {}, name}, library());
    const FabricPicture& picture = shown.picture;
    std::set<std::uint32_t> devices;
    std::size_t listed = 0;
    for (const FabricCell& c : picture.levels.front()) {
      listed += c.devices.size();
      devices.insert(c.devices.begin(), c.devices.end());
    }
    const std::uint32_t all = name.empty() ? 64 : 1024;
    CHECK(listed == all);
    CHECK(devices.size() == all);
    std::uint64_t links = 0;
    double most = 0.0;
    for (const FabricEdge& e : picture.edges) {
      links += e.links;
      most = std::max(most, e.load);
      CHECK(e.low_level < picture.levels.size());
      CHECK(e.high_level < picture.levels.size());
      CHECK(e.low < picture.levels[e.low_level].size());
      CHECK(e.high < picture.levels[e.high_level].size());
    }
    CHECK(links == picture.edge_of_link.size());
    for (const auto& level : picture.levels) CHECK(level.size() <= most_cells_of_level);
    REQUIRE_FALSE(picture.hottest.empty());
    CHECK(most == picture.hottest.front().load);
    CHECK(most > 0.0);
    CHECK(std::is_sorted(picture.hottest.begin(), picture.hottest.end(),
                         [](const HotLink& a, const HotLink& b) { return a.load > b.load; }));
    CHECK(hot_links_table(picture).rows.size() == picture.hottest.size());
  }
  CHECK_THROWS_AS(show_fabric({p, nullptr, {}, "dragonfly-72"}, library()), Error);
  CHECK_THROWS_AS(show_fabric({p, nullptr, {}, "no-such-fabric"}, library()), Error);
  const std::vector<std::string> fit = fabrics_for(library(), *p->run.cluster);
  CHECK(std::find(fit.begin(), fit.end(), "dgx-h100-superpod") != fit.end());
  CHECK(std::find(fit.begin(), fit.end(), "dragonfly-72") == fit.end());
}

TEST_CASE("sixteen thousand devices are drawn in few cells", "[gui]") {
  const PredictionPointer p = predicted("llama-3-405b-16384-h100");
  const FabricShown shown = show_fabric({p, nullptr, {}, ""}, library());
  std::size_t devices = 0;
  for (const FabricCell& c : shown.picture.levels.front()) devices += c.devices.size();
  CHECK(devices == 16384);
  for (const auto& level : shown.picture.levels) CHECK(level.size() <= most_cells_of_level);
  CHECK(shown.picture.edges.size() < 20'000);
}

TEST_CASE("the plan's graph has every stage once and counts what groups send", "[gui][oracle]") {
  const PredictionPointer p = predicted("llama-3-70b-8-dgx-h100");
  const PlanGraph graph = make_plan_graph(*p);
  const std::uint32_t stages = p->run.plan.mesh.size(Axis::pipeline);
  std::uint32_t next = 0, layers = 0;
  for (const StageNode& s : graph.stages) {
    CHECK(s.first == next);
    CHECK(s.last >= s.first);
    next = s.last + 1;
    layers += s.layers * (s.last - s.first + 1);
    CHECK(s.ranks * stages == p->run.plan.mesh.size());
  }
  CHECK(next == stages);
  CHECK(layers == p->run.model.layers);
  // Each stage but the last sends on every microbatch's activations: rows x hidden x 2 bytes, over the tensor ranks
  // where sequence parallelism cuts them.
  const Workload& w = p->run.workload;
  const Plan& plan = p->run.plan;
  const double tensor = plan.sequence_parallel ? plan.mesh.size(Axis::tensor) : 1.0;
  const double expected = static_cast<double>(microbatches(plan, w) * plan.microbatch_size * w.sequence_length) *
                          static_cast<double>(p->run.model.hidden) * 2.0 / tensor;
  bool sends = false;
  for (const GroupTraffic& t : graph.traffic) {
    if (!t.to || *t.to != t.stage + 1) continue;
    sends = true;
    CHECK(t.count == microbatches(plan, w));
    CHECK(t.bytes == expected);
  }
  CHECK(sends);
  CHECK(plan_graph_table(graph).rows.size() == graph.traffic.size());
  const std::string dot = dot_of(graph);
  CHECK(dot.starts_with("digraph"));
  for (std::size_t n = 0; n < graph.stages.size(); ++n)
    CHECK(dot.find("s" + std::to_string(n) + " [") != std::string::npos);
}

TEST_CASE("what dot writes is read, and what it does not write is not", "[gui]") {
  const auto layout = read_plain(
      "graph 1 3.5 2\n"
      "node a 1 1.5 0.8 0.5 \"stage 0\\n\\\"x\\\"\" solid box black lightgrey\n"
      "node b 2.5 0.5 0.8 0.5 b solid box black lightgrey\n"
      "edge a b 4 1 1 1.5 1 2 0.7 2.1 0.5 \"1 GiB\" 1.7 0.9 solid black\n"
      "stop\n");
  REQUIRE(layout);
  CHECK(layout->width == 3.5);
  REQUIRE(layout->nodes.size() == 2);
  CHECK(layout->nodes[0].label == "stage 0\n\"x\"");
  CHECK(layout->nodes[1].x == 2.5);
  REQUIRE(layout->edges.size() == 1);
  CHECK(layout->edges[0].label == "1 GiB");
  CHECK(layout->edges[0].curve.size() == 4);
  CHECK(layout->edges[0].label_x == 1.7);
  for (const char* bad :
       {"", "nothing", "graph 1", "graph 1 2 3\nnode a", "graph 1 2 3\nedge a b 1e9 1 1", "graph 1 2 3\nedge a b -1"}) {
    CAPTURE(bad);
    CHECK_FALSE(read_plain(bad));
  }
}

TEST_CASE("a graph without Graphviz gives a message", "[gui][error]") {
  int count = 1;
  char name[] = "test";
  char* values[] = {name, nullptr};
  const QCoreApplication app(count, values);
  GraphService missing(QStringLiteral("no-such-dot"));
  QString why;
  QObject::connect(&missing, &GraphService::failed, [&](const QString& text) { why = text; });
  missing.request("digraph { a -> b }");
  QElapsedTimer timer;
  timer.start();
  while (why.isEmpty() && timer.elapsed() < 20'000) QCoreApplication::processEvents(QEventLoop::AllEvents, 10);
  CHECK(why.contains(QStringLiteral("no-such-dot")));
  CHECK(why.contains(QStringLiteral("graphviz")));
}
