#include <catch2/catch.hpp>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/program_run.hpp"

// The places of ranks on a fabric, as the built program finds them.

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
  // Tensor groups, which talk most, no longer leave their nodes.
  for (const char* which : {"given", "found"}) {
    for (const json& sent : found[which]["sent_bytes"]) {
      if (sent["by"] != "tensor") continue;
      CHECK((sent["network"].get<double>() > 0.0) == (std::string(which) == "given"));
    }
  }
  // The matrix also has every byte that nodes send each other.
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

// Ranks laid out by hand run like any others, because a rank's computation does not depend on its place.
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
  CHECK(
      small.err ==
      "error: DGX-1V joins 8 GPUs, but the plan's cluster has 64 [cli.fabric]\n  8 nodes of 8 GPUs would be enough.\n");
  const Ran routes = run(ORRERY_PROGRAM, "place llama-3-70b-8-dgx-h100 --fabric dgx-h100-superpod --routes short");
  CHECK(routes.err ==
        "error: the routes \"short\" are not known [cli.fabric]\n  Known: by-destination, hashed, rail-local.\n");
  const Ran picture = run(ORRERY_PROGRAM, "place llama-3-70b-8-dgx-h100 --fabric dgx-h100-superpod --draw x.jpg");
  CHECK(picture.err.find("error: x.jpg does not end in a known kind of drawing [cli.flags]") != std::string::npos);
}

namespace {

/// Eight replicas on the eight GPUs of a DGX-1V, whose double NVLinks form one ring: 0 3 2 1 5 6 7 4.
std::string eight_replicas(const TemporaryFolder& folder) {
  const std::string file = folder.file("replicas.toml");
  std::ofstream(file) << R"(schema = 1
name = "replicas"
model = "bert-large"
cluster = "dgx-1v"
gpus = 8
[workload]
batch = 64
sequence = 128
precision = "fp16"
[mesh]
order = ["data"]
data = 8
[plan]
microbatch_size = 8
collective_algorithm = "ring"
)";
  return file;
}

std::string graph_of(const TemporaryFolder& folder, const std::vector<int>& ring) {
  const std::string file = folder.file("graph.xml");
  std::ofstream out(file);
  out << R"(<graphs version="1"><graph id="0" pattern="4" crossnic="0" nchannels="1" speedintra="40" speedinter="40")"
      << R"( latencyinter="0" typeintra="NVL" typeinter="PIX" samechannels="1"><channel>)";
  for (const int gpu : ring) out << "<gpu dev=\"" << gpu << "\"/>";
  out << "</channel></graph></graphs>";
  return file;
}

}  // namespace

// A ring over 0 1 2 ... 7 crosses PCIe between 3 and 4, and from 7 to 0.
TEST_CASE("place lays ranks along the rings that NCCL found", "[unit][cli]") {
  const TemporaryFolder folder;
  const std::string plan = eight_replicas(folder), graph = graph_of(folder, {0, 3, 2, 1, 5, 6, 7, 4});
  const std::string place = "place " + plan + " --fabric dgx-1v --tries 1 --exact 0 --json";
  const json as_ever = json::parse(run(ORRERY_PROGRAM, place).out);
  const Ran ran = run(ORRERY_PROGRAM, place + " --rings " + graph + " -o " + folder.file("placed.toml"));
  CHECK(ran.err == "");
  const json along = json::parse(ran.out);
  CHECK(along["found"]["order"] == "data 8, along ring 0 3 2 1 5 6 7 4");
  CHECK(along["found"]["step_time_s"].get<double>() < 0.95 * along["given"]["step_time_s"].get<double>());
  CHECK(along["found"]["step_time_s"].get<double>() < as_ever["found"]["step_time_s"].get<double>());
  // Nothing goes over PCIe any more.
  for (const json& sent : along["found"]["sent_bytes"]) {
    CHECK(sent["pcie"] == 0.0);
    CHECK(sent["socket"] == 0.0);
  }
  std::ifstream in(folder.file("placed.toml"));
  std::stringstream text;
  text << in.rdbuf();
  CHECK(text.str().find("[0, 3, 2, 1, 5, 6, 7, 4]") != std::string::npos);

  const Ran none = run(ORRERY_PROGRAM, "place " + plan + " --rings " + plan);
  CHECK(none.status == 2);
  CHECK(none.err.find("is neither NCCL's graph nor a log of it [cli.rings]") != std::string::npos);
  const Ran few = run(ORRERY_PROGRAM, "place " + plan + " --rings " + graph_of(folder, {0, 3, 2, 1}));
  CHECK(few.status == 2);
  CHECK(few.err.find("pass neither the GPUs of one node nor all GPUs [cli.rings]") != std::string::npos);
}

TEST_CASE("without a fabric, place takes what the cluster's levels promise", "[unit][cli]") {
  const TemporaryFolder folder;
  const std::string bad = badly_ordered(folder);
  const json found = json::parse(run(ORRERY_PROGRAM, "place " + bad + " --tries 6 --json").out);
  CHECK(found["fabric"] == "dgx-h100's levels");
  const std::string order = found["found"]["order"];
  CHECK(order.substr(order.rfind('>')) == "> tensor 8");
  CHECK(found["found"]["step_time_s"].get<double>() < found["given"]["step_time_s"].get<double>());
}

