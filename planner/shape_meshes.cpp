#include "planner/shape_meshes.hpp"

#include <algorithm>
#include <utility>

namespace orrery {

const std::vector<Mesh>& ShapeMeshes::of(std::size_t shape) {
  Shape& of = of_[shape];
  std::call_once(of.listed, [&] { of.meshes = orders_of(*space_, space_->shapes[shape]); });
  return of.meshes;
}

const std::vector<std::size_t>& ShapeMeshes::alike(std::size_t shape, const Plan& plan, Bounder& bounder) {
  const std::vector<Mesh>& meshes = of(shape);
  Shape& of = of_[shape];
  std::call_once(of.laid, [&] {
    Plan on = plan;
    std::vector<BlockLayout> layouts;
    std::vector<std::size_t> alike;
    for (const Mesh& mesh : meshes) {
      on.mesh = mesh;
      layouts.push_back(bounder.block_layout(on));
      const auto first = std::find(layouts.begin(), layouts.end(), layouts.back());
      alike.push_back(static_cast<std::size_t>(first - layouts.begin()));
    }
    of.alike = std::move(alike);
  });
  return of.alike;
}

const std::vector<ShardPrices>& ShapeMeshes::shard_prices(std::size_t shape, const Plan& plan, Bounder& bounder) {
  const std::vector<Mesh>& meshes = of(shape);
  Shape& of = of_[shape];
  std::call_once(of.priced, [&] {
    Plan on = plan;
    std::vector<ShardPrices> prices;
    for (const Mesh& mesh : meshes) {
      on.mesh = mesh;
      prices.push_back(bounder.shard_prices(on));
    }
    of.prices = std::move(prices);
  });
  return of.prices;
}

}  // namespace orrery
