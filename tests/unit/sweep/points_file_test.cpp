#include "sweep/points_file.hpp"

#include <catch2/catch.hpp>

#include <algorithm>

using namespace orrery;

namespace {

SweepHeader header() {
  std::string why;
  SweepHeader h;
  h.version = "1";
  h.name = "a \"name\"";
  h.answers = "search";
  h.settings = "for the least step-time";
  h.points = sweep_points(
      {{*sweep_axis(*sweep_key_named("gpus"), "8,16", why), *sweep_axis(*sweep_key_named("batch"), "1,2,3", why)}});
  return h;
}

SweptPoint point(const SweepHeader& h, std::uint64_t number) {
  SweptPoint p;
  p.number = number;
  p.digest = "0123456789abcdef";
  p.values = h.points.rows[number];
  if (number % 3 == 1) {
    p.state = SweptPoint::State::no_fit;
    p.reason = "it needs 80 GiB,\nnot 70";
    return p;
  }
  p.state = SweptPoint::State::found;
  p.figures.emplace();
  p.figures->gpus = 8;
  p.figures->step_s = 0.1 * static_cast<double>(number + 1);  // no short decimal
  p.figures->low_s = 1.0 / 3.0;
  p.figures->currency = "USD";
  p.plan_file = "schema = 1\nname = \"x\"\n";
  return p;
}

std::vector<SweptPoint> points(const SweepHeader& h) {
  std::vector<SweptPoint> out;
  for (std::uint64_t i = 0; i < h.points.size(); ++i) out.push_back(point(h, i));
  return out;
}

}  // namespace

TEST_CASE("a file of points reads back equal, whatever the order in which points ended", "[unit][sweep]") {
  const SweepHeader h = header();
  std::vector<SweptPoint> all = points(h);
  const std::string text = write_points(h, all);
  Diagnostics d;
  const std::optional<SweepRecord> record = read_points(text, "p.jsonl", d);
  REQUIRE(record);
  CHECK(record->header == h);
  CHECK(record->points == all);
  CHECK(!record->torn);
  std::reverse(all.begin(), all.end());
  CHECK(write_points(h, all) == text);
  CHECK(looks_like_points(text));
}

// A process may be killed after any byte. What it leaves is the whole lines; only without the first is there nothing.
TEST_CASE("a file that is cut off after any byte gives the points of its whole lines", "[unit][sweep]") {
  const SweepHeader h = header();
  const std::string text = write_points(h, points(h));
  const std::size_t first = text.find('\n') + 1;
  for (std::size_t size = first; size <= text.size(); ++size) {
    Diagnostics d;
    const std::string cut = text.substr(0, size);
    const std::optional<SweepRecord> record = read_points(cut, "p.jsonl", d);
    REQUIRE(record);
    const auto lines = static_cast<std::size_t>(std::count(cut.begin(), cut.end(), '\n'));
    CHECK(record->points.size() == lines - 1);
    CHECK(record->torn == (cut.back() != '\n'));
  }
  Diagnostics d;
  CHECK(!read_points(text.substr(0, first - 1), "p.jsonl", d));
}

TEST_CASE("a line that is no point is refused with its place", "[unit][sweep]") {
  const SweepHeader h = header();
  const std::string text = write_points(h, points(h));
  for (const auto& [from, to] : {std::pair{"\"state\":\"found\"", "\"state\":\"lost\""},
                                 {"\"workload.batch\":\"1\"", "\"workload.batch\":\"9\""},
                                 {"\"figures\":{", "\"figures\":[{"}}) {
    std::string wrong = text;
    wrong.replace(wrong.find(from), std::string(from).size(), to);
    Diagnostics d;
    CHECK(!read_points(wrong, "p.jsonl", d));
    REQUIRE(d.size() == 1);
    CHECK(d.list()[0].code == "points.file");
    CHECK(d.list()[0].position.line == 2);
  }
  Diagnostics d;
  std::string newer = text;
  newer.replace(0, 17, "{\"orrery_points\":2");
  newer.erase(18, 1);
  CHECK(!read_points(newer, "p.jsonl", d));
  CHECK(d.list()[0].message == "the file has schema 2, and this program knows 1");
}

TEST_CASE("shards in any order, some twice, merge to the bytes of one file", "[unit][sweep]") {
  const SweepHeader h = header();
  const std::vector<SweptPoint> all = points(h);
  std::vector<std::pair<std::string, SweepRecord>> files;
  for (std::uint64_t shard : {3U, 1U, 2U, 1U}) {
    SweepRecord record{h, {}, false};
    for (const SweptPoint& p : all) {
      if (SweepShard{shard, 3}.has(p.number)) record.points.insert(record.points.begin(), p);
    }
    files.emplace_back("part", record);
  }
  Diagnostics d;
  const std::optional<SweepRecord> whole = merged(files, d);
  REQUIRE(whole);
  CHECK(write_points(whole->header, whole->points) == write_points(h, all));

  SECTION("a point that is nowhere is named") {
    files[0].second.points.erase(files[0].second.points.begin());
    CHECK(!merged(files, d));
    CHECK(d.list()[0].message == "1 of 6 points are in no file");
    CHECK(d.list()[0].details[0].starts_with("Missing: 5."));
  }
  SECTION("a point that has changed is named") {
    files[3].second.points[0].digest[0] = 'f';
    CHECK(!merged(files, d));
    CHECK(d.list()[0].message == "point 3 is not the same in part and part");
  }
  SECTION("parts of another sweep are named") {
    files[1].second.header.settings = "for the least memory";
    CHECK(!merged(files, d));
    CHECK(d.list()[0].message == "part and part are of different sweeps");
  }
}
