#include <catch2/catch.hpp>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "tests/support/program_run.hpp"

// `orrery report`: whole pages, as a browser would take them apart.

using namespace orrery::test;
using nlohmann::json;

namespace {

Ran report(const std::string& arguments) { return run(ORRERY_PROGRAM, "report " + arguments); }

/// What a page has, tag by tag. Elements without an end are those of HTML; the content of style and script is text.
struct Page {
  std::string wrong;  ///< the first tag that does not nest
  std::vector<std::string> ids, links, sources;
  std::vector<std::string> data;  ///< JSON in script elements
  std::size_t details = 0, tables = 0;
};

std::string attribute(const std::string& tag, const std::string& name) {
  const std::size_t at = tag.find(" " + name + "=\"");
  if (at == std::string::npos) return "";
  const std::size_t from = at + name.size() + 3;
  return tag.substr(from, tag.find('"', from) - from);
}

Page taken_apart(const std::string& html) {
  const std::set<std::string> without_end = {"meta", "!DOCTYPE", "br"};
  Page page;
  std::vector<std::string> open;
  std::size_t at = 0;
  while ((at = html.find('<', at)) != std::string::npos) {
    const std::size_t end = html.find('>', at);
    if (end == std::string::npos) {
      page.wrong = "a tag has no end";
      return page;
    }
    const std::string tag = html.substr(at + 1, end - at - 1);
    const std::string name =
        tag.substr(tag.starts_with('/') ? 1 : 0, tag.find_first_of(" /", 1) - (tag.starts_with('/') ? 1 : 0));
    at = end + 1;
    if (tag.starts_with('/')) {
      if (open.empty() || open.back() != tag.substr(1)) {
        page.wrong = "</" + tag.substr(1) + "> closes " + (open.empty() ? "nothing" : open.back());
        return page;
      }
      open.pop_back();
      continue;
    }
    if (const std::string id = attribute(tag, "id"); !id.empty()) page.ids.push_back(id);
    if (const std::string link = attribute(tag, "href"); !link.empty()) page.links.push_back(link);
    if (const std::string source = attribute(tag, "src"); !source.empty()) page.sources.push_back(source);
    page.details += name == "details" ? 1 : 0;
    page.tables += name == "table" ? 1 : 0;
    if (name == "script" || name == "style") {
      const std::size_t close = html.find("</" + name + ">", at);
      if (tag.find("application/json") != std::string::npos) page.data.push_back(html.substr(at, close - at));
      at = close + name.size() + 3;
      continue;
    }
    if (!tag.ends_with('/') && !without_end.contains(name)) open.push_back(name);
  }
  if (!open.empty()) page.wrong = "<" + open.back() + "> stays open";
  return page;
}

/// The laws of every page: tags nest, ids are there once, every link leads to one of them, and nothing is fetched.
Page sound(const std::string& html) {
  const Page page = taken_apart(html);
  CHECK(page.wrong == "");
  const std::set<std::string> ids(page.ids.begin(), page.ids.end());
  CHECK(ids.size() == page.ids.size());
  CHECK(!page.links.empty());
  for (const std::string& link : page.links) {
    CAPTURE(link);
    REQUIRE(link.starts_with('#'));
    CHECK(ids.contains(link.substr(1)));
  }
  CHECK(page.sources.empty());
  for (const char* loads : {"url(", "@import", "fetch(", "XMLHttpRequest", "import(", "<iframe", "<link", "<img"}) {
    CAPTURE(loads);
    CHECK(html.find(loads) == std::string::npos);
  }
  CHECK(html.find("default-src 'none'") != std::string::npos);
  CHECK(html.find("name=\"viewport\"") != std::string::npos);
  CHECK(html.find("prefers-color-scheme: dark") != std::string::npos);
  CHECK(html.find("@media print") != std::string::npos);
  return page;
}

}  // namespace

