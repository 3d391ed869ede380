#include "core/base/json_text.hpp"

#include <catch2/catch.hpp>

#include <chrono>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/base/toml_json.hpp"

using namespace orrery;
using nlohmann::json;

TEST_CASE("JSON is read as the library reads it, but no key may stand twice", "[unit][base]") {
  for (const char* text : {"{}", "[]", "17", "\"x\"", "{\"a\": {\"b\": [1, {\"b\": 2}]}, \"b\": null}"}) {
    CAPTURE(text);
    json value;
    CHECK(parse_json_text(text, value).empty());
    CHECK(value == json::parse(text));
  }
  // The offset is that of the second key, or of the mistake.
  const struct {
    const char* text;
    JsonMistake::Kind kind;
    std::size_t byte;
  } wrong[] = {{"{\"a\": 1, \"a\": 2}", JsonMistake::Kind::key, 9},
               {"[{\"x\": {\"k\": 1, \"k\" : 2}}]", JsonMistake::Kind::key, 16},
               {"{\"\\\"\": 1, \"\\\"\": 2}", JsonMistake::Kind::key, 10},
               {"{\"a\\\\\": 1, \"a\\\\\": 2}", JsonMistake::Kind::key, 11},
               {"{\"a\": }", JsonMistake::Kind::syntax, 6},
               {"[1e999]", JsonMistake::Kind::number, 1},
               {"", JsonMistake::Kind::syntax, 0}};
  for (const auto& w : wrong) {
    CAPTURE(w.text);
    json value;
    const auto mistakes = parse_json_text(w.text, value);
    REQUIRE(mistakes.size() == 1);
    CHECK(mistakes[0].kind == w.kind);
    CHECK(mistakes[0].byte == w.byte);
  }
  json value;
  std::string many = "{\"a\": 0";
  for (int i = 0; i < 20; ++i) many += ", \"a\": 1";
  CHECK(parse_json_text(many + "}", value).size() == 10);
}

TEST_CASE("numbers that are not finite are read where asked, and leave every place as it is", "[unit][base]") {
  const std::string text = "{\"NaN\": [NaN, -Infinity ,Infinity, \"NaN, \\\" Infinity\"], \"b\": NaN, \"b\": 1}";
  JsonReading reading;
  reading.non_finite = true;
  std::vector<std::pair<std::string, std::size_t>> keys;
  reading.key_seen = [&](int depth, const std::string& key, std::size_t byte) {
    CHECK(depth == 1);
    keys.emplace_back(key, byte);
  };
  json value;
  const auto mistakes = parse_json_text(text, value, reading);
  REQUIRE(mistakes.size() == 1);
  CHECK(mistakes[0].kind == JsonMistake::Kind::key);
  CHECK(mistakes[0].byte == text.rfind("\"b\""));
  const json& list = value["NaN"];
  CHECK(std::isnan(list[0].get<double>()));
  CHECK(list[1] == -std::numeric_limits<double>::infinity());
  CHECK(list[2] == std::numeric_limits<double>::infinity());
  CHECK(list[3] == "NaN, \" Infinity");
  CHECK(keys == std::vector<std::pair<std::string, std::size_t>>{
                    {"NaN", 1}, {"b", text.find("\"b\"")}, {"b", text.rfind("\"b\"")}});
  CHECK(value_offset(text, 1) == text.find('['));
  for (const char* wrong :
       {"[NaNa]", "[aNaN]", "[1 NaN]", "{NaN: 1}", "{\"a\": 1, NaN : 1}", "[--Infinity]", "[nan]"}) {
    CAPTURE(wrong);
    CHECK(parse_json_text(wrong, value, reading).size() == 1);
  }
  // Without that option they are no JSON, and their replacement is a text like any other.
  CHECK(parse_json_text("[NaN]", value).size() == 1);
  CHECK(parse_json_text("[\" \", \"      \"]", value, reading).empty());
  CHECK(value == json{" ", "      "});
}

TEST_CASE("a reader of JSON may drop objects and is told how far it is", "[unit][base]") {
  std::string text = "[";
  for (int i = 0; i < 100'000; ++i) text += "{\"x\": 12345, \"y\": {}}, ";
  text += "0]";
  JsonReading reading;
  int inner = 0;
  reading.keep = [&](int depth, const json& object) {
    inner += depth == 2 ? 1 : 0;
    CHECK((depth == 2 || object.contains("x")));
    return depth != 1;
  };
  std::uint64_t last = 0;
  reading.progress = [&](std::uint64_t done, std::uint64_t total) {
    CHECK(done > last);
    CHECK(total == text.size());
    last = done;
  };
  json value;
  CHECK(parse_json_text(text, value, reading).empty());
  CHECK(inner == 100'000);
  CHECK(value.size() == 1);
  CHECK(last > text.size() / 2);
}

// Searching the list for each of its objects would take 10^11 steps, minutes on any machine; reading takes a second.
TEST_CASE("a list of half a million objects is read in time that grows with its length", "[unit][base]") {
  std::string text = "[";
  for (int i = 0; i < 500'000; ++i) text += "{\"x\":1},";
  text += "0]";
  json value;
  const auto start = std::chrono::steady_clock::now();
  CHECK(parse_json_text(text, value).empty());
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(30));
  CHECK(value.size() == 500'001);
  CHECK(value[499'999]["x"] == 1);
}

TEST_CASE("what is dropped from an object is gone with its key, and what is read again is what was written",
          "[unit][base]") {
  JsonReading reading;
  reading.keep = [](int, const json& object) { return !object.contains("drop"); };
  json value;
  CHECK(parse_json_text(R"({"a": {"drop": 1}, "b": [{"drop": 2}, -3, {"k": [[], {}]}], "c": {}})", value, reading)
            .empty());
  CHECK(value.dump() == R"({"b":[-3,{"k":[[],{}]}],"c":{}})");
  CHECK(parse_json_text(R"({"drop": 1})", value, reading).empty());
  CHECK(value.is_null());
  for (const char* text : {"1", "[]", "{}", "null", R"("\u00e9")", "[1,[2.5,[true,null,\"x\"]],{\"k\":{\"l\":[]}}]"}) {
    CHECK(parse_json_text(text, value).empty());
    CHECK(value == json::parse(text));
  }
}

TEST_CASE("TOML of ours becomes JSON with all its values", "[unit][base]") {
  CHECK(json_of_toml("b = 1\na = \"x\"\n[t]\nc = [1, 2.5]\nd = true\n[[t.l]]\ne = \"80 GiB\"\n").dump() ==
        R"({"b":1,"a":"x","t":{"c":[1,2.5],"d":true,"l":[{"e":"80 GiB"}]}})");
}
