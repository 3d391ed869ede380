#include <catch2/catch.hpp>

#include <filesystem>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/program_run.hpp"

// Runs the built program and looks at what other programs rely on: exit
// statuses, JSON keys, files that one verb writes and another reads.

using namespace orrery::test;
using nlohmann::json;

namespace {

const std::string source_dir = ORRERY_SOURCE_DIR;
Ran orrery_run(const std::string& arguments) { return run(ORRERY_PROGRAM, arguments); }
/// The words of a text, whose lines are wrapped, with a space between them.
std::string one_line(const std::string& text) {
  std::istringstream in(text);
  std::string out;
  for (std::string word; in >> word;) out += (out.empty() ? "" : " ") + word;
  return out;
}

}  // namespace

TEST_CASE("every verb has help with examples", "[unit][cli]") {
  CHECK(orrery_run("--help").status == 0);
  for (const char* verb : {"plan", "estimate", "simulate", "forecast", "jobs", "place", "run", "compare", "explain",
                           "calibrate", "show", "check", "study", "checkpoint"}) {
    CAPTURE(verb);
    const Ran ran = orrery_run(std::string(verb) + " --help");
    CHECK(ran.status == 0);
    CHECK(ran.err == "");
    CHECK(ran.out.find("Examples:\n  orrery " + std::string(verb)) != std::string::npos);
    CHECK(ran.out.find("--json") != std::string::npos);
    CHECK(ran.out.find("-o,--output") != std::string::npos);
  }
}

TEST_CASE("help is a word, too", "[unit][cli]") {
  CHECK(orrery_run("help").out == orrery_run("--help").out);
  CHECK(orrery_run("help check").out == orrery_run("check --help").out);
}

TEST_CASE("plan gives the keys that other programs read", "[unit][cli]") {
  const TemporaryFolder folder;
  const Ran ran = orrery_run("plan --model " + source_dir +
                             "/models/hf/llama-3-70b/config.json --cluster dgx-h100 --gpus 64 --batch 128 --seq 8192 "
                             "--top 3 --json " +
                             short_search + "-o " + folder.file("best.toml"));
  CHECK(ran.err == "");
  REQUIRE(ran.status == 0);
  const json found = json::parse(ran.out);
  REQUIRE(found["plans"].size() == 3);
  double last = 0.0;
  for (const json& plan : found["plans"]) {
    for (const char* key :
         {"step_time_s", "tokens_per_s_per_gpu", "model_flops_utilization", "hardware_flops_utilization",
          "flop_convention", "peak_memory_bytes", "memory_by_stage", "bubble_fraction", "exposed_communication_s"}) {
      CAPTURE(key);
      CHECK(plan.contains(key));
    }
    CHECK(plan["step_time_s"].get<double>() >= last);  // best first
    last = plan["step_time_s"].get<double>();
    CHECK(plan["peak_memory_bytes"].get<double>() <= 80.0 * 1073741824.0);
    // tokens per second and GPU = 128 x 8192 tokens / step / 64 GPUs
    CHECK(plan["tokens_per_s_per_gpu"].get<double>() == Approx(128.0 * 8192.0 / last / 64.0));
  }
  for (const char* key : {"coarse_plans", "looked_at", "estimated", "changes", "wall_s"}) {
    CAPTURE(key);
    CHECK(found[key].is_number());
  }
  CHECK(found["complete"] == true);
  CHECK(found["looked_at"].get<std::uint64_t>() <= found["coarse_plans"].get<std::uint64_t>());
  CHECK(found["coarse_plans"].get<std::uint64_t>() <= found["estimated"].get<std::uint64_t>());
  // The claim has the figures, and says that no change is better, not that no plan is.
  const std::string claim = found["claim"];
  CHECK(claim.find(std::to_string(found["coarse_plans"].get<std::uint64_t>()) + " coarse plans") != std::string::npos);
  CHECK(claim.find("none of " + std::to_string(found["changes"].get<std::uint64_t>()) + " changes") !=
        std::string::npos);

  // The written plan stands alone: estimate repeats the prediction.
  const Ran again = orrery_run("estimate " + folder.file("best.toml") + " --json");
  REQUIRE(again.status == 0);
  CHECK(json::parse(again.out)["step_time_s"] == found["plans"][0]["step_time_s"]);
  CHECK(orrery_run("check " + folder.file("best.toml")).status == 0);
}

