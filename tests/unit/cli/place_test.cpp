#include <catch2/catch.hpp>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/program_run.hpp"

// Where ranks sit on a fabric, as the built program finds it.

using namespace orrery::test;
using nlohmann::json;

namespace {

const std::string fabric = " --fabric dgx-h100-superpod --routes rail-local";

/// The shipped plan of 64 H100 with its axes in another order.
std::string badly_ordered(const TemporaryFolder& folder) {
  std::ifstream in(std::string(ORRERY_SOURCE_DIR) + "/models/plan/llama-3-70b-8-dgx-h100.toml");
  std::stringstream text;
  text << in.rdbuf();
  std::string plan = text.str();
  const std::string order = "order = [\"pipeline\", \"data\", \"tensor\"]";
  plan.replace(plan.find(order), order.size(), "order = [\"tensor\", \"data\", \"pipeline\"]");
  const std::string file = folder.file("bad.toml");
  std::ofstream(file) << plan;
  return file;
}

}  // namespace

TEST_CASE("place turns a bad order of axes into a good one, which simulate and check read", "[unit][cli]") {
  const TemporaryFolder folder;
  const std::string bad = badly_ordered(folder), good = folder.file("good.toml");
  const Ran ran = run(ORRERY_PROGRAM, "place " + bad + fabric + " --tries 60 --json -o " + good);
  CHECK(ran.err == "");
  REQUIRE(ran.status == 0);
  const json found = json::parse(ran.out);
  CHECK(found["complete"] == true);
  CHECK(found["given"]["order"] == "tensor 8 > data 2 > pipeline 4");
  const std::string order = found["found"]["order"];
  CHECK(order.substr(order.rfind('>')) == "> tensor 8");
  CHECK(found["found"]["step_time_s"].get<double>() < 0.6 * found["given"]["step_time_s"].get<double>());
  CHECK(found["least_step_time_s"].get<double>() <= found["found"]["step_time_s"].get<double>());
  CHECK(found["bad_order"]["step_time_s"].get<double>() >= found["given"]["step_time_s"].get<double>());
  // Tensor groups, which talk most, leave no node any more.
  for (const char* which : {"given", "found"}) {
    for (const json& sent : found[which]["sent_bytes"]) {
      if (sent["by"] != "tensor") continue;
      CHECK((sent["network"].get<double>() > 0.0) == (std::string(which) == "given"));
    }
  }
  // Every byte that nodes send each other is in the matrix, too.
  double matrix = 0.0, by_axes = 0.0;
  const json& nodes = found["found"]["between_nodes_bytes"];
  REQUIRE(nodes.size() == 8);
  for (std::size_t from = 0; from < 8; ++from) {
    for (std::size_t to = 0; to < 8; ++to) matrix += from == to ? 0.0 : nodes[from][to].get<double>();
  }
  for (const json& sent : found["found"]["sent_bytes"]) by_axes += sent["network"].get<double>();
  CHECK(matrix == Approx(by_axes).epsilon(1e-9));
  CHECK(run(ORRERY_PROGRAM, "check " + good).status == 0);
  const json step = json::parse(run(ORRERY_PROGRAM, "simulate " + good + fabric + " --json").out);
  CHECK(step["step_time_s"].get<double>() == Approx(found["found"]["step_time_s"].get<double>()).epsilon(2e-4));
}

TEST_CASE("place shows the bad and the good side by side", "[unit][cli]") {
  const TemporaryFolder folder;
  const std::string picture = folder.file("loads.dot");
  const Ran ran = run(ORRERY_PROGRAM, "place llama-3-70b-8-dgx-h100" + fabric + " --tries 20 --draw " + picture);
  CHECK(ran.status == 0);
  for (const char* text :
       {"as given", "a bad order", "busiest link", "of the step", "sent by all ranks in a step", "pipeline, messages",
        "sent from node to node in a step, a bad order", "No placement takes less than"}) {
    CAPTURE(text);
    CHECK(ran.out.find(text) != std::string::npos);
  }
  std::ifstream drawn(picture);
  std::stringstream dot;
  dot << drawn.rdbuf();
  CHECK(dot.str().find("graph") != std::string::npos);
  CHECK(run(ORRERY_PROGRAM, "place llama-3-70b-8-dgx-h100" + fabric + " --tries 20").out == ran.out);
}

// Ranks laid out by hand run as any others: what a rank computes does not depend on where it is.
TEST_CASE("a plan with a placement is run", "[unit][cli]") {
  const TemporaryFolder folder;
  std::ifstream in(std::string(ORRERY_SOURCE_DIR) + "/models/plan/demo-2x2x2.toml");
  std::stringstream text;
  text << in.rdbuf();
  std::string plan = text.str();
  const std::string data = "\"../data/corpus.txt\"";
  plan.replace(plan.find(data), data.size(), "\"" + std::string(ORRERY_SOURCE_DIR) + "/models/data/corpus.txt\"");
  plan.insert(plan.find("[mesh]\n") + 7, "placement = [7, 1, 2, 3, 4, 5, 6, 0]\n");
  const std::string file = folder.file("placed.toml");
  std::ofstream(file) << plan;
  const json placed = json::parse(run(ORRERY_PROGRAM, "run " + file + " --steps 1 --json").out);
  const json plain = json::parse(run(ORRERY_PROGRAM, "run demo-2x2x2 --steps 1 --json").out);
  REQUIRE(placed.contains("losses"));
  CHECK(placed["losses"] == plain["losses"]);
}

TEST_CASE("place refuses what it cannot do", "[unit][cli]") {
  const Ran small = run(ORRERY_PROGRAM, "place llama-3-70b-8-dgx-h100 --fabric dgx-1v");
  CHECK(small.status == 2);
  CHECK(small.err ==
        "error: DGX-1V joins 8 GPUs, and the plan's cluster has 64 [cli.fabric]\n  8 nodes of 8 would do.\n");
  CHECK(run(ORRERY_PROGRAM, "place llama-3-70b-8-dgx-h100").status == 2);  // on which wires?
  const Ran routes = run(ORRERY_PROGRAM, "place llama-3-70b-8-dgx-h100 --fabric dgx-h100-superpod --routes short");
  CHECK(routes.err ==
        "error: there are no routes \"short\" [cli.fabric]\n  Known: by-destination, hashed, rail-local.\n");
  const Ran picture = run(ORRERY_PROGRAM, "place llama-3-70b-8-dgx-h100 --fabric dgx-h100-superpod --draw x.jpg");
  CHECK(picture.err.find("error: x.jpg says no kind of drawing [cli.flags]") != std::string::npos);
}
