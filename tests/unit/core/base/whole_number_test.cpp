#include "core/base/whole_number.hpp"

#include <catch2/catch.hpp>

using namespace orrery;

TEST_CASE("k and M behind a whole number are 1024 and its square", "[unit][base]") {
  CHECK(whole_number("0") == 0U);
  CHECK(whole_number("8192") == 8192U);
  CHECK(whole_number("8k") == 8192U);
  CHECK(whole_number("8K") == 8192U);
  CHECK(whole_number("1M") == 1048576U);
  CHECK(whole_number("9223372036854775807") == 9223372036854775807U);  // 2^63 - 1
}

TEST_CASE("what is no whole number is none", "[unit][base]") {
  for (const char* text : {"", "k", "-1", "+1", "1e3", "1.5k", "8 k", "8kk", "8kM", "8m", "9223372036854775808",
                           "9007199254740992k", "18446744073709551616"}) {
    INFO(text);
    CHECK_FALSE(whole_number(text));
  }
}
