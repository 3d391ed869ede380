#include "framework/launch/launch_value.hpp"

#include <catch2/catch.hpp>

using namespace orrery;

namespace {
using Kind = LaunchValue::Kind;
}

TEST_CASE("YAML becomes dotted keys with kinds and places", "[framework][launch]") {
  Diagnostics d;
  const auto file = parse_launch_yaml(
      "a:\n"
      "  b: 8\n"
      "  c: yes\n"
      "  d: 'yes'\n"
      "  e:\n"
      "  f: [1, {g: 2}]\n"
      "h: 1e-4\n",
      "x.yaml", d);
  REQUIRE(file);
  CHECK(d.empty());
  REQUIRE(file->values.size() == 6);
  CHECK(file->find("a.b")->kind == Kind::number);
  CHECK(file->find("a.b")->position == Position{2, 6});
  CHECK(file->find("a.c")->text == "true");
  CHECK(file->find("a.d")->kind == Kind::text);  // quoted: a text
  CHECK(file->find("a.e")->kind == Kind::none);
  CHECK(file->find("a.e")->position == Position{5, 3});  // no value: the key's place
  const LaunchValue& list = *file->find("a.f");
  REQUIRE(list.items.size() == 2);
  CHECK(list.items[0].text == "1");
  CHECK(list.items[1].items[0].key == "g");
  CHECK(file->find("h")->kind == Kind::number);
  CHECK(file->has("a"));
  CHECK_FALSE(file->has("a.bb"));
}

TEST_CASE("JSON is read as YAML, and TOML gives the same keys", "[framework][launch]") {
  Diagnostics d;
  const auto json = parse_launch_yaml("{\n\t\"z\": {\"stage\": 3, \"w\": \"auto\"}\n}", "x.json", d);
  const auto toml = parse_launch_toml("[z]\nstage = 3\nw = \"auto\"\n", "x.toml", d);
  REQUIRE(json);
  REQUIRE(toml);
  for (const auto& file : {*json, *toml}) {
    CHECK(file.find("z.stage")->text == "3");
    CHECK(file.find("z.w")->text == "auto");
    CHECK(file.find("z.stage")->position.line == 2);
  }
}

TEST_CASE("What is no table is refused with its place", "[framework][launch]") {
  for (const char* text : {"- 1\n- 2\n", "a: [1\n", "{\"a\": }}"}) {
    Diagnostics d;
    CHECK_FALSE(parse_launch_yaml(text, "x.yaml", d));
    REQUIRE(d.size() == 1);
    CHECK(d.list()[0].code == "launch.syntax");
    CHECK(d.list()[0].file == "x.yaml");
  }
}

TEST_CASE("Aliases that multiply end at a limit", "[framework][launch]") {
  std::string text = "a0: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]\n";
  text = "a0: &a0 [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]\n";
  for (int i = 1; i < 10; ++i) {
    const std::string last = "*a" + std::to_string(i - 1);
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int k = 0; k < 10; ++k) text += last + (k < 9 ? ", " : "]\n");
  }
  Diagnostics d;
  CHECK_FALSE(parse_launch_yaml(text, "x.yaml", d));
  REQUIRE(d.size() == 1);
  CHECK(d.list()[0].code == "launch.size");
}

TEST_CASE("a name in Python stands for the literal assigned last, or for what is given", "[unit][framework]") {
  Diagnostics d;
  const std::string text =
      "TP = 2\nMODE = \"a\"\nTWO = 1\nTWO = 2\nSUM = TP + 1\ndef f(PP):\n    pass\nPP = 4\nN: int = 3\n"
      "x = Plugin(tp=TP, two=TWO, sum=SUM, pp=PP, n=N, mode=MODE, args=args.dp, list=[TP, 8])\n";
  const auto value = [](const LaunchFile& file, const char* key) {
    const LaunchValue* v = file.find(std::string("Plugin.") + key);
    REQUIRE(v != nullptr);
    return v->unknown.empty() ? v->text : "? " + v->unknown;
  };
  const auto file = parse_launch_python(text, "a.py", {}, d);
  REQUIRE(file);
  CHECK(value(*file, "tp") == "2");
  CHECK(value(*file, "mode") == "a");
  CHECK(value(*file, "n") == "3");
  CHECK(value(*file, "two") == "2");
  CHECK(value(*file, "sum") == "? SUM");
  CHECK(value(*file, "pp") == "4");
  CHECK(value(*file, "args") == "? args.dp");
  REQUIRE(file->find("Plugin.list")->items.size() == 2);
  CHECK(file->find("Plugin.list")->items[0].text == "2");
  CHECK(file->find("Plugin.tp")->position.line == 10);
  const auto given = parse_launch_python(text, "a.py", {{"TP", "8"}, {"TWO", "True"}, {"args.dp", "16"}}, d);
  REQUIRE(given);
  CHECK(value(*given, "tp") == "8");
  CHECK(given->find("Plugin.two")->kind == LaunchValue::Kind::flag);
  CHECK(value(*given, "args") == "16");
  CHECK(d.empty());
}
