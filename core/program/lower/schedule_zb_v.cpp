#include <algorithm>
#include <utility>

#include "core/program/lower/schedule.hpp"

namespace orrery::lowering {
namespace {

/// One rank's order as if there were `n` microbatches; those beyond `m` are left out.
class VOrder {
 public:
  VOrder(std::vector<Action>& order, std::uint32_t m) : order_(order), m_(m) {}

  void forward(std::uint32_t chunk) { put(Phase::forward, chunk, forwards_[chunk]); }
  void backward(std::uint32_t chunk) { put(Phase::backward, chunk, backwards_[chunk]); }
  void weight(std::uint32_t chunk) { put(Phase::weight, chunk, weights_[chunk]); }
  void whole_backward(std::uint32_t chunk) {
    backward(chunk);
    weight(chunk);
  }
  void remaining_weights(std::uint32_t chunk) {
    while (weights_[chunk] < m_) weight(chunk);
  }
  [[nodiscard]] std::uint32_t forwards(std::uint32_t chunk) const { return forwards_[chunk]; }

 private:
  void put(Phase phase, std::uint32_t chunk, std::uint32_t& next) {
    if (next < m_) order_.push_back({phase, chunk, next});
    ++next;
  }
  std::vector<Action>& order_;
  std::uint32_t m_;
  std::uint32_t forwards_[2] = {}, backwards_[2] = {}, weights_[2] = {};
};

/// The order for equal times and at least 2 p - 1 microbatches; with fewer, that order is cut down.
Orders for_equal_times(const PipelineShape& shape) {
  const std::uint32_t p = shape.ranks, n = std::max(shape.microbatches, 2 * p - 1);
  const auto times = [](std::uint32_t count, auto&& what) {
    for (std::uint32_t i = 0; i < count; ++i) what();
  };
  Orders orders(p);
  for (std::uint32_t rank = 0; rank < p; ++rank) {
    orders[rank].reserve(6 * std::size_t{shape.microbatches});
    VOrder v(orders[rank], shape.microbatches);
    times(2 * (p - rank) - 1, [&] { v.forward(0); });
    times(rank, [&] { v.forward(1), v.forward(0); });
    times(p - rank, [&] { v.forward(1), v.whole_backward(1); });
    while (v.forwards(1) < v.forwards(0) || v.forwards(0) < n) {
      if (v.forwards(0) < n) v.forward(0);
      v.whole_backward(0);
      v.forward(1);
      v.whole_backward(1);
    }
    times(rank, [&] { v.backward(0), v.backward(1); });
    times(p - rank, [&] { v.whole_backward(0); });
    v.remaining_weights(1);
    v.remaining_weights(0);
  }
  return orders;
}

/// Largest ranks x ranks x microbatches for which a search takes less than about a tenth of a second.
constexpr std::uint64_t search_limit = 1U << 14;

}  // namespace

Orders schedule_zb_v(const PipelineShape& shape) {
  Orders orders = for_equal_times(shape);
  const std::uint64_t size = std::uint64_t{shape.ranks} * shape.ranks * shape.microbatches;
  return size <= search_limit ? search_zb_v(shape, std::move(orders)) : orders;
}

}  // namespace orrery::lowering
