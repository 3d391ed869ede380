#include <catch2/catch.hpp>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/found_plans_text.hpp"
#include "cli/table.hpp"
#include "cli/wrapping.hpp"
#include "tests/support/program_run.hpp"

// The first thing that a person sees: in 80 columns, in words, and true.

using namespace orrery::test;
using nlohmann::json;
using orrery::display_width;
using orrery::wrapped;

namespace {

Ran orrery_run(const std::string& arguments) { return run(ORRERY_PROGRAM, arguments); }

std::size_t widest_line(const std::string& text) {
  std::size_t most = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) most = std::max(most, display_width(line));
  return most;
}

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

const char* const mixtral = "plan --model mixtral-8x7b --cluster dgx-h100 --gpus 16 --batch 64 --seq 4096";

}  // namespace

TEST_CASE("lines are wrapped below their last column", "[unit][cli]") {
  CHECK(wrapped("short\n", 20) == "short\n");
  CHECK(wrapped("  key  one two three four\n", 16) == "  key  one two\n       three\n       four\n");
  CHECK(wrapped("one two three four five", 12) == "one two\n  three four\n  five");
  CHECK(wrapped("a-word-that-is-longer-than-the-line\n", 10) == "a-word-that-is-longer-than-the-line\n");
}

TEST_CASE("the first screen of a search fits into 80 columns and names every axis", "[unit][cli]") {
  const Ran ran = orrery_run(mixtral);
  CAPTURE(ran.out);
  REQUIRE(ran.status == 0);
  CHECK(widest_line(ran.out) <= 80);
  CHECK(has(ran.out, "#3"));
  CHECK_FALSE(has(ran.out, "#4"));
  CHECK(has(ran.out, "\n  expert "));
  CHECK(has(ran.out, "axes, outer first"));
  CHECK(has(ran.out, "USD"));
  CHECK(has(ran.out, "to spare"));
  CHECK(has(ran.out, "Why the others lose"));
  CHECK(has(ran.out, "The best of "));
  CHECK(has(ran.out, "coarse plans"));
  for (const char* verb : {"estimate llama-3-70b-8-dgx-h100", "explain llama-3-70b-8-dgx-h100"}) {
    const Ran other = orrery_run(verb);
    CAPTURE(verb, other.out);
    CHECK(widest_line(other.out) <= 80);
  }
}

TEST_CASE("plans side by side are never wider than the terminal", "[unit][cli]") {
  orrery::FoundPlan plan;
  plan.plan.mesh.axes = {
      {orrery::Axis::pipeline, 16}, {orrery::Axis::data, 8}, {orrery::Axis::expert, 4}, {orrery::Axis::tensor, 8}};
  plan.plan.expert_folding = orrery::ExpertFolding::tensor;
  plan.plan.schedule = orrery::ScheduleName::interleaved;
  plan.plan.chunks = 10;
  plan.plan.stage_layers = std::vector<std::uint32_t>{3, 1, 2, 2, 1, 5, 4, 3, 2, 1, 2, 3, 4, 5, 6, 7};
  plan.report.step_time = orrery::Seconds::of(14.331);
  plan.report.interval = {orrery::Seconds::of(13.381), orrery::Seconds::of(15.501)};
  orrery::Workload workload;
  workload.global_batch = 4096;
  for (std::size_t columns = 60; columns <= 200; ++columns) {
    for (const std::size_t plans : {1U, 2U, 5U}) {
      for (const bool all_rows : {false, true}) {
        const std::string text = orrery::found_plans_text(std::vector(plans, plan), workload, {columns, 5, all_rows});
        const std::string table = text.substr(0, text.find("\n  memory"));
        INFO(columns << " columns, " << plans << " plans\n" << table);
        CHECK(widest_line(table.substr(0, table.find("Why the others"))) <= columns);
        CHECK(has(table, "#1"));
      }
    }
  }
}

TEST_CASE("without a named software the headline is the middle of what is known", "[unit][cli]") {
  const json report = json::parse(orrery_run("estimate llama-3-70b-8-dgx-h100 --json").out);
  CHECK(report["software"]["assumed"] == true);
  const double low = report["interval"]["step_time_low_s"], high = report["interval"]["step_time_high_s"];
  const std::string text = orrery_run("estimate llama-3-70b-8-dgx-h100").out;
  const std::size_t at = text.find("about ");
  REQUIRE(at != std::string::npos);
  // Printed with four digits.
  CHECK(std::stod(text.substr(at + 6)) == Approx(std::sqrt(low * high)).epsilon(1e-3));
  CHECK(has(text, "Name yours (--software)"));
  const std::string named = orrery_run("estimate llama-3-70b-8-dgx-h100 --software nemo").out;
  CHECK_FALSE(has(named, "about "));
}

