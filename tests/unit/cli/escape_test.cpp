#include <catch2/catch.hpp>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/base/random.hpp"
#include "core/base/source_excerpt.hpp"
#include "tests/support/program_run.hpp"

using namespace orrery;
using namespace orrery::test;

// Names in files, and names of files, are whatever somebody else has written there.
namespace {

constexpr std::uint64_t seed = 20261125;

/// Ways to steer a terminal: controls of ASCII, those of Unicode's C1 block in UTF-8 and as bare bytes, marks that turn
/// the direction of writing.
const std::vector<std::string> hostile{"\x1b[31m",
                                       "\x1b]0;title\x07",
                                       "\x07",
                                       "\x08\x08",
                                       "\r",
                                       "\x7f",
                                       "\xc2\x9b"
                                       "2J",
                                       "\xc2\x85",
                                       "\xc2\x90"
                                       "q",
                                       "\xc2\x9d",
                                       "\xe2\x80\xae",
                                       "\xe2\x81\xa6"};
const std::vector<std::string> bare{
    "\x9b"
    "31m",
    "\x85", "\xff", "\xc2"};

std::string hostile_name(std::uint64_t number, bool with_bare) {
  std::string name = "n" + std::to_string(number);
  for (std::uint64_t i = 0; i < 4; ++i) {
    const std::uint64_t bits = random_bits(seed, number, i);
    name += with_bare && bits % 5 == 0 ? bare[bits / 8 % bare.size()] : hostile[bits / 8 % hostile.size()];
    name += static_cast<char>('a' + bits % 26);
  }
  return name;
}

/// Quotes as TOML does: controls of ASCII as \uNNNN, all others as they are.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      const char* digits = "0123456789abcdef";
      out += std::string("\\u00") + digits[byte >> 4] + digits[byte & 15];
    } else {
      out += c;
    }
  }
  return out + "\"";
}

/// The first thing in a text that a terminal would obey; empty where there is none. It is written independently of the
/// code that the program uses.
std::string obeyed(const std::string& text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0;
    const auto third = i + 2 < text.size() ? static_cast<unsigned char>(text[i + 2]) : 0;
    std::size_t length = byte < 0x80                   ? 1
                         : byte >= 0xc2 && byte < 0xe0 ? 2
                         : byte >= 0xe0 && byte < 0xf0 ? 3
                         : byte >= 0xf0 && byte < 0xf5 ? 4
                                                       : 0;
    bool bad = length == 0 || (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7f;
    for (std::size_t k = 1; k < length; ++k) {
      bad = bad || i + k >= text.size() || (static_cast<unsigned char>(text[i + k]) & 0xc0) != 0x80;
    }
    bad = bad || (byte == 0xc2 && next < 0xa0);                                     // C1
    bad = bad || (byte == 0xe2 && next == 0x80 && third >= 0xa8 && third <= 0xae);  // U+2028 to U+202E
    bad = bad || (byte == 0xe2 && next == 0x81 && third >= 0xa6 && third <= 0xa9);  // U+2066 to U+2069
    if (bad) return "byte " + std::to_string(i) + " after: " + escaped(text.substr(i > 60 ? i - 60 : 0, 60));
    i += length - 1;
  }
  return "";
}

/// A shell's word.
std::string word(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

/// Files in which every free text is hostile.
struct Hostile {
  TemporaryFolder folder;
  std::string model, plan, broken;

  explicit Hostile(std::uint64_t n) {
    model = folder.file(hostile_name(n, true) + ".toml");
    write(model, "schema = 1\n[model]\nname = " + quoted(hostile_name(n + 1, false)) +
                     "\nlayers = 4\nhidden = 128\nheads = 4\nffn = 512\nvocabulary = 256\nmax_positions = 256\n"
                     "norm = \"layer_norm\"\nactivation = \"gelu\"\npositions = \"learned\"\nbias = true\n"
                     "tied_embeddings = true\nnorm_epsilon = 1e-05\nsource = " +
                     quoted(hostile_name(n + 2, false)) + "\n");
    plan = folder.file(hostile_name(n + 3, true) + ".toml");
    write(plan, plan_text(n, ""));
    // The file has an unknown key, a choice that does not exist, and a name that is nowhere.
    broken = folder.file(hostile_name(n + 4, true) + "-broken.toml");
    write(broken, plan_text(n, quoted(hostile_name(n + 5, false)) +
                                   " = 1\nschedule = " + quoted(hostile_name(n + 6, false)) + "\n"));
  }

  std::string plan_text(std::uint64_t n, const std::string& more) const {
    // This needs a path, since no TOML text holds bytes that are not UTF-8.
    const std::string link = folder.file("model.toml");
    std::error_code there_already;
    std::filesystem::create_symlink(model, link, there_already);
    return "schema = 1\nname = " + quoted(hostile_name(n + 7, false)) + "\nmodel = \"" + link +
           "\"\ncluster = \"local-cpu\"\ngpus = 2\n[workload]\nbatch = 4\nsequence = 16\nprecision = \"fp32\"\n"
           "[mesh]\ntensor = 2\n[plan]\nmicrobatch_size = 2\n" +
           more;
  }
};

}  // namespace

