#include "core/base/source_excerpt.hpp"

#include <catch2/catch.hpp>

#include <string>

using namespace orrery;

TEST_CASE("text from files is shown as it is, and what steers a terminal as its number", "[unit][base]") {
  CHECK(escaped("") == "");
  CHECK(escaped("größe ✓") == "größe ✓");
  CHECK(escaped("a\x1b[2Jb\nc\x7f") == "a\\x1b[2Jb\\x0ac\\u007f");
  CHECK(escaped("a\tb\nc\r", "\n\t") == "a\tb\nc\\x0d");
  CHECK(escaped("\xc2\x9b") == "\\u009b");  // one more way to begin a control sequence
  CHECK(escaped("\x9b") == "\\x9b");        // and, in the code pages of old terminals, another
  CHECK(escaped("\xe2\x80\xae") == "\\u202e");
}

TEST_CASE("what is shown once is shown the same again", "[unit][base]") {
  std::string all;
  for (int c = 0; c < 256; ++c) all += std::string(1, static_cast<char>(c)) + "x";
  CHECK(escaped(escaped(all)) == escaped(all));
}