TEST_CASE("a price is the user's, with its currency", "[unit][cli]") {
  const json shipped = json::parse(orrery_run("estimate llama-3-70b-8-dgx-h100 --json").out);
  const json own = json::parse(orrery_run("estimate llama-3-70b-8-dgx-h100 --json --price \"2.50 EUR\"").out);
  CHECK(shipped["cost_currency"] == "USD");
  CHECK(own["cost_currency"] == "EUR");
  const double gpus = own["gpus"], step = own["step_time_s"];
  CHECK(own["cost_per_step"].get<double>() == Approx(2.50 * gpus * step / 3600.0));
  for (const char* wrong : {"-1", "nan", "2.5USD!", "two", "2.5 usd"}) {
    const Ran ran = orrery_run(std::string("estimate llama-3-70b-8-dgx-h100 --price=\"") + wrong + "\"");
    CAPTURE(wrong, ran.err);
    CHECK(ran.status == 2);
    CHECK(has(ran.err, "is not a price [cli.price]"));
  }
}

TEST_CASE("all required flags that are missing are named at once", "[unit][cli]") {
  const Ran ran = orrery_run("plan --model llama-3-8b");
  CHECK(ran.status == 2);
  CHECK(has(ran.err, "orrery plan needs --cluster, --batch and --seq"));
  CHECK(has(orrery_run("estimate").err, "orrery estimate needs PLAN"));
}

TEST_CASE("--only fixes sizes, by full names and shorthands", "[unit][cli]") {
  const char* command = "plan --model llama-3-8b --cluster dgx-h100 --gpus 32 --batch 32 --seq 4096 --json --top 1";
  const auto sizes = [&](const std::string& only) {
    const Ran ran = orrery_run(std::string(command) + " --only \"" + only + "\"");
    CAPTURE(ran.err);
    REQUIRE(ran.status == 0);
    return json::parse(ran.out)["plans"][0]["plan_file"].get<std::string>();
  };
  const std::string full = sizes("tensor=8 pipeline=2 microbatch_size=2 zero=1 schedule=1f1b context=off replica=off");
  CHECK(has(full, "tensor = 8"));
  CHECK(has(full, "pipeline = 2"));
  CHECK(has(full, "microbatch_size = 2"));
  CHECK(sizes("tp=8 pp=2 mbs=2 zero=1 schedule=1f1b cp=off replica=off") == full);
  const Ran none = orrery_run(std::string(command) + " --only tensor=3");
  CHECK(none.status == 1);
}

TEST_CASE("plan files know shorthands, and are written in full", "[unit][cli]") {
  const TemporaryFolder folder;
  const std::string source = ORRERY_SOURCE_DIR;
  std::string text = contents(source + "/models/plan/llama-3-70b-8-dgx-h100.toml");
  const std::string before = orrery_run("estimate llama-3-70b-8-dgx-h100 --json").out;
  const auto replace = [&](const std::string& a, const std::string& b) {
    const std::size_t at = text.find(a);
    REQUIRE(at != std::string::npos);
    text.replace(at, a.size(), b);
  };
  replace("\npipeline = ", "\npp = ");
  replace("\ntensor = ", "\ntp = ");
  replace("microbatch_size", "mbs");
  replace("batch = ", "gbs = ");
  replace("\"tensor\"]", "\"tp\"]");
  write(folder.file("short.toml"), text);
  const Ran ran = orrery_run("estimate " + folder.file("short.toml") + " --json");
  CAPTURE(ran.err);
  CHECK(ran.out == before);
  replace("mbs = ", "microbatch_size = 1\nmbs = ");
  write(folder.file("twice.toml"), text);
  const Ran twice = orrery_run("estimate " + folder.file("twice.toml"));
  CHECK(twice.status == 2);
  CHECK(has(twice.err, "plan.microbatch_size and plan.mbs are the same key [file.twice]"));
}

TEST_CASE("plans that differ in details of their workload are explained, and the details named", "[unit][cli]") {
  const TemporaryFolder folder;
  std::string text = contents(std::string(ORRERY_SOURCE_DIR) + "/models/plan/llama-3-70b-8-dgx-h100.toml");
  const std::size_t at = text.find("clip_norm = 1.0\n");
  REQUIRE(at != std::string::npos);
  text.erase(at, 16);
  write(folder.file("other.toml"), text);
  const Ran ran = orrery_run("explain llama-3-70b-8-dgx-h100 " + folder.file("other.toml"));
  CAPTURE(ran.out, ran.err);
  CHECK(ran.status == 0);
  CHECK(has(ran.out, "workload.clip_norm: 1 | not set"));
}
