#include "core/plan/dimension.hpp"

#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "core/base/toml_reader.hpp"
#include "core/base/toml_writer.hpp"
#include "core/plan/plan_file.hpp"
#include "core/spec/library.hpp"

using namespace orrery;

namespace {

const std::filesystem::path source(ORRERY_SOURCE_DIR);
const Library library(source / "models");

PlannedRun example(const std::string& name) {
  Diagnostics d;
  auto run = read_plan_file(library.plan(name), library, std::nullopt, d);
  REQUIRE(run);
  return *run;
}

bool in_plan(const Dimension& d) { return d.table() == "plan" || d.table() == "mesh"; }

/// A section of docs/plan-file.md: the text after "## [title]".
std::string section(std::string_view title) {
  std::ifstream in(source / "docs" / "plan-file.md");
  std::stringstream all;
  all << in.rdbuf();
  const std::string text = all.str(), head = "## [" + std::string(title) + "]";
  const std::size_t from = text.find(head);
  REQUIRE(from != std::string::npos);
  return text.substr(from, text.find("\n## ", from) - from);
}

/// The cells of the table's line whose first cell names the key: key, values, default.
std::vector<std::string> cells(const std::string& section, std::string_view key) {
  std::istringstream lines(section);
  for (std::string line; std::getline(lines, line);) {
    std::vector<std::string> found;
    std::istringstream in(line);
    for (std::string cell; std::getline(in, cell, '|');) found.push_back(cell);
    if (found.size() >= 4 && found[1].find("`" + std::string(key) + "`") != std::string::npos) {
      return {found[1], found[2], found[3]};
    }
  }
  return {};
}

/// The default in the words of the page; counts that mean more than their number are in words.
std::string default_text(const Dimension& d) {
  static const std::map<std::string_view, std::string> words{{"plan.recompute_layers", "all"},
                                                             {"plan.gradient_bucket", "auto"},
                                                             {"plan.inner_ring", "one ring"},
                                                             {"plan.parameter_chunk", "layers travel whole"}};
  if (const auto at = words.find(d.key); at != words.end()) return at->second;
  const std::string text = text_of(d, d.usual);
  if (text == "auto") return text;
  if (d.kind == DimensionKind::choice) return "\"" + text + "\"";
  if (d.kind == DimensionKind::toggle) return text == "on" ? "true" : "false";
  return d.kind == DimensionKind::share ? "0" : text;
}

}  // namespace

TEST_CASE("every dimension has a key of its own, a sentence of help and a default that can be put", "[unit][plan]") {
  std::set<std::string_view> keys;
  for (const Dimension& d : dimensions()) {
    CAPTURE(d.key);
    CHECK(keys.insert(d.key).second);
    CHECK(dimension_named(d.key) == &d);
    CHECK(std::string_view(d.help).ends_with('.'));
    PlannedRun run = example("demo-2x2x2");
    std::string reason;
    CHECK(put(run, d, d.usual, reason));
  }
  CHECK(dimension_named("plan.zero") == nullptr);
}

TEST_CASE("a value that is put is got again, or a reason is given", "[unit][plan]") {
  const auto name = GENERATE("demo-2x2x2", "llama-3-70b-8-dgx-h100", "mixtral-8x7b-8-dgx-h100");
  for (const Dimension& d : dimensions()) {
    const PlannedRun from = example(name);
    for (std::uint64_t value : values(d, from)) {
      PlannedRun run = from;
      std::string reason;
      CAPTURE(d.key, value);
      if (put(run, d, value, reason)) {
        CHECK(d.get(run) == value);
      } else {
        CHECK(reason != "");
      }
    }
    const std::vector<std::uint64_t> tried = values(d, from);
    CHECK(std::is_sorted(tried.begin(), tried.end()));
    CHECK(std::count(tried.begin(), tried.end(), d.get(from)) == 1);
    PlannedRun run = from;
    std::string reason;
    CHECK_FALSE(put(run, d, std::uint64_t{1} << 40, reason));
    CHECK(reason != "");
  }
}

