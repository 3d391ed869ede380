#include <catch2/catch.hpp>

#include <nlohmann/json.hpp>
#include <thread>

#include "tests/support/program_run.hpp"

// Where answers go, in which form, and what other programs may rely on.

using namespace orrery::test;
using nlohmann::json;

namespace {

Ran orrery_run(const std::string& arguments) { return run(ORRERY_PROGRAM, arguments); }

/// Keys of tables in a TOML text that one of our verbs printed: "device.memory".
std::vector<std::string> toml_keys(const std::string& text) {
  std::vector<std::string> keys;
  std::string table;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("[[")) {
      table = line.substr(2, line.find(']') - 2) + ".0.";
    } else if (line.starts_with("[")) {
      table = line.substr(1, line.find(']') - 1) + ".";
    } else if (const std::size_t at = line.find(" = "); at != std::string::npos) {
      keys.push_back(table + line.substr(0, at));
    }
  }
  return keys;
}

/// Whether `object` has a value at the dotted key.
bool holds(const json& object, const std::string& key) {
  const std::size_t dot = key.find('.');
  const std::string first = key.substr(0, dot);
  if (object.is_array()) return !object.empty() && holds(object[0], key.substr(dot + 1));
  if (!object.is_object() || !object.contains(first)) return false;
  return dot == std::string::npos || holds(object[first], key.substr(dot + 1));
}

}  // namespace

TEST_CASE("-o - prints what the file would hold, and nothing else", "[unit][cli]") {
  const TemporaryFolder folder;
  const std::string file = folder.file("x");
  for (const char* verb : {"estimate demo-2x2x2", "simulate demo-2x2x2", "explain demo-2x2x2", "show plan demo-2x2x2",
                           "show model gpt2-124m", "compare demo-2x2x2 demo-2x2x2", "study mlp-sharding",
                           "plan --model tiny-gpt --cluster local-cpu --gpus 2 --batch 4 --seq 64 --precision fp32"}) {
    CAPTURE(verb);
    const Ran written = orrery_run(std::string(verb) + " -o " + file);
    const Ran printed = orrery_run(std::string(verb) + " -o -");
    CHECK(printed.status == written.status);
    CHECK(printed.out == contents(file));
    CHECK(!printed.out.empty());
  }
  CHECK(!std::filesystem::exists("-"));
  const Ran trace = orrery_run("simulate demo-2x2x2 --trace -");
  CHECK(trace.status == 2);
  CHECK(trace.err == "error: --trace needs a file [cli.output]\n  Only -o accepts - for standard output.\n");
}

TEST_CASE("show plan -o writes a plan that reads back", "[unit][cli]") {
  const TemporaryFolder folder;
  const std::string file = folder.file("p.toml");
  CHECK(orrery_run("show plan demo-2x2x2 -o " + file).out == "");
  CHECK(contents(file).starts_with("schema = 1\n"));
  const Ran estimate = orrery_run("estimate " + file + " --json");
  CHECK(estimate.status == 0);
  CHECK(json::parse(estimate.out)["step_time_s"] ==
        json::parse(orrery_run("estimate demo-2x2x2 --json").out)["step_time_s"]);
}

TEST_CASE("show --json says all that the file says", "[unit][cli]") {
  // The table that the JSON stands for; its keys stand at the top.
  const std::pair<const char*, const char*> shown[] = {
      {"model llama-3-8b", "model."},    {"model gpt2-124m", "model."}, {"cluster dgx-h100", "cluster."},
      {"cluster local-cpu", "cluster."}, {"device h100", "device."},    {"plan demo-2x2x2", ""}};
  for (const auto& [what, table] : shown) {
    const json object = json::parse(orrery_run("show " + std::string(what) + " --json").out);
    const std::vector<std::string> keys = toml_keys(orrery_run("show " + std::string(what)).out);
    CHECK(keys.size() > 5);
    for (const std::string& key : keys) {
      if (key == "schema") continue;
      CAPTURE(what, key);
      REQUIRE(key.starts_with(table));
      CHECK(holds(object, key.substr(std::string(table).size())));
    }
  }
}

TEST_CASE("a drawing of a Program stays small enough to look at, and says what it leaves out", "[unit][cli]") {
  for (const char* plan : {"demo-2x2x2", "gpt3-175b-1024-a100", "llama-3-70b-8-dgx-h100"}) {
    CAPTURE(plan);
    const std::string graph = orrery_run("show program " + std::string(plan) + " --dot").out;
    std::size_t ops = 0;
    for (std::size_t at = graph.find("fillcolor="); at != std::string::npos; at = graph.find("fillcolor=", at + 1))
      ++ops;
    CHECK(ops > 20);
    CHECK(ops <= 160);
    CHECK(graph.find("class 0: ") != std::string::npos);
    CHECK(graph.find("label=\"layer.forward: ") != std::string::npos);
    CHECK(graph.find("blocks of one operation, and those that run least often:") != std::string::npos);
    CHECK(std::count(graph.begin(), graph.end(), '{') == std::count(graph.begin(), graph.end(), '}'));
  }
  const std::string large = orrery_run("show program gpt3-175b-1024-a100 --dot").out;
  CHECK(large.find("classes 3 to 6 are not drawn") != std::string::npos);
}

TEST_CASE("help that cannot be printed is a failure", "[unit][cli]") {
  for (const char* arguments : {"--help", "plan --help", "--version", "show model"}) {
    CAPTURE(arguments);
    const int state = std::system((std::string(ORRERY_PROGRAM) + " " + arguments + " >/dev/full 2>/dev/null").c_str());
    CHECK(WEXITSTATUS(state) == 3);
  }
}

