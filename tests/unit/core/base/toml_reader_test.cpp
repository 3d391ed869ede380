#include "core/base/toml_reader.hpp"

#include <catch2/catch.hpp>

#include "core/base/random.hpp"

using namespace orrery;

TEST_CASE("a value keeps the position where it stands", "[unit][toml]") {
  Diagnostics d;
  auto root = parse_toml("schema = 1\n\n[plan]\n  mesh = { data = 2, tensor = 4 }\n", "plan.toml", d);
  REQUIRE(root);
  CHECK(root->origin().position("schema") == Position{1, 10});
  CHECK(root->origin().position("plan.mesh.tensor") == Position{4, 31});
  CHECK(root->table("plan")->table("mesh")->keys() == std::vector<std::string>{"data", "tensor"});
}

TEST_CASE("keys come in the order of the file, not of the alphabet", "[unit][toml]") {
  Diagnostics d;
  auto root = parse_toml("zeta = 1\nalpha = 2\nmid = 3\n", "x", d);
  REQUIRE(root);
  CHECK(root->keys() == std::vector<std::string>{"zeta", "alpha", "mid"});
}

TEST_CASE("a failed read leaves its target alone", "[unit][toml]") {
  Diagnostics d;
  auto root = parse_toml("a = 5\nb = nan\nc = \"x\"\n", "x", d);
  REQUIRE(root);
  std::uint64_t a = 77;
  double b = 7.5;
  bool c = true;
  CHECK_FALSE(root->read("a", a, {6, 9}));
  CHECK_FALSE(root->read("b", b, {0.0, 1e300}));
  CHECK_FALSE(root->read("c", c));
  CHECK_FALSE(root->read("absent", a, {0, 9}, Need::optional));
  CHECK(a == 77);
  CHECK(b == 7.5);
  CHECK(c);
  CHECK(d.size() == 3);  // the absent optional key is no mistake
}

TEST_CASE("auto is a word of its own", "[unit][toml]") {
  Diagnostics d;
  auto root = parse_toml("a = \"auto\"\nb = 3\n", "x", d);
  REQUIRE(root);
  CHECK(root->read_auto("a"));
  CHECK_FALSE(root->read_auto("b"));
  CHECK_FALSE(root->read_auto("c"));
  root->finish();
  CHECK(d.empty());
}

TEST_CASE("deep nesting is refused before it can exhaust the stack", "[unit][toml]") {
  std::string dotted = "a";
  for (int i = 0; i < 100000; ++i) dotted += ".a";
  for (const std::string& text :
       {std::string(200000, '['), "a = " + std::string(200000, '['), dotted + " = 1", "[" + dotted + "]"}) {
    Diagnostics d;
    CHECK_FALSE(parse_toml(text, "deep", d));
    REQUIRE(d.size() == 1);
    CHECK(d.list().front().code == "file.syntax");
  }
}

TEST_CASE("any bytes give a table or diagnostics", "[unit][toml]") {
  const std::string good = "schema = 1\n[a]\nb = \"80 GiB\"\nc = [1, 2, {d = 1.5e3}]\n[[e]]\nf = true\n";
  const std::uint64_t seed = 11;
  CAPTURE(seed);
  for (std::uint64_t round = 0; round < 3000; ++round) {
    std::string text = good;
    const std::uint64_t edits = 1 + random_bits(seed, 0, round) % 6;
    for (std::uint64_t e = 0; e < edits; ++e) {
      const std::uint64_t r = random_bits(seed, 1 + e, round);
      const std::size_t at = r % text.size();
      const char c = static_cast<char>((r >> 32) & 0xff);
      if ((r >> 24) % 3 == 0)
        text.erase(at, 1 + (r >> 40) % 4);
      else if ((r >> 24) % 3 == 1)
        text[at] = c;
      else
        text.insert(at, 1, c);
      if (text.empty()) text = "x";
    }
    CAPTURE(round);
    Diagnostics d;
    const auto root = parse_toml(text, "fuzz", d);
    CHECK(root.has_value() == d.empty());
  }
}
