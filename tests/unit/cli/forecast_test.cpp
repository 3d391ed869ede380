#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "cli/forecast_answer.hpp"
#include "cli/forecast_text.hpp"
#include "tests/support/program_run.hpp"

// `orrery forecast` as a person runs it.

using namespace orrery::test;
using nlohmann::json;

namespace {

const std::string new_user = "forecast --model llama-3-8b --cluster dgx-h100 --gpus 16 --tokens 1T --price 2.50 ";

json answer(const std::string& arguments, int status = 0) {
  const Ran ran = run(ORRERY_PROGRAM, arguments + " --json");
  INFO(ran.err);
  REQUIRE(ran.status == status);
  return json::parse(ran.out);
}

}  // namespace

TEST_CASE("the question of a new user is answered by one command", "[unit][cli]") {
  const json j = answer(new_user);
  CHECK(j["steps"] == 238419);  // 1e12 / (512 x 8192), rounded up
  CHECK(j["money"].get<double>() == Approx(16.0 * 2.5 * j["wall_s"].get<double>() / 3600.0));
  double parts = 0.0;
  for (const auto& [cause, seconds] : j["time"].items()) parts += seconds.get<double>();
  CHECK(parts == Approx(j["wall_s"].get<double>()));
  CHECK(j["ettr"].get<double>() == Approx(j["work_s"].get<double>() / j["wall_s"].get<double>()));
  CHECK(j["effective_mfu"].get<double>() == Approx(j["mfu"].get<double>() * j["ettr"].get<double>()));
  CHECK(j["energy"]["run_j"].get<double>() > 0.0);
  CHECK(j["assumed"].size() == 3);
  CHECK(j["reliability"]["restart"]["basis"] == "assumed");
}

TEST_CASE("every figure of a forecast is explained, and unverified ones say so", "[unit][cli]") {
  const Ran ran = run(ORRERY_PROGRAM, new_user + "--reliability rsc-1 --explain");
  REQUIRE(ran.status == 0);
  for (const char* text :
       {"steps = 238,419", "time between failures = ", "best interval = ", "save every = ", "lost work = ", "ETTR = ",
        "money = ", "energy = ", "unverified: Kokolis", "Unverified in rsc-1: node failures, job failures."}) {
    CAPTURE(text);
    CHECK(ran.out.find(text) != std::string::npos);
  }
}

TEST_CASE("the same seed gives the same bytes", "[unit][cli]") {
  const Ran first = run(ORRERY_PROGRAM, new_user + "--seed 7 --json");
  CHECK(first.out == run(ORRERY_PROGRAM, new_user + "--seed 7 --json").out);
  CHECK(first.out != run(ORRERY_PROGRAM, new_user + "--seed 8 --json").out);
}

TEST_CASE("a budget buys what costs as much, within a step", "[unit][cli]") {
  const json bought = answer("forecast --model llama-3-8b --cluster dgx-h100 --gpus 16 --price 2.50 --budget '$50k'");
  CHECK(bought["money"].get<double>() == Approx(50000.0).epsilon(1e-4));
  CHECK(bought["money"].get<double>() <= 50000.0 * (1.0 + 1e-6));
}

TEST_CASE("--by finds the least number of GPUs that ends in time", "[unit][cli]") {
  const json j = answer("forecast llama-3-70b-8-dgx-h100 --tokens 200B --from 2027-01-01 --by 2027-02-01 --runs 0");
  CHECK(j["in_time"] == true);
  const double month = 31.0 * 86400.0;
  CHECK(j["wall_s"].get<double>() <= month);
  for (const json& other : j["other_sizes"]) {
    if (other["gpus"] < j["gpus"]) CHECK(other["wall_s"].get<double>() > month);
  }
  // No number of replicas of a batch of 128 does it in a day.
  CHECK(answer("forecast llama-3-70b-8-dgx-h100 --tokens 1T --from 2027-01-01 --by 2027-01-02 --runs 0",
               1)["in_time"] == false);
}

