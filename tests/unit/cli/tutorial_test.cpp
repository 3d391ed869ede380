#include <catch2/catch.hpp>

#include <cctype>
#include <filesystem>
#include <sstream>
#include <vector>

#include "tests/support/program_run.hpp"

// Runs docs/tutorial.md from its first command to its last, in a folder that has nothing but `models`, and compares
// what it shows with what the program prints.

using namespace orrery::test;

namespace {

/// A command of the page, and the lines that stand below it.
struct Shown {
  std::string command;
  std::vector<std::string> lines;
  bool measured = false;  ///< a block "console measured": times are those of one run on one machine
};

using Lines = std::vector<std::string>;

std::string without_trailing_spaces(std::string line) {
  line.erase(line.find_last_not_of(" \r") + 1);
  return line;
}

Lines lines_of(const std::string& text) {
  Lines lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(without_trailing_spaces(line));
  return lines;
}

std::vector<Shown> commands_of(const std::string& page) {
  std::vector<Shown> commands;
  std::string block;  // the first line of the block that is read; none: text
  for (const std::string& line : lines_of(page)) {
    if (line.starts_with("```")) {
      block = block.empty() ? line : "";
    } else if (block.starts_with("```console")) {
      if (line.starts_with("$ ")) {
        commands.push_back({line.substr(2), {}, block == "```console measured"});
        continue;
      }
      REQUIRE_FALSE(commands.empty());
      auto& [command, lines, measured] = commands.back();
      if (command.ends_with('\\')) {
        command += "\n" + line;
      } else {
        lines.push_back(line);
      }
    }
  }
  return commands;
}

/// Whether `printed` is `shown`, where "..." stands for any number of lines.
bool matches(const Lines& shown, std::size_t s, const Lines& printed, std::size_t p) {
  if (s == shown.size()) return p == printed.size();
  if (shown[s] != "...") return p < printed.size() && shown[s] == printed[p] && matches(shown, s + 1, printed, p + 1);
  for (std::size_t next = p; next <= printed.size(); ++next) {
    if (matches(shown, s + 1, printed, next)) return true;
  }
  return false;
}

bool counts_bytes(const std::string& word) {
  return word.find(',') != std::string::npos && word.find_first_not_of("0123456789,") == std::string::npos;
}

/// What of a measured line is the same in every run: its first word, and numbers with commas, which count bytes.
Lines lasting_words(const std::string& line) {
  Lines words;
  std::istringstream in(line);
  for (std::string word; in >> word;) {
    if (words.empty() || counts_bytes(word)) words.push_back(word);
  }
  return words;
}

/// A line that begins with a figure of this machine, such as "2 cores".
bool is_only_measured(const Lines& words) {
  return words.size() == 1 && std::isdigit(static_cast<unsigned char>(words[0][0])) != 0;
}

/// Whether each line of `shown` has one of `printed` like it, in the same order.
bool measured_matches(const Lines& shown, const Lines& printed) {
  std::size_t p = 0;
  for (const std::string& line : shown) {
    if (line == "...") continue;
    const Lines wanted = lasting_words(line);
    if (is_only_measured(wanted)) continue;
    while (p < printed.size() && lasting_words(printed[p]) != wanted) ++p;
    if (p == printed.size()) return false;
    ++p;
  }
  return true;
}

/// Runs all commands in one shell, so that `cd` lasts; what each prints and its status are in files with its number.
void run_in_order(const std::vector<Shown>& commands, const TemporaryFolder& folder) {
  std::string script = "cd " + folder.file("top") + "\nexport COLUMNS=80 XDG_DATA_HOME=" + folder.file("home") +
                       "\nexport PATH=\"" + std::filesystem::path(ORRERY_PROGRAM).parent_path().string() + ":$PATH\"\n";
  for (std::size_t i = 0; i < commands.size(); ++i) {
    const std::string number = std::to_string(i);
    script += "{\n" + commands[i].command + "\n} >" + folder.file("out" + number) + " 2>&1 </dev/null\necho $? >" +
              folder.file("status" + number) + "\n";
  }
  write(folder.file("script"), script);
  std::filesystem::create_directory(folder.file("top"));
  std::filesystem::create_directory_symlink(std::string(ORRERY_SOURCE_DIR) + "/models", folder.file("top/models"));
  CHECK(std::system(("sh " + folder.file("script")).c_str()) == 0);
}

}  // namespace

TEST_CASE("lines that are left out of the tutorial are any lines", "[unit][cli]") {
  CHECK(matches({"a", "...", "c"}, 0, {"a", "c"}, 0));
  CHECK(matches({"a", "...", "c"}, 0, {"a", "b", "b", "c"}, 0));
  CHECK(matches({"...", "c", "..."}, 0, {"b", "c", "d"}, 0));
  CHECK_FALSE(matches({"a", "c"}, 0, {"a", "b", "c"}, 0));
  CHECK_FALSE(matches({"a"}, 0, {"a", "b"}, 0));
  CHECK_FALSE(matches({"a", "...", "c"}, 0, {"a", "b"}, 0));
  CHECK(measured_matches({"step time 5 ms", "...", "0 5 ms 46,625,840"},
                         {"busy", "step time 7 ms", "0 6 ms 46,625,840"}));
  CHECK_FALSE(measured_matches({"0 5 ms 46,625,840"}, {"0 5 ms 46,625,841"}));
  CHECK_FALSE(measured_matches({"gemm 5 ms"}, {"fill 5 ms"}));
}

TEST_CASE("every command of the tutorial prints what the tutorial shows", "[unit][cli]") {
  const std::vector<Shown> commands = commands_of(contents(std::string(ORRERY_SOURCE_DIR) + "/docs/tutorial.md"));
  REQUIRE(commands.size() > 10);
  const TemporaryFolder folder;
  run_in_order(commands, folder);
  for (std::size_t i = 0; i < commands.size(); ++i) {
    const auto& [command, shown, measured] = commands[i];
    const std::string out = contents(folder.file("out" + std::to_string(i)));
    CAPTURE(command, out);
    // A slip ends with 2, as the tutorial says; a plan that does not fit and a busy machine with 1.
    const std::string status = contents(folder.file("status" + std::to_string(i)));
    CHECK((status == "0\n" || status == "1\n" || (status == "2\n" && command.find("wrong.toml") != std::string::npos)));
    const Lines printed = lines_of(out);
    CHECK((measured ? measured_matches(shown, printed) : matches(shown, 0, printed, 0)));
  }
}
