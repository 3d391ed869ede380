#include "serve/request_trace.hpp"

#include <catch2/catch.hpp>

using namespace orrery;

TEST_CASE("a trace is read from JSON lines and from CSV, in order of arrival", "[serve]") {
  Diagnostics d;
  const auto json = parse_trace(
      "{\"arrival_time\": 105.5, \"input_toks\": 7, \"output_toks\": 3, \"queued_ts\": 1.0, \"first_token_ts\": 1.5, "
      "\"last_token_ts\": 2.5}\n\n{\"arrival\": 100, \"input\": 10, \"output\": 20}\n",
      "t.jsonl", d);
  INFO(render(d));
  REQUIRE(json);
  REQUIRE(json->size() == 2);
  CHECK((*json)[0].arrival.in(second) == 0.0);
  CHECK((*json)[0].input == 10);
  CHECK_FALSE((*json)[0].first_token);
  CHECK((*json)[1].arrival.in(second) == 5.5);
  CHECK((*json)[1].first_token->in(second) == 6.0);
  CHECK((*json)[1].last_token->in(second) == 7.0);
  const auto csv = parse_trace("arrived_at,num_prefill_tokens,num_decode_tokens\n3.5,100,20\n2.5,8,1\n", "t.csv", d);
  REQUIRE(csv);
  CHECK((*csv)[0].input == 8);
  CHECK((*csv)[1].arrival.in(second) == 1.0);
}

TEST_CASE("what is no trace is refused with its line", "[serve]") {
  const auto message = [](const char* text) {
    Diagnostics d;
    CHECK_FALSE(parse_trace(text, "t", d));
    REQUIRE_FALSE(d.empty());
    return render(d.list().front());
  };
  CHECK(message("").find("the trace has no requests") != std::string::npos);
  CHECK(message("{\"arrival\": 0, \"input\": 1, \"output\": 1}\nnonsense\n").find("t:2:1: error") != std::string::npos);
  CHECK(message("{\"arrival\": 0, \"input\": 0, \"output\": 1}\n").find("at least one token") != std::string::npos);
  CHECK(message("a,b\n1,2\n").find("no column is called arrival") != std::string::npos);
  CHECK(message("arrival,input,output\n0,10.7,1\n").find("10.7 tokens are no whole number") != std::string::npos);
  CHECK(message("{\"arrival\": 0, \"input\": 1, \"output\": 2.5}\n").find("2.5 tokens") != std::string::npos);
  CHECK(message("arrival,input,output\n0,many,1\n").find("[serve.trace]") != std::string::npos);
}

// Gaps of a Poisson process have mean 1 / rate and a deviation as large: over 20,000 of them both within 3 %, four
// standard errors of the latter.
TEST_CASE("Poisson arrivals have exponential gaps, and the same seed gives the same", "[serve]") {
  const auto a = poisson_requests(20001, 2.0, 5, 6, 9);
  double sum = 0.0, squares = 0.0;
  for (std::size_t i = 1; i < a.size(); ++i) {
    const double gap = (a[i].arrival - a[i - 1].arrival).in(second);
    sum += gap;
    squares += gap * gap;
  }
  const double mean = sum / 20000.0;
  CHECK(mean == Approx(0.5).epsilon(0.03));
  CHECK(squares / 20000.0 - mean * mean == Approx(0.25).epsilon(0.06));
  CHECK(a == poisson_requests(20001, 2.0, 5, 6, 9));
  CHECK_FALSE(a == poisson_requests(20001, 2.0, 5, 6, 10));
}
