#include <catch2/catch.hpp>

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/support/program_run.hpp"

// `orrery sweep` as a person runs it, and as an array of jobs runs it, some of which are killed.

using namespace orrery::test;
using nlohmann::json;

namespace {

Ran sweep(const std::string& arguments) { return run(ORRERY_PROGRAM, "sweep " + arguments); }

const std::string tiny = "--model tiny-gpt --cluster local-cpu --precision fp32 ";

/// Starts a command and kills it once its file has `lines` lines, or when it has ended before.
void killed_run(const std::string& arguments, const std::string& file, std::ptrdiff_t lines) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const int nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, 1);
    dup2(nowhere, 2);
    const std::string command = std::string("exec ") + ORRERY_PROGRAM + " sweep " + arguments;
    execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    _exit(127);
  }
  int state = 0;
  for (int i = 0; i < 6000; ++i) {
    const std::string text = contents(file);
    if (std::count(text.begin(), text.end(), '\n') >= lines) break;
    if (waitpid(child, &state, WNOHANG) == child) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  kill(child, SIGKILL);
  waitpid(child, &state, 0);
}

/// Computes a sweep in shards, of which some are killed in between and lose a part of their last line, and runs those
/// again. Returns the merged file.
std::string in_shards(const std::string& arguments, int shards, int killed, const TemporaryFolder& folder) {
  std::string files;
  for (int i = 1; i <= shards; ++i) {
    const std::string file = folder.file("part-" + std::to_string(i) + ".jsonl");
    files += " " + file;
    const std::string command =
        arguments + " --shard " + std::to_string(i) + "/" + std::to_string(shards) + " -o " + file;
    if (i <= killed) {
      killed_run(command, file, 2);
      const std::string text = contents(file);
      if (!text.empty() && std::count(text.begin(), text.end(), '\n') > 1) {
        write(file, text.substr(0, text.size() - std::min<std::size_t>(text.size() / 4, 40)));
      }
    }
    const Ran ran = sweep(command);
    CAPTURE(ran.err);
    REQUIRE(ran.status <= 1);
  }
  const std::string whole = folder.file("merged.jsonl");
  const Ran merged = sweep("--merge" + files + " -o " + whole);
  CAPTURE(merged.err);
  REQUIRE(merged.status == 0);
  return contents(whole);
}

}  // namespace

TEST_CASE("a sweep's point is what orrery plan finds", "[unit][cli]") {
  const Ran ran = sweep(tiny + "--gpus 2,4 --batch 16 --seq 64,128 --json");
  CAPTURE(ran.err);
  REQUIRE(ran.status == 0);
  const json out = json::parse(ran.out);
  REQUIRE(out["points"].size() == 4);
  CHECK(out["complete"] == true);
  for (const json& point : out["points"]) {
    const json inputs = point["inputs"];
    const Ran plan =
        run(ORRERY_PROGRAM, "plan " + tiny + "--gpus " + inputs["gpus"].get<std::string>() + " --batch 16 --seq " +
                                inputs["workload.sequence"].get<std::string>() + " --json --no-simulate");
    const json best = json::parse(plan.out)["plans"][0];
    CHECK(point["plan_file"] == best["plan_file"]);
    CHECK(point["figures"]["step_time_s"] == best["step_time_s"]);
    CHECK(point["estimated"] == json::parse(plan.out)["estimated"]);
  }
}

TEST_CASE("points that cannot be are named with the reason, and the others are computed", "[unit][cli]") {
  // 12 GPUs are no whole number of nodes of 8.
  const Ran ran = sweep("--model gpt2-1.5b,gpt3-175b --cluster dgx-a100 --gpus 8,12 --batch 8 --seq 1024 --json");
  CHECK(ran.status == 0);
  const json points = json::parse(ran.out)["points"];
  REQUIRE(points.size() == 4);
  CHECK(points[0]["state"] == "found");
  CHECK(points[1]["state"] == "refused");
  CHECK(points[1]["code"] == "cluster.gpus");
  CHECK(points[2]["state"] == "no-fit");
  CHECK(points[2]["reason"].get<std::string>().find("the nearest plan needs 2.23 TiB of the 2.00 TiB of a host") == 0);
  CHECK(points[3]["state"] == "refused");
  const Ran shown = sweep("--model gpt2-1.5b,gpt3-175b --cluster dgx-a100 --gpus 8,12 --batch 8 --seq 1024");
  for (const char* part : {"4 points of 4: 1 found, 1 without a plan that fits, 2 refused\n",
                           "all with cluster dgx-a100, sequence 1024, batch 8\n", "No plan fits\n", "Refused\n"}) {
    CAPTURE(part, shown.out);
    CHECK(shown.out.find(part) != std::string::npos);
  }
  std::istringstream lines(shown.out);
  for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 100);
}

