#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/record/calibration_file.hpp"
#include "sim/cost/nccl/link_curve.hpp"
#include "tests/unit/validate/runs.hpp"
#include "validate/collective_fit.hpp"
#include "validate/collective_json.hpp"

using namespace orrery;
using namespace orrery::test;

namespace {

MeasuredCollective board_row(double bytes, double us) {
  MeasuredCollective r;
  r.id = "r" + std::to_string(static_cast<long>(bytes));
  r.machine = "8 x H100";
  r.curve = "links";
  r.generation = "hopper";
  r.gpus = 8;
  r.domains = 1;
  r.nvlink_gb_s = 450.0;
  r.collective = "all_reduce";
  r.bytes = bytes;
  r.time_us = us;
  return r;
}

const LinkCurve no_curve;
const LinkCurves plain{{"links", no_curve}};

std::string mistakes(const std::string& text) {
  Diagnostics d;
  CHECK_FALSE(parse_collectives(text, "t.csv", d));
  return render(d);
}

std::string with(std::string text, const std::string& old, const std::string& fresh) {
  return text.replace(text.find(old), old.size(), fresh);
}

const std::string good = write_collectives({board_row(1e6, 50.0)});

std::vector<MeasuredCollective> shipped_table() {
  Diagnostics d;
  auto rows = read_collectives(ORRERY_SOURCE_DIR "/traces/measured/collectives.csv", d);
  REQUIRE(render(d) == "");
  return std::move(*rows);
}

std::vector<CurveFile> shipped_curves() {
  Diagnostics d;
  auto files = read_curves(ORRERY_SOURCE_DIR "/models/collectives", d);
  REQUIRE(render(d) == "");
  return std::move(*files);
}

}  // namespace

TEST_CASE("a table of collectives reads back as it was written", "[unit][validate]") {
  Diagnostics d;
  MeasuredCollective odd = board_row(2e6, 60.0);
  odd.id = "a, \"b\"\nc";
  odd.domains = 2;
  odd.port_gb_s = 50.0;
  odd.without = "NVLS";
  const std::vector<MeasuredCollective> rows{board_row(1e6, 50.0), odd};
  CHECK(parse_collectives(write_collectives(rows), "t.csv", d) == rows);
  CHECK(parse_collectives(write_collectives(shipped_table()), "t.csv", d) == shipped_table());
  CHECK(render(d) == "");
}

TEST_CASE("runs.choice: names that no column knows", "[unit][validate]") {
  CHECK(mistakes(with(good, ",hopper,", ",rubin,")) ==
        "t.csv:2:1: error: generation is \"rubin\", which is not known [runs.choice]\n"
        "    2 | r1000000,8 x H100,links,rubin,8,1,450,,all_reduce,1000000,50,,,,,,\n"
        "      | ^\n"
        "  Known: volta, ampere, hopper, blackwell.\n");
  CHECK(mistakes(with(good, ",all_reduce,", ",,")) ==
        "t.csv:2:1: error: collective is \"\", which is not known [runs.choice]\n"
        "    2 | r1000000,8 x H100,links,hopper,8,1,450,,,1000000,50,,,,,,\n"
        "      | ^\n"
        "  Known: all_reduce, all_gather, reduce_scatter, broadcast, reduce, all_to_all.\n");
  CHECK(mistakes(with(good, ",50,,", ",50,nvls,")) ==
        "t.csv:2:1: error: without is \"nvls\", which is not known [runs.choice]\n"
        "    2 | r1000000,8 x H100,links,hopper,8,1,450,,all_reduce,1000000,50,nvls,,,,,\n"
        "      | ^\n"
        "  Known: Tree, Ring, CollNetDirect, CollNetChain, NVLS, NVLSTree, PAT, or an empty cell.\n");
}

TEST_CASE("runs.domains: GPUs that fill no whole domains", "[unit][validate]") {
  CHECK(mistakes(with(good, ",8,1,", ",8,3,")) ==
        "t.csv:2:1: error: 8 GPUs do not divide equally among 3 domains [runs.domains]\n"
        "    2 | r1000000,8 x H100,links,hopper,8,3,450,,all_reduce,1000000,50,,,,,,\n"
        "      | ^\n"
        "  A domain is what NVLink joins: a board, or a rack of boards.\n");
}

TEST_CASE("a row without what a price takes is not predicted", "[unit][validate]") {
  const auto reason = [](auto change) {
    MeasuredCollective r = board_row(1e6, 50.0);
    change(r);
    return predict(r, plain).reason;
  };
  CHECK(reason([](auto&) {}) == "");
  CHECK(reason([](auto& r) { r.bytes.reset(); }) == "not published: bytes");
  CHECK(reason([](auto& r) { r.domains = 2; }) == "not published: port_gb_s");
  CHECK(reason([](auto& r) { r.curve = "rope"; }) == "no file of constants is called \"rope\"");
  CHECK(reason([](auto& r) { r.nvlink_gb_s = 60.0; }) == "no NVLink joins the GPUs of a domain");
  CHECK(reason([](auto& r) { r.gpus = 1; }) == "a single GPU has no partner");
  CHECK(reason([](auto& r) { r.notes = "SHARED: one GPU"; }) == "ranks share a GPU, and no link joins them");
}

