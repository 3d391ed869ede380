#include <catch2/catch.hpp>

#include <filesystem>

#include "core/base/source_excerpt.hpp"
#include "tests/error/core/spec_cases.hpp"

// Mistakes that any file of ours can have: one wrong input for each code of core/base, and the exact text that a person
// sees. docs/diagnostics.md lists the same codes.

using namespace orrery;
using namespace orrery::test;

TEST_CASE("the unchanged files are right", "[error]") {
  Diagnostics d;
  CHECK(parse_model(good_model, "m.toml", d));
  CHECK(parse_workload(good_workload, "w.toml", d));
  CHECK(parse_cluster(
      good_cluster, "c.toml", [](const std::string& n, Diagnostics& m) { return library.device(n, m); }, d));
  CHECK(render(d) == "");
}

TEST_CASE("file.open: a file that is not there", "[error]") {
  Diagnostics d;
  CHECK_FALSE(read_model_file("/nowhere/m.toml", d));
  CHECK(render(d) == "/nowhere/m.toml: error: there is no such file [file.open]\n");
}

TEST_CASE("the caret stands under its character, whatever stands before it", "[error]") {
  const auto shown = [](std::string_view line, std::uint32_t column) {
    const Excerpt e = excerpt(line, column);
    return e.line + "\n" + e.pad + "^";
  };
  CHECK(shown("\ta = 1", 2) == "\ta = 1\n\t^");
  CHECK(shown("\xc3\xa9 = 1", 5) == "\xc3\xa9 = 1\n    ^");           // one column
  CHECK(shown("\xe4\xb8\xad = 1", 5) == "\xe4\xb8\xad = 1\n     ^");  // two columns
  CHECK(shown("e\xcc\x81 = 1", 6) == "e\xcc\x81 = 1\n    ^");         // an accent above the letter
  CHECK(shown("\x1b[31m = 1", 8) == "\\x1b[31m = 1\n          ^");    // a colour, escaped
  CHECK(shown("\xff\xc0\x80\xed\xa0\x80 x", 8) ==
        "\\xff\\xc0\\x80\\xed\\xa0\\x80 x\n" + std::string(25, ' ') + "^");    // no UTF-8
  CHECK(shown("\xc2\x9b\xe2\x80\xae", 9) == "\\u009b\\u202e\n            ^");  // beyond the end
  CHECK(shown("", 3) == "\n^");
  const std::string many(1000, 'x');
  CHECK(shown(many, 1) == std::string(120, 'x') + "...\n^");
  CHECK(shown(many, 500) == "..." + std::string(120, 'x') + "...\n" + std::string(83, ' ') + "^");
  CHECK(shown(many, 1000) == "..." + std::string(120, 'x') + "\n" + std::string(122, ' ') + "^");
  CHECK(character_count("a\xc3\xa9\xff") == 3);
}

TEST_CASE("messages do not pass on what a terminal would obey", "[error]") {
  Diagnostics d;
  d.error("some.code", "a\x1b[2Jb\nc", {"one\ntwo\r"});
  CHECK(render(d) == "error: a\\x1b[2Jb\\x0ac [some.code]\n  one\ntwo\\x0d\n");
}

TEST_CASE("file.syntax: a line that is not TOML", "[error]") {
  const std::string text = with(good_model, "layers = 2", "layers 2");
  CHECK(model_error(text) ==
        R"(m.toml:4:8: error: not valid TOML: Error while parsing key-value pair: expected '=', saw '2' [file.syntax]
    4 | layers 2
      |        ^
)");
}

TEST_CASE("file.schema: a version of the future", "[error]") {
  const std::string text = with(good_model, "schema = 1", "schema = 99");
  CHECK(model_error(text) == R"(m.toml:1:10: error: this model file is newer than this program [file.schema]
    1 | schema = 99
      |          ^
  Its schema is 99; this program reads up to 1.
)");
}

TEST_CASE("file.unknown-key: a slip in a key", "[error]") {
  const std::string text = with(good_model, "layers = 2", R"(layers = 2
layer = 3)");
  CHECK(model_error(text) == R"(m.toml:5:1: error: model.layer is not a known key [file.unknown-key]
    5 | layer = 3
      | ^
  Did you mean layers?
)");
}

TEST_CASE("file.missing-key: a key left out", "[error]") {
  const std::string text = with(good_model, R"(ffn = 256
)",
                                "");
  CHECK(model_error(text) == R"(m.toml:2:1: error: the key ffn is missing from [model] [file.missing-key]
    2 | [model]
      | ^
)");
}

TEST_CASE("file.type: text where a number belongs", "[error]") {
  const std::string text = with(good_model, "heads = 4", R"(heads = "four")");
  CHECK(model_error(text) == R"(m.toml:6:9: error: model.heads is text, but must be a whole number [file.type]
    6 | heads = "four"
      |         ^
)");
}

