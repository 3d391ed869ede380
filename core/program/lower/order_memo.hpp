#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>

#include "core/program/lower/schedule.hpp"

namespace orrery::lowering {

/// Compute orders that were made before, without and with their messages.  They follow from schedule, ranks, chunks,
/// microbatches and action times alone, so that plans which differ in anything else share them.  For one thread.
class OrderMemo {
 public:
  struct Made {
    Orders compute, with_transfers;
  };
  /// Orders of a plan; they stand until the next call.
  [[nodiscard]] const Made& of(const Plan&, std::uint32_t microbatches);

 private:
  struct Key {
    ScheduleName schedule;
    std::uint32_t ranks, chunks, microbatches;
    ActionTimes times;
    auto operator<=>(const Key&) const = default;
  };
  std::map<Key, Made> made_;
  std::size_t actions_ = 0;  ///< in `made_`
  Made custom_;
};

}  // namespace orrery::lowering