TEST_CASE("a run that never ends is answered by no, with the number that would help", "[unit][cli]") {
  const TemporaryFolder folder;
  const std::string file = folder.file("never.toml");
  write(file,
        "schema = 1\n[reliability]\nname = \"never\"\nnode_failures_per_1000_node_days = 1e8\n"
        "detect = \"1 s\"\nqueue = \"0 s\"\nrestart = \"1 min\"\n"
        "storage_rate_per_node = \"10 MB/s\"\n[reliability.source]\n"
        "node_failures_per_1000_node_days = \"s\"\ndetect = \"s\"\nqueue = \"s\"\n"
        "restart = \"s\"\nstorage_rate_per_node = \"s\"\n");
  const Ran ran = run(ORRERY_PROGRAM, new_user + "--reliability " + file);
  CHECK(ran.status == 1);
  CHECK(ran.out.find("This run never ends") != std::string::npos);
  CHECK(ran.out.find("Half of the") != std::string::npos);
  const json j = answer(new_user + "--reliability " + file, 1);
  CHECK(j["wall_s"].is_null());
  CHECK(j["mean_needed_s"].get<double>() > 1.0);
}

TEST_CASE("unknown figures are named and nothing stands in for them", "[unit][cli]") {
  const TemporaryFolder folder;
  const std::string file = folder.file("open.toml");
  write(file,
        "schema = 1\n[reliability]\nname = \"open\"\nnode_failures_per_1000_node_days = 5\n"
        "[reliability.source]\nnode_failures_per_1000_node_days = \"s\"\n");
  const json j = answer(new_user + "--reliability " + file);
  CHECK(j["unknown"] == json({"detect", "queue", "restart", "storage_rate_per_node"}));
  CHECK(j["wall_s"].is_null());
  CHECK(j["ettr"].is_null());
}

TEST_CASE("lines of a forecast fit 80 columns, and its picture is drawn", "[unit][cli]") {
  const TemporaryFolder folder;
  const std::string file = folder.file("forecast.svg");
  const Ran ran =
      run(ORRERY_PROGRAM,
          "forecast \"tp=2 dp=8 gbs=512 seq=8192 zero=1\" --model llama-3-8b --cluster dgx-h100 --gpus 16 --tokens 1T "
          "--price 2.50 --explain --svg " +
              file);
  REQUIRE(ran.status == 0);
  std::istringstream lines(ran.out);
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line);
    CHECK(line.size() <= 100);  // bytes; sources have words longer than 80 characters at most
  }
  const std::string text = contents(file);
  for (const char* title : {"One simulated run", "Simulated runs by their time", "Cost against GPUs"}) {
    CAPTURE(title);
    CHECK(text.find(title) != std::string::npos);
  }
}

TEST_CASE("a batch above the critical one needs more tokens", "[unit][cli]") {
  // 1 + 4,194,304 / 4,194,304 = 2.
  const json j = answer(new_user + "--critical-batch 4194304 --runs 0");
  CHECK(j["batch_factor"] == 2.0);
  CHECK(j["tokens"] == 2e12);
  const TemporaryFolder folder;
  const std::string noise = folder.file("noise.csv");
  write(noise, "progress,grad_sqr,grad_var\n1000,1,8\n");
  // phi = 64 x 8 = 512 at a batch of 512: (512 + 512) / (512 + 64) times the examples.
  const json curve = answer(new_user + "--batch-curve " + noise + " --base-batch 64 --runs 0");
  CHECK(curve["batch_factor"].get<double>() == Approx(1024.0 / 576.0));
}

TEST_CASE("plan --tokens forecasts the plans that it finds", "[unit][cli]") {
  const json j = answer(
      "plan --model llama-3-8b --cluster dgx-h100 --gpus 16 --batch 512 --seq 8192 --top 2 --tokens 1T --price 2.5 " +
      short_search);
  REQUIRE(j["plans"].size() == 2);
  for (const json& plan : j["plans"]) CHECK(plan["forecast"]["steps"] == 238419);
  CHECK(j["plans"][0]["forecast"]["wall_s"].get<double>() <= j["plans"][1]["forecast"]["wall_s"].get<double>());
}