TEST_CASE("file.range: a number below its range", "[error]") {
  const std::string text = with(good_model, "layers = 2", "layers = -2");
  CHECK(model_error(text) == R"(m.toml:4:10: error: model.layers is out of range [file.range]
    4 | layers = -2
      |          ^
  It is -2; from 1 to 10000 is allowed.
)");
}

TEST_CASE("file.range: not a number", "[error]") {
  const std::string text = with(good_workload, "batch = 8", R"(batch = 8
dropout = nan)");
  CHECK(workload_error(text) == R"(w.toml:4:11: error: workload.dropout is out of range [file.range]
    4 | dropout = nan
      |           ^
  It is nan; from 0 to below 1 is allowed.
)");
}

TEST_CASE("file.unit: a quantity without its unit", "[error]") {
  const std::string text = with(good_cluster, R"("450 GB/s")", R"("450")");
  CHECK(
      cluster_error(text) ==
      R"(c.toml:10:13: error: cluster.levels.0.bandwidth is not a quantity: the unit is missing; write for example "3.35 TB/s" [file.unit]
   10 | bandwidth = "450"
      |             ^
)");
}

TEST_CASE("file.unit: a bare number for a quantity", "[error]") {
  const std::string text = with(good_cluster, R"("450 GB/s")", "450");
  CHECK(
      cluster_error(text) ==
      R"(c.toml:10:13: error: cluster.levels.0.bandwidth is a whole number, but must be a quantity in quotes [file.unit]
   10 | bandwidth = 450
      |             ^
  Write for example "3.35 TB/s".
)");
}

TEST_CASE("file.choice: a name that is not known", "[error]") {
  const std::string text = with(good_model, R"("gelu")", R"("tanh")");
  CHECK(model_error(text) == R"(m.toml:11:14: error: model.activation is "tanh", which is not known [file.choice]
   11 | activation = "tanh"
      |              ^
  Known: gelu, swiglu, geglu, relu, squared_relu, quick_gelu.
)");
}

TEST_CASE("file.range: a clip norm of nothing", "[error]") {
  const std::string text = with(good_workload, "batch = 8", R"(batch = 8
clip_norm = 0)");
  CHECK(workload_error(text) == R"(w.toml:4:13: error: workload.clip_norm is out of range [file.range]
    4 | clip_norm = 0
      |             ^
  It is 0; above 0 and at most 1000000000 is allowed.
)");
}

TEST_CASE("file.range: dropout that leaves nothing", "[error]") {
  const std::string text = with(good_workload, "batch = 8", R"(batch = 8
dropout = 1.0)");
  CHECK(workload_error(text) == R"(w.toml:4:11: error: workload.dropout is out of range [file.range]
    4 | dropout = 1.0
      |           ^
  It is 1; from 0 to below 1 is allowed.
)");
}

TEST_CASE("file.range: a range says which of its ends are allowed", "[error]") {
  CHECK(workload_error(good_workload + "[workload.optimizer]\nbeta1 = 1\n") ==
        R"(w.toml:6:9: error: workload.optimizer.beta1 is out of range [file.range]
    6 | beta1 = 1
      |         ^
  It is 1; from 0 to below 1 is allowed.
)");
  CHECK(workload_error(good_workload + "[workload.optimizer]\nkind = \"lamb\"\ntrust_clip = 0\n") ==
        R"(w.toml:7:14: error: workload.optimizer.trust_clip is out of range [file.range]
    7 | trust_clip = 0
      |              ^
  It is 0; above 0 and at most 1000000000 is allowed.
)");
  CHECK(workload_error(good_workload + "[workload.optimizer]\nkind = \"lars\"\ntrust_coefficient = -1\n") ==
        R"(w.toml:7:21: error: workload.optimizer.trust_coefficient is out of range [file.range]
    7 | trust_coefficient = -1
      |                     ^
  It is -1; above 0 and at most 1000000000 is allowed.
)");
  CHECK(workload_error(with(good_workload, "schema = 1", "schema = 0")) ==
        R"(w.toml:1:10: error: schema is out of range [file.range]
    1 | schema = 0
      |          ^
  It is 0; only 1 is allowed.
)");
  CHECK(cluster_error(with(good_cluster, "450 GB/s", "0.5 B/s")) ==
        R"(c.toml:10:13: error: cluster.levels.0.bandwidth is out of range [file.range]
   10 | bandwidth = "0.5 B/s"
      |             ^
  It is 0.5 B/s; from 1 B/s to 1000000 TB/s is allowed.
)");
}

TEST_CASE("file.unknown-key: a slip in schema itself", "[error]") {
  CHECK(model_error(with(good_model, "schema = 1", "shema = 1")) ==
        R"(m.toml:1:1: error: shema is not a known key [file.unknown-key]
    1 | shema = 1
      | ^
  Did you mean schema?
)");
}
