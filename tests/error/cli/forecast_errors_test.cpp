#include <catch2/catch.hpp>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/error/cli/refused.hpp"

// `orrery forecast` with flags that cannot be, and answers that are no.

using namespace orrery::test;

namespace {

const std::string eight = "forecast --model llama-3-8b --cluster dgx-h100 --gpus 16 ";

}  // namespace

TEST_CASE("forecast.plan and forecast.tokens: nothing to forecast", "[error]") {
  CHECK(refused("forecast --tokens 1T") ==
        "error: a forecast needs a plan, or --model and --cluster [forecast.plan]\n"
        "  orrery forecast --model llama-3-8b --cluster dgx-h100 --gpus 16 --tokens 1T\n");
  CHECK(refused(eight) ==
        "error: --tokens is missing [forecast.tokens]\n  --tokens 1T says for how long to train; --budget asks.\n");
}

TEST_CASE("cli.flags: other clusters and batches without a question about them", "[error]") {
  CHECK(refused(eight + "--tokens 1T --also dgx-a100") ==
        "error: --also and --batches go with --least or --by [cli.flags]\n");
  CHECK(refused(eight + "--tokens 1T --least days --batches") ==
        "error: --batches needs --critical-batch or --batch-curve [cli.flags]\n"
        "  They say how many tokens another batch needs for the same loss.\n");
  CHECK(refused("forecast demo-2x2x2 --tokens 1M --least days --batches --critical-batch 1M") ==
        "error: --batches goes only without a plan [cli.flags]\n  A plan has its batch.\n");
}

TEST_CASE("forecast.price: clusters with prices in different currencies", "[error]") {
  for (const char* wish : {"--least money", "--least days", "--from 2027-01-01 --by 2027-06-01"}) {
    CAPTURE(wish);
    CHECK(refused(eight + "--tokens 1T --price 2 --also 'dgx-a100=1 EUR' " + wish) ==
          "error: dgx-h100 costs USD, and dgx-a100 costs EUR [forecast.price]\n"
          "  All that are tried need one currency: --price and --also CLUSTER=PRICE give it.\n");
  }
}

TEST_CASE("cli.amount: what is no amount", "[error]") {
  const std::string right = "  1T, 300B, 1.5e12 are right; k, M, B (or G) and T are powers of 1000. At most 1e24.\n";
  for (const char* wrong : {"0", "-1T", "1X", "many", "inf", "1e30", "1T tokens"}) {
    CAPTURE(wrong);
    CHECK(refused(eight + "--tokens=\"" + wrong + "\"") ==
          "error: --tokens: \"" + std::string(wrong) + "\" is no amount above 0 [cli.amount]\n" + right);
  }
  CHECK(refused(eight + "--budget '$2M EUR'") ==
        "error: --budget: \"$2M EUR\" is no amount above 0 [cli.amount]\n"
        "  \"$2M\", 2M and \"1.5M EUR\" are right. At most 1e15.\n");
  CHECK(refused(eight + "--tokens 1T --grid much") == "error: --grid: \"much\" is no number [cli.amount]\n");
  CHECK(refused(eight + "--tokens 1T --pue 0.9") ==
        "error: --pue is out of range [cli.amount]\n  It is 0.9; from 1 to 10 is allowed.\n");
}

TEST_CASE("cli.date: what is no date, or not after the beginning", "[error]") {
  for (const char* wrong : {"tomorrow", "2027-02-30", "2027-6-1", "27-06-01"}) {
    CAPTURE(wrong);
    CHECK(refused(eight + "--tokens 1T --by " + wrong) ==
          "error: --by: \"" + std::string(wrong) + "\" is no date [cli.date]\n  2027-06-01 is one.\n");
  }
  CHECK(refused(eight + "--tokens 1T --by 2027-06-01 --from 2027-06-01") ==
        "error: --by 2027-06-01 is not after the beginning [cli.date]\n  It begins on 2027-06-01 (--from).\n");
}

TEST_CASE("forecast.price: a budget without a price, or in another currency", "[error]") {
  CHECK(refused("forecast --model llama-3-8b --cluster h200:8 --budget 2M") ==
        "error: a budget needs the price of a GPU-hour [forecast.price]\n  --price 2.50 gives it.\n");
  CHECK(refused(eight + "--budget '2M EUR'") ==
        "error: the budget is in EUR and the price in USD [forecast.price]\n"
        "  --price \"2.20 EUR\" gives a price in another currency.\n");
  CHECK(refused(eight + "--budget 1M --price 0") ==
        "error: a budget buys any number of tokens where a GPU-hour costs 0 [forecast.price]\n"
        "  --price 2.50 gives a price.\n");
}

TEST_CASE("cli.amount: more steps than can be counted", "[error]") {
  CHECK(refused(eight + "--batch 1 --seq 1024 --tokens 1e24") ==
        "error: 1e+24 tokens are 9.77e+20 steps, too many to count [cli.amount]\n"
        "  At most 9.22e+18 tokens are allowed here, 2^53 steps of 1024 tokens.\n");
}

TEST_CASE("cli.flags: a date or the least of a time that is unknown", "[error]") {
  std::ofstream("half.toml") << "schema = 1\n[reliability]\nname = \"half\"\nnode_failures_per_1000_node_days = 5\n"
                                "[reliability.source]\nnode_failures_per_1000_node_days = \"s\"\n";
  CHECK(refused(eight + "--tokens 1T --by 2099-01-01 --reliability half.toml") ==
        "error: --by and --least need what failures cost; unknown: detect, queue, restart, storage_rate_per_node "
        "[cli.flags]\n"
        "  A reliability file says it (docs/forecast.md); --reliability none counts no failures.\n");
}

TEST_CASE("forecast.power: the least energy of a device whose power is unknown", "[error]") {
  CHECK(refused("forecast demo-2x2x2 --tokens 1M --least energy") ==
        "error: the least energy needs the power of cpu-core [forecast.power]\n"
        "  --power FILE gives it (docs/forecast.md).\n");
}

TEST_CASE("library.unknown-reliability: the nearest name", "[error]") {
  CHECK(refused(eight + "--tokens 1T --reliability lama-3") ==
        "error: no reliability is named \"lama-3\" [library.unknown-reliability]\n  Nearest names: llama-3.\n");
}

TEST_CASE("forecast.no-plan: a model that fits nowhere", "[error]") {
  CHECK(refused("forecast --model llama-3-405b --cluster h100:8 --tokens 1T") ==
        "error: no plan of llama-3-405b fits on this cluster [forecast.no-plan]\n"
        "  orrery plan with the same model and cluster says what would fit.\n");
}
