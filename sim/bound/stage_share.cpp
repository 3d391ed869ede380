#include "sim/bound/stage_share.hpp"

#include <algorithm>

namespace orrery {

LayerKinds::LayerKinds(const ModelSpec& model) : below_(model.layers + 1) {
  for (std::uint32_t l = 0; l < model.layers; ++l) below_[l + 1] = below_[l] + (is_mixture(model, l) ? 0 : 1);
}

bool LayerKinds::alike(std::uint32_t a, std::uint32_t b, std::uint32_t count) const {
  std::uint32_t i = 0;
  while (i < count && dense_among(a + i, 1) == dense_among(b + i, 1)) ++i;
  return i == count;
}

std::uint32_t LayerKinds::lowest_like(std::uint32_t low, std::uint32_t count) const {
  std::uint32_t other = 0;
  while (other < low && !alike(other, low, count)) ++other;
  return other;
}

PerCase<std::uint32_t> StageShare::between(std::uint32_t begin, std::uint32_t end) const {
  const std::uint32_t edge = std::clamp(recomputed, begin, end);
  const auto dense = [&](std::uint32_t low, std::uint32_t high) {
    return kinds == nullptr ? 0 : kinds->dense_among(low_layer + low, high - low);
  };
  const std::uint32_t again = dense(begin, edge), others = dense(edge, end);
  return {again, others, edge - begin - again, end - edge - others};
}

void set_recomputed(StageShare& share, std::uint32_t recomputed) {
  const std::uint32_t count = share.count();
  share.recomputed = recomputed;
  share.layers = share.between(0, count);
}

void shares_of(std::vector<StageShare>& out, const Plan& plan, const StageMap& map, const LayerKinds* kinds) {
  out.resize(map.stages());
  std::uint32_t low = 0;
  for (std::uint32_t s = 0; s < out.size(); ++s) {
    const std::uint32_t count = (*plan.stage_layers)[s];
    StageShare& share = out[s];
    share.first = s == 0;
    share.last = s + 1 == map.stages();
    share.from_here = !share.first && map.rank(s - 1) == map.rank(s);
    share.to_here = !share.last && map.rank(s + 1) == map.rank(s);
    share.kinds = kinds;
    share.low_layer = kinds == nullptr ? 0 : kinds->lowest_like(low, count);
    share.layers = {0, 0, 0, count};
    set_recomputed(share, plan.recompute_layers ? (*plan.recompute_layers)[s] : 0);
    low += count;
  }
}

}  // namespace orrery