TEST_CASE("the same command prints the same bytes", "[unit][cli]") {
  const std::string command = "simulate llama-3-70b-8-dgx-h100 --json";
  CHECK(orrery_run(command).out == orrery_run(command).out);
  // Another number of threads finds the same plans.
  const std::string plan = "plan --model gpt2-1.5b --cluster dgx-a100 --gpus 16 --batch 64 --seq 1024 " + short_search;
  CHECK(orrery_run(plan + " --threads 1").out == orrery_run(plan + " --threads 3").out);
}

TEST_CASE("a plan is predicted, run and compared", "[unit][cli]") {
  const TemporaryFolder folder;
  const Ran predicted =
      orrery_run("simulate demo-2x2x2 --trace " + folder.file("p.json") + " -o " + folder.file("pr.json"));
  CHECK(predicted.status == 0);
  const Ran measured =
      orrery_run("run demo-2x2x2 --steps 2 --json --trace " + folder.file("m.json") + " -o " + folder.file("mr.json"));
  CHECK(measured.err == "");
  REQUIRE(measured.status == 0);
  const json report = json::parse(measured.out);
  CHECK(report["recorded_steps"] == 2);
  CHECK(report["losses"].size() == 3);  // one step of warm-up
  // Tokens are bytes, nearly uniform at the start: ln 256 = 5.545.
  CHECK(report["losses"][0].get<double>() == Approx(5.545).margin(0.1));
  CHECK(json::parse(contents(folder.file("pr.json")))["peak_memory_bytes"] ==
        json::parse(contents(folder.file("mr.json")))["peak_memory_bytes"]);

  // A tolerance of a factor of a million passes any step time, and a tolerance of 0 passes none.
  const std::string reports = folder.file("pr.json") + " " + folder.file("mr.json");
  CHECK(orrery_run("compare " + reports + " --tolerance 1e6").status == 0);
  CHECK(orrery_run("compare " + reports + " --tolerance 0").status == 1);
  const Ran traces = orrery_run("compare " + folder.file("p.json") + " " + folder.file("m.json") +
                                " --plan demo-2x2x2 --tolerance 1e6");
  CHECK(traces.status == 0);
  CHECK(traces.out.find("gemm") != std::string::npos);
  for (const char* file : {"p.json", "m.json", "pr.json", "mr.json"}) {
    CAPTURE(file);
    CHECK(orrery_run("check " + folder.file(file)).status == 0);
  }
}

TEST_CASE("a plan that does not fit is answered in full, with status 1", "[unit][cli]") {
  const TemporaryFolder folder;
  write(
      folder.file("large.toml"),
      "schema = 1\nmodel = \"llama-3-70b\"\ncluster = \"dgx-h100\"\ngpus = 8\n[workload]\nbatch = 8\nsequence = 8192\n"
      "[mesh]\norder = [\"tensor\"]\ntensor = 8\n[plan]\nmicrobatch_size = 1\n");
  const Ran ran = orrery_run("estimate " + folder.file("large.toml"));
  CHECK(ran.status == 1);
  CHECK(ran.out.find("step time") != std::string::npos);
  CHECK(ran.out.find("DOES NOT FIT") != std::string::npos);
  // The largest process has 70.6e9 parameters on 8 devices: more than 16 bytes for each.
  CHECK(one_line(ran.out).find("the plan does not fit: it needs ") != std::string::npos);
  CHECK(one_line(ran.out).ends_with(" GiB of the 79.6 GiB of a device (stage 0): exit status 1"));
  const Ran why = orrery_run("explain " + folder.file("large.toml") + " --json");
  CHECK(why.status == 1);
  CHECK(json::parse(why.out).contains("smallest_fix"));
}

TEST_CASE("a search without a result says what would fit", "[unit][cli]") {
  const Ran ran = orrery_run("plan --model llama-3-8b --cluster dgx-h100 --gpus 1 --batch 8 --seq 8192");
  CHECK(ran.status == 1);
  CHECK(ran.out.find("No plan fits.") != std::string::npos);
  CHECK(ran.out.find("With --gpus 2") != std::string::npos);
}

