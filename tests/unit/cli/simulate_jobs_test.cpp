#include <catch2/catch.hpp>

#include <map>
#include <nlohmann/json.hpp>

#include "cli/common.hpp"
#include "cli/job_placement.hpp"
#include "tests/support/program_run.hpp"

// Several plans on one cluster, from the command line; and links of a fabric that have failed.

using namespace orrery::test;
using nlohmann::json;

namespace {

std::string plan(const std::string& name, int data, int tensor, const std::string& model = "llama-2-7b") {
  return "schema = 1\nname = \"" + name + "\"\nmodel = \"" + model +
         "\"\ncluster = \"dgx-a100\"\ngpus = " + std::to_string(data * tensor) +
         "\n[workload]\nbatch = 64\nsequence = 1024\nprecision = \"bf16\"\n"
         "[workload.optimizer]\nkind = \"adam\"\nlearning_rate = 0.0001\n"
         "[mesh]\norder = [\"data\", \"tensor\"]\ndata = " +
         std::to_string(data) + "\ntensor = " + std::to_string(tensor) +
         "\n[plan]\nmicrobatch_size = 4\noverlap_gradients = true\ngradient_bucket = \"160 MB\"\n"
         "attention = \"flash\"\n";
}

/// There are two leaves of two nodes, with a quarter of the bandwidth between them.
const std::string slim = R"(schema = 1
[fabric]
name = "slim"
nodes = 4
node = { shape = "nvswitch", gpus = 8, nics = 8, bandwidth = "450 GB/s", latency = "500 ns", pcie_bandwidth = "64 GB/s", pcie_latency = "200 ns" }
network = { shape = "fat_tree", down = [16, 2], up = [1, 4], bandwidth = "400 Gbit/s", latency = "500 ns" }
)";

struct Files {
  TemporaryFolder folder;
  std::string a = folder.file("a.toml"), b = folder.file("b.toml"), fabric = folder.file("slim.toml");
  Files() {
    write(a, plan("a", 2, 8));
    write(b, plan("b", 8, 2));
    write(fabric, slim);
  }
  [[nodiscard]] std::string jobs() const { return "simulate " + a + " " + b + " --on dgx-h100 "; }
};

std::string refusal(const std::vector<std::uint32_t>& ranks, const orrery::JobPlacement& how) {
  try {
    (void)orrery::place_jobs(ranks, 4, how);
  } catch (const orrery::InputError& e) {
    return orrery::render(e.diagnostics);
  }
  return "no mistake";
}

}  // namespace

TEST_CASE("jobs lie one after the other, in turn, or where they are told", "[unit][cli]") {
  using Gpus = std::vector<std::vector<std::uint32_t>>;
  using orrery::place_jobs;
  CHECK(place_jobs({4, 8}, 4, {}) == Gpus{{0, 1, 2, 3}, {4, 5, 6, 7, 8, 9, 10, 11}});
  // Two halves share a node; a job that does not fit into the rest of a node begins the next.
  CHECK(place_jobs({2, 2, 1, 4}, 4, {}) == Gpus{{0, 1}, {2, 3}, {4}, {8, 9, 10, 11}});
  CHECK(place_jobs({8, 4, 8}, 4, {.interleave = true, .nodes = {}, .gpus = {}}) ==
        Gpus{{0, 1, 2, 3, 12, 13, 14, 15}, {4, 5, 6, 7}, {8, 9, 10, 11, 16, 17, 18, 19}});
  CHECK(place_jobs({8, 3}, 4, {.interleave = false, .nodes = "3,1/0", .gpus = {}}) ==
        Gpus{{12, 13, 14, 15, 4, 5, 6, 7}, {0, 1, 2}});
  CHECK(place_jobs({3, 2}, 4, {.interleave = false, .nodes = {}, .gpus = "0-1,6/4-5"}) == Gpus{{0, 1, 6}, {4, 5}});
  CHECK(orrery::runs_text({0, 1, 2, 5, 7, 8}) == "0-2,5,7-8");
}

