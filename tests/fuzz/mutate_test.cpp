#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "tests/fuzz/readers.hpp"

// Seed files, changed at random, through the same entry points as the libFuzzer targets. It runs everywhere, for two
// seconds and at least a hundred files per reader. A case is named by its number, so a failure can be repeated. The
// number of the current case stands in fuzz-case.txt, for faults that end the program.

namespace {

using orrery::test::FuzzedReader;
using Random = std::mt19937_64;

std::vector<std::string> seeds(const FuzzedReader& reader) {
  std::vector<std::filesystem::path> files;
  for (const std::string_view folder : reader.seed_folders) {
    const auto path = std::filesystem::path(ORRERY_SOURCE_DIR) / folder;
    if (!std::filesystem::exists(path)) continue;
    for (const auto& entry : std::filesystem::directory_iterator(path)) {
      if (entry.path().extension() == reader.extension) files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  std::vector<std::string> texts;
  for (const auto& file : files) {
    std::stringstream text;
    text << std::ifstream(file, std::ios::binary).rdbuf();
    texts.push_back(text.str());
  }
  return texts;
}

std::size_t draw(Random& random, std::size_t count) { return static_cast<std::size_t>(random() % count); }

/// Whole numbers at the edges of types, odd reals, and signs of every grammar.
const std::vector<std::string>& words() {
  static const std::vector<std::string> list = {"0",
                                                "1",
                                                "-1",
                                                "2",
                                                "3",
                                                "7",
                                                "255",
                                                "256",
                                                "65536",
                                                "2147483648",
                                                "4294967295",
                                                "4294967296",
                                                "9007199254740993",
                                                "9223372036854775807",
                                                "18446744073709551615",
                                                "18446744073709551616",
                                                "-9223372036854775808",
                                                "1e308",
                                                "1e-320",
                                                "1e999",
                                                "-0.0",
                                                "nan",
                                                "inf",
                                                "-inf",
                                                "NaN",
                                                "Infinity",
                                                "-Infinity",
                                                "\"\"",
                                                "\"auto\"",
                                                "true",
                                                "false",
                                                "null",
                                                "[]",
                                                "{}",
                                                "[",
                                                "]",
                                                "{",
                                                "}",
                                                "(",
                                                ")",
                                                ",",
                                                ":",
                                                "=",
                                                "%0",
                                                "%99",
                                                "@-128",
                                                "\"",
                                                "\\",
                                                "#",
                                                "\n",
                                                "\r\n",
                                                "\t",
                                                "\xff",
                                                "\xc3\xa9",
                                                std::string(1, '\0'),
                                                "GiB",
                                                "80 GiB",
                                                "-1 GB/s",
                                                "1e300 TB",
                                                "repeat=4294967295",
                                                "after tail compute",
                                                "tensor",
                                                "data",
                                                "pipeline",
                                                "none"};
  return list;
}

/// The range [begin, end) of a number, a word or one other byte around `at`.
std::pair<std::size_t, std::size_t> token(const std::string& text, std::size_t at) {
  const auto inner = [&](std::size_t i) {
    const auto c = static_cast<unsigned char>(text[i]);
    return std::isalnum(c) != 0 || c == '_' || c == '.' || c == '-';
  };
  std::size_t begin = at, end = at + 1;
  if (!inner(at)) return {begin, end};
  while (begin > 0 && inner(begin - 1)) --begin;
  while (end < text.size() && inner(end)) ++end;
  return {begin, end};
}

std::pair<std::size_t, std::size_t> line(const std::string& text, std::size_t at) {
  const std::size_t before = text.rfind('\n', at == 0 ? 0 : at - 1);
  const std::size_t begin = before == std::string::npos || before >= at ? 0 : before + 1;
  const std::size_t end = text.find('\n', at);
  return {begin, end == std::string::npos ? text.size() : end + 1};
}

void change(std::string& text, const std::vector<std::string>& all, Random& random) {
  if (text.empty()) {
    text = words()[draw(random, words().size())];
    return;
  }
  const std::size_t at = draw(random, text.size());
  switch (draw(random, 9)) {
    case 0: text[at] = static_cast<char>(random()); break;
    case 1: text.insert(at, words()[draw(random, words().size())]); break;
    case 2:
    case 3: {  // another word for this one
      const auto [begin, end] = token(text, at);
      text.replace(begin, end - begin, words()[draw(random, words().size())]);
      break;
    }
    case 4: text.erase(at, 1 + draw(random, 40)); break;
    case 5: {  // a line twice
      const auto [begin, end] = line(text, at);
      text.insert(begin, text.substr(begin, end - begin));
      break;
    }
    case 6: {  // a line less
      const auto [begin, end] = line(text, at);
      text.erase(begin, end - begin);
      break;
    }
    case 7: {  // a line of another file
      const std::string& other = all[draw(random, all.size())];
      if (other.empty()) return;
      const auto [begin, end] = line(other, draw(random, other.size()));
      text.insert(line(text, at).first, other.substr(begin, end - begin));
      break;
    }
    default: {  // two words change places
      const auto [a, b] = token(text, at);
      const auto [c, d] = token(text, draw(random, text.size()));
      if (b > c) return;
      const std::string first = text.substr(a, b - a), second = text.substr(c, d - c);
      text.replace(c, d - c, first);
      text.replace(a, b - a, second);
      break;
    }
  }
}

std::string mutated(const std::vector<std::string>& all, std::uint64_t number) {
  Random random(number);
  std::string text = all[draw(random, all.size())];
  const std::size_t changes = 1 + draw(random, 4);
  for (std::size_t i = 0; i < changes; ++i) change(text, all, random);
  if (draw(random, 50) == 0 && !text.empty()) text.resize(draw(random, text.size()));
  if (text.size() > 100'000) text.resize(100'000);
  return text;
}

}  // namespace

TEST_CASE("readers answer every mutated file with a value or diagnostics", "[fuzz]") {
  constexpr auto budget = std::chrono::seconds(2);  // tools/nightly fuzzes for minutes
  constexpr std::uint64_t least = 100;              // however slow the machine
  for (const FuzzedReader& reader : orrery::test::fuzzed_readers()) {
    CAPTURE(reader.name);
    const std::vector<std::string> all = seeds(reader);
    REQUIRE(!all.empty());
    for (const std::string& text : all) {
      CAPTURE(text);
      REQUIRE(reader.read(text) == "");
    }
    std::ofstream note("fuzz-case.txt");
    const auto start = std::chrono::steady_clock::now();
    std::uint64_t number = 0;
    while (number < least || std::chrono::steady_clock::now() - start < budget) {
      ++number;
      note.seekp(0);
      note << reader.name << ' ' << number << std::endl;
      const std::string text = mutated(all, number);
      const std::string fault = reader.read(text);
      if (!fault.empty()) {
        CAPTURE(number, text);
        REQUIRE(fault == "");
      }
    }
    WARN(reader.name << ": " << number << " files");
  }
}

TEST_CASE("readers refuse what is not text of theirs at all", "[fuzz]") {
  const std::vector<std::string> odd = {"",
                                        std::string(1, '\0'),
                                        std::string(100'000, '['),
                                        std::string(100'000, '{'),
                                        std::string(100'000, '"'),
                                        std::string(100'000, '\n'),
                                        std::string(100'000, '9'),
                                        "\xef\xbb\xbf",
                                        std::string("\xff\xfe\0\0", 4)};
  for (const FuzzedReader& reader : orrery::test::fuzzed_readers()) {
    for (const std::string& text : odd) {
      CAPTURE(reader.name, text.substr(0, 10), text.size());
      CHECK(reader.read(text) == "");
    }
  }
}