TEST_CASE("programs, models and clusters are shown in forms that read back", "[unit][cli]") {
  const TemporaryFolder folder;
  CHECK(orrery_run("show program demo-2x2x2 -o " + folder.file("p.txt")).status == 0);
  const Ran program = orrery_run("check " + folder.file("p.txt"));
  CHECK(program.status == 0);
  CHECK(program.out.find("every rule holds") != std::string::npos);
  CHECK(orrery_run("show model llama-3-8b -o " + folder.file("m.toml")).status == 0);
  CHECK(orrery_run("check " + folder.file("m.toml")).out.find("8,030,261,248") != std::string::npos);
  CHECK(orrery_run("show cluster dgx-h100 --gpus 32 -o " + folder.file("c.toml")).status == 0);
  CHECK(orrery_run("check " + folder.file("c.toml")).status == 0);
  CHECK(json::parse(orrery_run("show model --json").out).size() >= 22);
  for (const char* what : {"model gpt2-124m", "cluster dgx-h100", "plan demo-2x2x2", "program demo-2x2x2"}) {
    CAPTURE(what);
    const Ran graph = orrery_run("show " + std::string(what) + " --dot");
    CHECK(graph.status == 0);
    CHECK(graph.out.find("graph") != std::string::npos);
  }
}

TEST_CASE("--json prints JSON whatever is shown", "[unit][cli]") {
  const std::string tiny = "plan --model tiny-gpt --cluster local-cpu --gpus 4 --batch 16 --seq 128 --precision fp32 ";
  const json space = json::parse(orrery_run(tiny + "--space --json").out);
  // 1, 2 and 4 divide 4 ranks; batch 16 leaves microbatches of up to 16.
  CHECK(space["coarse"]["mesh.tensor"] == json({"1", "2", "4"}));
  CHECK(space["coarse"]["plan.microbatch_size"].back() == "16");
  CHECK(space["changed"]["plan.recompute"] == json({"none", "selective", "full"}));
  // Each size of the axes has one microbatch or more.
  CHECK(json::parse(orrery_run(tiny + "--json").out)["coarse_plans"] >= space["shapes"]);
  CHECK(json::parse(orrery_run("show device h100 --json").out)["memory_bytes"] == 81559.0 * 1048576.0);
  const json rank = json::parse(orrery_run("show program demo-2x2x2 --rank 3 --json").out);
  CHECK(rank["rank"] == 3);
  CHECK(rank["text"] == orrery_run("show program demo-2x2x2 --rank 3").out);
  for (const char* what : {"show plan", "show device", "show plan demo-2x2x2", "show program demo-2x2x2",
                           "compare demo-2x2x2 cpu-one-rank", "explain demo-2x2x2", "estimate demo-2x2x2"}) {
    CAPTURE(what);
    CHECK(json::accept(orrery_run(std::string(what) + " --json").out));
  }
}

TEST_CASE("two plans of different things are compared after saying so", "[unit][cli]") {
  const std::string both = "compare demo-2x2x2 llama-3-70b-8-dgx-h100";
  CHECK(orrery_run(both).out.find(
            "The plans differ in model, workload or cluster (A | B):\n  model: tiny-gpt | llama-3-70b\n"
            "  cluster: local-cpu of 8 cpu-core | dgx-h100 of 64 H100\n"
            "  workload.batch: 16 | 128\n  workload.sequence: 128 | 8192\n"
            "  workload.precision: \"fp32\" | \"bf16\"\n") == 0);
  CHECK(json::parse(orrery_run(both + " --json").out)["unlike"].size() == 5);
  CHECK(json::parse(orrery_run("compare demo-2x2x2 demo-2x2x2 --json").out)["unlike"].empty());
  // Another context size is another plan, and no other workload.
  const std::string context = "compare llama-3-70b-8-dgx-h100 \"pp=4 dp=1 cp=2 tp=8 context=all_gather zigzag=on\"";
  const json alike = json::parse(orrery_run(context + " --json").out);
  REQUIRE(alike.contains("unlike"));
  CHECK(alike["unlike"].empty());
}

