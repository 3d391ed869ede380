#include "sweep/sweep_points.hpp"

#include <catch2/catch.hpp>

#include <set>

using namespace orrery;

namespace {

SweepAxis axis(const std::string& key, const std::string& list) {
  std::string why;
  const std::optional<SweepAxis> out = sweep_axis(*sweep_key_named(key), list, why);
  CAPTURE(key, list, why);
  REQUIRE(out);
  return *out;
}

std::string refusal(const std::string& key, const std::string& list) {
  std::string why;
  CHECK(!sweep_axis(*sweep_key_named(key), list, why));
  return why;
}

}  // namespace

TEST_CASE("a list has whole numbers, names, doublings and steps", "[unit][sweep]") {
  CHECK(axis("gpus", "8, 16,32").values == std::vector<std::string>{"8", "16", "32"});
  CHECK(axis("seq", "4096,8k,1M").values == std::vector<std::string>{"4096", "8192", "1048576"});
  CHECK(axis("gbs", "8..64").values == std::vector<std::string>{"8", "16", "32", "64"});
  CHECK(axis("batch", "8..63").values == std::vector<std::string>{"8", "16", "32"});
  CHECK(axis("batch", "64..256+64,7").values == std::vector<std::string>{"64", "128", "192", "256", "7"});
  CHECK(axis("schedule", "1f1b,zb-v").values == std::vector<std::string>{"1f1b", "zb-v"});
  CHECK(axis("sequence_parallel", "false,on").values == std::vector<std::string>{"off", "on"});
  CHECK(axis("precision", "bf16,fp8").values == std::vector<std::string>{"bf16", "fp8"});
  CHECK(axis("model", "a.toml,b").values == std::vector<std::string>{"a.toml", "b"});
}

TEST_CASE("a list that is none is refused with the reason", "[unit][sweep]") {
  CHECK(refusal("gpus", "8,x") == "\"x\" is not a whole number");
  CHECK(refusal("gpus", "8,,9") == "a value is empty");
  CHECK(refusal("gpus", "0") == "it is 0; from 1 to 1048576 is allowed");
  CHECK(refusal("gpus", "8,16,8") == "8 stands twice");
  CHECK(refusal("gpus", "64..8") == "\"64..8\" is no range; 8..64 is 8, 16, 32, 64");
  CHECK(refusal("gpus", "8..64+0") == "\"8..64+0\" has no step; 64..256+64 is 64, 128, 192, 256");
  CHECK(!refusal("schedule", "1f1c").empty());
  CHECK(!sweep_key_named("gpu"));
  CHECK(nearest_sweep_keys("gpu").front() == "gpus");
}

TEST_CASE("every dimension that a person turns is a key, by its key, word and aliases", "[unit][sweep]") {
  std::size_t turned = 0;
  for (const Dimension& d : dimensions()) {
    if (!is_turned(d)) {
      CHECK(!sweep_key_named(d.key));
      continue;
    }
    ++turned;
    REQUIRE(sweep_key_named(d.key));
    CHECK(sweep_key_named(d.key)->word == d.key);
    CHECK(sweep_key_named(d.key)->name() == d.word());
  }
  CHECK(turned > 20);
}

// 2 models x 3 counts x 2 lengths; the order of the axes does not depend on the order in which they are given.
TEST_CASE("points are all combinations, the last key fastest", "[unit][sweep]") {
  const SweepPoints points = sweep_points({{axis("seq", "1k,2k"), axis("gpus", "8,16,32"), axis("model", "a,b")}});
  REQUIRE(points.size() == 12);
  CHECK(points.keys[0].word == "model");
  CHECK(points.keys[1].word == "gpus");
  CHECK(points.keys[2].word == "workload.sequence");
  CHECK(points.rows[0] == std::vector<std::string>{"a", "8", "1024"});
  CHECK(points.rows[1] == std::vector<std::string>{"a", "8", "2048"});
  CHECK(points.rows[2] == std::vector<std::string>{"a", "16", "1024"});
  CHECK(points.rows[11] == std::vector<std::string>{"b", "32", "2048"});
  CHECK(points == sweep_points({{axis("model", "a,b"), axis("gpus", "8,16,32"), axis("seq", "1k,2k")}}));
  CHECK(points.value(11, "model") == "b");
  CHECK(points.value(11, "cluster").empty());
}

TEST_CASE("cases are grids of their own, and a point is there once", "[unit][sweep]") {
  const SweepPoints points = sweep_points({{axis("gpus", "8,16"), axis("batch", "1,2")},
                                           {axis("gpus", "16,32"), axis("batch", "2")},
                                           {axis("gpus", "8"), axis("batch", "4"), axis("zero", "1")}});
  CHECK(points.rows ==
        std::vector<std::vector<std::string>>{
            {"8", "1", ""}, {"8", "2", ""}, {"16", "1", ""}, {"16", "2", ""}, {"32", "2", ""}, {"8", "4", "1"}});
  CHECK(points.varied() == std::vector<std::size_t>{0, 1, 2});
}

TEST_CASE("too many points are none", "[unit][sweep]") {
  CHECK(sweep_points({{axis("gpus", "1..1024+1"), axis("batch", "1..1024+1")}}).size() == 0);
}

TEST_CASE("every point is in one shard, and shards differ by one point at most", "[unit][sweep]") {
  for (const std::uint64_t count : {1U, 3U, 64U}) {
    std::set<std::size_t> seen;
    std::size_t least = 1000, most = 0;
    for (std::uint64_t number = 1; number <= count; ++number) {
      std::size_t size = 0;
      for (std::size_t point = 0; point < 1000; ++point) {
        if (!SweepShard{number, count}.has(point)) continue;
        CHECK(seen.insert(point).second);
        ++size;
      }
      least = std::min(least, size);
      most = std::max(most, size);
    }
    CHECK(seen.size() == 1000);
    CHECK(most - least <= 1);
  }
  CHECK(sweep_shard("3/64")->number == 3);
  for (const char* wrong : {"0/4", "5/4", "1", "a/b", "1/0", "1/2x", "/2"}) {
    CAPTURE(wrong);
    CHECK(!sweep_shard(wrong));
  }
}