TEST_CASE("places that cannot be are refused", "[unit][cli]") {
  const auto nodes = [](const char* text) { return orrery::JobPlacement{false, text, {}}; };
  const auto gpus = [](const char* text) { return orrery::JobPlacement{false, {}, text}; };
  CHECK(refusal({4, 4}, nodes("0")) ==
        "error: --nodes has 1 list for 2 plans [cli.jobs]\n"
        "  Give one list for each plan, with / between them: \"0-3/4-7\".\n");
  CHECK(refusal({4, 8}, nodes("0/1")) ==
        "error: --nodes gives 1 node to plan 2 [cli.jobs]\n  Its 8 ranks fill 2 nodes of 4 GPUs.\n");
  CHECK(refusal({4, 4}, nodes("0/x")) ==
        "error: --nodes: \"x\" is neither a number nor a run of numbers [cli.jobs]\n"
        "  \"0-3/4,6\" would give 0 to 3 to the first plan, 4 and 6 to the second.\n");
  CHECK(refusal({4, 4}, nodes("0/3-2")).find("\"3-2\" is neither") != std::string::npos);
  CHECK(refusal({4, 4}, nodes("0/99999999")).find("\"99999999\" is neither") != std::string::npos);
  CHECK(refusal({4, 4}, nodes("1/1")) == "error: GPU 0 of node 1 would belong to plans 1 and 2 [cli.jobs]\n");
  CHECK(refusal({2, 2}, gpus("0,0/1-2")) == "error: GPU 0 of node 0 would belong to plan 1 twice [cli.jobs]\n");
  CHECK(refusal({2, 2}, gpus("0-2/3-4")) == "error: --on-gpus gives 3 GPUs to plan 1 [cli.jobs]\n  It has 2 ranks.\n");
  CHECK(refusal({4, 4}, {true, "0/1", {}}) ==
        "error: only one of --interleave, --nodes and --on-gpus can say where jobs lie [cli.jobs]\n");
}

TEST_CASE("two jobs say what sharing links costs each", "[unit][cli]") {
  const Files files;
  const json apart = json::parse(run(ORRERY_PROGRAM, files.jobs() + "--json").out);
  CHECK(apart["gpus"] == 32);
  CHECK(apart["fabric"] == "dgx-h100's levels");
  for (const json& job : apart["jobs"]) {
    CHECK(job["slowdown"] == 1.0);
    CHECK(job["alone"]["step_time_s"] == job["together"]["longest_step_s"]);
    CHECK(job["together"]["steps"].get<int>() >= 4);
  }
  CHECK(apart["jobs"][1]["nodes"] == json({2, 3}));

  const json met =
      json::parse(run(ORRERY_PROGRAM, files.jobs() + "--interleave --fabric " + files.fabric + " --json").out);
  for (const json& job : met["jobs"]) {
    CHECK(job["slowdown"].get<double>() > 1.001);
    CHECK(job["together"]["exposed_communication_s"] > job["alone"]["exposed_communication_s"]);
  }
  CHECK(met["jobs"][0]["nodes"] == json({0, 2}));
  const json& busiest = met["links"][0];
  CHECK(busiest["name"].get<std::string>().find("spine") != std::string::npos);
  double sum = 0.0;
  for (const json& share : busiest["utilization_by_job"]) sum += share.get<double>();
  CHECK(busiest["utilization"].get<double>() == Approx(sum).epsilon(1e-12));
  CHECK(busiest["utilization"].get<double>() <= 1.0);

  const Ran text = run(ORRERY_PROGRAM, files.jobs() + "--nodes 0,2/1,3 --fabric " + files.fabric + " -o " +
                                           files.folder.file("jobs.json"));
  CHECK(text.status == 0);
  CHECK(text.out.find("a: llama-2-7b, 16 ranks; nodes 0,2;") != std::string::npos);
  CHECK(text.out.find("exposed communication together") != std::string::npos);
  CHECK(text.out.find("history " + met["history_hash"].get<std::string>()) != std::string::npos);
  CHECK(json::parse(contents(files.folder.file("jobs.json"))) == met);
}

TEST_CASE("the timeline of jobs has both on one axis", "[unit][cli]") {
  const Files files;
  write(files.a, plan("a", 2, 4, "gpt2-124m"));
  write(files.b, plan("b", 4, 2, "gpt2-124m"));
  const std::string trace = files.folder.file("jobs.json");
  REQUIRE(run(ORRERY_PROGRAM, files.jobs() + "--steps 2 --trace " + trace).status == 0);
  const json timeline = json::parse(contents(trace));
  std::map<int, std::string> processes;
  std::map<std::string, std::pair<double, double>> times;
  for (const json& e : timeline["traceEvents"]) {
    if (e["ph"] == "M" && e["name"] == "process_name") processes[e["pid"]] = e["args"]["name"];
    if (e["ph"] != "X") continue;
    REQUIRE(processes.contains(e["pid"]));
    auto [at, is_new] = times.try_emplace(processes[e["pid"]].substr(0, 6), std::pair{1e300, 0.0});
    at->second.first = std::min(at->second.first, e["ts"].get<double>());
    at->second.second = std::max(at->second.second, e["ts"].get<double>() + e["dur"].get<double>());
  }
  REQUIRE(times.size() == 2);
  const auto a = times.at("a rank"), b = times.at("b rank");
  CHECK(std::max(a.first, b.first) < std::min(a.second, b.second));  // they overlap
  CHECK(run(ORRERY_PROGRAM, "check " + trace).status == 2);          // no trace of one step
}