TEST_CASE("the words of a value are read back as the value", "[unit][plan]") {
  for (const Dimension& d : dimensions()) {
    std::string why;
    for (std::uint64_t v = 0; v < (is_named(d) ? d.names.size() : 3); ++v) {
      CAPTURE(d.key, v);
      CHECK(value_named(d, text_of(d, v), why) == v);
    }
    CHECK_FALSE(value_named(d, "elephant", why));
  }
  std::string why;
  CHECK_FALSE(value_named(dimension("plan.recompute"), "some", why));
  CHECK(why == "plan.recompute must be one of none, selective, full, not \"some\"");
  CHECK_FALSE(value_named(dimension("mesh.tensor"), "4x", why));
  CHECK(why == "mesh.tensor must be a whole number, not \"4x\"");
}

TEST_CASE("what plan files say of a plan has a row each, and every row's value outlives its file", "[unit][plan]") {
  const auto name = GENERATE("demo-2x2x2", "llama-3-70b-8-dgx-h100", "mixtral-8x7b-8-dgx-h100");
  for (const Dimension& d : dimensions()) {
    if (!in_plan(d)) continue;
    for (const std::uint64_t value : values(d, example(name))) {
      PlannedRun run = example(name);
      std::string reason;
      if (!put(run, d, value, reason)) continue;
      CAPTURE(d.key, value);
      for (const Decision& said : decisions(run.plan)) CHECK(dimension_named(said.key) != nullptr);
      if (!applies(d, run)) continue;
      // The text is read alone, without the rules of check().
      TomlWriter out;
      write_dimensions(out.table("mesh"), "mesh", run);
      write_dimensions(out.table("plan"), "plan", run);
      Diagnostics found;
      auto root = parse_toml(out.str(), "plan.toml", found);
      REQUIRE(root);
      PlannedRun again = run;
      again.plan = {};
      for (const char* table : {"mesh", "plan"}) {
        auto read = root->table(table);
        read_dimensions(*read, table, "", again);
        read->finish();
      }
      CHECK(render(found) == "");
      CHECK(d.get(again) == d.get(run));
    }
  }
}

TEST_CASE("shorthands are read as their keys", "[unit][plan]") {
  for (const Dimension& d : dimensions()) {
    for (const std::string_view alias : in_plan(d) ? d.aliases : std::vector<std::string_view>()) {
      Diagnostics found;
      const std::uint64_t value = std::min<std::uint64_t>(4, d.most);
      REQUIRE(value != d.usual);
      auto root = parse_toml(std::string(alias) + " = " + std::to_string(value) + "\n", "plan.toml", found);
      REQUIRE(root);
      PlannedRun run;
      read_dimensions(*root, d.table(), "", run);
      root->finish();
      CAPTURE(d.key, alias);
      CHECK(render(found) == "");
      CHECK(d.get(run) == value);
    }
  }
}

TEST_CASE("docs/plan-file.md names every key of a plan with its values and its default", "[unit][plan]") {
  for (const Dimension& d : dimensions()) {
    CAPTURE(d.key);
    const std::string text = section(d.table().empty() ? "mesh" : d.table().substr(0, d.table().find('.')));
    for (const std::string_view alias : d.aliases)
      CHECK(section("mesh").find("`" + std::string(alias) + "`") != std::string::npos);
    if (!in_plan(d)) continue;
    const std::vector<std::string> said = cells(text, d.word());
    REQUIRE(said.size() == 3);
    CAPTURE(said);
    CHECK(said[2].find(default_text(d)) != std::string::npos);
    if (d.kind == DimensionKind::choice && d.key != "plan.parameter_chunk") {
      for (const std::string_view name : d.names) {
        // Sets of modules are made of the names of single ones.
        if (d.key == "plan.recompute_modules" && name.find('+') != std::string_view::npos) continue;
        if (name != "auto") CHECK(said[1].find("\"" + std::string(name) + "\"") != std::string::npos);
      }
    }
    if (d.kind == DimensionKind::share) CHECK(said[1].find("0 to 8") != std::string::npos);
    if (d.kind == DimensionKind::count && d.most < 8) {
      for (std::uint64_t v = d.least; v <= d.most; ++v) CHECK(said[1].find(std::to_string(v)) != std::string::npos);
    }
  }
}
