#include <catch2/catch.hpp>

#include <algorithm>
#include <filesystem>

#include "tests/support/program_run.hpp"

// The program where there is no display.

using orrery::test::Ran;
using orrery::test::TemporaryFolder;

namespace {

Ran run_without_display(const std::string& settings, const std::string& arguments) {
  return orrery::test::run(
      "env -u DISPLAY -u WAYLAND_DISPLAY -u QT_QPA_PLATFORM " + settings + " " + ORRERY_GUI_PROGRAM, arguments);
}

std::size_t lines(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace

TEST_CASE("help and the version need no display", "[gui]") {
  const Ran version = run_without_display("", "--version");
  CHECK(version.status == 0);
  CHECK(version.out.starts_with("orrery-gui "));
  for (const char* flag : {"--help", "-h", "--help-all"}) {
    const Ran help = run_without_display("", flag);
    CAPTURE(flag, help.err);
    CHECK(help.status == 0);
    CHECK(help.out.find("--export") != std::string::npos);
  }
  // The same holds where the requested platform has no display.
  CHECK(run_without_display("QT_QPA_PLATFORM=xcb", "-v").status == 0);
}

TEST_CASE("views are exported without a display", "[gui]") {
  const TemporaryFolder folder;
  const Ran ran =
      run_without_display("HOME=" + folder.file("home"), "--export " + folder.file("views") + " demo-2x2x2");
  INFO(ran.err);
  CHECK(ran.status == 0);
  CHECK(std::filesystem::exists(folder.file("views") + "/timeline.png"));
  CHECK(std::filesystem::exists(folder.file("views") + "/plan.toml"));
}

TEST_CASE("a window without a display is one clear line and status 3", "[gui][error]") {
  for (const char* settings : {"", "QT_QPA_PLATFORM=xcb", "QT_QPA_PLATFORM=wayland"}) {
    const Ran ran = run_without_display(settings, "demo-2x2x2");
    CAPTURE(settings, ran.err);
    CHECK(ran.status == 3);
    CHECK(lines(ran.err) == 1);
    CHECK(ran.err ==
          "error: no display for a window (neither DISPLAY nor WAYLAND_DISPLAY is set); --export FOLDER writes every "
          "view as files, and needs none\n");
  }
  // The display has a name but does not answer.
  const Ran gone = run_without_display("DISPLAY=:4713 QT_QPA_PLATFORM=xcb", "");
  CAPTURE(gone.err);
  CHECK(gone.status == 3);
  CHECK(lines(gone.err) == 1);
  CHECK(gone.err.find(":4713") != std::string::npos);
}
