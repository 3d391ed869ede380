#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

// docs/diagnostics.md lists every code that a diagnostic can have, and no other:
// the sources are read for calls that report one.

namespace {

const std::filesystem::path root = ORRERY_SOURCE_DIR;

std::string text_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Texts of the sources in a folder, headers with templates among them.
std::vector<std::string> sources(const std::string& folder) {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root / folder)) {
    const auto kind = entry.path().extension();
    if (kind == ".cpp" || kind == ".hpp") out.push_back(text_of(entry.path()));
  }
  return out;
}

const std::string areas =
    "(?:file|library|model|hf|workload|cluster|device|calibration|plan|cli|export|program|report|trace|order|runs|"
    "fabric|import|checkpoint|gui|lesson|launch|framework|reliability|forecast|power|batch|jobs)";

/// A code stands before the message, which is a text with a space in it, or one that is made there.
const std::string before_message = "\"\\s*,\\s*(?:\"[^\" ]* |fmt::format|std::move|std::string|message|what)";

void add_matches(std::set<std::string>& codes, const std::string& text, const std::string& pattern,
                 const std::string& prefix) {
  const std::regex form(pattern);
  for (std::sregex_iterator at(text.begin(), text.end(), form), end; at != end; ++at)
    codes.insert(prefix + (*at)[1].str());
}

std::set<std::string> codes_in_sources() {
  std::set<std::string> codes;
  for (const char* folder :
       {"core", "sim", "exec", "cli", "planner", "forecast", "jobs", "validate", "gui", "framework"}) {
    // The desktop also names keys of plans beside their values.
    const std::string call = std::string_view(folder) == "gui" ? "error\\((?:[^;]*?,)?\\s*" : "";
    // Readers of launch files name keys of those files beside their messages.
    const std::string own = std::string_view(folder) == "framework" ? "(?:launch|framework|export)" : areas;
    for (const std::string& text : sources(folder)) {
      add_matches(codes, text, call + "\"(" + own + "\\.[a-z0-9-]+)" + before_message, "");
      add_matches(codes, text, "code = \"(" + own + "\\.[a-z0-9-]+)\"", "");
    }
  }
  // Checks of a plan, and writers of launches, give only the end of the code, after the wrong key.
  for (const auto& [folder, prefix] :
       std::map<std::string, std::string>{{"core/plan", "plan."}, {"framework", "export."}}) {
    for (const std::string& text : sources(folder)) {
      add_matches(codes, text,
                  "(?:error|refuse)\\(\\s*(?:\"[^\"]*\"|[^,()\"]+)\\s*,\\s*\"([a-z][a-z0-9-]*)" + before_message,
                  prefix);
    }
  }
  for (const char* kind : {"model", "cluster", "device", "fabric"})
    codes.insert(std::string("library.unknown-") + kind);
  return codes;
}

std::set<std::string> codes_in_docs() {
  std::set<std::string> codes;
  std::istringstream lines(text_of(root / "docs/diagnostics.md"));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("| `")) continue;
    add_matches(codes, line.substr(0, line.find('|', 1)), "`(" + areas + "\\.[a-z0-9-]+)`", "");
  }
  return codes;
}

}  // namespace

TEST_CASE("every code of a diagnostic is in docs/diagnostics.md", "[error]") {
  const std::set<std::string> documented = codes_in_docs();
  for (const std::string& code : codes_in_sources()) {
    CAPTURE(code);
    CHECK(documented.contains(code));
  }
}

TEST_CASE("docs/diagnostics.md has no code that no source has", "[error]") {
  const std::set<std::string> reported = codes_in_sources();
  // Some codes are made of parts in ways that the forms above do not cover; at least the part must stand somewhere.
  std::string all;
  for (const char* folder :
       {"core", "sim", "exec", "cli", "planner", "forecast", "jobs", "validate", "gui", "framework"}) {
    for (const std::string& text : sources(folder)) all += text;
  }
  for (const std::string& code : codes_in_docs()) {
    CAPTURE(code);
    const std::string end = code.substr(code.find('.') + 1);
    CHECK((reported.contains(code) || all.find("\"" + code + "\"") != std::string::npos ||
           all.find("\"" + end + "\"") != std::string::npos));
  }
}
