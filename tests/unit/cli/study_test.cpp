#include <catch2/catch.hpp>

#include <nlohmann/json.hpp>

#include "tests/support/program_run.hpp"

// `orrery study`: the list, one study, and the files that it writes.

using namespace orrery::test;
using nlohmann::json;

namespace {

Ran study(const std::string& arguments) { return run(ORRERY_PROGRAM, "study " + arguments); }

/// Whether every element of an XML text is closed in order, and nothing follows the root.
bool well_formed(const std::string& text) {
  std::vector<std::string> open;
  std::size_t roots = 0;
  for (std::size_t at = text.find('<'); at != std::string::npos; at = text.find('<', at + 1)) {
    const std::size_t end = text.find('>', at);
    if (end == std::string::npos) return false;
    const std::string tag = text.substr(at + 1, end - at - 1);
    if (tag[0] == '?') continue;
    if (tag[0] == '/') {
      if (open.empty() || open.back() != tag.substr(1)) return false;
      open.pop_back();
      continue;
    }
    if (open.empty()) ++roots;
    if (tag.back() != '/') open.push_back(tag.substr(0, tag.find(' ')));
  }
  // An ampersand begins an entity.
  for (std::size_t at = text.find('&'); at != std::string::npos; at = text.find('&', at + 1)) {
    const std::string entity = text.substr(at, text.find(';', at) - at + 1);
    if (entity != "&amp;" && entity != "&lt;" && entity != "&gt;" && entity != "&quot;") return false;
  }
  return open.empty() && roots == 1;
}

}  // namespace

TEST_CASE("study alone lists the studies, one line each", "[unit][cli]") {
  const Ran ran = study("");
  CHECK(ran.status == 0);
  CHECK(ran.err == "");
  for (const char* name : {"tensor-scaling", "gpt3-gpus", "bert-sequence", "mlp-sharding"}) {
    CAPTURE(name);
    CHECK(ran.out.find("\n" + std::string(name) + " ") != std::string::npos);
  }
  const json list = json::parse(study("--json").out);
  CHECK(list.size() >= 15);
}

TEST_CASE("a study prints published beside computed, with reasons", "[unit][cli]") {
  const Ran ran = study("tensor-scaling");
  REQUIRE(ran.status == 0);
  for (const char* text : {"Published and computed", "unverified", "does not follow", "\nWhy\n", "25.17", "100.7",
                           "Assumptions", "Formulas, in docs/formulas.md: linear_volume"}) {
    CAPTURE(text);
    CHECK(ran.out.find(text) != std::string::npos);
  }
}

TEST_CASE("a study writes JSON and SVG, the same bytes every time", "[unit][cli]") {
  const TemporaryFolder folder;
  const Ran ran = study("gpt2-memory --json -o " + folder.file("a.json") + " --svg " + folder.file("a.svg"));
  REQUIRE(ran.status == 0);
  CHECK(ran.out == contents(folder.file("a.json")));
  const json r = json::parse(ran.out);
  CHECK(r["schema"] == 1);
  CHECK(r["study"] == "gpt2-memory");
  for (const char* key :
       {"experiments", "sources", "inputs", "formulas", "assumptions", "claims", "tables", "charts", "conclusions"}) {
    CAPTURE(key);
    CHECK(r[key].size() >= 1);
  }
  CHECK(r["claims"][0]["published"]["value"] == 11.0);
  CHECK(r["claims"][0]["evidence"] == "repository");
  REQUIRE(study("gpt2-memory --svg " + folder.file("b.svg")).status == 0);
  CHECK(contents(folder.file("a.svg")) == contents(folder.file("b.svg")));
}

TEST_CASE("every study's drawing is well-formed and names its axes", "[unit][cli]") {
  const TemporaryFolder folder;
  for (const json& entry : json::parse(study("--json").out)) {
    const std::string name = entry["study"].get<std::string>();
    CAPTURE(name);
    const Ran ran = study(name + " --json --svg " + folder.file("x.svg"));
    REQUIRE(ran.status == 0);
    const std::string svg = contents(folder.file("x.svg"));
    CHECK(well_formed(svg));
    CHECK(svg.find("nan") == std::string::npos);
    CHECK(svg.find("inf<") == std::string::npos);
    for (const json& chart : json::parse(ran.out)["charts"]) {
      CHECK_FALSE(chart["y"].get<std::string>().empty());
      CHECK((!chart["x"].get<std::string>().empty() || !chart["categories"].empty()));
      for (const json& series : chart["series"]) {
        CHECK(svg.find(">" + series["name"].get<std::string>() + "<") != std::string::npos);
      }
    }
  }
}
