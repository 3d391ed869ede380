#include "core/spec/reliability_file.hpp"

#include <catch2/catch.hpp>

#include "core/spec/spec_files.hpp"

using namespace orrery;

namespace {

const Library library(std::filesystem::path(ORRERY_SOURCE_DIR) / "models");

const std::string good = R"(schema = 1
[reliability]
name = "r"
node_failures_per_1000_node_days = 4.0
restart = "3 min"
[reliability.source]
node_failures_per_1000_node_days = "counted"
restart = "timed"
[reliability.basis]
restart = "unverified"
[[reliability.groups]]
name = "switch"
nodes = 32
events_per_1000_group_days = 1.5
source = "logs"
)";

std::string problems(const std::string& text) {
  Diagnostics d;
  CHECK_FALSE(parse_reliability(text, "r.toml", d));
  return render(d);
}

std::string with(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

}  // namespace

TEST_CASE("a reliability file is read with sources, and what it does not say is unknown", "[unit]") {
  Diagnostics d;
  const auto r = parse_reliability(good, "r.toml", d);
  INFO(render(d));
  REQUIRE(r);
  CHECK(r->node_failures_per_1000_node_days == SourcedFigure<double>{4.0, "counted", FigureBasis::read});
  CHECK(r->restart == SourcedFigure<Seconds>{Seconds::of(180), "timed", FigureBasis::unverified});
  CHECK_FALSE(r->detect);
  REQUIRE(r->groups.size() == 1);
  CHECK(r->groups[0].nodes == 32);
  const auto again = parse_reliability(write_reliability(*r), "again.toml", d);
  INFO(render(d));
  CHECK(again == r);
}

TEST_CASE("shipped reliability files are read, and what no one read or derived says so", "[unit]") {
  const std::vector<std::string> names = library.reliabilities();
  CHECK(names == std::vector<std::string>{"llama-3", "rsc-1", "rsc-2", "spot"});
  for (const std::string& name : names) {
    CAPTURE(name);
    Diagnostics d;
    const auto r = find_reliability(library, name, "", d);
    INFO(render(d));
    REQUIRE(r);
    CHECK(r->name == name);
    REQUIRE(r->node_failures_per_1000_node_days);
    // Rates of RSC are quoted second-hand.
    const bool second_hand = name.starts_with("rsc");
    CHECK((r->node_failures_per_1000_node_days->basis == FigureBasis::unverified) == second_hand);
    REQUIRE(r->restart);
    CHECK(r->restart->basis == FigureBasis::assumed);
  }
}

TEST_CASE("the rate of Llama 3 is its count of failures, an identity", "[unit]") {
  Diagnostics d;
  const auto r = find_reliability(library, "llama-3", "", d);
  REQUIRE(r);
  // 419 unexpected and 47 planned stops, 2,048 nodes, 54 days. Three digits of a rate are half a unit in 379.
  CHECK(r->node_failures_per_1000_node_days->value * 2.048 * 54 == Approx(419).epsilon(0.5 / 379));
  CHECK(r->planned_stops_per_1000_node_days->value * 2.048 * 54 == Approx(47).epsilon(0.5 / 425));
}

TEST_CASE("a cluster's file names or holds its reliability", "[unit]") {
  const auto lookup = [](const std::string& n, Diagnostics& m) { return library.device(n, m); };
  const std::string cluster =
      "schema = 1\nHERE[cluster]\nname = \"c\"\nnodes = 1\ndevices_per_node = 1\ndevice = \"h100\"\n";
  Diagnostics d;
  const auto read = [&](const std::string& top, const std::string& end) {
    const auto c = parse_cluster(with(cluster, "HERE", top) + end, "c.toml", lookup, d);
    INFO(render(d));
    REQUIRE(c);
    return reliability_of(*c, library, d);
  };
  CHECK_FALSE(read("", ""));
  CHECK(read("reliability = \"rsc-2\"\n", "")->name == "rsc-2");
  CHECK(read("", good.substr(good.find('[')))->name == "r");
  CHECK(d.empty());
  CHECK_FALSE(read("reliability = \"rsc-9\"\n", ""));
  CHECK(render(d) == R"(c.toml:2:15: error: no reliability is named "rsc-9" [library.unknown-reliability]
    2 | reliability = "rsc-9"
      |               ^
  Nearest names: rsc-1, rsc-2.
)");
}

TEST_CASE("file.range and file.unit: rates of zero, infinite, negative, and times without a unit", "[error]") {
  for (const char* rate : {"0.0", "-1.0", "inf", "nan"}) {
    CAPTURE(rate);
    CHECK(problems(with(good, "= 4.0", "= " + std::string(rate))).find("[file.range]") != std::string::npos);
  }
  CHECK(problems(with(good, "= 4.0", "= 0.0")) ==
        R"(r.toml:4:36: error: reliability.node_failures_per_1000_node_days is out of range [file.range]
    4 | node_failures_per_1000_node_days = 0.0
      |                                    ^
  It is 0; above 0 and at most 1000000000 is allowed.
)");
  CHECK(problems(with(good, "\"3 min\"", "180")).find("[file.unit]") != std::string::npos);
  CHECK(problems(with(good, "3 min", "180")).find("[file.unit]") != std::string::npos);
}

TEST_CASE("reliability.source: a figure without one", "[error]") {
  CHECK(problems(with(good, "restart = \"timed\"\n", "")) ==
        R"(r.toml:5:11: error: restart has no source [reliability.source]
    5 | restart = "3 min"
      |           ^
  Say where it is from: restart = "..." in the table [reliability.source].
)");
}

TEST_CASE("reliability.slow: slow nodes with one of three figures", "[error]") {
  CHECK(problems(with(with(good, "restart = \"3 min\"\n", "restart = \"3 min\"\nslow_factor = 1.5\n"),
                      "restart = \"timed\"\n", "restart = \"timed\"\nslow_factor = \"seen\"\n")) ==
        R"(r.toml:6:15: error: slow nodes need three figures [reliability.slow]
    6 | slow_factor = 1.5
      |               ^
  They are slow_nodes_per_1000_node_days, slow_factor and slow_until_found.
)");
}
