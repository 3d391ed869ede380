#include <catch2/catch.hpp>

#include <map>
#include <nlohmann/json.hpp>

#include "tests/support/program_run.hpp"

// Jobs that name a model: the planner gives their runs and speeds.

using namespace orrery::test;
using nlohmann::json;

namespace {

std::string job(const std::string& name, int gpus, const std::string& model, int steps) {
  return "[[job]]\nname = \"" + name + "\"\nsubmit = \"0 s\"\ngpus = " + std::to_string(gpus) + "\nmodel = \"" + model +
         "\"\nbatch = 32\nsequence = 512\nsteps = " + std::to_string(steps) + "\n";
}

json played(const std::string& workload, const std::string& more) {
  const Ran ran =
      run(ORRERY_PROGRAM, "jobs " + workload + " --on dgx-h100 --gpus 16 --policy fifo --each --json " + more);
  CAPTURE(ran.err);
  REQUIRE(ran.status == 0);
  return json::parse(ran.out);
}

}  // namespace

TEST_CASE("a job that names a model runs for its steps, and a change of plans is never slower than keeping one",
          "[unit][cli]") {
  const TemporaryFolder folder;
  const std::string workload = folder.file("jobs.toml");
  write(workload, "schema = 1\n" + job("a", 2, "gpt2-124m", 100) + job("b", 2, "gpt2-124m", 300));
  const json change = played(workload, ""), keep = played(workload, "--plans keep");
  REQUIRE(change["curves"].size() == 1);  // both train the same
  std::map<int, double> steps;
  for (const json& p : change["curves"][0]["points"]) steps[p["gpus"]] = p["step_s"];
  REQUIRE(steps.count(2) == 1);
  REQUIRE(steps.size() >= 4);
  const json& jobs = change["policies"][0]["jobs"];
  double own = steps[2];
  if (steps.count(1) == 1 && steps[1] < own) own = steps[1];
  CHECK(jobs[0]["run_s"].get<double>() == Approx(100 * own).epsilon(1e-6));
  CHECK(jobs[1]["run_s"].get<double>() == Approx(300 * own).epsilon(1e-6));
  CHECK(change["plans"] == "change");
  CHECK(keep["plans"] == "keep");
  for (const json& p : keep["curves"][0]["points"]) {
    const int gpus = p["gpus"];
    CAPTURE(gpus);
    if (steps.count(gpus) == 1) CHECK(p["step_s"].get<double>() >= steps[gpus] * (1 - 1e-9));
  }
}

TEST_CASE("jobs.plan, jobs.reliability: models and failures that cannot be played", "[error]") {
  const TemporaryFolder folder;
  const std::string workload = folder.file("jobs.toml");
  write(workload, "schema = 1\n" + job("a", 1, "llama-3-70b", 100));
  const Ran no_cluster = run(ORRERY_PROGRAM, "jobs " + workload + " --nodes 1 --gpus-per-node 1");
  CHECK(no_cluster.status == 2);
  CHECK(no_cluster.err ==
        "error: jobs that name a model need a cluster with devices [jobs.plan]\n"
        "  --on dgx-h100 --gpus 64 in place of --nodes.\n");
  const std::string example = "jobs " ORRERY_SOURCE_DIR "/examples/jobs.toml --nodes 2 --gpus-per-node 4 ";
  CHECK(run(ORRERY_PROGRAM, example + "--plans keep").err ==
        "error: --plans goes with jobs that name a model [cli.flags]\n");
  CHECK(run(ORRERY_PROGRAM, example + "--save-every \"1 h\"").err ==
        "error: --save-every goes with --reliability [cli.flags]\n");
  write(folder.file("none.toml"), "schema = 1\n[reliability]\nname = \"none\"\n");
  CHECK(run(ORRERY_PROGRAM, example + "--reliability " + folder.file("none.toml")).err ==
        "error: " + folder.file("none.toml") +
            " does not say all that failures need [jobs.reliability]\n"
            "  node_failures_per_1000_node_days and repair are needed.\n");
  // A node fails each 864 s and is down for 86400 s: up for 1/101 of the time, and both for 9.8e-5 of it.
  write(folder.file("down.toml"),
        "schema = 1\n[reliability]\nname = \"down\"\nnode_failures_per_1000_node_days = 100000.0\nrepair = \"24 h\"\n"
        "[reliability.source]\nnode_failures_per_1000_node_days = \"a test\"\nrepair = \"a test\"\n"
        "[reliability.basis]\nnode_failures_per_1000_node_days = \"assumed\"\nrepair = \"assumed\"\n");
  CHECK(run(ORRERY_PROGRAM, example + "--save-every \"60 s\" --reliability " + folder.file("down.toml")).err ==
        "error: so many nodes are down that the largest job practically never starts [jobs.reliability]\n"
        "  It wants 8 GPUs: 2 of 2 nodes. Each fails after 864 s and is down for 8.64e+04 s.\n"
        "  So many are up together for 9.8e-05 of the time; at least 0.001 is needed.\n");
}

TEST_CASE("nodes fail where a reliability file is named", "[unit][cli]") {
  const std::string example =
      "jobs " ORRERY_SOURCE_DIR "/examples/jobs.toml --nodes 2 --gpus-per-node 4 --policy fifo,srtf ";
  const TemporaryFolder folder;
  // Each node fails some four times a day.
  write(folder.file("often.toml"),
        "schema = 1\n[reliability]\nname = \"often\"\nnode_failures_per_1000_node_days = 4000.0\nrepair = \"10 min\"\n"
        "[reliability.source]\nnode_failures_per_1000_node_days = \"a test\"\nrepair = \"a test\"\n"
        "[reliability.basis]\nnode_failures_per_1000_node_days = \"assumed\"\nrepair = \"assumed\"\n");
  const Ran ran = run(ORRERY_PROGRAM,
                      example + "--json --seed 5 --save-every \"30 min\" --reliability " + folder.file("often.toml"));
  CAPTURE(ran.err);
  REQUIRE(ran.status == 0);
  const json j = json::parse(ran.out);
  CHECK(j["policies"][0]["node_failures"].get<int>() > 0);
  CHECK(j["policies"][0]["undone_gpu_hours"].get<double>() <= j["policies"][0]["gpu_hours"].get<double>());
  CHECK(j["cluster"]["save_interval_s"] == 1800.0);
}
