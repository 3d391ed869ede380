#include <catch2/catch.hpp>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/program_run.hpp"

// `orrery jobs` as a person runs it, and how it refuses.

using namespace orrery::test;
using nlohmann::json;

namespace {

const std::string example = "jobs " ORRERY_SOURCE_DIR "/examples/jobs.toml --nodes 2 --gpus-per-node 4 ";

std::string refused(const std::string& arguments) {
  const Ran ran = run(ORRERY_PROGRAM, arguments);
  CAPTURE(arguments);
  CHECK(ran.status == 2);
  CHECK(ran.out == "");
  return ran.err;
}

}  // namespace

TEST_CASE("policies stand side by side, in lines that fit the screen", "[unit][cli]") {
  const Ran ran = run(ORRERY_PROGRAM, example + "--policy all");
  REQUIRE(ran.status == 0);
  CHECK(ran.out.find("1 failed and 1 were cancelled; they run to their recorded ends") != std::string::npos);
  std::istringstream lines(ran.out);
  for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 80);
  for (const char* policy : {"fifo", "fjf", "sjf", "lpjf", "srtf", "srsf", "easy", "gavel", "las", "2d-las"}) {
    CHECK(ran.out.find("\n  " + std::string(policy) + " ") != std::string::npos);
  }
}

TEST_CASE("JSON has every figure, and the times of every job where they are wanted", "[unit][cli]") {
  const Ran ran = run(ORRERY_PROGRAM, example + "--policy fifo,easy --each --json");
  REQUIRE(ran.status == 0);
  const json j = json::parse(ran.out);
  CHECK(j["workload"]["jobs"] == 6);
  CHECK(j["cluster"]["gpus_of_nodes"] == json({4, 4}));
  double gpu_s = 0.0;
  for (const json& job : j["policies"][1]["jobs"]) gpu_s += job["gpu_s"].get<double>();
  // 3 x 2 + 4 x 8 + 2 x 2 + 5/12 x 4 + 1.5 x 4 + 0.5 GPU-hours
  CHECK(j["policies"][1]["gpu_hours"].get<double>() == Approx(50.0 + 1.0 / 6.0).epsilon(1e-12));
  CHECK(gpu_s == Approx(3600.0 * (50.0 + 1.0 / 6.0)).epsilon(1e-12));
  // fifo: pretrain waits for tokenizer until 3 h and runs to 7 h; the others wait behind it.
  CHECK(j["policies"][0]["jobs"][1]["end_s"] == 7.0 * 3600.0);
  CHECK(j["policies"][0]["jobs"][2]["start_s"] == 7.0 * 3600.0);
  CHECK(ran.out == run(ORRERY_PROGRAM, example + "--policy fifo,easy --each --json").out);
}

TEST_CASE("made jobs depend on their seed, and a cluster may have a name", "[unit][cli]") {
  const std::string made = "jobs philly-like --count 300 --on dgx-h100 --gpus 16 --leave-out-large --json --seed ";
  const Ran one = run(ORRERY_PROGRAM, made + "1");
  REQUIRE(one.status == 0);
  CHECK(json::parse(one.out)["cluster"]["gpus_of_nodes"] == json({8, 8}));
  CHECK(one.out == run(ORRERY_PROGRAM, made + "1").out);
  CHECK(json::parse(one.out)["policies"][0]["history"] !=
        json::parse(run(ORRERY_PROGRAM, made + "2").out)["policies"][0]["history"]);
}

TEST_CASE("pictures and traces are written", "[unit][cli]") {
  const TemporaryFolder folder;
  const std::string svg = folder.file("gantt.svg"), trace = folder.file("gantt.json");
  REQUIRE(run(ORRERY_PROGRAM, example + "--policy fifo,srtf --svg " + svg + " --trace " + trace).status == 0);
  CHECK(contents(svg).find("<title>pretrain: 8 GPUs, 3 h to 7 h</title>") != std::string::npos);
  CHECK(json::parse(contents(trace))["traceEvents"].size() > 20);
}

TEST_CASE("rows that cannot be used are listed with their lines", "[unit][cli]") {
  const TemporaryFolder folder;
  write(folder.file("jobs.csv"), "num_gpu,submit_time,duration\n1,0,5\n0,1,5\nx,1,5\n0,2,5\n");
  const Ran ran = run(ORRERY_PROGRAM, "jobs " + folder.file("jobs.csv") + " --nodes 1 --gpus-per-node 1");
  CHECK(ran.status == 0);
  CHECK(ran.out.find("left out 1 row: has no whole number of GPUs (line 4)\n") != std::string::npos);
  CHECK(ran.out.find("left out 2 rows: uses no GPU (line 3, 5)\n") != std::string::npos);
}

TEST_CASE("jobs.policy, jobs.cluster, jobs.workload, jobs.too-large: what cannot be played", "[error]") {
  CHECK(refused(example + "--policy fofo") ==
        "error: --policy: \"fofo\" is no policy [jobs.policy]\n"
        "  Near: fifo. Known: fifo, fjf, sjf, lpjf, srtf, srsf, easy, gavel, pollux, marginal, sia, las, 2d-las, and "
        "all.\n");
  CHECK(refused(example + "--policy fifo,fifo") == "error: --policy names fifo twice [jobs.policy]\n");
  CHECK(refused("jobs x.csv") ==
        "error: a cluster is needed, by --on or by --nodes [jobs.cluster]\n"
        "  --on dgx-h100 --gpus 64, or --nodes 8 --gpus-per-node 8.\n");
  CHECK(refused("jobs x.csv --nodes 3") == "error: --nodes and --gpus-per-node go together [jobs.cluster]\n");
  CHECK(refused("jobs --nodes 3 --gpus-per-node 1") ==
        "error: a workload is missing [jobs.workload]\n  orrery jobs jobs.csv --on dgx-h100 --gpus 64\n");
  CHECK(refused("jobs " ORRERY_SOURCE_DIR "/examples/jobs.toml --nodes 1 --gpus-per-node 4") ==
        "error: a job wants more GPUs than the 4 of the cluster [jobs.too-large]\n"
        "  The first is pretrain (line 11), which wants 8; the most is 8.\n"
        "  --leave-out-large plays the others.\n");
  CHECK(refused(example + "--policy srtf --restart 5") ==
        "error: --restart: \"5\" is no time from 0 s to 100000 s [cli.amount]\n  \"30 s\" and \"2 min\" are right.\n");
  CHECK(refused(example + "--tables x") ==
        "error: --tables goes with workloads of Sia's form [jobs.tables]\n"
        "  Sia's jobs name an application; --tables FOLDER has a folder for each, with its speeds.\n");
  CHECK(refused(example + "--seed 3") == "error: --count and --seed go with philly-like [cli.flags]\n");
}

TEST_CASE("jobs: a flag that would change nothing is refused", "[error]") {
  CHECK(refused(example + "--each") == "error: --each goes with --json or --output [cli.flags]\n");
  CHECK(refused(example + "--places consolidated --scattered 1.3") ==
        "error: --scattered goes with --places packed [cli.flags]\n  A consolidated job is never scattered.\n");
  CHECK(refused(example + "--policy fifo,easy --restart \"5 s\"") ==
        "error: --restart goes with a policy that stops jobs [cli.flags]\n"
        "  --policy fifo,easy stops none; orrery jobs --list says which do.\n");
  CHECK(run(ORRERY_PROGRAM, example + "--policy fifo,srtf --restart \"5 s\"").status == 0);
}