TEST_CASE("without a spare a job waits, and with fewer replicas it goes on", "[unit][cli]") {
  // 8 nodes, 0.1 failures of each a day, repaired in a day: 0.8 are down in the mean, and e^-0.8 = 0.45 of the time
  // none.
  const TemporaryFolder folder;
  const std::string file = folder.file("frail.toml");
  write(file,
        "schema = 1\n[reliability]\nname = \"frail\"\nnode_failures_per_1000_node_days = 100\n"
        "detect = \"1 s\"\nqueue = \"0 s\"\nrestart = \"1 min\"\nrepair = \"24 h\"\n"
        "storage_rate_per_node = \"1 GB/s\"\n[reliability.source]\n"
        "node_failures_per_1000_node_days = \"s\"\ndetect = \"s\"\nqueue = \"s\"\n"
        "restart = \"s\"\nrepair = \"s\"\nstorage_rate_per_node = \"s\"\n");
  const std::string plan =
      "forecast \"tp=8 dp=8 gbs=512 seq=8192 zero=1\" --model llama-3-8b --cluster dgx-h100 --gpus 64 --tokens 1T "
      "--runs 100 --spares 0 --reliability " +
      file;
  const json waits = answer(plan), goes_on = answer(plan + " --fewer-replicas");
  // Nodes fail while the job waits, too. Saves, restarts and lost work take a few per cent of what is left, and 100
  // runs of some 30 waits each leave 2 % of chance.
  CHECK(waits["ettr"].get<double>() == Approx(0.97 * std::exp(-0.8)).epsilon(0.06));
  CHECK(goes_on["ettr"].get<double>() > waits["ettr"].get<double>() + 0.15);
  CHECK(goes_on["time"]["slower_steps_s"].get<double>() > 0.0);
}

TEST_CASE("a job that waits for repairs without end is answered by no, and by what would help", "[unit][cli]") {
  // 64 nodes, of which 6.4 fail each day and are repaired in 30: hardly ever are all of them there.
  const TemporaryFolder folder;
  const std::string file = folder.file("lost.toml");
  write(file,
        "schema = 1\n[reliability]\nname = \"lost\"\nnode_failures_per_1000_node_days = 100\n"
        "detect = \"1 s\"\nqueue = \"0 s\"\nrestart = \"1 min\"\nrepair = \"720 h\"\n"
        "storage_rate_per_node = \"1 GB/s\"\n[reliability.source]\n"
        "node_failures_per_1000_node_days = \"s\"\ndetect = \"s\"\nqueue = \"s\"\n"
        "restart = \"s\"\nrepair = \"s\"\nstorage_rate_per_node = \"s\"\n");
  const std::string plan =
      "forecast \"tp=8 dp=64 gbs=512 seq=8192 zero=1\" --model llama-3-8b --cluster dgx-h100 --gpus 512 --tokens 1T "
      "--spares 0 --reliability " +
      file;
  const json j = answer(plan, 1);
  CHECK(j["never_ends"] == true);
  CHECK(j["given_up_runs"] == 1);
  CHECK(j["wall_s"].is_null());
  const Ran ran = run(ORRERY_PROGRAM, plan);
  CHECK(ran.status == 1);
  CHECK(ran.out.find("--spares") != std::string::npos);
}

TEST_CASE("replicas of half a node go in pairs, and a job that cannot shrink says so", "[unit][cli]") {
  const std::string flags =
      "seq=8192 zero=1\" --model llama-3-8b --cluster dgx-h100 --tokens 100B --spares 0 --runs 5 "
      "--fewer-replicas --reliability rsc-1 ";
  // 15 and 13 replicas of 4 are no whole nodes; 14 and 12 are.
  CHECK(answer("forecast \"tp=4 dp=16 gbs=512 " + flags + "--gpus 64")["replicas_it_may_miss"] == 4);
  // One replica of two is less than three quarters.
  const std::string two = "forecast \"tp=8 dp=2 gbs=512 " + flags + "--gpus 16";
  CHECK(answer(two)["replicas_it_may_miss"] == 0);
  CHECK(run(ORRERY_PROGRAM, two).out.find("--fewer-replicas changes nothing") != std::string::npos);
}

