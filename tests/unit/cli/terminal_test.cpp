#include <catch2/catch.hpp>

#include <nlohmann/json.hpp>

#include "tests/support/program_run.hpp"
#include "tests/support/terminal_run.hpp"

// What a person sees on a terminal while a verb works, and what Ctrl-C leaves behind.

using namespace orrery::test;

namespace {

Ran orrery_run(const std::string& arguments) { return run(ORRERY_PROGRAM, arguments); }

}  // namespace

TEST_CASE("the first Ctrl-C while a timeline is written leaves a timeline that reads", "[unit][cli]") {
  const TemporaryFolder folder;
  const std::string trace = folder.file("t.json");
  // This has 64 ranks and about a gigabyte, long enough to be interrupted on any machine.
  const Shown shown = run_on_terminal(
      {ORRERY_PROGRAM, "simulate", "llama-3-70b-8-dgx-h100", "--ranks", "all", "--trace", trace}, "write     ");
  CAPTURE(shown.text.substr(shown.text.size() - std::min<std::size_t>(shown.text.size(), 400)));
  CHECK(shown.status == 1);
  CHECK(shown.text.find("step time") != std::string::npos);
  CHECK(shown.text.find("Interrupted while writing the timeline: ") != std::string::npos);
  CHECK(shown.text.find(" MiB of about ") != std::string::npos);
  CHECK(!std::filesystem::exists(trace + ".part"));
  const std::string text = contents(trace);
  CHECK(text.size() < 900'000'000);
  CHECK(text.find("\"origin\":\"simulate (stopped after ") != std::string::npos);
  CHECK(nlohmann::json::accept(text));
}

TEST_CASE("Ctrl-C while the best plans are simulated shows them with what is known", "[unit][cli]") {
  // The bar of this phase is first drawn when a plan has been simulated; there are up to 60.
  const std::vector<std::string> words{ORRERY_PROGRAM, "plan",   "--model", "llama-3-70b", "--cluster",
                                       "dgx-h100",     "--gpus", "32",      "--batch",     "64",
                                       "--seq",        "8192",   "--top",   "60",          "--verbose"};
  const Shown shown = run_on_terminal(words, "simulate: ");
  CHECK(shown.status == 1);
  CHECK(shown.text.find("Interrupted: ") != std::string::npos);
  CHECK(shown.text.find(" best plans were not simulated; all plans were estimated.") != std::string::npos);
  CHECK(shown.text.find("The best of ") != std::string::npos);
}

TEST_CASE("a bar is no wider than its terminal", "[unit][cli]") {
  const TemporaryFolder folder;
  const Shown shown = run_on_terminal({ORRERY_PROGRAM, "simulate", "llama-3-70b-8-dgx-h100", "--trace",
                                       folder.file("t.json"), "--large", "--noise", "0.1", "--ranks", "classes"},
                                      "", 30);
  CHECK(shown.status == 0);
  for (std::size_t at = shown.text.find("\x1b[2K"); at != std::string::npos; at = shown.text.find("\x1b[2K", at + 1)) {
    const std::string bar = shown.text.substr(at + 4, shown.text.find_first_of("\r\n", at + 4) - at - 4);
    if (bar.find('[') == std::string::npos) continue;
    const auto characters = std::count_if(bar.begin(), bar.end(), [](char c) { return (c & 0xc0) != 0x80; });
    CHECK(characters <= 29);
  }
}

TEST_CASE("a run that takes long shows its steps, its loss and the time left", "[unit][cli]") {
  const Shown shown = run_on_terminal({ORRERY_PROGRAM, "run", "demo-2x2x2", "--steps", "400"}, " left, loss ");
  CHECK(shown.status == 1);  // Ctrl-C at the cue
  CHECK(shown.text.find("Interrupted after ") != std::string::npos);
  CHECK(shown.text.find("step time") != std::string::npos);
}

TEST_CASE("check tells the time left when it takes long", "[unit][cli]") {
  const TemporaryFolder folder;
  const std::string trace = folder.file("t.json");
  REQUIRE(orrery_run("simulate llama-3-70b-8-dgx-h100 --ranks classes --trace " + trace).status == 0);
  const Shown shown = run_on_terminal({ORRERY_PROGRAM, "check", trace});
  CHECK(shown.status == 0);
  // The bar appears after a second, and is drawn twice in one.
  if (shown.seconds > 3.0) CHECK(shown.text.find(" left") != std::string::npos);
}
