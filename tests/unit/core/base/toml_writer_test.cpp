#include "core/base/toml_writer.hpp"

#include <catch2/catch.hpp>

#include "core/base/toml_reader.hpp"

using namespace orrery;

TEST_CASE("what the writer writes reads back equal", "[unit][toml]") {
  const std::string odd = "quote \" backslash \\ line\nbreak tab\t bell\a \xc3\xa9";
  const double third = 1.0 / 3.0;
  TomlWriter w;
  w.table("a").text("t", odd).number("n", third).whole("w", 1ULL << 62).flag("f", true);
  w.wholes("l", {1, 2, 3}).texts("s", {"x", odd});
  Diagnostics d;
  auto root = parse_toml(w.str(), "memory", d);
  REQUIRE(root);
  auto table = root->table("a");
  std::string t;
  double n = 0;
  std::uint64_t whole = 0;
  bool f = false;
  std::vector<std::uint32_t> l;
  std::vector<std::string> s;
  CHECK(table->read("t", t));
  CHECK(table->read("n", n, {0, 1}));
  CHECK(table->read("w", whole, {0, ~0ULL}));
  CHECK(table->read("f", f));
  CHECK(table->read("l", l, {0, 9}, 3));
  CHECK(table->read("s", s, 3));
  table->finish();
  CHECK(d.empty());
  CHECK(t == odd);
  CHECK(n == third);
  CHECK(whole == 1ULL << 62);
  CHECK(f);
  CHECK(l == std::vector<std::uint32_t>{1, 2, 3});
  CHECK(s == std::vector<std::string>{"x", odd});
}
