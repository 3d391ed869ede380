#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "core/plan/plan.hpp"
#include "core/program/lower/schedule.hpp"
#include "sim/bound/pass_walk.hpp"

namespace orrery {

/// What ranks do in turn.
struct PassOrders {
  lowering::Orders passes;
  ReceiveOrders receives;
};

/// Orders of plans, remembered for several threads.
class KnownOrders {
 public:
  /// What an order depends on.
  using Key = std::array<std::uint32_t, 8>;
  [[nodiscard]] static Key key_of(const Plan&, std::uint32_t microbatches);
  [[nodiscard]] static std::uint32_t microbatches(const Key& key) { return key[3]; }
  [[nodiscard]] std::shared_ptr<const PassOrders> of(const Plan&, std::uint32_t microbatches);

 private:
  static constexpr std::size_t most_actions = 4'000'000;  ///< 20 bytes each
  std::mutex mutex_;
  std::map<Key, std::shared_ptr<const PassOrders>> orders_;
  std::size_t actions_ = 0;  ///< about as many are in orders_
};

}  // namespace orrery