TEST_CASE("the version names no folder of the machine that built it", "[unit][cli]") {
  const Ran version = orrery_run("--version");
  CHECK(version.status == 0);
  CHECK(version.out.rfind("orrery 0.1.0 (", 0) == 0);
  CHECK(version.out.find('/') == std::string::npos);
}

TEST_CASE("failures of the world are JSON, too", "[unit][cli]") {
  const Ran failed = orrery_run("estimate demo-2x2x2 --json -o /nowhere/at/all.json");
  CHECK(failed.status == 3);
  const json errors = json::parse(failed.out)["errors"];
  REQUIRE(errors.size() == 1);
  CHECK(errors[0]["code"] == "world");
  CHECK(errors[0]["message"] == "cannot write /nowhere/at/all.json: there is no folder /nowhere/at");
  CHECK(failed.err == "error: cannot write /nowhere/at/all.json: there is no folder /nowhere/at\n");
}

TEST_CASE("a search without a result says in JSON what would fit", "[unit][cli]") {
  const TemporaryFolder folder;
  const Ran ran = orrery_run("plan --model llama-3-8b --cluster dgx-h100 --gpus 1 --batch 8 --seq 8192 --json");
  CHECK(ran.status == 1);
  const json nearest = json::parse(ran.out)["nearest"];
  CHECK(nearest["least_memory"]["gpus"] == 1);
  CHECK(nearest["least_memory"]["peak_memory_bytes"].get<double>() > 80.0 * 1073741824.0);
  REQUIRE(nearest["would_fit"].is_object());
  CHECK(nearest["would_fit"]["peak_memory_bytes"].get<double>() <= 80.0 * 1073741824.0);
  // The plan that it proposes does fit.
  write(folder.file("p.toml"), nearest["would_fit"]["plan_file"].get<std::string>());
  const json estimate = json::parse(orrery_run("estimate " + folder.file("p.toml") + " --json").out);
  CHECK(estimate["fits"] == true);
  CHECK(estimate["gpus"] == nearest["would_fit"]["gpus"]);
  CHECK(estimate["peak_memory_bytes"] == nearest["would_fit"]["peak_memory_bytes"]);
}

// A timeline of one rank of each stage is written and its size compared with the forecast that refuses larger ones.
TEST_CASE("cli.trace-size: a timeline that nothing could open is refused before the work", "[unit][cli]") {
  const TemporaryFolder folder;
  const Ran refused = orrery_run("simulate gpt3-175b-1024-a100 --ranks all --trace " + folder.file("t.json"));
  CHECK(refused.status == 2);
  CHECK(refused.err.find("error: the timeline of 1024 ranks would take about ") == 0);
  CHECK(refused.err.find(" [cli.trace-size]\n  --ranks classes writes one rank of each pipeline stage: about ") !=
        std::string::npos);
  CHECK(refused.err.ends_with("\n  --large writes it anyway.\n"));
  CHECK(!std::filesystem::exists(folder.file("t.json")));
}

TEST_CASE("a run says how many of its steps were warm-up", "[unit][cli]") {
  const Ran ran = orrery_run("run cpu-one-rank --steps 2 --warmup 1");
  CHECK(ran.status == 0);
  CHECK(ran.out.find(" in step 3 (1 of warm-up, 2 recorded)\n") != std::string::npos);
}

TEST_CASE("a run says when others had the cores", "[unit][cli]") {
  std::atomic<bool> end{false};
  std::vector<std::thread> others;
  for (unsigned i = 0; i < 3 * std::max(1U, std::thread::hardware_concurrency()); ++i) {
    others.emplace_back([&] {
      while (!end.load()) continue;
    });
  }
  const Ran ran = orrery_run("run cpu-one-rank --steps 5 --json");
  end = true;
  for (std::thread& t : others) t.join();
  CHECK(ran.status == 0);
  const json report = json::parse(ran.out);
  CHECK(report["core_time_had_s"].get<double>() < 0.8 * report["core_time_needed_s"].get<double>());
  bool said = false;
  for (const std::string a : report["assumptions"])
    said = said || a.starts_with("this machine was busy: the threads were given ");
  CHECK(said);
}

TEST_CASE("reports are compared in the order that they are of", "[unit][cli]") {
  const TemporaryFolder folder;
  const std::string p = folder.file("p.json");
  const std::string q = folder.file("q.json");
  const std::string m = folder.file("m.json");
  REQUIRE(orrery_run("estimate cpu-one-rank -o " + p).status == 0);
  REQUIRE(orrery_run("simulate cpu-one-rank -o " + q).status == 0);
  REQUIRE(orrery_run("run cpu-one-rank --steps 1 -o " + m).status == 0);
  const auto compared = [](const std::string& files) { return json::parse(orrery_run("compare --json " + files).out); };
  const json right = compared(p + " " + m);
  json swapped = compared(m + " " + p);
  const auto says = [](const json& notes, const std::string& start) {
    for (const std::string n : notes) {
      if (n.starts_with(start)) return true;
    }
    return false;
  };
  CHECK(!says(right["notes"], "A is"));
  CHECK(
      says(swapped["notes"], "A is the measurement and B the prediction: the columns are estimate, then run threads."));
  swapped["notes"] = right["notes"];
  CHECK(swapped == right);
  CHECK(
      says(compared(p + " " + q)["notes"], "Both are predictions: the error is A's (estimate) against B (simulate)."));
  CHECK(says(compared(m + " " + m)["notes"], "Both are measurements"));
}