TEST_CASE("a limit of a dimension and an estimate of a changed plan are points too", "[unit][cli]") {
  const json limited = json::parse(
      sweep(tiny + "--gpus 4 --batch 16 --seq 64 --over 'pp=1,2 schedule=gpipe,zb-h1' --json").out)["points"];
  REQUIRE(limited.size() == 4);
  for (const json& p : limited) {
    CAPTURE(p.dump());
    if (p["state"] != "found") continue;
    const std::string plan = p["plan_file"];
    CHECK((plan.find("pipeline = 2") != std::string::npos) == (p["inputs"]["mesh.pipeline"] == "2"));
    if (p["inputs"]["mesh.pipeline"] == "2") {
      CHECK(plan.find("schedule = \"" + p["inputs"]["plan.schedule"].get<std::string>() + "\"") != std::string::npos);
    }
  }
  const json estimated = json::parse(sweep("--plan demo-2x2x2 --over 'zero=0,1 mbs=1,2' --json").out)["points"];
  REQUIRE(estimated.size() == 4);
  for (const json& p : estimated) {
    const TemporaryFolder folder;
    write(folder.file("p.toml"), p["plan_file"]);
    const json alone = json::parse(run(ORRERY_PROGRAM, "estimate " + folder.file("p.toml") + " --json").out);
    CHECK(alone["step_time_s"] == p["figures"]["step_time_s"]);
  }
}

TEST_CASE("a bound leaves points out, and no point that could be below", "[unit][cli]") {
  const std::string asked =
      "--model llama-3-8b --cluster dgx-h100 --gpus 8,64 --batch 64,512 --seq 8192 --json " + short_search;
  const json all = json::parse(sweep(asked).out)["points"];
  const json kept = json::parse(sweep(asked + " --keep-below '10 s'").out)["points"];
  REQUIRE(all.size() == kept.size());
  std::size_t left_out = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (kept[i]["state"] != "ruled-out") continue;
    ++left_out;
    CHECK(all[i]["figures"]["step_time_s"].get<double>() >= 10.0);
  }
  CHECK(left_out == 1);
}

TEST_CASE("files of a sweep: the table, the drawing, and the points again", "[unit][cli]") {
  const TemporaryFolder folder;
  const std::string points = folder.file("p.jsonl"), csv = folder.file("p.csv"), svg = folder.file("p.svg");
  const std::string asked = "--model llama-3-8b --cluster dgx-h100 --gpus 8,16 --batch 64,128 --seq 8k -o " + points +
                            " --csv " + csv + " --svg " + svg + " --pareto tokens-per-s,cost-per-token " + short_search;
  const Ran first = sweep(asked);
  CAPTURE(first.err);
  REQUIRE(first.status == 0);
  CHECK(first.out.find("Pareto front of tokens-per-s, cost-per-token") != std::string::npos);
  const std::string table = contents(csv), drawn = contents(svg), kept = contents(points);
  CHECK(std::count(table.begin(), table.end(), '\n') == 5);
  CHECK(drawn.find("Scaling over gpus") != std::string::npos);
  CHECK(drawn.find("Pareto front of tokens-per-s and cost-per-token") != std::string::npos);
  // The same command computes nothing again, and gives the same bytes.
  CHECK(sweep(asked).out == first.out);
  CHECK(contents(points) == kept);
  // More values keep what is there; fewer would lose it.
  CHECK(sweep("--model llama-3-8b --cluster dgx-h100 --gpus 8,16,32 --batch 64,128 --seq 8k " + short_search + "-o " +
              points)
            .status == 0);
  CHECK(json::parse(contents(points).substr(0, contents(points).find('\n')))["points"].size() == 6);
  const Ran fewer =
      sweep("--model llama-3-8b --cluster dgx-h100 --gpus 8 --batch 64 --seq 8k " + short_search + "-o " + points);
  CHECK(fewer.status == 2);
  CHECK(fewer.err.find("has 5 points that are not of this sweep [cli.output]") != std::string::npos);
  CHECK(run(ORRERY_PROGRAM, "check " + points).out.find("a file of points: 6 of 6 points") != std::string::npos);
}

