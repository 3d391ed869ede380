#include "planner/shape_meshes.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <tuple>

#include "core/base/random.hpp"
#include "planner/families.hpp"
#include "tests/support/software.hpp"
#include "tests/support/tiny_model.hpp"

using namespace orrery;

// What the search looks at once for several orders of axes.
TEST_CASE("on meshes that lay blocks alike families have the same bounds", "[property][planner]") {
  const ModelSpec m = test::tiny_gpt({.layers = 8, .hidden = 64, .heads = 8, .kv_heads = 8, .positions = 32});
  Workload w;
  w.global_batch = 16;
  w.sequence_length = 32;
  int same_layout = 0, same_prices = 0, other = 0;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const ClusterSpec cluster = test::small_cluster(seed % 3 == 0 ? 8 : 4, seed % 2 == 0 ? 4 : 8, gibibyte);
    Calibration calibration;
    calibration.software = test::random_software(seed);
    const Space space = make_space(m, w, cluster);
    if (space.count == 0) continue;
    ShapeMeshes meshes(space);
    for (int draw = 0; draw < 6; ++draw) {
      const std::uint64_t number =
          random_bits(seed, stream_of("shape meshes"), static_cast<std::uint64_t>(draw)) % space.count;
      Plan plan = plan_at(space, number);
      plan.recompute_layers.reset();
      const auto shape =
          static_cast<std::size_t>(std::upper_bound(space.shapes.begin(), space.shapes.end(), number,
                                                    [](std::uint64_t n, const ShapeSpace& s) { return n < s.first; }) -
                                   space.shapes.begin() - 1);
      const auto bounds_on = [&](const Mesh& mesh) {
        Plan on = plan;
        on.mesh = mesh;
        Bounder fresh(m, w, cluster, calibration);
        const std::vector<std::vector<std::uint32_t>> splits{*on.stage_layers};
        std::vector<FamilyPipeline> pipelines(1);
        pipelines[0].schedule = on.schedule;
        pipelines[0].chunks = on.chunks;
        pipelines[0].splits = &splits;
        pipelines[0].shards = !shard_axes_of(on).empty();
        fresh.weigh(pipelines, on);
        const ShardPrices prices = fresh.shard_prices(on);
        return std::tuple(fresh.any_schedule(on, 0, pipelines, ~std::uint64_t{0}).step, prices,
                          fresh.each_keeping(on, 0, pipelines, prices, ~std::uint64_t{0}).front());
      };
      Bounder bounder(m, w, cluster, calibration);
      const std::vector<Mesh>& of = meshes.of(shape);
      const std::vector<std::size_t>& alike = meshes.alike(shape, plan, bounder);
      const std::vector<ShardPrices>& prices = meshes.shard_prices(shape, plan, bounder);
      REQUIRE(alike.size() == of.size());
      REQUIRE(prices.size() == of.size());
      for (std::size_t i = 0; i < of.size(); ++i) {
        REQUIRE(alike[i] <= i);
        REQUIRE(alike[alike[i]] == alike[i]);
        if (alike[i] == i) {
          ++other;
          continue;
        }
        const auto [here, here_prices, here_keepings] = bounds_on(of[i]);
        const auto [first, first_prices, first_keepings] = bounds_on(of[alike[i]]);
        CAPTURE(seed, number, i);
        CHECK(here == first);
        CHECK(here_prices == prices[i]);
        ++same_layout;
        if (!(prices[i] == prices[alike[i]])) continue;
        ++same_prices;
        for (std::size_t k = 0; k < keepings; ++k) {
          CHECK(here_keepings[k].step == first_keepings[k].step);
          CHECK(here_keepings[k].peak == first_keepings[k].peak);
        }
      }
    }
  }
  CHECK(same_layout > 50);
  CHECK(same_prices > 20);
  CHECK(other > 50);
}
