#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "core/program/lower/schedule.hpp"

namespace orrery::lowering {

/// What every pipeline rank does, without and with its messages.
struct MadeOrders {
  Orders compute, with_transfers;
};
[[nodiscard]] std::shared_ptr<const MadeOrders> make_orders(const Plan&, std::uint32_t microbatches);

/// Orders that were made before. They follow from schedule, ranks, chunks, microbatches and action times alone, so
/// plans that differ in anything else share them. Orders from a file are not kept. For one thread.
class OrderMemo {
 public:
  [[nodiscard]] std::shared_ptr<const MadeOrders> of(const Plan&, std::uint32_t microbatches);
  /// Whether a checked build is to check the passes of the next plan: the first of each sixteen. Who lowers thousands
  /// of plans that are nearly alike would else spend most of the time with that.
  [[nodiscard]] bool checks_next() { return lowered_++ % 16 == 0; }

 private:
  struct Key {
    ScheduleName schedule;
    std::uint32_t ranks, chunks, microbatches;
    ActionTimes times;
    auto operator<=>(const Key&) const = default;
  };
  std::map<Key, std::shared_ptr<const MadeOrders>> made_;
  std::size_t actions_ = 0;  ///< in `made_`
  std::uint64_t lowered_ = 0;
};

}  // namespace orrery::lowering