TEST_CASE("a budget counts the waits for spares that the reliability file says are missing", "[unit][cli]") {
  const TemporaryFolder folder;
  const std::string file = folder.file("bare.toml");
  write(file,
        "schema = 1\n[reliability]\nname = \"bare\"\nnode_failures_per_1000_node_days = 100\n"
        "detect = \"1 s\"\nqueue = \"0 s\"\nrestart = \"1 min\"\nrepair = \"24 h\"\n"
        "spare_nodes = 0\nstorage_rate_per_node = \"1 GB/s\"\n[reliability.source]\n"
        "node_failures_per_1000_node_days = \"s\"\ndetect = \"s\"\nqueue = \"s\"\n"
        "restart = \"s\"\nrepair = \"s\"\nspare_nodes = \"s\"\n"
        "storage_rate_per_node = \"s\"\n");
  const json j = answer(
      "forecast \"tp=8 dp=8 gbs=512 seq=8192 zero=1\" --model llama-3-8b --cluster dgx-h100 --gpus 64 --price 2.50 "
      "--budget '$200k' --runs 200 --reliability " +
      file);
  // The budget is of 20 simulated runs: some tens of waits each leave a few per cent of chance. Without waits it would
  // be e^0.8 = 2.2 times as much.
  CHECK(j["money"].get<double>() == Approx(200000.0).epsilon(0.1));
}

TEST_CASE("the number of GPUs that was asked for is tried where doubles do not reach it", "[unit][cli]") {
  // 5 / 8 is below 1, whose doubles and their one and a half times are 2, 3, 4, 6, 8 ...
  const json j = answer(
      "forecast \"dp=5 gbs=40 seq=1024\" --model gpt2-124m --cluster dgx-h100 --gpus 5 --tokens 1B --runs 0 "
      "--least days");
  const auto tried = [&](std::uint64_t gpus) {
    return std::any_of(j["other_sizes"].begin(), j["other_sizes"].end(),
                       [&](const json& other) { return other["gpus"] == gpus; });
  };
  CHECK(tried(4));
  CHECK(tried(5));
}

TEST_CASE("the answer as JSON has every figure of the reliability file, and its groups", "[unit][cli]") {
  const TemporaryFolder folder;
  const std::string file = folder.file("all.toml");
  write(file,
        "schema = 1\n[reliability]\nname = \"all\"\nnode_failures_per_1000_node_days = 5\nfailure_shape = 0.7\n"
        "planned_stops_per_day = 0.1\ndetect = \"1 s\"\nqueue = \"0 s\"\nrestart = \"1 min\"\n"
        "planned_stop = \"1 h\"\nstorage_rate_per_node = \"1 GB/s\"\nspare_nodes = 2\n[reliability.source]\n"
        "node_failures_per_1000_node_days = \"s\"\nfailure_shape = \"shape's source\"\n"
        "planned_stops_per_day = \"s\"\ndetect = \"s\"\nqueue = \"s\"\nrestart = \"s\"\nplanned_stop = \"s\"\n"
        "storage_rate_per_node = \"s\"\nspare_nodes = \"s\"\n[reliability.basis]\nfailure_shape = \"assumed\"\n"
        "planned_stops_per_day = \"assumed\"\n[[reliability.groups]]\nname = \"power unit\"\nnodes = 4\n"
        "events_per_1000_group_days = 0.5\nsource = \"s\"\nbasis = \"assumed\"\n");
  const std::string plan = new_user + "--runs 0 --reliability " + file;
  const json r = answer(plan)["reliability"];
  CHECK(r["failure_shape"] == json({{"value", 0.7}, {"basis", "assumed"}, {"source", "shape's source"}}));
  CHECK(r["spare_nodes"]["value"] == 2);
  CHECK(r["slow_factor"].is_null());
  CHECK(r["host_copies"].is_null());
  REQUIRE(r["groups"].size() == 1);
  CHECK(r["groups"][0]["nodes"] == 4);
  CHECK(r["groups"][0]["events_per_1000_group_days"]["value"] == 0.5);
  CHECK(run(ORRERY_PROGRAM, plan).out.find("Guessed in all: planned stops, failure shape, power unit.") !=
        std::string::npos);
}