TEST_CASE("a report has every part, and its figures are those of estimate and simulate", "[unit][cli]") {
  const TemporaryFolder folder;
  const std::string file = folder.file("r.html");
  const Ran ran = report("demo-2x2x2 -o " + file + " --json");
  CAPTURE(ran.err);
  REQUIRE(ran.status == 0);
  const std::string html = contents(file);
  CHECK(json::parse(ran.out)["bytes"] == html.size());
  const Page page = sound(html);
  CHECK(page.ids == std::vector<std::string>{"verdict", "figures", "memory", "timeline", "communication", "path",
                                             "plan", "provenance"});
  CHECK(page.details > 10);
  REQUIRE(page.data.size() == 1);
  const json timeline = json::parse(page.data[0]);
  const json simulated = json::parse(run(ORRERY_PROGRAM, "simulate demo-2x2x2 --json").out);
  CHECK(timeline["step"].get<double>() == Approx(simulated["step_time_s"].get<double>()));
  std::size_t stages = 0;
  for (const json& row : timeline["rows"]) {
    stages += row[0].get<std::string>().starts_with("stage") ? 1 : 0;
    const json& bars = row[1];
    REQUIRE(bars.size() % 4 == 0);
    for (std::size_t i = 0; i < bars.size(); i += 4) {
      CHECK(bars[i].get<int>() + bars[i + 1].get<int>() <= 1'000'000);
      CHECK(bars[i + 2].get<std::size_t>() < timeline["kinds"].size());
    }
  }
  CHECK(stages == 2);
  for (const char* part : {"orrery export --to megatron", "schema = 1",
                           "step = compute + waiting for collectives + bubble", "content ", "10 % less of it saves"}) {
    CAPTURE(part);
    CHECK(html.find(part) != std::string::npos);
  }
  // The same bytes again.
  CHECK(report("demo-2x2x2 -o " + folder.file("again.html")).status == 0);
  CHECK(contents(folder.file("again.html")) == html);
}

TEST_CASE("a report of several plans compares them, part by part", "[unit][cli]") {
  const TemporaryFolder folder;
  const std::string file = folder.file("r.html");
  REQUIRE(report("llama-3-70b-8-dgx-h100 'tp=4 mbs=2' 'zero=0' -o " + file).status <= 1);
  const std::string html = contents(file);
  const Page page = sound(html);
  CHECK(std::count(page.ids.begin(), page.ids.end(), "comparison") == 1);
  CHECK(std::count(page.ids.begin(), page.ids.end(), "plan-3") == 1);
  CHECK(html.find("From llama-3-70b-8-dgx-h100 to tp=4 mbs=2") != std::string::npos);
  CHECK(html.find("microbatch 2, not 1") != std::string::npos);
}

TEST_CASE("a report of a sweep has its points, curves and front", "[unit][cli]") {
  const TemporaryFolder folder;
  const std::string points = folder.file("p.jsonl"), file = folder.file("r.html");
  REQUIRE(run(ORRERY_PROGRAM, "sweep --model llama-3-8b --cluster dgx-h100 --gpus 8,12,16 --batch 64,128 --seq 8k " +
                                  short_search + "-o " + points)
              .status == 0);
  REQUIRE(report(points + " --pareto tokens-per-s,cost -o " + file).status == 0);
  const std::string html = contents(file);
  const Page page = sound(html);
  CHECK(page.ids == std::vector<std::string>{"verdict", "curves", "front", "points", "plans", "provenance"});
  CHECK(html.find("4 with a plan, 0 without one that fits, 2 refused") != std::string::npos);
}

TEST_CASE("names from files cannot become markup of a report", "[unit][cli]") {
  const TemporaryFolder folder;
  const std::string plan = folder.file("p.toml"), file = folder.file("r.html");
  std::string text = run(ORRERY_PROGRAM, "show plan demo-2x2x2 -o -").out;
  const std::size_t at = text.find("name = ");
  text.replace(at, text.find('\n', at) - at, "name = \"</script><script>alert('x')</script>\"");
  write(plan, text);
  REQUIRE(report(plan + " -o " + file).status == 0);
  const std::string html = contents(file);
  sound(html);
  CHECK(html.find("<script>alert") == std::string::npos);
  CHECK(html.find("&lt;script&gt;alert('x')") != std::string::npos);
}

TEST_CASE("Llama-3-405B on 16,384 GPUs takes less than 3 MB", "[unit][cli]") {
  const TemporaryFolder folder;
  const std::string plan = folder.file("p.toml"), file = folder.file("r.html");
  REQUIRE(
      run(ORRERY_PROGRAM, "plan --model llama-3-405b --cluster dgx-h100 --gpus 16384 --batch 2048 --seq 8192 --top 1 " +
                              short_search + "-o " + plan)
          .status == 0);
  REQUIRE(report(plan + " -o " + file).status == 0);
  const std::string html = contents(file);
  CHECK(html.size() < 3'000'000);
  sound(html);
}

TEST_CASE("wrong reports are refused", "[unit][cli]") {
  const TemporaryFolder folder;
  const Ran none = report("demo-2x2x2");
  CHECK(none.status == 2);
  CHECK(none.err.find("orrery report needs -o [cli.output]") != std::string::npos);
  CHECK(report("demo-2x2x2 --pareto step-time,cost -o " + folder.file("r.html")).status == 2);
  CHECK(report("no-such-plan -o " + folder.file("r.html")).status == 2);
  write(folder.file("p.toml"), "x");
  CHECK(report(folder.file("p.toml") + " -o " + folder.file("p.toml")).status == 2);
  CHECK(contents(folder.file("p.toml")) == "x");
  CHECK(!std::filesystem::exists(folder.file("r.html")));
}
