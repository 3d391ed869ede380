#include <catch2/catch.hpp>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/table.hpp"
#include "tests/support/program_run.hpp"
#include "tests/unit/cli/launch_files.hpp"

// Launch files of other programs, as a person meets them: import, estimate, compare, plan --for and export.

using namespace orrery::test;
using nlohmann::json;

namespace {

Ran orrery_run(const std::string& arguments) { return run(ORRERY_PROGRAM, arguments); }

std::string good(const std::string& arguments) {
  const Ran ran = orrery_run(arguments);
  CAPTURE(arguments, ran.err, ran.out);
  CHECK(ran.status == 0);
  return ran.out;
}

json answer(const std::string& arguments) { return json::parse(good(arguments + " --json"), nullptr, false); }

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

/// A text whose wrapped lines are whole again.
std::string unwrapped(const std::string& text) {
  std::string out;
  for (const std::string& line : lines_of(text)) out += line + " ";
  for (std::size_t at = 0; (at = out.find("  ", at)) != std::string::npos;) out.erase(at, 1);
  return out;
}

/// No line is wider than 80 characters, unless one word is.
void check_width(const std::string& text) {
  for (const std::string& line : lines_of(text)) {
    const std::size_t word = line.find_first_not_of("# ");
    const bool one_word = word == std::string::npos || line.find(' ', word) == std::string::npos;
    CAPTURE(line);
    CHECK((orrery::display_width(line) <= 80 || one_word));
  }
}

const std::string tiny_plan =
    "schema = 1\nname = \"tiny\"\nmodel = \"tiny-gpt\"\ncluster = \"local-cpu\"\n[workload]\nbatch = 8\nsequence = 64\n"
    "precision = \"fp32\"\n[mesh]\norder = [\"pipeline\", \"data\"]\npipeline = 2\ndata = 2\n[plan]\n"
    "microbatch_size = 1\nschedule = \"1f1b\"\n";

}  // namespace

TEST_CASE("a launch file of every kind becomes a plan that check accepts", "[unit][cli][launch]") {
  const TemporaryFolder folder;
  for (const LaunchExample& e : launch_examples) {
    CAPTURE(e.name);
    const std::string file = folder.file(e.name), plan = folder.file("plan.toml"),
                      model = folder.file("plan.model.toml");
    write(file, e.text);
    for (const char* as : {"auto", e.format.c_str()}) {
      std::filesystem::remove(plan);
      std::filesystem::remove(model);
      const std::string said = good("import " + file + " " + e.arguments + " --as " + as + " -o " + plan);
      CHECK(said.starts_with(file + ": a"));
      CHECK(unwrapped(said).find(" wrote " + plan + (e.own_model ? " and its model, " + model : "") + " ") !=
            std::string::npos);
      check_width(said);
      CHECK(std::filesystem::exists(model) == e.own_model);
    }
    CHECK(good("check " + plan).find(": a plan: ") != std::string::npos);
    CHECK(good("check " + file + " " + e.arguments).find(": a launch file: ") != std::string::npos);
    CHECK(good("show plan " + plan).find("\n[mesh]\n") != std::string::npos);
    CHECK(good("show plan " + file + " " + e.arguments).find("\n[mesh]\n") != std::string::npos);
  }
}

TEST_CASE("import's JSON gives each key of a file one list, with its line", "[unit][cli][launch]") {
  const TemporaryFolder folder;
  for (const LaunchExample& e : launch_examples) {
    CAPTURE(e.name);
    const std::string file = folder.file(e.name), plan = folder.file("plan.toml");
    write(file, e.text);
    const json found = answer("import " + file + " " + e.arguments + " -o " + plan);
    CHECK(found["framework"] == e.framework);
    CHECK(found["plan_file"] == contents(plan));
    CHECK(found["written"] == true);
    CHECK(found.contains("model_file") == e.own_model);
    CHECK(found["not_expressible"].empty());
    const std::vector<std::string> lines = lines_of(e.text);
    std::vector<std::pair<std::string, int>> keys;
    for (const char* list : {"taken", "without_effect"}) {
      for (const json& entry : found[list]) {
        const std::string key = entry["key"];
        CAPTURE(list, key, entry["line"]);
        REQUIRE(entry["line"].is_number());
        const auto line = entry["line"].get<std::size_t>();
        REQUIRE((line >= 1 && line <= lines.size()));
        keys.emplace_back(key, static_cast<int>(line));
        // A script's flag has the line of its value, which may be a variable's.
        if (e.format == "megatron-script") continue;
        // A list's line is that of its first entry, and a call's that of its first argument.
        const std::string around = (line > 1 ? lines[line - 2] : "") + "\n" + lines[line - 1];
        CHECK(around.find(key.substr(key.rfind('.') + 1)) != std::string::npos);
      }
    }
    CHECK(!keys.empty());
    std::sort(keys.begin(), keys.end());
    CHECK(std::adjacent_find(keys.begin(), keys.end()) == keys.end());
    for (const json& entry : found["assumed"]) CHECK(entry["line"].is_null());
  }
}

