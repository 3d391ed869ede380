#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "cli/verb_description.hpp"
#include "cli/verbs.hpp"
#include "tests/support/program_run.hpp"

// Manual pages and completions are made from the flags: what --help lists is in both.

using namespace orrery;
using namespace orrery::test;

namespace {

/// The long flags that --help of a verb lists.
std::set<std::string> flags_in_help(const std::string& verb) {
  std::istringstream lines(run(ORRERY_PROGRAM, verb + " --help").out);
  std::set<std::string> out;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("Examples")) break;
    const std::size_t first = line.find_first_not_of(' ');
    // What is further in is a text, which may begin with the name of another flag.
    if (first == std::string::npos || first > 4 || line[first] != '-') continue;
    std::istringstream names(line.substr(first, line.find(' ', first) - first));
    for (std::string name; std::getline(names, name, ',');) {
      if (name.starts_with("--")) out.insert(name);
    }
  }
  return out;
}

bool has_program(const char* name) {
  return std::system((std::string("command -v ") + name + " >/dev/null 2>&1").c_str()) == 0;
}

}  // namespace

TEST_CASE("every flag that --help lists is in the manual page and the completions", "[unit][cli]") {
  const std::vector<VerbDescription> verbs = describe_verbs(all_verbs());
  CHECK(verbs.size() >= 19);
  for (const VerbDescription& verb : verbs) {
    CAPTURE(verb.name);
    std::set<std::string> known = {"--help"};
    for (const FlagDescription& flag : verb.flags) {
      for (const std::string& name : flag.names) {
        if (name.starts_with("--")) known.insert(name);
      }
    }
    CHECK(known == flags_in_help(verb.name));
    std::string page = manual_page(verbs, verb.name, "1");
    for (std::size_t at = page.find("\\-"); at != std::string::npos; at = page.find("\\-", at)) page.erase(at, 1);
    for (const std::string& flag : known) {
      CAPTURE(flag);
      if (flag != "--help") CHECK(page.find(flag) != std::string::npos);
      for (const char* shell : {"bash", "zsh"}) {
        CHECK(completion_script(verbs, shell).find(flag) != std::string::npos);
      }
      if (flag != "--help") CHECK(completion_script(verbs, "fish").find(" -l " + flag.substr(2)) != std::string::npos);
    }
  }
}

TEST_CASE("bash completes verbs, flags and values", "[unit][cli]") {
  if (!has_program("bash")) return;
  const TemporaryFolder folder;
  const std::string script = folder.file("complete"), ask = folder.file("ask");
  write(script, completion_script(describe_verbs(all_verbs()), "bash"));
  const auto completed = [&](const std::string& words, int at) {
    write(ask, "source " + script + "\nCOMP_WORDS=(" + words + ")\nCOMP_CWORD=" + std::to_string(at) +
                   "\n_orrery\necho \"${COMPREPLY[*]}\"\n");
    const Ran ran = run("bash", ask);
    CHECK(ran.err.empty());
    return ran.out;
  };
  CHECK(completed("orrery swe", 1) == "sweep\n");
  CHECK(completed("orrery sweep --sh", 2) == "--shard\n");
  CHECK(completed("orrery plan --objective ''", 3) == "step-time memory cost\n");
  CHECK(completed("orrery simulate --lanes s", 3) == "serial\n");
}

TEST_CASE("pages are right for man, and for all verbs at once", "[unit][cli]") {
  const TemporaryFolder folder;
  REQUIRE(run(ORRERY_PROGRAM, "manual --folder " + folder.file("")).status == 0);
  std::size_t pages = 0;
  for (const VerbDescription& verb : describe_verbs(all_verbs())) {
    const std::string page = contents(folder.file("orrery-" + verb.name + ".1"));
    CAPTURE(verb.name);
    CHECK(page.starts_with(".TH ORRERY"));
    CHECK(page == run(ORRERY_PROGRAM, "manual " + verb.name).out);
    pages += page.empty() ? 0 : 1;
  }
  CHECK(pages == all_verbs().size());
  CHECK(contents(folder.file("orrery.1")) == run(ORRERY_PROGRAM, "manual").out);
  CHECK(run(ORRERY_PROGRAM, "manual swep").err.find("Nearest: sweep.") != std::string::npos);
  CHECK(run(ORRERY_PROGRAM, "completion tcsh").status == 2);
}

TEST_CASE("the version says from which commit the program was built", "[unit][cli]") {
  const std::string said = run(ORRERY_PROGRAM, "--version").out;
  CHECK(said.starts_with("orrery 0."));
  const std::size_t open = said.find('(');
  REQUIRE(open != std::string::npos);
  const std::string commit = said.substr(open + 1, said.find(')') - open - 1);
  CHECK((commit == "unknown" || commit.find_first_not_of("0123456789abcdef") >= 7));
}