TEST_CASE("what does not go with jobs is refused", "[unit][cli]") {
  const Files files;
  const auto said = [](const std::string& arguments) {
    const Ran ran = run(ORRERY_PROGRAM, arguments);
    CHECK(ran.status == 2);
    return ran.err;
  };
  CHECK(
      said("simulate " + files.a + " " + files.b) ==
      "error: there are 2 plans, but no cluster for them [cli.jobs]\n  --on CLUSTER plays them side by side on it.\n");
  CHECK(said("simulate " + files.a + " --interleave").find("go with --on only [cli.jobs]") != std::string::npos);
  CHECK(said(files.jobs() + "--critical-path").find("[cli.jobs]") != std::string::npos);
  CHECK(said(files.jobs() + "--gpus 16") ==
        "error: dgx-h100 has 16 GPUs here, but the jobs reach up to GPU 31 [cli.jobs]\n"
        "  --gpus N says how many it has; with --fabric it has those of the fabric.\n");
  CHECK(said("simulate demo-2x2x2 --on local-cpu").find("share cores [cli.jobs]") != std::string::npos);
  CHECK(said("simulate " + files.a + " --fail \"leaf 0\"") ==
        "error: --fail and --degrade go with --fabric or --on only [cli.fabric]\n");
}

TEST_CASE("jobs go around links that have failed, and say who is cut off", "[unit][cli]") {
  const Files files;
  const std::string shared = files.jobs() + "--interleave --fabric " + files.fabric;
  const json whole = json::parse(run(ORRERY_PROGRAM, shared + " --json").out);
  const json broken = json::parse(
      run(ORRERY_PROGRAM, shared + " --fail \"leaf 0 -- spine 0\" --fail \"spine 1 -> leaf 1\" --json").out);
  const json half = json::parse(run(ORRERY_PROGRAM, shared + " --degrade \"leaf 0 -- spine 1=0.5\" --json").out);
  for (std::size_t j = 0; j < 2; ++j) {
    const auto step = [&](const json& s) { return s["jobs"][j]["alone"]["step_time_s"].get<double>(); };
    CHECK(step(broken) > step(whole));
    CHECK(step(half) > step(whole));
  }
  for (const json& l : broken["links"]) {
    CHECK(l["name"] != "leaf 0 -> spine 0");
    CHECK(l["name"] != "spine 0 -> leaf 0");
  }
  const Ran cut = run(ORRERY_PROGRAM, shared + " --fail \"leaf 0\"");
  CHECK(cut.status == 2);
  CHECK(cut.err ==
        "error: rank 0 is cut off from rank 8: every way from GPU 0 of node 0 to GPU 0 of node 2 crosses a link that "
        "has failed; it reaches none of ranks 8, 9, 10, 11, 12, 13, 14, 15 [fabric.cut-off]\n"
        "  Let fewer links fail, give the plan other GPUs, or take another fabric.\n");
  const Ran unknown = run(ORRERY_PROGRAM, shared + " --fail \"leaf 9\"");
  CHECK(unknown.status == 2);
  CHECK(unknown.err.find("error: --fail: no link or switch is named \"leaf 9\" [fabric.link-name]\n") == 0);
  const Ran share = run(ORRERY_PROGRAM, shared + " --degrade \"leaf 0\"");
  CHECK(share.err ==
        "error: --degrade: \"leaf 0\" gives no share of bandwidth above 0 and up to 1 [cli.fabric]\n"
        "  \"leaf 0 -- spine 1=0.5\" leaves half of that cable's.\n");
}

TEST_CASE("a step has the number of its history", "[unit][cli]") {
  const auto hash = [](const std::string& more) {
    return json::parse(run(ORRERY_PROGRAM, "simulate llama-3-70b-8-dgx-h100 --json " + more).out)["history_hash"]
        .get<std::string>();
  };
  const std::string plain = hash("");
  CHECK(plain.size() == 16);
  CHECK(hash("") == plain);
  CHECK(hash("--expand") == plain);
  CHECK(hash("--stragglers 1") != plain);
}