TEST_CASE("why not B says first that A itself does not fit", "[unit][cli]") {
  const TemporaryFolder folder;
  const auto plan = [](const std::string& recompute) {
    return "schema = 1\nmodel = \"llama-3-70b\"\ncluster = \"dgx-h100\"\ngpus = 8\n[workload]\nbatch = 8\n"
           "sequence = 8192\n[mesh]\norder = [\"tensor\"]\ntensor = 8\n[plan]\nmicrobatch_size = 1\nrecompute = \"" +
           recompute + "\"\n";
  };
  write(folder.file("a.toml"), plan("none"));
  write(folder.file("b.toml"), plan("full"));
  const std::string command = "explain " + folder.file("a.toml") + " " + folder.file("b.toml");
  const Ran why = orrery_run(command);
  CHECK(why.status == 1);
  const std::size_t reference = why.out.find("\nThis plan itself does not fit: it needs ");
  CHECK(reference != std::string::npos);
  CHECK(reference < why.out.find("That plan does not fit"));
  CHECK(json::parse(orrery_run(command + " --json").out)["reference_fits"] == false);
}

TEST_CASE("names from files are printed without their control characters", "[unit][cli]") {
  const TemporaryFolder folder;
  const std::string model = orrery_run("show model tiny-gpt").out;
  std::string renamed = model;
  renamed.replace(renamed.find("\"tiny-gpt\""), 10, "\"a\\u001b[2Jb\"");
  write(folder.file("m.toml"), renamed);
  for (const std::string& arguments :
       {"check " + folder.file("m.toml"),
        "plan --cluster local-cpu --gpus 1 --batch 1 --seq 8 --precision fp32 --model " + folder.file("m.toml")}) {
    CAPTURE(arguments);
    const Ran ran = orrery_run(arguments);
    CHECK(ran.status == 0);
    CHECK(ran.out.find('\x1b') == std::string::npos);
    CHECK(ran.out.find("a\\x1b[2Jb") != std::string::npos);
  }
}

TEST_CASE("plans of one model from two files, learned at two rates, are explained side by side", "[unit][cli]") {
  const TemporaryFolder folder;
  const std::string config = std::string(ORRERY_SOURCE_DIR) + "/models/hf/llama-3-70b/config.json";
  const std::string best = folder.file("best.toml");
  const Ran planned =
      run(ORRERY_PROGRAM, "plan --model " + config + " --cluster dgx-h100 --gpus 64 --batch 128 --seq 8192 --top 1 " +
                              short_search + "-o " + best);
  REQUIRE(planned.status == 0);
  const Ran ran = run(ORRERY_PROGRAM, "explain " + best + " llama-3-70b-8-dgx-h100");
  CAPTURE(ran.err);
  CHECK(ran.err.empty());
  CHECK(ran.out.find("Why not") != std::string::npos);
}

TEST_CASE("predictions say whose software they are of, and how far off they are", "[unit][cli]") {
  const auto priced = [](const std::string& arguments) {
    const Ran ran = orrery_run(arguments + " --json");
    CAPTURE(arguments, ran.err);
    REQUIRE(ran.status == 0);
    return json::parse(ran.out);
  };
  const std::string plan = "llama-3-70b-8-dgx-h100";
  const json usual = priced("estimate " + plan);
  CHECK(usual["software"]["name"] == "nemo");
  CHECK(usual["software"]["costs"] == json({"all", "hopper", "nemo-loop", "nemo", "transformer-engine"}));
  const double step = usual["step_time_s"];
  CHECK(usual["interval"]["step_time_low_s"].get<double>() < step);
  CHECK(usual["interval"]["step_time_high_s"].get<double>() > step);
  CHECK(priced("estimate " + plan + " --software nemo")["step_time_s"] == step);
  // All verbs price alike, and without contention a simulation equals an estimate.
  CHECK(priced("simulate " + plan)["step_time_s"] == step);
  CHECK(priced("simulate " + plan)["interval"] == usual["interval"]);
  CHECK(priced("explain " + plan)["interval"] == usual["interval"]);
  CHECK(priced("compare " + plan + " " + plan)["a"]["interval"] == usual["interval"]);
  // Kernels as the vendor's libraries run them are faster, and no measured run is like them.
  const json none = priced("estimate " + plan + " --software none");
  CHECK(none["software"]["name"] == "none");
  CHECK_FALSE(none.contains("interval"));
  CHECK(none["step_time_s"].get<double>() < step);
  CHECK(priced("simulate " + plan + " --software none")["step_time_s"] == none["step_time_s"]);
  // Cores of this machine have no other software than ours.
  CHECK(priced("estimate demo-2x2x2")["software"]["name"] == "none");
  CHECK(priced("estimate demo-2x2x2")["step_time_s"] == priced("estimate demo-2x2x2 --software none")["step_time_s"]);
  CHECK_FALSE(priced("run cpu-one-rank --steps 1").contains("software"));
}