// The output of plan is the best plan of the space as place lays it out, and no slower over the fabric than as it was
// found.
TEST_CASE("plan places the plan that it finds on a fabric", "[unit][cli]") {
  const TemporaryFolder folder;
  const std::string placed = folder.file("placed.toml"), found = folder.file("found.toml");
  const std::string plan =
      "plan --model llama-3-8b --cluster dgx-h100 --gpus 16 --batch 32 --seq 4096 --top 1 --json " + short_search +
      "-o ";
  const std::string wires = " --fabric dgx-h100-superpod --routes rail-local";
  const json with = json::parse(run(ORRERY_PROGRAM, plan + placed + wires).out);
  const json without = json::parse(run(ORRERY_PROGRAM, plan + found).out);
  CHECK_FALSE(without.contains("placement"));
  CHECK(with["plans"] == without["plans"]);
  const json& placement = with["placement"];
  CHECK(placement["fabric"] == "DGX H100 SuperPOD, 1024 GPUs");
  CHECK(placement["given"]["plan_file"] == without["plans"][0]["plan_file"]);
  CHECK(placement["found"]["step_time_s"].get<double>() <= placement["given"]["step_time_s"].get<double>());
  std::ifstream in(placed);
  std::stringstream text;
  text << in.rdbuf();
  CHECK(text.str() == placement["found"]["plan_file"].get<std::string>());
  const Ran shown = run(ORRERY_PROGRAM,
                        "plan --model llama-3-8b --cluster dgx-h100 --gpus 16 --batch 32 --seq 4096 "
                        "--top 1 " +
                            short_search + wires);
  CHECK(shown.out.find("The best plan on DGX H100 SuperPOD, 1024 GPUs, links shared\n") != std::string::npos);
  CHECK(shown.out.find("a bad order") != std::string::npos);
  const Ran lone = run(ORRERY_PROGRAM, plan + found + " --routes hashed");
  CHECK(lone.status == 2);
}

// There are two pipeline stages, one on the H100 node and one on the A100 node, which is slower at everything.
TEST_CASE("a cluster of unlike nodes is shown, estimated, simulated, placed and planned for", "[unit][cli]") {
  const TemporaryFolder folder;
  const std::string cluster = folder.file("mixed.toml");
  std::ofstream(cluster) << R"(schema = 1
[cluster]
name = "mixed"
nodes = 2
devices_per_node = 8
device = "h100"
levels = [ { name = "nvlink", size = 8, bandwidth = "450 GB/s", latency = "2 us" },
           { name = "infiniband", size = 2, bandwidth = "400 Gbit/s", latency = "5 us" } ]
[[cluster.other_nodes]]
first = 1
device = "a100-80"
bandwidths = ["300 GB/s", "100 Gbit/s"]
)";
  const auto plan = [&](const char* name, const char* layers) {
    const std::string file = folder.file(name);
    std::ofstream(file) << "schema = 1\nname = \"" << name << "\"\nmodel = \"llama-3-8b\"\ncluster = \"" << cluster
                        << "\"\n[workload]\nbatch = 12\nsequence = 4096\nprecision = \"bf16\"\n[mesh]\norder = "
                           "[\"pipeline\", \"tensor\"]\npipeline = 2\ntensor = 8\n[plan]\nmicrobatch_size = 1\n"
                           "schedule = \"1f1b\"\nsequence_parallel = true\nstage_layers = "
                        << layers << "\n";
    return file;
  };
  const std::string even = plan("even", "[16, 16]"), uneven = plan("uneven", "[22, 10]");
  CHECK(run(ORRERY_PROGRAM, "check " + cluster).status == 0);
  CHECK(run(ORRERY_PROGRAM, "show cluster " + cluster).out.find("[[cluster.other_nodes]]") != std::string::npos);
  const auto step = [](const std::string& verb, const std::string& file) {
    const Ran ran = run(ORRERY_PROGRAM, verb + " " + file + " --json");
    CAPTURE(ran.err);
    REQUIRE(ran.status == 0);
    return json::parse(ran.out)["step_time_s"].get<double>();
  };
  const double estimated = step("estimate", even), simulated = step("simulate", even);
  CHECK(estimated <= simulated * (1 + 1e-12));
  CHECK(estimated > 0.95 * simulated);
  // The slow node has fewer layers: its stage no longer holds the other up as long.
  const double balanced = step("simulate", uneven);
  CHECK(balanced < 0.85 * simulated);
  const Ran told = run(ORRERY_PROGRAM, "estimate " + even);
  CHECK(told.out.find("mixed, 8 x H100 and 8 x A100-80;") != std::string::npos);
  // With two fast nodes the step is faster; with two slow ones it is slower, where the slow one is not what holds the
  // step up.
  const std::string over = "simulate " + uneven + " --json --cluster ";
  const double fast = json::parse(run(ORRERY_PROGRAM, over + "dgx-h100").out)["step_time_s"],
               slow = json::parse(run(ORRERY_PROGRAM, over + "dgx-a100").out)["step_time_s"];
  CHECK(fast < balanced);
  CHECK(balanced < slow);
  const json placed = json::parse(run(ORRERY_PROGRAM, "place " + even + " --tries 4 --json").out);
  CHECK(placed["found"]["step_time_s"].get<double>() <= placed["given"]["step_time_s"].get<double>());
  const Ran searched =
      run(ORRERY_PROGRAM,
          "plan --model llama-3-8b --cluster " + cluster +
              " --batch 12 --seq 4096 --top 1 --json "
              "--only \"schedule=1f1b tensor=1d context=off replica=off zero=1 recompute_layers=off offload=off\"");
  CAPTURE(searched.err);
  REQUIRE(searched.status == 0);
  const json best = json::parse(searched.out);
  CHECK(best["complete"] == true);
  CHECK(best["plans"][0]["step_time_s"].get<double>() <= simulated);
}