TEST_CASE("without -o import prints a plan with its lists as comments", "[unit][cli][launch]") {
  const TemporaryFolder folder;
  for (const LaunchExample& e : launch_examples) {
    CAPTURE(e.name);
    const std::string file = folder.file(e.name), plan = folder.file("piped.toml");
    write(file, e.text);
    const std::string printed = good("import " + file + " " + e.arguments);
    check_width(printed);
    // What is no comment is what -o writes.
    std::string uncommented;
    for (const std::string& line : lines_of(printed)) {
      if (!line.starts_with('#')) uncommented += line + "\n";
    }
    const std::size_t first = uncommented.find_first_not_of('\n'), last = uncommented.find_last_not_of('\n');
    CHECK(uncommented.substr(first, last + 1 - first) + "\n" == good("import " + file + " " + e.arguments + " -o -"));
    CHECK((printed.find("# [model]\n") != std::string::npos) == e.own_model);
    write(plan, printed);
    if (!e.own_model) CHECK(good("check " + plan).find(": a plan: ") != std::string::npos);
  }
}

TEST_CASE("a launch file's estimate is that of its imported plan", "[unit][cli][launch]") {
  const TemporaryFolder folder;
  for (const LaunchExample& e : launch_examples) {
    CAPTURE(e.name);
    const std::string file = folder.file(e.name);
    const std::string plan = folder.file(std::filesystem::path(e.name).stem().string() + ".imported.toml");
    write(file, e.text);
    good("import " + file + " " + e.arguments + " -o " + plan);
    CHECK(answer("estimate " + file + " " + e.arguments + " --cluster dgx-h100") ==
          answer("estimate " + plan + " --cluster dgx-h100"));
  }
}

TEST_CASE("what a plan cannot say is refused, and --nearest takes the nearest", "[unit][cli][launch]") {
  const TemporaryFolder folder;
  const std::string file = folder.file("a.yaml"), plan = folder.file("plan.toml");
  std::string text = launch_examples[5].text;
  text.replace(text.find("adamw_torch"), 11, "adamw_torch_4bit");
  write(file, text);
  const Ran ran = orrery_run("import " + file + " --gpus 8 -o " + plan);
  CHECK(ran.status == 1);
  CHECK(ran.out.find("not expressible in a plan:\n  line 9: optimizer adamw_torch_4bit: ") != std::string::npos);
  CHECK(ran.out.ends_with("No plan is written. --nearest takes the nearest plan.\n"));
  CHECK(!std::filesystem::exists(plan));
  // A pipe gets a plan or nothing; the reason is on standard error.
  const Ran piped = orrery_run("import " + file + " --gpus 8 -o -");
  CHECK(piped.status == 1);
  CHECK(piped.out.empty());
  CHECK(piped.err.find("line 9: optimizer adamw_torch_4bit: ") != std::string::npos);
  const Ran as_json = orrery_run("import " + file + " --gpus 8 --json");
  CHECK(as_json.status == 1);
  CHECK(json::parse(as_json.out)["not_expressible"][0]["line"] == 9);
  CHECK(json::parse(as_json.out)["written"] == false);
  good("import " + file + " --gpus 8 --nearest -o " + plan);
  CHECK(contents(plan).find("moment_dtype = \"u8\"\n") != std::string::npos);
  good("estimate " + file + " --gpus 8 --nearest --cluster dgx-h100");
}

