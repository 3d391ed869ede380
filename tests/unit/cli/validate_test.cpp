#include <catch2/catch.hpp>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/support/program_run.hpp"

// `orrery validate`: a small table of measured runs, and the files that it writes.

using namespace orrery::test;
using nlohmann::json;

namespace {

const std::string table = std::string(ORRERY_SOURCE_DIR) + "/tests/fuzz/seeds/runs/three.csv";

Ran validate(const std::string& arguments) { return run(ORRERY_PROGRAM, "validate " + arguments); }

}  // namespace

TEST_CASE("validate prints predicted beside measured, then the errors", "[unit][cli]") {
  const Ran ran = validate(table + " --by gpu");
  CAPTURE(ran.err);
  CHECK(ran.status == 0);
  for (const char* part :
       {"korthikanti-t5-megatron-22B-full", "1.42 s", "A100-SXM4", "MAPE", "median", "bias", "3 rows: "}) {
    CAPTURE(part);
    CHECK(ran.out.find(part) != std::string::npos);
  }
}

TEST_CASE("validate writes JSON and SVG, the same bytes every time", "[unit][cli]") {
  const TemporaryFolder folder;
  const std::string svg = folder.file("a.svg");
  const Ran first = validate(table + " --json --svg " + svg);
  CHECK(first.status == 0);
  const json out = json::parse(first.out);
  CHECK(out["tier"] == "estimate");
  CHECK(out["counts"]["rows"] == 3);
  CHECK(out["rows"].size() + out["inconsistent"].size() + out["skipped"].size() == 3);
  const std::string drawn = contents(svg);
  CHECK(drawn.find("measured step time, s") != std::string::npos);
  const std::string copy = folder.file("a.json");
  CHECK(validate(table + " -o " + copy + " --svg " + folder.file("b.svg")).status == 0);
  CHECK(contents(copy) == first.out);
  CHECK(contents(folder.file("b.svg")) == drawn);
}

TEST_CASE("validate refuses tables and drawings that are none", "[unit][cli]") {
  const TemporaryFolder folder;
  const std::string wrong = folder.file("wrong.csv");
  write(wrong, "id,gpu\na,b\n");
  const Ran ran = validate(wrong);
  CHECK(ran.status == 2);
  CHECK(ran.out.empty());
  CHECK(ran.err.find("the table lacks columns [runs.column]") != std::string::npos);
  CHECK(validate("/nowhere.csv").status == 2);
  CHECK(validate(table + " --svg a.png").status == 2);
  CHECK(validate(table + " --by colour").status == 2);
  CHECK(validate(table + " -o " + table).status == 2);
}

TEST_CASE("validate --explain takes a row's prediction apart, and its parts make the step", "[unit][cli]") {
  const std::string row = "korthikanti-t5-megatron-22B-full";
  const Ran text = validate(table + " --explain " + row);
  CHECK(text.status == 0);
  for (const char* part : {"measured", "Where a rank's step goes", "gemm", "would be"}) {
    CAPTURE(part);
    CHECK(text.out.find(part) != std::string::npos);
  }
  const json out = json::parse(validate(table + " --json --explain " + row).out);
  const double parts =
      out["compute_s"].get<double>() + out["exposed_collectives_s"].get<double>() + out["bubble_s"].get<double>();
  // Sums of whole picoseconds over a second.
  CHECK(parts == Approx(out["predicted"].get<double>()).epsilon(1e-9));
  // With its constant moved to `would_be`, the step is the measured one, as far as the step follows a power of it.
  for (const json& c : out["constants"]) {
    if (!c.contains("would_be")) continue;
    const double moved =
        std::pow(c["would_be"].get<double>() / c["value"].get<double>(), c["elasticity"].get<double>());
    CHECK(out["predicted"].get<double>() * moved == Approx(out["measured"].get<double>()));
  }
  const Ran unknown = validate(table + " --explain korthikanti-t5-megatron-22B-ful");
  CHECK(unknown.status == 2);
  CHECK(unknown.err.find("Nearest: korthikanti-t5-megatron-22B-full") != std::string::npos);
}

