#include <catch2/catch.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/support/program_run.hpp"

using namespace orrery::test;

namespace {

const std::filesystem::path lessons = std::filesystem::path(ORRERY_SOURCE_DIR) / "models" / "lesson";

std::string text_of(const std::filesystem::path& file) {
  std::ostringstream out;
  out << std::ifstream(file).rdbuf();
  return out.str();
}

}  // namespace

TEST_CASE("every shipped lesson is checked with all the plans that it names", "[unit][cli]") {
  int found = 0;
  for (const auto& entry : std::filesystem::directory_iterator(lessons)) {
    if (entry.path().extension() != ".toml") continue;
    ++found;
    const Ran ran = run(ORRERY_PROGRAM, "check " + entry.path().string());
    CAPTURE(ran.err);
    CHECK(ran.status == 0);
    CHECK(ran.out.find(": a lesson: ") != std::string::npos);
    CHECK(ran.out.find(" valid plan") != std::string::npos);
  }
  CHECK(found >= 8);
}

TEST_CASE("a lesson with a mistake is refused with its place, or with the plan that cannot be", "[unit][cli][error]") {
  const TemporaryFolder folder;
  std::filesystem::copy(lessons / "plan", folder.file("plan"), std::filesystem::copy_options::recursive);
  const std::string good = text_of(lessons / "1-data-parallel.toml");
  const auto checked = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    std::ofstream(folder.file("bad.toml")) << text.replace(at, from.size(), to);
    return run(ORRERY_PROGRAM, "check " + folder.file("bad.toml"));
  };
  const Ran word = checked("plan.zero_stage 1", "plan.zero_stag 1");
  CHECK(word.status == 2);
  const auto place_of = [&](const std::string& what) {
    const std::size_t at = good.find(what);
    REQUIRE(at != std::string::npos);
    const auto end = good.begin() + static_cast<std::ptrdiff_t>(at);
    return "bad.toml:" + std::to_string(1 + std::count(good.begin(), end, '\n')) + ":" +
           std::to_string(at - good.rfind('\n', at)) + ":";
  };
  CHECK(word.err.find(place_of("\"plan.zero_stage 1\"")) != std::string::npos);
  CHECK(word.err.find("nearest: plan.zero_stage") != std::string::npos);
  CHECK(word.err.find("[lesson.change]") != std::string::npos);

  const Ran plan = checked("plan.zero_stage 1", "plan.zero_stage 7");
  CHECK(plan.status == 2);
  CHECK(plan.err.find(place_of("\"plan.zero_stage 1\"")) != std::string::npos);
  CHECK(plan.err.find("step 1: the plan of \"1: optimizer states\" is not valid: ") != std::string::npos);
  CHECK(plan.err.find("[lesson.change]") != std::string::npos);

  const Ran file = checked("plan/data.toml", "plan/none.toml");
  CHECK(file.status == 2);
  CHECK(file.err.find("none.toml") != std::string::npos);
  CHECK(file.err.find("[file.open]") != std::string::npos);
  const std::string named = place_of("\"plan/data.toml\"");
  CHECK(file.err.find("included from ") != std::string::npos);
  CHECK(file.err.find(named.substr(0, named.rfind(':', named.size() - 2))) != std::string::npos);

  std::istringstream lines(text_of(lessons / "plan" / "data.toml"));
  std::ofstream alone(folder.file("plan/alone.toml"));
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("cluster =", 0) != 0 && line.rfind("gpus =", 0) != 0) alone << line << '\n';
  }
  alone.close();
  const Ran no_cluster = checked("plan/data.toml", "plan/alone.toml");
  CHECK(no_cluster.status == 2);
  CHECK(no_cluster.err.find(named) != std::string::npos);
  CHECK(no_cluster.err.find("names no cluster") != std::string::npos);
  CHECK(no_cluster.err.find("[lesson.plan]") != std::string::npos);
}