TEST_CASE("variables of a script and names in Python are what --set gives them", "[unit][cli][launch]") {
  const TemporaryFolder folder;
  const std::string script = folder.file("train.sh"), python = folder.file("train.py");
  write(script, launch_examples[0].text);
  write(python, launch_examples[7].text);
  // 16 GPUs over pipeline 2 x tensor 4 leave 2.
  const std::string changed = good("import " + script + " --set TP=4 -o -");
  CHECK(changed.find("tensor = 4\n") != std::string::npos);
  CHECK(changed.find("data = 2\n") != std::string::npos);
  const std::string usual = good("import " + python + " " + launch_examples[7].arguments + " -o -");
  CHECK(usual.find("tensor = 2\n") != std::string::npos);
  CHECK(usual.find("pipeline = 2\n") != std::string::npos);
  CHECK(good("import " + python + " " + launch_examples[7].arguments + " --set PP=4 -o -").find("pipeline = 4\n") !=
        std::string::npos);
}

TEST_CASE("a plan in one line has the estimate of the plan file that says the same", "[unit][cli][launch]") {
  const TemporaryFolder folder;
  const std::string plan = folder.file("plan.toml");
  write(
      plan,
      "schema = 1\nname = \"tp=2 dp=4 zero=1 gbs=16 seq=2048\"\nmodel = \"llama-3-8b\"\ncluster = \"h200:8\"\n"
      "[workload]\nbatch = 16\nsequence = 2048\n[mesh]\norder = [\"data\", \"tensor\"]\ndata = 4\ntensor = 2\n[plan]\n"
      "microbatch_size = 1\nzero_stage = 1\n");
  const std::string words = "\"tp=2 dp=4 zero=1 gbs=16 seq=2048\" --model llama-3-8b --cluster h200:8";
  CHECK(answer("estimate " + words)["step_time_s"] == answer("estimate " + plan)["step_time_s"]);
  CHECK(answer("estimate " + words)["peak_memory_bytes"] == answer("estimate " + plan)["peak_memory_bytes"]);
  // What words leave open is said, and not on standard output.
  const Ran open = orrery_run("estimate \"tp=2\" --model llama-3-8b --cluster h200:8 --json");
  CHECK(open.status == 0);
  CHECK(open.err == "assumed: gbs=4 seq=4096\n");
  CHECK(json::parse(open.out)["gpus"] == 8);
}

TEST_CASE("compare sets three plans side by side, whatever stands for each", "[unit][cli][launch]") {
  const TemporaryFolder folder;
  const std::string script = folder.file("train.sh"), plan = folder.file("plan.toml");
  write(script, launch_examples[0].text);
  good("import " + script + " --cluster dgx-h100 -o " + plan);
  const std::string text = good("compare " + plan + " " + script + " \"tp=4 dp=4\"");
  check_width(text);
  CHECK(text.starts_with("A: train\nB: train\nC: tp=4 dp=4\n"));
  const json three = answer("compare " + plan + " " + script + " \"tp=4 dp=4\"");
  REQUIRE(three["plans"].size() == 3);
  // B is A's launch; it runs on A's cluster.
  CHECK(three["plans"][1]["report"] == three["plans"][0]["report"]);
  CHECK(three["plans"][1]["differences"].empty());
  CHECK(three["plans"][2]["report"]["gpus"] == 16);
  CHECK(!three["plans"][2]["differences"].empty());
  // A launch first, with the cluster that neither names; a launch file beside a plan file takes --model.
  good("compare " + script + " \"tp=4 dp=4\" --cluster dgx-h100");
  const std::string config = folder.file("ds.json");
  write(config, launch_examples[1].text);
  good("compare " + plan + " " + config + " " + launch_examples[1].arguments);
  CHECK(answer("compare \"tp=2 dp=8 zero=1\" \"tp=4 dp=4\" --model llama-3-8b --cluster dgx-h100 --gpus 16")["plans"]
            .size() == 2);
}

TEST_CASE("plan --for writes the program's name, and check holds the plan to it", "[unit][cli][launch]") {
  const TemporaryFolder folder;
  const std::string plan = folder.file("best.toml");
  for (const char* name : {"accelerate", "colossal-ai", "deepspeed", "megatron-core", "nanotron", "torchtitan"}) {
    CAPTURE(name);
    const std::string found =
        good("plan --model llama-3.1-8b --cluster dgx-h100 --gpus 8 --batch 16 --seq 4096 --for " + std::string(name) +
             " -o " + plan);
    check_width(found);
    CHECK(found.find("\nLaunch it: orrery export " + plan + " --to ") != std::string::npos);
    CHECK(contents(plan).find("\nfor = \"" + std::string(name) + "\"\n") != std::string::npos);
    good("check " + plan);
    good("export " + plan);  // --to is the program's own
  }
  const std::string usual =
      good("plan --model llama-3.1-8b --cluster dgx-h100 --gpus 8 --batch 16 --seq 4096 -o " + plan);
  CHECK(contents(plan).find("\nfor = ") == std::string::npos);
  // The usual program is assumed, and launches it; an assumed one is not written down.
  CHECK(usual.find("\nlaunched by: Megatron-LM, the usual one on this device") != std::string::npos);
  CHECK(lines_of(usual).back() == "Launch it: orrery export " + plan + " --to megatron");
  good("export " + plan + " --to megatron");
}

