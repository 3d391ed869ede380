#include "sim/bound/known_walks.hpp"

namespace orrery {
namespace {

std::size_t hash_of(const KnownOrders::Key& key, const std::vector<StageTimes>& stages) {
  std::uint64_t hash = 0;
  const auto mix = [&](std::uint64_t n) {
    hash = (hash ^ n) * 0x9E3779B97F4A7C15U;
    hash ^= hash >> 29;
  };
  for (const std::uint32_t n : key) mix(n);
  for (const StageTimes& t : stages) {
    for (const Picoseconds time : {t.forward, t.backward, t.send_hidden, t.send_gradient, t.clear, t.before_forward,
                                   t.before_backward, t.weight}) {
      mix(static_cast<std::uint64_t>(time));
    }
  }
  return static_cast<std::size_t>(hash);
}

}  // namespace

const std::vector<Picoseconds>& KnownWalks::ends(const KnownOrders::Key& key, const PassOrders& orders,
                                                 const StageMap& map, const std::vector<StageTimes>& stages) {
  const std::size_t hash = hash_of(key, stages);
  const auto known = walks_.find(hash);
  if (known != walks_.end() && known->second.key == key && known->second.stages == stages) return known->second.ends;
  if (walks_.size() >= most) walks_.clear();
  Walk& made = walks_[hash];
  made = {key, stages, walk_.ends(orders.passes, orders.receives, map, stages, KnownOrders::microbatches(key))};
  return made.ends;
}

}  // namespace orrery
