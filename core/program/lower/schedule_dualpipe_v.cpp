#include <deque>
#include <utility>

#include "core/program/lower/schedule.hpp"

namespace orrery::lowering {
namespace {

/// One rank's order: chunk 0 goes down the V, chunk 1 up.
class Order {
 public:
  explicit Order(std::vector<Action>& order) : order_(order) {}

  void forward(std::uint32_t chunk) { order_.push_back({Phase::forward, chunk, forwards_[chunk]++}); }
  void backward(std::uint32_t chunk) {
    order_.push_back({Phase::backward, chunk, backwards_[chunk]++});
    order_.push_back({Phase::weight, chunk, backwards_[chunk] - 1});
  }
  /// The input gradient without its weight gradient, which waits.
  void input_gradient(std::uint32_t chunk) {
    order_.push_back({Phase::backward, chunk, backwards_[chunk]});
    waiting_.emplace_back(chunk, backwards_[chunk]++);
  }
  /// The weight gradient that has waited longest.
  void weight() {
    order_.push_back({Phase::weight, waiting_.front().first, waiting_.front().second});
    waiting_.pop_front();
  }
  /// The two are neighbours, so that the messages of one move beside the other.
  void pair(std::uint32_t forward_chunk, std::uint32_t backward_chunk) {
    forward(forward_chunk);
    backward(backward_chunk);
  }

 private:
  std::vector<Action>& order_;
  std::uint32_t forwards_[2] = {}, backwards_[2] = {};
  std::deque<std::pair<std::uint32_t, std::uint32_t>> waiting_;
};

}  // namespace

Orders schedule_dualpipe_v(const PipelineShape& shape) {
  const std::uint32_t p = shape.ranks, m = shape.microbatches;
  const auto times = [](std::uint32_t count, auto&& what) {
    for (std::uint32_t i = 0; i < count; ++i) what(i);
  };
  Orders orders(p);
  for (std::uint32_t i = 0; i < p; ++i) {
    orders[i].reserve(6 * std::size_t{m});
    Order o(orders[i]);
    const std::uint32_t below = p - 1 - i;
    times(2 * below, [&](std::uint32_t) { o.forward(0); });
    times(i + 1, [&](std::uint32_t) { o.forward(0), o.forward(1); });
    times(below, [&](std::uint32_t) { o.input_gradient(1), o.weight(), o.forward(1); });
    times(m - 2 * p + i + 1, [&](std::uint32_t) { o.pair(0, 1), o.pair(1, 0); });
    times(below, [&](std::uint32_t) { o.backward(1), o.pair(1, 0); });
    // The way out: whole backwards first, then, from the middle on, input gradients alone.
    times(i + 1, [&](std::uint32_t k) {
      const std::uint32_t middle = (i + 1) / 2;
      const bool late = k > middle, odd = i % 2 == 1;
      late || (k == middle && odd) ? o.input_gradient(1) : o.backward(1);
      late || k == middle ? o.input_gradient(0) : o.backward(0);
    });
    times(below, [&](std::uint32_t) { o.weight(), o.input_gradient(0); });
    times(i + 1, [&](std::uint32_t) { o.weight(); });
  }
  return orders;
}

}  // namespace orrery::lowering
