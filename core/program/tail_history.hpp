#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/program/op.hpp"

namespace orrery {

/// The last op on every lane, for code that walks a list in order of issue and needs to know which op a wait for a tail
/// means. T is what the walk stores about an op.
template <class T>
class TailHistory {
 public:
  /// `none` is the tail of a lane on which nothing was issued yet.
  explicit TailHistory(const T& none = T{}) : none_(none) {
    last_.fill(none);
    at_entry_.fill(none);
  }

  /// A run of a block begins, in a slot with `receives_ahead`.
  void enter(std::uint32_t receives_ahead) {
    at_entry_ = last_;
    if (receives_ahead == 0) return;
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      const std::vector<T>& all = received_[i];
      at_entry_[lanes[i]] = receives_ahead < all.size() ? all[all.size() - 1 - receives_ahead] : none_;
    }
  }
  void issued(std::size_t lane, const T& op) {
    last_[lane] = op;
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      if (lanes[i] == lane) received_[i].push_back(op);
    }
  }
  [[nodiscard]] const T& last(std::size_t lane) const { return last_[lane]; }
  /// The tail that the block waits for on a lane.
  [[nodiscard]] const T& at_entry(std::size_t lane) const { return at_entry_[lane]; }
  [[nodiscard]] const std::array<T, lane_count>& last() const { return last_; }

 private:
  static constexpr std::array<std::size_t, 2> lanes = {
      lane_number({LaneKind::transfer, static_cast<std::uint8_t>(TransferLane::forward_receive)}),
      lane_number({LaneKind::transfer, static_cast<std::uint8_t>(TransferLane::backward_receive)})};
  T none_;
  std::array<T, lane_count> last_;
  std::array<T, lane_count> at_entry_;
  std::array<std::vector<T>, 2> received_;  ///< all ops, by receive lane
};

}  // namespace orrery