TEST_CASE("shards, some killed and run again, merge to the bytes of one process", "[unit][cli]") {
  const TemporaryFolder folder;
  // 6 x 2 x 4 searches
  const std::string asked = tiny + "--gpus 1,2,4 --batch 8,16,32,64 --seq 32,64,96,128";
  const std::string one = folder.file("one.jsonl");
  REQUIRE(sweep(asked + " -o " + one).status == 0);
  const bool whole = in_shards(asked, 6, 3, folder) == contents(one);
  CHECK(whole);
  const bool same = sweep(asked + " --threads 3 -o -").out == contents(one);
  CHECK(same);
  const Ran half = sweep("--merge " + folder.file("part-1.jsonl"));
  CHECK(half.status == 2);
  CHECK(half.err.find("40 of 48 points are in no file [points.merge]") != std::string::npos);
}

TEST_CASE("1,000 searches in 64 shards, 8 of them killed, merge to the bytes of one process", "[.][long][cli]") {
  const TemporaryFolder folder;
  // 5 x 10 x 20 searches
  const std::string asked =
      "--model gpt2-124m --cluster dgx-a100 --gpus 1..16 --batch 16..160+16 --seq 48..960+48 --threads 1";
  const std::string one = folder.file("one.jsonl");
  REQUIRE(sweep(asked + " -o " + one).status == 0);
  const std::string text = contents(one);
  CHECK(std::count(text.begin(), text.end(), '\n') == 1001);
  const bool whole = in_shards(asked, 64, 8, folder) == text;
  CHECK(whole);
}

TEST_CASE("wrong sweeps are refused before anything is computed", "[unit][cli]") {
  const TemporaryFolder folder;
  const std::pair<const char*, const char*> wrong[] = {
      {"--model tiny-gpt --cluster local-cpu --batch 8", "orrery sweep needs --seq"},
      {"--model tiny-gptt,tiny-gpt --cluster local-cpu --batch 8 --seq 64", "library.unknown-model"},
      {"--model tiny-gpt --cluster local-cpu --batch 8 --seq 64x", "--seq: \"64x\" is not a whole number"},
      {"--model tiny-gpt --cluster local-cpu --batch 8 --seq 64 --over zerro=1", "a sweep has no key \"zerro\""},
      {"--model tiny-gpt --cluster local-cpu --batch 8 --seq 64 --for nobody", "framework.name"},
      {"--model tiny-gpt --cluster local-cpu --batch 8 --seq 64 --pareto days,cost", "days needs --tokens"},
      {"--model tiny-gpt --cluster local-cpu --batch 8 --seq 64 --pareto step", "there is no measure \"step\""},
      {"--model tiny-gpt --cluster local-cpu --batch 8 --seq 64 --shard 2/1", "\"2/1\" is no part"},
      {"--model tiny-gpt --cluster local-cpu --batch 8 --seq 64 --shard 1/2", "--shard needs -o"},
      {"--model tiny-gpt --cluster local-cpu --batch 8 --seq 64 --keep-below 3", "--keep-below"},
      {"--model tiny-gpt --cluster local-cpu --batch 8 --seq 64 --svg x.png", "--svg draws an .svg file"},
      {"--merge", "--merge needs files of points"},
      {"--plan demo-2x2x2", "the sweep varies nothing"},
  };
  for (const auto& [arguments, message] : wrong) {
    const Ran ran = sweep(arguments);
    CAPTURE(arguments, ran.err);
    CHECK(ran.status == 2);
    CHECK(ran.out.empty());
    CHECK(ran.err.find(message) != std::string::npos);
  }
  write(folder.file("p.jsonl"), "mine\n");
  const Ran ran = sweep(tiny + "--batch 8 --seq 64 -o " + folder.file("p.jsonl"));
  CHECK(ran.status == 2);
  CHECK(contents(folder.file("p.jsonl")) == "mine\n");
}

TEST_CASE("an interrupted sweep says so, keeps its points and goes on", "[unit][cli]") {
  const TemporaryFolder folder;
  const std::string file = folder.file("p.jsonl");
  const std::string asked =
      "--model gpt3-175b --cluster dgx-h100 --gpus 64..1024 --batch 256,512,1024 --seq 2048 --all --threads 1 -o " +
      file;
  const Ran cut = run("timeout -s INT 1", std::string(ORRERY_PROGRAM) + " sweep " + asked);
  CAPTURE(cut.err);
  REQUIRE((cut.status == 1 || cut.status == 124));
  CHECK(cut.err.find("interrupted: ") != std::string::npos);
  CHECK(cut.err.find("of 15 points are computed; the same command goes on from there") != std::string::npos);
  const std::string kept = contents(file);
  CHECK(kept.starts_with("{\"orrery_points\":1"));
}
