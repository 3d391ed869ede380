#include <catch2/catch.hpp>

#include "core/base/csv.hpp"

using namespace orrery;

namespace {

std::vector<CsvRow> read(const std::string& text, Diagnostics& d) {
  const Origin origin{"t.csv", text, {}};
  return read_csv(origin, d);
}

std::vector<std::vector<std::string>> texts(const std::string& text) {
  Diagnostics d;
  std::vector<std::vector<std::string>> out;
  for (const CsvRow& row : read(text, d)) {
    out.emplace_back();
    for (const CsvCell& cell : row) out.back().push_back(cell.text);
  }
  CHECK(render(d) == "");
  return out;
}

std::string mistakes(const std::string& text) {
  Diagnostics d;
  static_cast<void>(read(text, d));
  return render(d);
}

using Rows = std::vector<std::vector<std::string>>;

}  // namespace

TEST_CASE("cells lie between commas, rows between line ends of either kind", "[unit][core]") {
  CHECK(texts("").empty());
  CHECK(texts("\n\r\n\n").empty());
  CHECK(texts("a,b\nc,d\n") == Rows{{"a", "b"}, {"c", "d"}});
  CHECK(texts("a,b\r\nc,d") == Rows{{"a", "b"}, {"c", "d"}});
  CHECK(texts(",\n") == Rows{{"", ""}});
  CHECK(texts("a,") == Rows{{"a", ""}});
}

TEST_CASE("quotes hold commas, line ends and doubled quotes", "[unit][core]") {
  CHECK(texts("\"a,b\",\"say \"\"so\"\"\"\n\"x\ny\",\"\"\n") == Rows{{"a,b", "say \"so\""}, {"x\ny", ""}});
  CHECK(texts("\"x\r\ny\"") == Rows{{"x\ny"}});
}

TEST_CASE("a cell knows its line and column, counted in characters", "[unit][core]") {
  Diagnostics d;
  // There are two lines in one cell, so the next row begins in line 3. An accent is two bytes and one column.
  const std::vector<CsvRow> rows = read("\xc3\xa9,\"p\nq\"\nr,s\n", d);
  REQUIRE(rows.size() == 2);
  CHECK(rows[0][1].at == Position{1, 3});
  CHECK(rows[1][1].at == Position{3, 3});
}

TEST_CASE("csv.quote: quotes that do not pair", "[unit][core]") {
  CHECK(mistakes("a,b\"c\n") ==
        "t.csv:1:4: error: a quote stands inside a cell that does not begin with one [csv.quote]\n"
        "    1 | a,b\"c\n"
        "      |    ^\n"
        "  Put the whole cell in quotes, and write the quote twice.\n");
  CHECK(mistakes("a,\"b\nc\n") ==
        "t.csv:1:3: error: a quoted cell has no end [csv.quote]\n"
        "    1 | a,\"b\n"
        "      |   ^\n"
        "  The quote that opens here is not closed.\n");
  CHECK(mistakes("\"a\"b\n") ==
        "t.csv:1:3: error: text follows the quote that ends a cell [csv.quote]\n"
        "    1 | \"a\"b\n"
        "      |   ^\n"
        "  A quote inside a quoted cell is written twice.\n");
}