TEST_CASE("validate --constants lists every constant with its prior and its runs", "[unit][cli]") {
  const json out = json::parse(validate("--constants --json").out);
  std::size_t fitted = 0;
  for (const json& c : out["constants"]) {
    fitted += c["spread"].get<double>() > 0.0 ? 1 : 0;
    CHECK(c["prior"].get<double>() > 0.0);
    CHECK_FALSE(c["runs"].empty());
  }
  const Ran text = validate("--constants");
  CHECK(text.out.find(std::to_string(fitted) + " fitted, ") != std::string::npos);
  CHECK(validate("--constants --by gpu").status == 2);
}

TEST_CASE("calibrate --from writes no constants that are worse than those before", "[unit][cli]") {
  const TemporaryFolder folder;
  // The table has three of the rows that the shipped constants were fitted to; a fit to them alone knows less.
  const std::string from = "calibrate --from " + table;
  const Ran ran = run(ORRERY_PROGRAM, from + " -o " + folder.file(""));
  CAPTURE(ran.err);
  CHECK(ran.status == 1);
  for (const char* part :
       {"each without its architecture and size", "each without its training program", "each without its device",
        "37 free constants, 3 runs", "Nothing was written: the new constants are worse."}) {
    CAPTURE(part);
    CHECK(ran.out.find(part) != std::string::npos);
  }
  const Ran again = run(ORRERY_PROGRAM, from + " --json -o " + folder.file(""));
  const json out = json::parse(again.out);
  CHECK(out["complete"] == true);
  CHECK(out["written"] == false);
  CHECK(out["held_out"]["n"] == 3);
  CHECK(again.out == run(ORRERY_PROGRAM, from + " --json -o " + folder.file("")).out);
}

TEST_CASE("calibrate --from refuses tables and folders that are none", "[unit][cli]") {
  const Ran ran = run(ORRERY_PROGRAM, "calibrate --from " + table + " -o /nowhere");
  CHECK(ran.status == 2);
  CHECK(ran.err.find("/nowhere is not a folder") != std::string::npos);
  CHECK(run(ORRERY_PROGRAM, "calibrate --from /nowhere.csv").status == 2);
}

// The constants are arbitrary, so times are far off, but the allocated bytes are nevertheless exact.
TEST_CASE("validate --here trains drawn plans and compares time, kinds of operations and memory", "[unit][cli]") {
  const TemporaryFolder folder;
  write(folder.file("cores.toml"),
        "schema = 1\nname = \"cores\"\ndevice = \"cpu-core\"\ndate = \"2026-11-23\"\nsource = \"assumed\"\n"
        "cores = 2\n");
  const std::string flags =
      "--here --plans 3 --rounds 1 --seed 7 --calibration " + folder.file("cores.toml") + " --json";
  const Ran ran = validate(flags);
  CAPTURE(ran.err);
  REQUIRE((ran.status == 0 || ran.status == 1));
  const json out = json::parse(ran.out);
  REQUIRE(out["plans"].size() == 3);
  for (const json& plan : out["plans"]) {
    CHECK(plan["measured_s"].get<double>() > 0.0);
    CHECK(plan["peak_memory_bytes"] == plan["measured_peak_memory_bytes"]);
  }
  CHECK(out["summary"]["memory_exact"] == true);
  CHECK(out["summary"]["plans_within_cores"]["n"] == 3);
  bool products = false;
  for (const json& kind : out["operations"])
    products = products || (kind["name"] == "gemm" && kind["measured_s"].get<double>() > 0.0);
  CHECK(products);

  CHECK(validate("--here --collectives").status == 2);
  CHECK(validate("--plans 3").status == 2);
}
