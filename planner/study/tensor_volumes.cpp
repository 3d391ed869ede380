#include "planner/study/tensor_volumes.hpp"

#include "core/base/diagnostics.hpp"

namespace orrery {

std::string_view name_of(TensorMode mode) {
  switch (mode) {
    case TensorMode::one_d: return "1D";
    case TensorMode::two_d: return "2D";
    case TensorMode::two_and_half_d: return "2.5D";
    case TensorMode::three_d: return "3D";
  }
  return "";
}

std::uint64_t TensorGrid::devices() const {
  switch (mode) {
    case TensorMode::one_d: return side;
    case TensorMode::two_d:
    case TensorMode::two_and_half_d: return depth * side * side;
    case TensorMode::three_d: return side * side * side;
  }
  return 0;
}

std::optional<TensorGrid> tensor_grid(TensorMode mode, std::uint64_t devices) {
  if (devices == 0) return std::nullopt;
  if (mode == TensorMode::one_d) return TensorGrid{mode, devices, 1};
  std::optional<TensorGrid> found;
  for (std::uint64_t q = 1; q * q <= devices; ++q) {
    const std::uint64_t layer = q * q;
    if (devices % layer != 0) continue;
    const std::uint64_t rest = devices / layer;
    if (mode == TensorMode::two_d && rest == 1) return TensorGrid{mode, q, 1};
    if (mode == TensorMode::three_d && rest == q) return TensorGrid{mode, q, 1};
    // The first q with d <= q has the largest d.
    if (mode == TensorMode::two_and_half_d && rest <= q && !found) found = TensorGrid{mode, q, rest};
  }
  return found;
}

TensorVolume linear_volume(const TensorGrid& grid, const LinearShape& l) {
  ORRERY_ASSERT(grid.devices() >= 1, grid.side, grid.depth);
  const std::uint64_t x = l.tokens * l.inputs;
  const std::uint64_t w = l.inputs * l.outputs;
  const std::uint64_t y = l.tokens * l.outputs;
  const std::uint64_t others = grid.side - 1;
  switch (grid.mode) {
    case TensorMode::one_d:
      return l.by_rows ? TensorVolume{2 * others * y, 0, 0, 0} : TensorVolume{0, 2 * others * x, 0, 0};
    case TensorMode::two_d:
    case TensorMode::two_and_half_d: {
      const std::uint64_t product = others * (x + grid.depth * w);
      return {product, product, product, 2 * (grid.depth - 1) * w};
    }
    case TensorMode::three_d: return {others * (x + w + y), others * (x + y), others * w, 0};
  }
  return {};
}

TensorVolume layer_volume(const TensorGrid& grid, std::uint64_t tokens, std::uint64_t hidden) {
  return linear_volume(grid, {tokens, hidden, 3 * hidden, false}) +
         linear_volume(grid, {tokens, hidden, hidden, true}) +
         linear_volume(grid, {tokens, hidden, 4 * hidden, false}) +
         linear_volume(grid, {tokens, 4 * hidden, hidden, true});
}

std::uint64_t linear_collectives(const TensorGrid& grid) {
  switch (grid.mode) {
    case TensorMode::one_d: return 1;
    case TensorMode::two_d: return 6 * grid.side;
    case TensorMode::two_and_half_d: return 6 * grid.side + (grid.depth > 1 ? 1 : 0);
    case TensorMode::three_d: return 6;
  }
  return 0;
}

LinearMemory linear_memory(const TensorGrid& grid, const LinearShape& l) {
  const std::uint64_t x = l.tokens * l.inputs;
  const std::uint64_t w = l.inputs * l.outputs;
  const std::uint64_t y = l.tokens * l.outputs;
  const std::uint64_t p = grid.devices();
  const std::uint64_t plane = grid.side * grid.side;
  ORRERY_ASSERT(p >= 1, grid.side, grid.depth);
  LinearMemory m;
  switch (grid.mode) {
    case TensorMode::one_d:
      m.weights = w / p;
      m.saved_input = m.gathered_input = l.by_rows ? x / p : x;
      break;
    case TensorMode::two_d:
    case TensorMode::two_and_half_d:
      m.weights = w / plane;
      m.saved_input = m.gathered_input = x / p;
      m.panels = 2 * (x / p + w / plane);
      break;
    case TensorMode::three_d:
      m.weights = w / p;
      m.saved_input = x / p;
      m.gathered_input = x / plane;
      m.gathered_weights = w / plane;
      m.panels = (x + w + y) / plane;
      break;
  }
  return m;
}

LayerActivations layer_activations(const TensorGrid& grid, const LayerShape& l) {
  const double h = static_cast<double>(l.hidden);
  const double sbh = static_cast<double>(l.positions) * static_cast<double>(l.sequences) * h;
  const double scores = 5.0 * static_cast<double>(l.heads) * static_cast<double>(l.positions) / h;
  const double p = static_cast<double>(grid.devices());
  if (grid.mode == TensorMode::one_d) {
    const double saved = sbh * (10.0 + 24.0 / p + scores / p);
    return {saved, saved};
  }
  const double saved = sbh * (34.0 + scores) / p;
  if (grid.mode != TensorMode::three_d) return {saved, saved};
  const double q2 = static_cast<double>(grid.side * grid.side);
  return {saved, sbh * (20.0 + scores) / p + (14.0 * sbh + 24.0 * h * h) / q2};
}

}  // namespace orrery
