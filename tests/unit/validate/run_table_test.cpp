#include <catch2/catch.hpp>

#include "tests/unit/validate/runs.hpp"
#include "validate/run_table.hpp"

using namespace orrery;
using namespace orrery::test;

namespace {

const std::string good = write_runs({dense_run()});

std::string mistakes(const std::string& text) {
  Diagnostics d;
  CHECK_FALSE(parse_runs(text, "t.csv", d));
  return render(d);
}

/// `text` with its first `old` replaced.
std::string with(std::string text, const std::string& old, const std::string& fresh) {
  return text.replace(text.find(old), old.size(), fresh);
}

/// The first line of a rendering: file, place, message and code.
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

TEST_CASE("a table reads back as it was written", "[unit][validate]") {
  MeasuredRun odd = dense_run();
  odd.id = "a, \"b\"\nc";
  odd.gpus.reset();
  odd.iter_s = 0.1;
  Diagnostics d;
  const std::vector<MeasuredRun> runs{dense_run(), odd};
  CHECK(parse_runs(write_runs(runs), "t.csv", d) == runs);
  CHECK(parse_runs(write_runs({}), "t.csv", d) == std::vector<MeasuredRun>{});
  CHECK(render(d) == "");
}

TEST_CASE("columns stand in any order", "[unit][validate]") {
  // The first two columns change places, in the header and in the row.
  const std::string swapped = with(with(good, "id,source", "source,id"), "\ndense,", "\n,dense");
  Diagnostics d;
  CHECK(parse_runs(swapped, "t.csv", d) == std::vector<MeasuredRun>{dense_run()});
  CHECK(render(d) == "");
}

TEST_CASE("runs.column: columns that are unknown, missing or there twice", "[unit][validate]") {
  const std::string text = mistakes(with(good, ",layers,", ",layer,"));
  CHECK(first_line(text) == "t.csv:1:92: error: no column is called \"layer\" [runs.column]");
  CHECK(text.find("  Nearest: layers") != std::string::npos);
  CHECK(text.find("error: the table lacks columns [runs.column]") != std::string::npos);
  CHECK(text.find("  Missing: layers. What is not known is an empty cell.\n") != std::string::npos);
  CHECK(first_line(mistakes(with(good, ",layers,", ",hidden,"))) ==
        "t.csv:1:99: error: the column hidden stands twice [runs.column]");
}

TEST_CASE("runs.cells: a row with too few or too many cells", "[unit][validate]") {
  const std::string text = mistakes(good.substr(0, good.find('\n')) + "\nx,y\n");
  CHECK(text ==
        "t.csv:2:1: error: a row does not have a cell for each column [runs.cells]\n"
        "    2 | x,y\n"
        "      | ^\n"
        "  It has 2 cells; the first row names 46 columns.\n"
        "  A text with a comma stands in quotes.\n");
}

TEST_CASE("runs.number: what is not a count or not a figure", "[unit][validate]") {
  for (const char* wrong : {"0", "-8", "8.0", "eight", "8 ", "99999999999"}) {
    const std::string text = mistakes(with(good, "A100-SXM4,80,8,", std::string("A100-SXM4,80,") + wrong + ","));
    CHECK(first_line(text) == "t.csv:2:23: error: gpus is not a count [runs.number]");
  }
  for (const char* wrong : {"0", "-1", "nan", "inf", "1e300", "2.5s"}) {
    const std::string text = mistakes(with(good, ",2.5,", std::string(",") + wrong + ","));
    CHECK(first_line(text).find("error: iter_s is not a measured figure [runs.number]") != std::string::npos);
  }
}

TEST_CASE("runs.id: rows without a name of their own", "[unit][validate]") {
  CHECK(first_line(mistakes(with(good, "\ndense,", "\n,"))) == "t.csv:2:1: error: a row has no id [runs.id]");
  const std::string twice = mistakes(good + good.substr(good.find('\n') + 1));
  CHECK(first_line(twice) == "t.csv:3:1: error: two rows have the id dense [runs.id]");
  CHECK(twice.find("  The first stands in line 2.\n") != std::string::npos);
}

TEST_CASE("runs.empty: a table without a header", "[unit][validate]") {
  CHECK(first_line(mistakes("\n")) == "t.csv:1:1: error: the table is empty [runs.empty]");
}

TEST_CASE("the shipped table reads", "[unit][validate]") {
  Diagnostics d;
  const auto runs = read_runs(std::string(ORRERY_SOURCE_DIR) + "/traces/measured/runs.csv", d);
  CHECK(render(d) == "");
  REQUIRE(runs);
  CHECK(runs->size() == 548);
  for (const MeasuredRun& r : *runs) {
    CAPTURE(r.id);
    CHECK_FALSE(r.citation.empty());  // every figure can be looked up
  }
}
