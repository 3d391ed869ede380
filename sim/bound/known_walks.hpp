#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "sim/bound/known_orders.hpp"
#include "sim/bound/pass_walk.hpp"

namespace orrery {

/// PassWalk::ends, remembered: plans that differ in how replicas share the batch and keep states pass alike.
/// One for each thread.
class KnownWalks {
 public:
  /// `orders` are those of the key.  The answer holds until the next call.
  [[nodiscard]] const std::vector<Picoseconds>& ends(const KnownOrders::Key&, const PassOrders& orders, const StageMap&,
                                                     const std::vector<StageTimes>& stages);

 private:
  static constexpr std::size_t most = 1000;  ///< 5 kB each where there are 64 stages
  struct Walk {
    KnownOrders::Key key{};
    std::vector<StageTimes> stages;
    std::vector<Picoseconds> ends;
  };
  PassWalk walk_;
  std::unordered_map<std::size_t, Walk> walks_;  ///< by hash of key and stages: one of those with the same
};

}  // namespace orrery
