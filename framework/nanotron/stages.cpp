#include "framework/nanotron/stages.hpp"

#include <algorithm>

namespace orrery {

std::optional<std::vector<std::uint32_t>> nanotron_stage_layers(const ModelSpec& m, std::uint64_t stages) {
  if (stages == 0 || stages > m.layers) return std::nullopt;
  std::vector<std::uint32_t> out(stages);
  const double h = static_cast<double>(m.hidden);
  const double products = is_gated(m.activation) ? 3.0 : 2.0;
  const double layer = 4.0 * h * h + products * static_cast<double>(m.ffn) * h;
  const double head = static_cast<double>(m.vocabulary) * h;
  const double whole = static_cast<double>(m.layers) * layer + head;
  std::size_t stage = 0;
  double cost = 0.0;
  for (std::uint64_t i = 0; i < m.layers; ++i) {
    ++out[stage];
    cost += layer;
    // The block that goes beyond the share still belongs to the rank.
    if (stage + 1 < out.size() && cost > whole * static_cast<double>(stage + 1) / static_cast<double>(stages)) ++stage;
  }
  if (stages > 1 && out[stages - 2] == 0) return std::nullopt;  // the last may have the head alone
  return out;
}

}  // namespace orrery