TEST_CASE("an exported launch reads back as the plan", "[unit][cli][launch]") {
  const TemporaryFolder folder;
  struct Target {
    const char* framework;
    const char* to;
    const char* file;
    const char* open;  ///< what its launches leave open
  };
  const std::string model = " --model llama-3.1-8b --set sequence=4096";
  for (const Target& t :
       {Target{"megatron-core", "megatron", "l.sh", ""}, Target{"torchtitan", "torchtitan", "l.toml", "--gpus 8"},
        Target{"nanotron", "nanotron", "l.yaml", ""}, Target{"deepspeed", "deepspeed", "l.json", "--gpus 8"},
        Target{"accelerate", "accelerate", "l.yaml", "--set batch=16 --set mbs="},
        Target{"colossal-ai", "colossal-ai", "l.py", "--gpus 8 --set batch=16"}}) {
    CAPTURE(t.to);
    const std::string found = folder.file("found.toml"), launch = folder.file(t.file), plan = folder.file("plan.toml");
    good("plan --model llama-3.1-8b --cluster dgx-h100 --gpus 8 --batch 16 --seq 4096 --for " +
         std::string(t.framework) + " -o " + found);
    CHECK(good("export " + found + " --to " + t.to + " -o " + launch).starts_with("wrote " + launch + ": "));
    CHECK(contents(launch) == good("export " + found + " --to " + t.to));
    CHECK(answer("export " + found + " --to " + t.to)["text"] == contents(launch));
    const json a = answer("show plan " + found);
    std::string open = t.open;
    if (open.ends_with("mbs=")) open += a["plan"]["microbatch_size"].dump();
    const std::string name = t.framework;
    if (name != "megatron-core" && name != "torchtitan" && name != "nanotron") open += model;
    open += " --cluster dgx-h100 -o ";
    good("import " + launch + " " + open + plan);
    const json b = answer("show plan " + plan);
    CHECK(b["for"] == t.framework);
    CHECK(a["ranks"] == b["ranks"]);
    CHECK(a["microbatches"] == b["microbatches"]);
    for (const char* axis : {"pipeline", "replica", "data", "expert", "context", "tensor"}) {
      CAPTURE(axis);
      CHECK(a["mesh"].value(axis, 1) == b["mesh"].value(axis, 1));
    }
    for (const char* key : {"microbatch_size", "schedule", "recompute", "zero_stage", "sequence_parallel", "context"}) {
      CAPTURE(key);
      CHECK(a["plan"].value(key, json()) == b["plan"].value(key, json()));
    }
    // Written and read once more, nothing moves.
    const std::string second = folder.file(std::string("2") + t.file), again = folder.file("again.toml");
    good("export " + plan + " --to " + t.to + " -o " + second);
    good("import " + second + " " + open + again);
    json first = b, last = answer("show plan " + again);
    for (json* j : {&first, &last}) {
      for (const char* key : {"name", "model", "plan_file"}) j->erase(key);
    }
    CHECK(first == last);
  }
}

TEST_CASE("show lists frameworks, and what each can launch, within 80 columns", "[unit][cli][launch]") {
  const std::string all = good("show frameworks");
  check_width(all);
  const json list = answer("show frameworks");
  CHECK(list.size() == 10);
  for (const json& f : list) {
    const std::string name = f["name"];
    CAPTURE(name);
    CHECK(all.find("\n  reads   ") != std::string::npos);
    const std::string one = good("show framework " + name);
    check_width(one);
    for (const json& format : f["reads"]) CHECK(one.find(format.get<std::string>()) != std::string::npos);
    CHECK(answer("show framework " + name) == f);
  }
  CHECK(good("show framework megatron-core").find("with expert not 1 context not 1: only expert_folding") !=
        std::string::npos);
}