// Compute's share of a step is the sum of what is explained, whatever waits for what.
TEST_CASE("estimate --explain-op takes every price apart down to figures of files", "[unit][cli]") {
  const std::string plan = "estimate llama-3-70b-8-dgx-h100 --json";
  const json report = json::parse(orrery_run(plan + " --explain-op all").out);
  std::map<std::string, double> together;
  for (const json& op : report["prices"]["operations"]) {
    together[op["kind"]] += op["runs"].get<double>() * op["price"]["value"].get<double>();
  }
  for (const json& kind : report["operations"]) {
    if (kind["name"].get<std::string>().find(' ') != std::string::npos || kind["name"] == "exchange") continue;
    CAPTURE(kind["name"]);
    CHECK(together[kind["name"]] == Approx(kind["time_s"].get<double>()).epsilon(1e-6));
  }
  CHECK(report["prices"]["sources"]["calibration"].get<std::string>().find("shipped h100") == 0);
  CHECK(report["prices"]["sources"].contains("memory of nemo"));
  const Ran other = orrery_run("estimate llama-3-70b-8-dgx-h100 --explain-op gemm");
  for (const char* part : {"roofline", "memory_efficiency", "calibration: gemm.bf16.tiles", "device: peak.bf16",
                           "full waves, tiles and depth", "Sources"}) {
    CAPTURE(part);
    CHECK(one_line(other.out).find(part) != std::string::npos);
  }
  CHECK(one_line(other.out).find("a product of 8192 x 7168 x 8192") != std::string::npos);
  // The gather has [8192 tokens, 8192] of 2 bytes over the tensor ranks; a message says how many bytes it moves.
  const Ran gathers = orrery_run("estimate llama-3-70b-8-dgx-h100 --explain-op \"all_gather tensor\"");
  CHECK(gathers.out.find("tensor all_gather tensor, 128 MiB") != std::string::npos);
  const Ran wrong = orrery_run("estimate llama-3-70b-8-dgx-h100 --explain-op gem");
  CHECK(wrong.status == 2);
  CHECK(wrong.err.find("cli.explain-op") != std::string::npos);
  CHECK(wrong.err.find("gemm") != std::string::npos);
}

TEST_CASE("a search prices with the software that is named", "[unit][cli]") {
  const TemporaryFolder folder;
  const std::string command =
      "plan --model llama-3-8b --cluster dgx-h100 --gpus 8 --batch 64 --seq 4096 --top 2 --json --software llm-foundry "
      "-o " +
      folder.file("best.toml");
  const Ran ran = orrery_run(command);
  REQUIRE(ran.status == 0);
  const json found = json::parse(ran.out);
  CHECK(found["complete"] == true);
  for (const json& plan : found["plans"]) {
    CHECK(plan["software"]["name"] == "llm-foundry");
    CHECK(plan["simulated"]["software"]["name"] == "llm-foundry");
    CHECK(plan["simulated"]["step_time_s"] == plan["step_time_s"]);
  }
  const Ran again = orrery_run("estimate " + folder.file("best.toml") + " --software llm-foundry --json");
  CHECK(json::parse(again.out)["step_time_s"] == found["plans"][0]["step_time_s"]);
  const json repeated = json::parse(orrery_run(command).out);
  CHECK(repeated["plans"] == found["plans"]);
}

