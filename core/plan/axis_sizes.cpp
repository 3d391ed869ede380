#include "core/plan/axis_sizes.hpp"

#include <algorithm>
#include <cmath>

namespace orrery {
namespace {

/// The whole root; empty where there is none.
std::optional<std::uint32_t> exact_root(std::uint64_t n, int power) {
  const auto near = static_cast<std::uint64_t>(std::llround(std::pow(static_cast<double>(n), 1.0 / power)));
  std::uint64_t product = 1;
  for (int i = 0; i < power; ++i) product *= near;
  if (product != n) return std::nullopt;
  return static_cast<std::uint32_t>(near);
}

}  // namespace

void set_size(Mesh& mesh, Axis axis, std::uint32_t size) {
  const auto at = std::find_if(mesh.axes.begin(), mesh.axes.end(), [&](const MeshAxis& a) { return a.axis == axis; });
  if (at != mesh.axes.end()) {
    at->size = size;
  } else if (size > 1) {
    const auto behind =
        std::find_if(mesh.axes.begin(), mesh.axes.end(), [&](const MeshAxis& a) { return a.axis > axis; });
    mesh.axes.insert(behind, {axis, size});
  }
}

bool set_tensor(Plan& plan, TensorAlgorithm algorithm, std::uint64_t ranks) {
  const std::uint32_t depth = plan.mesh.size(Axis::depth);
  plan.tensor = algorithm;
  for (const Axis a : tensor_axes) set_size(plan.mesh, a, 1);
  const auto grid = [&](std::uint32_t q, std::uint32_t layers) {
    set_size(plan.mesh, Axis::depth, layers);
    set_size(plan.mesh, Axis::row, q);
    set_size(plan.mesh, Axis::column, q);
    return q > 1;
  };
  switch (algorithm) {
    case TensorAlgorithm::one_d: set_size(plan.mesh, Axis::tensor, static_cast<std::uint32_t>(ranks)); return true;
    case TensorAlgorithm::two_d: {
      const auto q = exact_root(ranks, 2);
      return q && grid(*q, 1);
    }
    case TensorAlgorithm::three_d: {
      const auto q = exact_root(ranks, 3);
      return q && grid(*q, *q);
    }
    case TensorAlgorithm::two_half_d: {
      std::vector<std::uint32_t> depths;
      if (depth > 1) depths.push_back(depth);
      for (std::uint32_t d = 2; d <= 8; ++d) depths.push_back(d);
      for (const std::uint32_t d : depths) {
        const auto q = ranks % d == 0 ? exact_root(ranks / d, 2) : std::nullopt;
        if (q && grid(*q, d)) return true;
      }
      return false;
    }
  }
  return false;
}

}  // namespace orrery