TEST_CASE("what could steer a terminal is shown and not obeyed, whatever verb prints it", "[unit][cli][escape]") {
  INFO("seed " << seed);
  for (std::uint64_t n = 0; n < 3; ++n) {
    const Hostile h(100 * n);
    const std::string plan = word(h.plan), model = word(h.model), broken = word(h.broken);
    const std::string report = word(h.folder.file(hostile_name(n + 50, true) + ".json"));
    const std::string trace = word(h.folder.file(hostile_name(n + 51, true) + ".json"));
    const std::string missing = word(h.folder.file(hostile_name(n + 52, true)));
    const std::string flag = word("--" + hostile_name(n + 53, true));
    const std::vector<std::pair<std::string, int>> commands{
        {"estimate " + plan + " -o " + report, 0},
        {"simulate " + plan + " --trace " + trace, 0},
        {"run " + plan + " --steps 1 --warmup 0", 0},
        {"plan --model " + model + " --cluster local-cpu --gpus 2 --batch 4 --seq 16 --precision fp32", 0},
        {"check " + plan, 0},
        {"check " + model, 0},
        {"check " + report, 0},
        {"show plan " + plan, 0},
        {"show model " + model, 0},
        {"show program " + plan, 0},
        {"explain " + plan, 0},
        {"compare " + report + " " + report, 0},
        {"compare " + trace + " " + trace, 0},
        {"estimate " + broken, 2},
        {"check " + broken, 2},
        {"run " + broken, 2},
        {"explain " + broken, 2},
        {"compare " + plan + " " + missing, 2},
        {"show model " + missing, 2},
        {"plan --model " + missing + " --cluster local-cpu --batch 4 --seq 16", 2},
        {"estimate " + plan + " " + flag, 2},
        {"check " + missing, 2},
        {"run " + plan + " --checkpoint " + missing + " --resume", 2},
        {"estimate " + plan + " -o " + missing + "/x", 3},
    };
    for (const auto& [command, status] : commands) {
      for (const bool json : {false, true}) {
        if (json && command.starts_with("show")) continue;
        const Ran ran = run(ORRERY_PROGRAM, command + (json ? " --json" : ""));
        CAPTURE(escaped(command), json, escaped(ran.out), escaped(ran.err, "\n"));
        // Where a verb has no --json, or the file is refused before, the status is that of a mistake. Here it only
        // matters that everything has been printed that could be.
        if (!json) CHECK((status == 0) == (ran.status == 0 || ran.status == 1));
        CHECK(obeyed(ran.out) == "");
        CHECK(obeyed(ran.err) == "");
        if (json && !ran.out.empty()) CHECK_FALSE(nlohmann::json::parse(ran.out, nullptr, false).is_discarded());
      }
    }
  }
}

TEST_CASE("JSON and TOML that were printed give the name back", "[unit][cli][escape]") {
  const Hostile h(7);
  const std::string name = hostile_name(14, false);  // of the plan
  const Ran json = run(ORRERY_PROGRAM, "estimate " + word(h.plan) + " --json");
  CHECK(nlohmann::json::parse(json.out).at("plan") == name);
  const Ran report = run(ORRERY_PROGRAM, "estimate " + word(h.plan) + " -o -");
  CHECK(nlohmann::json::parse(report.out).at("plan") == name);
  CHECK(obeyed(report.out) == "");
}

TEST_CASE("a forged checkpoint's texts are shown and not obeyed", "[unit][cli][escape]") {
  const Hostile h(31);
  const std::string saved = word(h.folder.file(hostile_name(60, true)));
  REQUIRE(run(ORRERY_PROGRAM, "run " + word(h.plan) + " --steps 1 --warmup 0 --checkpoint " + saved).status == 0);
  for (const std::string& flags : {std::string(), std::string(" --json")}) {
    const Ran ran = run(ORRERY_PROGRAM, "checkpoint " + saved + flags);
    CHECK(ran.status == 0);
    CHECK(obeyed(ran.out) == "");
  }
}
