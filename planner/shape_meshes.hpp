#pragma once

#include <cstddef>
#include <deque>
#include <mutex>
#include <vector>

#include "planner/space.hpp"
#include "sim/bound/bound.hpp"

namespace orrery {

/// The meshes of a space's shapes, one for each order of axes that is listed, and what of them all plans of a shape
/// share, worked out once.  Several threads may ask at once.
class ShapeMeshes {
 public:
  explicit ShapeMeshes(const Space& space) : space_(&space), of_(space.shapes.size()) {}
  [[nodiscard]] const std::vector<Mesh>& of(std::size_t shape);
  /// Of each the number of the first of them that lays blocks as it does.  `plan`: any of the shape.
  [[nodiscard]] const std::vector<std::size_t>& alike(std::size_t shape, const Plan& plan, Bounder&);
  /// What ZeRO-2 and 3 move on each of them.
  [[nodiscard]] const std::vector<ShardPrices>& shard_prices(std::size_t shape, const Plan& plan, Bounder&);

 private:
  struct Shape {
    std::once_flag listed, laid, priced;
    std::vector<Mesh> meshes;
    std::vector<std::size_t> alike;
    std::vector<ShardPrices> prices;
  };
  const Space* space_;
  std::deque<Shape> of_;  ///< by number of the shape
};

}  // namespace orrery