TEST_CASE("estimate --memory lists tensors that add up to each stage's peak", "[unit][cli]") {
  const Ran ran = orrery_run("estimate llama-3-70b-8-dgx-h100 --memory --json");
  REQUIRE(ran.status == 0);
  const json report = json::parse(ran.out);
  REQUIRE(report["peak_tensors"].size() == report["memory_by_stage"].size());
  for (std::size_t s = 0; s < report["peak_tensors"].size(); ++s) {
    std::uint64_t sum = 0;
    for (const json& t : report["peak_tensors"][s]["tensors"]) sum += t["bytes"].get<std::uint64_t>();
    CHECK(sum == report["memory_by_stage"][s]["peak_bytes"].get<std::uint64_t>());
  }
  CHECK(report["peak_memory_bytes"] <= report["peak_memory_reserved_bytes"]);
  CHECK(report["peak_memory_reserved_bytes"] < report["peak_memory_process_bytes"]);
  CHECK(report["peak_memory_setup_bytes"] <= report["peak_memory_bytes"]);
  const std::string text = orrery_run("estimate llama-3-70b-8-dgx-h100 --memory --expandable-segments").out;
  CHECK(text.find("held by the process: ") != std::string::npos);
  CHECK(text.find("layer.gradients") != std::string::npos);
}

TEST_CASE("what a search answers fits, with the margin that it keeps free", "[unit][cli]") {
  const std::string command =
      "plan --model llama-3-8b --cluster dgx-h100 --gpus 16 --batch 32 --seq 32768 --top 2 --no-simulate --json";
  const json with = json::parse(orrery_run(command).out),
             without = json::parse(orrery_run(command + " --memory-margin 0B").out);
  for (const json* found : {&with, &without}) {
    for (const json& plan : (*found)["plans"]) {
      CHECK(plan["fits"] == true);
      CHECK(plan["peak_memory_process_bytes"].get<std::uint64_t>() +
                (*found)["memory_margin_bytes"].get<std::uint64_t>() <=
            plan["memory_capacity_bytes"].get<std::uint64_t>());
      // This is the figure that nvidia-smi shows for an H100 of 80 GB.
      CHECK(plan["memory_capacity_bytes"] == 81559ULL << 20U);
    }
  }
  CHECK(with["memory_margin_bytes"] > 0);
  CHECK(without["memory_margin_bytes"] == 0);
  CHECK(without["plans"][0]["step_time_s"] <= with["plans"][0]["step_time_s"]);
  // The search looked at a faster plan that does not fit.
  REQUIRE(with["rejected"].is_object());
  CHECK(with["rejected"]["step_time_s"] <= with["plans"][0]["step_time_s"]);
}

TEST_CASE("README's first example is what the program prints", "[unit][cli]") {
  const std::string readme = contents(std::string(ORRERY_SOURCE_DIR) + "/README.md");
  const std::size_t command = readme.find("$ orrery plan ");
  const std::size_t begin = readme.find("```\n", readme.find("```\n", command) + 1) + 4;
  const std::string shown = readme.substr(begin, readme.find("```\n", begin) - begin);
  const TemporaryFolder folder;
  const Ran ran = orrery_run("plan --model " + source_dir +
                             "/models/hf/llama-3-70b/config.json --cluster dgx-h100 --gpus 64 --batch 128 "
                             "--seq 8192 --precision bf16 --software nemo --top 3 -o " +
                             folder.file("best.toml"));
  // README breaks long lines; words and their order are the same.
  const auto words = [](const std::string& text) {
    std::istringstream in(text);
    return std::vector<std::string>(std::istream_iterator<std::string>(in), {});
  };
  const std::vector<std::string> printed = words(ran.out.substr(0, ran.out.find("The best plan is in")));
  CHECK(words(shown) == printed);
}

// Some candidates hold a rank's whole batch in one microbatch, so one operation takes hours.
TEST_CASE("a step of hours is planned like any other", "[unit][cli]") {
  const Ran ran = run(ORRERY_PROGRAM,
                      "plan --model gpt2-124m --cluster local-cpu --gpus 2 --batch 2048 --seq 1024 --precision fp32 "
                      "--top 1 --json");
  CAPTURE(ran.err);
  CHECK((ran.status == 0 || ran.status == 1));
  CHECK(json::parse(ran.out).contains("plans"));
}
