#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/plan/plan_file.hpp"
#include "core/spec/library.hpp"

using namespace orrery;

TEST_CASE("Every example plan reads and passes check on the cluster that it names") {
  const Library library(std::filesystem::path(ORRERY_SOURCE_DIR) / "models");
  const std::vector<std::string> names = library.plans();
  REQUIRE(names.size() >= 5);
  for (const std::string& name : names) {
    CAPTURE(name);
    Diagnostics found;
    const auto run = read_plan_file(library.plan(name), library, std::nullopt, found);
    INFO(render(found));
    REQUIRE(run.has_value());
    CHECK(run->plan.name == name);
    REQUIRE(run->cluster.has_value());
    CHECK(run->plan.mesh.size() == run->cluster->devices());
  }
}

TEST_CASE("The demo's plan splits a small GPT two by two by two and leaves nothing open") {
  const Library library(std::filesystem::path(ORRERY_SOURCE_DIR) / "models");
  Diagnostics found;
  const auto run = read_plan_file(library.plan("demo-2x2x2"), library, std::nullopt, found);
  REQUIRE(run.has_value());
  for (const Axis axis : {Axis::data, Axis::tensor, Axis::pipeline}) CHECK(run->plan.mesh.size(axis) == 2);
  CHECK(is_resolved(run->plan));
  CHECK(std::filesystem::exists(run->workload.data));
}

TEST_CASE("The example in docs/plan-file.md reads") {
  const std::filesystem::path source = ORRERY_SOURCE_DIR;
  std::ifstream in(source / "docs/plan-file.md");
  std::ostringstream page;
  page << in.rdbuf();
  const std::string text = page.str();
  const std::string fence = "```toml\n";
  const auto begin = text.find(fence);
  REQUIRE(begin != std::string::npos);
  const auto from = begin + fence.size();
  Diagnostics found;
  const auto run = read_plan(text.substr(from, text.find("```", from) - from), "docs/plan-file.md",
                             Library(source / "models"), std::nullopt, found);
  INFO(render(found));
  CHECK(run.has_value());
}