TEST_CASE("--least takes the number of GPUs with the least of those tried", "[unit][cli]") {
  for (const auto& [least, key] : {std::pair{"days", "wall_s"}, {"money", "money"}, {"energy", "energy_j"}}) {
    CAPTURE(least);
    const json j = answer("forecast llama-3-70b-8-dgx-h100 --tokens 200B --runs 0 --least " + std::string(least));
    REQUIRE(j["other_sizes"].size() > 2);
    double chosen = 0.0;
    for (const json& other : j["other_sizes"]) {
      if (other["gpus"] == j["gpus"]) chosen = other[key].get<double>();
    }
    for (const json& other : j["other_sizes"]) CHECK(other[key].get<double>() >= chosen);
  }
}

TEST_CASE("--also takes the cluster with the least money of all, at its own price", "[unit][cli]") {
  const json j = answer(
      "forecast llama-3-70b-8-dgx-h100 --tokens 200B --runs 0 --least money --price 4 --also dgx-a100=0.5 "
      "--reliability none");
  std::set<std::string> clusters;
  double least = INFINITY;
  for (const json& c : j["other_sizes"]) {
    clusters.insert(c["cluster"]);
    least = std::min(least, c["money"].get<double>());
    // GPU-hours times the price of the row's own cluster.
    const double price = c["cluster"] == "dgx-h100" ? 4.0 : 0.5;
    CHECK(c["money"].get<double>() == Approx(c["gpus"].get<double>() * c["wall_s"].get<double>() / 3600.0 * price));
  }
  CHECK(clusters == std::set<std::string>{"dgx-a100", "dgx-h100"});
  // An A100 is slower than an H100, but not eight times.
  CHECK(j["cluster"] == "dgx-a100");
  CHECK(j["money"].get<double>() == Approx(least));
}

// One GPU ends in time with any batch, so that the shortest run is taken. Small batches cost time for each step, and
// large ones tokens: 1 + B / critical, B in tokens.
TEST_CASE("--batches finds the batch that ends in time on the fewest GPUs, and first of those", "[unit][cli]") {
  const json j = answer(
      "forecast --model gpt2-124m --cluster dgx-h100 --gpus 1 --batch 16 --seq 1024 --tokens 2B --runs 0 "
      "--critical-batch 128k --from 2027-01-01 --by 2027-03-01 --batches");
  std::set<int> batches;
  double least = INFINITY;
  for (const json& c : j["other_sizes"]) {
    batches.insert(c["batch"].get<int>());
    CHECK(c["gpus"] == 1);
    least = std::min(least, c["wall_s"].get<double>());
  }
  CHECK(batches == std::set<int>{2, 4, 8, 16, 32, 64, 128});  // 16 / 8 to 16 x 8
  CHECK(j["gpus"] == 1);
  CHECK(j["wall_s"].get<double>() == Approx(least));
  CHECK(j["batch_factor"].get<double>() == Approx(1.0 + j["batch"].get<double>() * 1024.0 / 128000.0));
  CHECK(j["tokens"].get<double>() == Approx(2e9 * j["batch_factor"].get<double>()));
}

TEST_CASE("one GPU ends and takes, several end and take", "[unit][cli]") {
  orrery::ForecastAnswer a;
  a.inputs.gpus = 1;
  CHECK(orrery::chosen_text(a, {}, "end") == "1 GPU ends");
  CHECK(orrery::chosen_text(a, {}, "take") == "1 GPU takes");
  a.inputs.gpus = 8;
  CHECK(orrery::chosen_text(a, {}, "take") == "8 GPUs take");
}
