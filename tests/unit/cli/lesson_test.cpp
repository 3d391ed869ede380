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
    CHECK(ran.out.find("that can be") != std::string::npos);
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
  const std::size_t line =
      1 + static_cast<std::size_t>(std::count(
              good.begin(), good.begin() + static_cast<std::ptrdiff_t>(good.find("plan.zero_stage 1")), '\n'));
  CHECK(word.err.find("bad.toml:" + std::to_string(line) + ":") != std::string::npos);
  CHECK(word.err.find("nearest: plan.zero_stage") != std::string::npos);
  CHECK(word.err.find("[lesson.change]") != std::string::npos);

  const Ran plan = checked("plan.zero_stage 1", "plan.zero_stage 7");
  CHECK(plan.status == 2);
  CHECK(plan.err.find("step 1: the plan of \"1: optimizer states\" cannot be: ") != std::string::npos);
  CHECK(plan.err.find("[lesson.change]") != std::string::npos);

  const Ran file = checked("plan/data.toml", "plan/none.toml");
  CHECK(file.status == 2);
  CHECK(file.err.find("none.toml") != std::string::npos);
  CHECK(file.err.find("[file.open]") != std::string::npos);
}