TEST_CASE("every row is predicted, noisy or skipped, and bands hold the predictions", "[unit][validate]") {
  std::vector<MeasuredCollective> table{board_row(1e5, 20.0), board_row(2e5, 30.0), board_row(1e9, 4000.0)};
  table.push_back(board_row(2e9, 8000.0));
  table.back().notes = "NOISY: a test";
  table.push_back(board_row(4e9, 8000.0));
  table.back().time_us.reset();
  const CollectiveValidation v = validate(table, plain);
  CHECK(v.rows.size() == 3);
  CHECK(v.noisy.size() == 1);
  CHECK(v.skipped == std::vector<SkippedCollective>{{"r4000000000", "not published: time_us"}});
  for (const ValidatedCollective& r : v.rows) {
    CHECK(r.low_pct.has_value() == (*r.row.bytes < small_collective));
    if (r.low_pct) CHECK((*r.low_pct <= 0.0 && *r.high_pct >= 0.0));
  }
  const auto json = to_json(v);
  CHECK(json["rows"].size() == 3);
  CHECK(json["rows"][2]["algorithm"] == "NVLS");
  CHECK(json["machines"].back()["from_64_mib"]["n"] == 1);
}

// Points made by a curve give it back; a hundredth is far below the scatter of rows.
TEST_CASE("a fit finds the constants that made its points", "[unit][validate]") {
  const LinkCurve made{35.0 * microsecond, 1.08, 90.0 * microsecond, 150.0 * microsecond, 1.0};
  std::vector<CurvePoint> points;
  for (int i = 0; i < 40; ++i) {
    const Seconds t = 10.0 * std::exp2(0.35 * i) * microsecond;
    points.push_back({t, on_links(made, t), 1.0});
  }
  const LinkCurve found = fit_curve(points);
  for (const CurvePoint& p : points) {
    CHECK(std::abs(on_links(found, p.modelled) / p.measured - 1.0) < 0.01);
  }
  CHECK(found.stretch == Approx(made.stretch).epsilon(0.005));
  CHECK(found == fit_curve(points));
}

TEST_CASE("constants of links read back as they were written", "[unit][validate]") {
  for (const CurveFile& file : shipped_curves()) {
    Diagnostics d;
    CHECK(parse_curve(curve_text(file), "c.toml", d) == file);
    CHECK(render(d) == "");
  }
}

// The goals are 5 % from 64 MiB on, 10 % from 1 MiB on, and 95 of 100 choices. Machines that miss them are named. Their
// published times jump by more than any curve through them, or they are one or two sizes that share their constants.
TEST_CASE("shipped collectives are predicted within the goals", "[unit][validate]") {
  const CollectiveValidation v = validate(shipped_table(), curves_of(shipped_curves()));
  const std::vector<std::string> jump{"2 x 8 H100, TCPXO 8 x 200 Gbit/s", "2 x 8 B200, RoCE 8 x 400 Gbit/s, DraNet",
                                      "20 x 72 GB200"};
  const std::vector<std::string> few{"2 x H200", "6 x B200", "7 x B200"};
  const auto among = [](const std::vector<std::string>& list, const std::string& name) {
    return std::find(list.begin(), list.end(), name) != list.end();
  };
  for (const CollectiveSummary& s : summaries(v)) {
    CAPTURE(s.machine);
    if (among(jump, s.machine)) {
      CHECK(s.from.mape_pct <= 12.5);
    } else if (among(few, s.machine)) {
      CHECK(s.runs <= 2);
    } else {
      CHECK(s.large.mape_pct <= 5.05);
      CHECK(s.from.mape_pct <= 10.0);
    }
  }
  const ChoiceCount c = choices(v);
  CHECK(c.known == 98);
  CHECK(100 * c.right >= 95 * c.known);
}

// The shipped files have the constants that a fit to the shipped table gives.
TEST_CASE("shipped constants of links are those of the shipped table", "[unit][validate]") {
  const std::vector<CurveFile> fitted = fit_curves(shipped_table());
  const std::vector<CurveFile> files = shipped_curves();
  REQUIRE(fitted.size() == files.size());
  for (const CurveFile& fit : fitted) {
    CAPTURE(fit.name);
    const auto file = std::find_if(files.begin(), files.end(), [&](const CurveFile& f) { return f.name == fit.name; });
    REQUIRE(file != files.end());
    CHECK(fit.curve.stretch == Approx(file->curve.stretch).epsilon(0.01));
    CHECK(fit.errors.rows == file->errors.rows);
    CHECK(fit.errors.large_pct == Approx(file->errors.large_pct).margin(0.1));
    CHECK(fit.machines == file->machines);
  }
}

// A calibration's constants of links are those of a shipped file, or none, which means the model of NCCL alone. The
// floor, which counts a benchmark's launches, and the factor of pairs are not theirs
// (docs/decisions/0010-collectives-as-nccl-tunes-them.md).
TEST_CASE("calibrations have the constants of shipped links", "[unit][validate]") {
  std::size_t with_nccl = 0;
  std::vector<LinkCurve> known{{{}, 1.0, {}, microsecond, 1.0}};
  for (const CurveFile& file : shipped_curves()) known.push_back(file.curve);
  const auto is_known = [&](LinkCurve c) {
    return std::any_of(known.begin(), known.end(), [&](LinkCurve k) {
      k.pairs = 1.0;
      k.floor = {};
      return k == c;
    });
  };
  for (const auto& entry : std::filesystem::directory_iterator(ORRERY_SOURCE_DIR "/models/calibration")) {
    CAPTURE(entry.path().string());
    Diagnostics d;
    const auto c = read_calibration(entry.path(), d);
    REQUIRE(c);
    if (!c->nccl) continue;
    ++with_nccl;
    CHECK(is_known(c->nccl->node));
    CHECK(is_known(c->nccl->network));
    Diagnostics again;
    CHECK(parse_calibration(calibration_text(*c), "c.toml", again) == c);
  }
  CHECK(with_nccl == 9);
}
