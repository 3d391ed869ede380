#include <catch2/catch.hpp>

#include "framework/launch/launch_value.hpp"

using namespace orrery;
using Kind = LaunchValue::Kind;

namespace {

LaunchFile read(const std::string& text) {
  Diagnostics d;
  const auto file = parse_launch_python(text, "x.py", {}, d);
  REQUIRE(file);
  return *file;
}

}  // namespace

TEST_CASE("Keyword arguments and assignments of Python become keys with places", "[framework][launch]") {
  const LaunchFile f = read(
      "\"\"\"No = 1 in here: Plugin(a=9)\"\"\"\n"
      "def make(x=3, y: int = 4):\n"
      "    cfg.model.layers = 32  # a comment\n"
      "    p = Plugin(tp=2, sizes=[1,\n        2], name='a' \"b\", on=True, none=None,\n"
      "        inner=Config(ratio=0.5), table={\"k\": -1e-4}, scale=2**16, dtype=torch.bfloat16, f=f\"{x}\", z=x + "
      "1)\n");
  CHECK(f.find("cfg.model.layers")->text == "32");
  CHECK(f.find("cfg.model.layers")->position == Position{3, 24});
  CHECK(f.find("Plugin.tp")->position == Position{4, 19});
  CHECK(f.find("Plugin.sizes")->items.size() == 2);
  CHECK(f.find("Plugin.name")->text == "ab");
  CHECK(f.find("Plugin.on")->kind == Kind::flag);
  CHECK(f.find("Plugin.none")->kind == Kind::none);
  CHECK(f.find("Plugin.inner")->text == "Config");
  CHECK(f.find("Plugin.inner.ratio")->text == "0.5");
  CHECK(f.find("Plugin.table.k")->text == "-1e-4");
  CHECK(f.find("Plugin.scale")->text == "65536");
  CHECK(f.find("Plugin.dtype")->text == "torch.bfloat16");
  CHECK_FALSE(f.find("Plugin.f")->unknown.empty());
  CHECK(f.find("Plugin.z")->unknown == "x+1");
  CHECK_FALSE(f.has("make"));
  CHECK_FALSE(f.has("x"));
}

TEST_CASE("A name in Python stands for the literal assigned last, or for what a person gives", "[framework][launch]") {
  Diagnostics d;
  const std::string text = "TP = 2\nTP = 4\np = Plugin(tp=TP, pp=args.pp)\n";
  const auto file = parse_launch_python(text, "x.py", {{"args.pp", "8"}}, d);
  REQUIRE(file);
  CHECK(file->find("Plugin.tp")->text == "4");
  CHECK(file->find("Plugin.pp")->text == "8");
  CHECK(file->find("Plugin.tp")->position.line == 3);
}

TEST_CASE("Python that is cut off or nested deep ends without a crash", "[framework][launch]") {
  std::string deep;
  for (int i = 0; i < 20'000; ++i) deep += "f(a=[(";
  for (const std::string& text :
       {std::string("p = Plugin(a=[1, {'b': "), std::string("p = Plugin(a='''x"), deep, std::string("((((("),
        std::string("a.b.c ="), std::string("\\"), std::string("x = [1, 2")}) {
    static_cast<void>(read(text));
  }
}

TEST_CASE("JSON may have pairs of escapes, comments, and a comma at the end", "[framework][launch]") {
  Diagnostics d;
  const auto file = parse_launch_yaml(
      "{ // a comment\n \"a\\u00e9\": \"\\ud83d\\ude00\", \"t\": {}, \"l\": [1, {\"x\": 2}],}\n", "x.json", d);
  REQUIRE(file);
  CHECK(file->find("a\xc3\xa9")->text == "\xf0\x9f\x98\x80");
  CHECK(file->find("t")->kind == Kind::table);
  CHECK(file->find("l")->items[1].items[0].key == "x");
}

TEST_CASE("An empty table in YAML is a value of its own", "[framework][launch]") {
  Diagnostics d;
  const auto file = parse_launch_yaml("a: {}\nb: [{}]\n", "x.yaml", d);
  REQUIRE(file);
  CHECK(file->find("a")->kind == Kind::table);
  CHECK(file->find("b")->items[0].kind == Kind::table);
}
