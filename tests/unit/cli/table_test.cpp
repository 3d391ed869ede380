#include "cli/table.hpp"

#include <catch2/catch.hpp>

using namespace orrery;

TEST_CASE("columns are as wide as their widest cell", "[unit][cli]") {
  Table t({"name", "n", "<note"});
  t.row({"a", "1", "x"}).row({"bcdef", "100", "yz"}).row({"…", "2"});
  CHECK(t.str("") ==
        "name     n  note\n"
        "a        1  x\n"
        "bcdef  100  yz\n"
        "…        2\n");  // one character of three bytes; no blanks at the end
}

TEST_CASE("a bar fills in eighths and says when it overflows", "[unit][cli]") {
  CHECK(bar(0.0, 4) == "    ");
  CHECK(bar(0.5, 4) == "██  ");
  CHECK(bar(0.53125, 4) == "██▏ ");  // 17 eighths of 32
  CHECK(bar(1.0, 4) == "████");
  CHECK(bar(1.01, 4) == "███!");
  CHECK(bar(-1.0, 2) == "  ");
  for (double f = 0.0; f <= 1.5; f += 0.01) CHECK(display_width(bar(f, 10)) == 10);
}

TEST_CASE("percent keeps one decimal", "[unit][cli]") {
  CHECK(percent(0.1234) == "12.3 %");
  CHECK(percent(1.0, 0) == "100 %");
}

TEST_CASE("text from files cannot steer the terminal", "[unit][cli]") {
  CHECK(Table({"x"}).row({"\x1b]0;title"}).str("") == "x\n\\x1b]0;title\n");
}
